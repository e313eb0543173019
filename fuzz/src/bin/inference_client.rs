//! The whole session as the client lives it: whatever the server's bytes become, it ends with an answer or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sordino_fuzz::run_session(data, true));
