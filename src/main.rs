//! fieldshadow's one binary; everything is in the library.

fn main() {}
