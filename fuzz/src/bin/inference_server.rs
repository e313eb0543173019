//! The whole session as the server lives it: whatever the client's bytes become, it ends with a session served or an
//! error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sordino_fuzz::run_session(data, false));
