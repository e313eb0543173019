//! The words of the handshake: refused, or written back to the same bytes.
#![no_main]

use inference::setup::messages::{ClientHello, ServerHello, Understood};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(hello) = ClientHello::from_bytes(data) {
        assert_eq!(hello.to_bytes(), data);
    }
    if let Ok(hello) = ServerHello::from_bytes(data) {
        assert_eq!(hello.to_bytes(), data);
    }
    if let Ok(understood) = Understood::from_bytes(data) {
        assert_eq!(understood.to_bytes(), data);
        assert_eq!(understood.agreement.difference(&understood.agreement), None);
    }
});
