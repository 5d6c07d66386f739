//! One YAML file with places: a located tree, and diagnostics that name file, line, column and remedy.
//!
//! A file is read into the tree first ([`Document::parse`]) and judged then, so that all its mistakes are found at
//! once. Reading knows YAML 1.2 and budgets; judging goes through [`Fields`] (the keys of a mapping) and the typed
//! readers of [`Node`] (`boolean`, `integer`, `duration`, …), and gathers what is wrong in [`Diagnostics`]:
//!
//! ```
//! use fieldshadow::document::{Diagnostics, Document, Fields};
//!
//! let document = Document::parse("line.yaml", "baud: 19200\npariti: even\n").unwrap();
//! let mut wrong = Diagnostics::new(&document);
//! let mut line = Fields::open(document.root(), "a line", &mut wrong).unwrap();
//! let baud = line.required("baud", &mut wrong).and_then(|n| wrong.keep(n.integer()));
//! let _parity = line.optional("parity");
//! line.close(&["rs485"], &mut wrong);
//! assert_eq!(baud, Some(19200));
//! assert_eq!(wrong.lines(), "line.yaml:2:1: unknown key `pariti`; did you mean `parity`?\n");
//! ```
//!
//! Pure: text comes in, values go out.

mod diagnostic;
mod fields;
mod loader;
mod number;
mod scalar;
mod spelling;
mod tree;

pub use diagnostic::{Diagnostic, Diagnostics, Problem, Severity};
pub use fields::Fields;
pub use number::Number;
pub use scalar::duration_text;
pub use spelling::closest;
pub use tree::{Content, Document, Entry, Mapping, Node, Place, Scalar};
