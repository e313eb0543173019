//! The messages of the setup: points, and the sums of the trees.
#![no_main]

use crypto::ot::TreeSums;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = SenderPoint::from_bytes(data) {
        assert_eq!(message.to_bytes(), data);
    }
    if let Ok(message) = ReceiverPoints::from_bytes(data) {
        assert_eq!(message.to_bytes(), data);
    }
    if let Ok(message) = TreeSums::from_bytes(data) {
        assert_eq!(message.to_bytes(), data);
    }
    // Short inputs rarely reach 128 points: repeat 32 bytes with one byte changed, which does.
    if let Some((first, rest)) = data.split_at_checked(32)
        && let Some(&[index, byte, ..]) = rest.get(..2)
    {
        let mut bytes = first.repeat(ReceiverPoints::BYTES / 32);
        bytes[32 * usize::from(index % 128) + usize::from(byte % 32)] ^= byte;
        if let Ok(message) = ReceiverPoints::from_bytes(&bytes) {
            assert_eq!(message.to_bytes(), bytes);
        }
    }
});
