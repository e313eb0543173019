//! The messages of a chunk: corrections, padded messages and padded bits. What is accepted is also worked
//! with.
#![no_main]

use std::cell::RefCell;
use std::num::NonZeroU16;

use crypto::ot::chosen::{PaddedBits, PaddedMessages, receive, receive_bits};
use crypto::ot::extension::{Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverLabels};
use crypto::ot::ideal;
use crypto::ot::values::{CorrelationOffset, SecretBits};
use crypto::random::{Seed, SessionId};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static STATES: RefCell<(CorrelatedSender, CorrelatedReceiver)> = {
        let offset = CorrelationOffset::from_u128(7);
        RefCell::new(ideal::extension(SessionId([1; 32]), offset, &mut Seed::from_bytes([2; 32]).generator()))
    };
}

fuzz_target!(|data: &[u8]| {
    let Some((header, bytes)) = data.split_at_checked(4) else { return };
    // Counts near what the bytes can hold, so that the checks after the length are reached too.
    let count = (bytes.len() / 32 * 8).saturating_sub(usize::from(header[0] % 12));
    if let Ok(corrections) = Corrections::from_bytes(count, bytes) {
        assert_eq!(corrections.to_bytes(), bytes);
        STATES.with_borrow_mut(|(sender, _)| {
            assert_eq!(sender.extend(&corrections).expect("counts agree").labels().len(), count);
        });
    }
    let _ = Corrections::from_bytes(usize::from(u16::from_le_bytes([header[1], header[2]])), bytes);

    let count = (bytes.len() * 4).saturating_sub(usize::from(header[0] % 12));
    if let Ok(padded) = PaddedBits::from_bytes(count, bytes) {
        assert_eq!(padded.to_bytes(), bytes);
        if let Some(labels) = labels(count) {
            assert_eq!(receive_bits(labels, &padded).expect("counts agree").count(), count);
        }
    }
    if let Some(width) = NonZeroU16::new(u16::from(header[3])) {
        let count = bytes.len() / (2 * usize::from(width.get()));
        if let Ok(padded) = PaddedMessages::from_bytes(count, width, bytes) {
            assert_eq!(padded.to_bytes(), bytes);
            if let Some(labels) = labels(count) {
                let chosen = receive(labels, &padded).expect("counts agree");
                assert_eq!(chosen.expose().len(), bytes.len() / 2);
            }
        }
    }
});

fn labels(count: usize) -> Option<ReceiverLabels> {
    let choices = SecretBits::from_bools(&vec![true; count]);
    STATES.with_borrow_mut(|(_, receiver)| Some(receiver.extend(choices).ok()?.1))
}
