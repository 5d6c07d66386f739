//! See `fieldshadow::fuzz::pdu`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::pdu(bytes));
