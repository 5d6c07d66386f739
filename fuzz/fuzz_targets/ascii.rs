//! See `fieldshadow::fuzz::ascii`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::ascii(bytes));
