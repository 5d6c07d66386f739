//! See `fieldshadow::fuzz::bus_events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fieldshadow::fuzz::bus_events(bytes));
