//! The words of the handshake: refused, or written back to the same bytes.
#![no_main]

use inference::setup::messages::{Agreement, ClientHello, ServerHello};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(hello) = ClientHello::from_bytes(data) {
        assert_eq!(hello.to_bytes(), data);
    }
    if let Ok(hello) = ServerHello::from_bytes(data) {
        assert_eq!(hello.to_bytes(), data);
    }
    if let Ok(agreement) = Agreement::from_bytes(data) {
        assert_eq!(agreement.to_bytes()[..], *data);
        assert_eq!(agreement.difference(&agreement), None);
    }
});
