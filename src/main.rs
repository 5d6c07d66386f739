//! fieldshadow's one binary. Everything is in the library; `cli` is the table of contents.

use std::process::ExitCode;

fn main() -> ExitCode {
    fieldshadow::cli::main()
}
