#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| binhop_fuzz::trace::read("pagemap", bytes));
