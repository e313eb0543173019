//! A balancer's header: refused, or one that a cut or a byte more makes into none.
#![no_main]

#[path = "../../../crates/service/src/proxy/header.rs"]
#[allow(dead_code, reason = "the parser of whole headers alone is of interest")]
mod header;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if header::parse(bytes).is_ok() {
        assert!(header::parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(header::parse(&[bytes, &[0]].concat()).is_err());
    }
});
