//! Files of settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    std::hint::black_box(lb_config::settings::fuzz_settings(input));
});
