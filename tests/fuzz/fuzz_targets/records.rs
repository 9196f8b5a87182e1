#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    callsign_elector::fuzz::records(bytes);
    callsign_election::fuzz::records(bytes);
});
