//! The message of a chunk: corrections. What is accepted is also worked with. Corrections that are not one list of choices
//! must be refused, honest ones with a changed byte among them.
#![no_main]

use std::cell::RefCell;

use crypto::cpu::CpuFeatures;
use crypto::ot::error::OtError;
use crypto::ot::extension::{Corrections, CorrelatedReceiver, CorrelatedSender};
use crypto::ot::values::{CorrelationOffset, SecretBits};
use crypto::ot::{Depth, ideal};
use crypto::random::{Seed, SessionId};
use libfuzzer_sys::fuzz_target;

type States = RefCell<(CorrelatedSender, CorrelatedReceiver)>;

thread_local! {
    static STATES: [States; 2] = Depth::ALL.map(states);
    /// Two that keep in step.
    static HONEST: [States; 2] = Depth::ALL.map(states);
}

fn states(depth: Depth) -> States {
    let (cpu, offset) = (CpuFeatures::available(), CorrelationOffset::from_u128(7));
    let mut generator = Seed::from_bytes([2; 32]).generator();
    RefCell::new(ideal::extension_on(cpu, depth, SessionId([1; 32]), offset, &mut generator))
}

fuzz_target!(|data: &[u8]| {
    // The fourth byte is not read; the corpus has it.
    let Some((header, bytes)) = data.split_at_checked(4) else { return };
    for (index, depth) in Depth::ALL.into_iter().enumerate() {
        // Counts near what the bytes can hold, so that the checks after the length are reached too.
        let fixed = Corrections::byte_length(0, depth);
        let eights = bytes.len().saturating_sub(fixed) / depth.trees();
        let count = (eights * 8).saturating_sub(usize::from(header[0] % 12));
        if let Ok(corrections) = Corrections::from_bytes(count, depth, bytes) {
            assert_eq!(corrections.to_bytes(), bytes);
            STATES.with(|states| match states[index].borrow_mut().0.extend(&corrections) {
                Ok(labels) => assert_eq!(labels.labels().len(), count),
                Err(refused) => assert_eq!(refused, OtError::Inconsistent),
            });
        }
        HONEST.with(|states| alter_honest_corrections(depth, &mut states[index].borrow_mut(), bytes));
        let count = usize::from(u16::from_le_bytes([header[1], header[2]]));
        let _ = Corrections::from_bytes(count, depth, bytes);
    }
});

/// Honest corrections with the input added to some of their bytes: accepted where nothing changed, refused otherwise.
fn alter_honest_corrections(
    depth: Depth,
    (sender, receiver): &mut (CorrelatedSender, CorrelatedReceiver),
    bytes: &[u8],
) {
    let Some((&[count, high, low], added)) = bytes.split_first_chunk() else { return };
    let count = 1 + usize::from(count) % 64;
    let choices = SecretBits::from_bools(&vec![true; count]);
    let (corrections, _) = receiver.extend(choices).expect("a small chunk");
    let mut altered = corrections.to_bytes().to_vec();
    let place = usize::from(u16::from_be_bytes([high, low])) % altered.len();
    altered[place..].iter_mut().zip(added).for_each(|(byte, added)| *byte ^= added);
    let is_honest = altered == corrections.to_bytes();
    match Corrections::from_bytes(count, depth, &altered) {
        Ok(altered) => assert_eq!(sender.extend(&altered).is_ok(), is_honest),
        // The other side must not fall behind.
        Err(_) => drop(sender.next_chunk(count).expect("a small chunk")),
    }
}
