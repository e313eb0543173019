//! Oblivious transfer by a trusted dealer in memory: for the tests of `ot`, its benchmark and a fuzz target. The dealer
//! sees every secret and takes no care to hide it in time or memory.

use crate::cpu::CpuFeatures;
use crate::ot::base::{BASE_TRANSFERS, BaseReceiverKeys, BaseSenderKeys};
use crate::ot::depth::Depth;
use crate::ot::extension::{CorrelatedReceiver, CorrelatedSender};
use crate::ot::tree;
use crate::ot::values::{CorrelationOffset, Labels, SecretBits};
use crate::random::{Generator, SessionId};

/// Deals 128 random key pairs, and of each the key that bit `index` of `choices` names.
pub fn base_transfers(choices: u128, generator: &mut Generator) -> (BaseSenderKeys, BaseReceiverKeys) {
    let pairs: Vec<[[u8; 32]; 2]> =
        (0..BASE_TRANSFERS).map(|_| [generator.array(), generator.array()]).collect();
    let chosen =
        pairs.iter().enumerate().map(|(index, pair)| pair[(choices >> index & 1) as usize]).collect();
    (BaseSenderKeys(pairs), BaseReceiverKeys(chosen))
}

/// Deals labels `Q_j` to the sender and `T_j = Q_j xor b_j offset` to the receiver: (sender's, receiver's).
pub fn correlated_transfers(
    offset: &CorrelationOffset,
    choices: &SecretBits,
    generator: &mut Generator,
) -> (Labels, Labels) {
    let zero: Vec<u128> = (0..choices.count()).map(|_| generator.next_u128()).collect();
    let shift = |(index, label): (usize, &u128)| label ^ (offset.expose() * u128::from(choices.bit(index)));
    let chosen: Vec<u128> = zero.iter().enumerate().map(shift).collect();
    (zero.into(), chosen.into())
}

/// Both states of an extension of the usual depth, set up on dealt base transfers instead of public-key ones.
pub fn extension(
    session: SessionId,
    offset: CorrelationOffset,
    generator: &mut Generator,
) -> (CorrelatedSender, CorrelatedReceiver) {
    extension_on(CpuFeatures::available(), Depth::default(), session, offset, generator)
}

/// The same of a given depth, on the kernels of a given processor.
pub fn extension_on(
    cpu: CpuFeatures,
    depth: Depth,
    session: SessionId,
    offset: CorrelationOffset,
    generator: &mut Generator,
) -> (CorrelatedSender, CorrelatedReceiver) {
    let (pairs, chosen) = base_transfers(tree::base_choices(depth, &offset), generator);
    let (sums, receiver) = CorrelatedReceiver::from_base(session, depth, &pairs, generator, cpu);
    (CorrelatedSender::from_base(session, depth, offset, &chosen, &sums, cpu), receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn the_dealers_labels_differ_by_the_offset_where_the_choice_is_one() {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        let offset = CorrelationOffset::random(&mut generator);
        let choices = SecretBits::random(100, &mut generator);
        let (zero, chosen) = correlated_transfers(&offset, &choices, &mut generator);
        for index in 0..100 {
            let expected = if choices.bit(index) == 1 { offset.expose() } else { 0 };
            assert_eq!(zero[index] ^ chosen[index], expected);
        }
    }
}
