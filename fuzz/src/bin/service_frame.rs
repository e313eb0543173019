//! A frame's header: refused with the field that differs, or exactly the expected one; and refusals, which are always read.
#![no_main]

use inference::connection::Role;
use inference::connection::frame::{FrameKind, HEADER_BYTES, Header, LengthRule, MAGIC, PROTOCOL_VERSION};
use inference::connection::refusal::{MAX_BYTES, Refusal};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let refusal = Refusal::from_bytes(data);
    assert!(refusal.to_bytes().len() <= MAX_BYTES);
    assert!(!refusal.text().contains(char::is_control));
    let Some((bytes, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let choice = rest.first().copied().unwrap_or(0);
    let sender = if choice & 1 == 0 { Role::Client } else { Role::Server };
    let session = if choice & 2 == 0 { MAGIC } else { [7; 8] };
    let kind = if choice & 4 == 0 { FrameKind::SetUp } else { FrameKind::Garbled };
    let expected =
        Header { session, inference: [0; 8], step: 3, sender, kind, version: PROTOCOL_VERSION, length: 9 };
    let limit = if choice & 8 == 0 { LengthRule::Exactly(9) } else { LengthRule::AtMost(1000) };
    // As they come, and with all but kind and length put right, so that the fuzzer gets past the first fields.
    let mut close = expected.to_bytes();
    close[21] = bytes[21];
    close[24..].copy_from_slice(&bytes[24..]);
    for candidate in [*bytes, close] {
        if let Ok(header) = Header::check(&candidate, &expected, limit) {
            assert!(header.length <= 1000);
            let is_refusal = header.kind == FrameKind::Refusal;
            assert!(is_refusal || header.to_bytes() == candidate);
        }
    }
});
