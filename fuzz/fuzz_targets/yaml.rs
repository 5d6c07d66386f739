//! See `fieldshadow::fuzz::yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::yaml(bytes));
