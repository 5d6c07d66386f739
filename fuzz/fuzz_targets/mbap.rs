//! See `fieldshadow::fuzz::mbap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::mbap(bytes));
