#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    binhop_fuzz::allow_caught_panics();
    binhop_fuzz::trace::read("placements", bytes);
});
