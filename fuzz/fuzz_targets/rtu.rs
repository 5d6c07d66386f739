//! See `fieldshadow::fuzz::rtu`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::rtu(bytes));
