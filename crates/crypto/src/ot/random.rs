//! Random transfers on top of correlated ones: two independent random blocks for the sender, one of them for
//! the receiver, and no further message.
//!
//! The labels of a transfer differ by the session's offset; hashed, they have nothing to do with each other.

use crate::domain;
use crate::ot::extension::{ReceiverLabels, SenderLabels};
use crate::ot::pad::{LANES, Pads};
use crate::ot::values::{Labels, SecretBits};

/// Both random blocks of every transfer: those of choice 0 and those of choice 1.
pub fn send(labels: SenderLabels) -> [Labels; 2] {
    let pads = Pads::new(domain::OT_RANDOM_OUTPUT, &labels.range, 1);
    [0, labels.offset().expose()].map(|offset| hash(&pads, &labels.labels, offset))
}

/// The random block of the chosen side of every transfer, and the choices.
pub fn receive(labels: ReceiverLabels) -> (Labels, SecretBits) {
    let pads = Pads::new(domain::OT_RANDOM_OUTPUT, &labels.range, 1);
    (hash(&pads, &labels.labels, 0), labels.choices)
}

fn hash(pads: &Pads, labels: &[u128], offset: u128) -> Labels {
    let mut outputs = Labels::zeroed(labels.len());
    for (group, (labels, outputs)) in labels.chunks(LANES).zip(outputs.chunks_mut(LANES)).enumerate() {
        outputs.copy_from_slice(&pads.group(group, 0, labels, offset)[..labels.len()]);
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;
    use crate::ot::values::CorrelationOffset;
    use crate::ot::{Depth, ideal};
    use crate::random::{Seed, SessionId};

    #[test]
    fn the_receiver_has_the_chosen_block_and_the_offset_is_gone() {
        let mut generator = Seed::from_bytes([3; 32]).generator();
        for (depth, count) in
            Depth::ALL.into_iter().flat_map(|depth| [1, 64, 1001].map(|count| (depth, count)))
        {
            let (cpu, offset) = (CpuFeatures::available(), CorrelationOffset::random(&mut generator));
            let (mut sender, mut receiver) =
                ideal::extension_on(cpu, depth, SessionId([2; 32]), offset, &mut generator);
            let (corrections, chosen) = receiver.extend(SecretBits::random(count, &mut generator)).unwrap();
            let [zero, one] = send(sender.extend(&corrections).unwrap());
            let (chosen, choices) = receive(chosen);
            for index in 0..count {
                let pair = [zero[index], one[index]];
                assert_eq!(chosen[index], pair[usize::from(choices.bit(index))]);
                assert_ne!(pair[0] ^ pair[1], sender.offset().expose());
            }
        }
    }
}
