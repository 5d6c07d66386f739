//! See `fieldshadow::fuzz::dump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::dump(bytes));
