//! The hash that breaks the correlation: pads that are independent although the labels differ by one offset.
//!
//! H(i, x) = AES_{S xor i}(sigma(x)) xor sigma(x) with sigma(L || R) = (L xor R) || L, the hash of the
//! garbled gates (Guo, Katz, Wang, Weng and Yu, CRYPTO 2020): one key per 64 transfers makes it about nine
//! times cheaper than BLAKE3 called per transfer, and costs seven bits of security at most. S is not sent: it
//! is a hash of session, purpose and place of the chunk, so no two chunks and no two purposes share a key.

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use zeroize::Zeroizing;

use crate::domain::Domain;
use crate::ot::extension::Range;

/// Transfers under one key. Security falls by its logarithm, the price of a key schedule by itself.
pub(in crate::ot) const LANES: usize = 64;

/// The pads of one chunk for one purpose.
pub(in crate::ot) struct Pads {
    base: u128,
    /// How many pads of 128 bits each label gives.
    pieces: usize,
}

impl Pads {
    pub(in crate::ot) fn new(purpose: Domain, range: &Range, pieces: usize) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(purpose.context());
        hasher.update(&range.session.0);
        hasher.update(&range.first_cipher.to_le_bytes());
        let mut base = [0; 16];
        hasher.finalize_xof().fill(&mut base);
        Self { base: u128::from_le_bytes(base), pieces }
    }

    /// Piece `piece` of the pads of the labels of one group (the `group`-th run of [`LANES`] transfers);
    /// `offset` is added to each label first.
    pub(in crate::ot) fn group(
        &self,
        group: usize,
        piece: usize,
        labels: &[u128],
        offset: u128,
    ) -> Zeroizing<[u128; LANES]> {
        let counter = (group * self.pieces + piece) as u128;
        let cipher = Aes128Enc::new(&Array((self.base ^ counter).to_le_bytes()));
        let mut inputs = Zeroizing::new([0; LANES]);
        for (input, label) in inputs.iter_mut().zip(labels) {
            *input = sigma(label ^ offset);
        }
        let mut blocks = Zeroizing::new(inputs.map(|input| input.to_le_bytes()));
        cipher.encrypt_blocks(Array::cast_slice_from_core_mut(&mut blocks[..]));
        for (input, block) in inputs.iter_mut().zip(blocks.iter()) {
            *input ^= u128::from_le_bytes(*block);
        }
        inputs
    }
}

/// A linear map that has no fixed point besides zero, and neither has its sum with the identity. Without it,
/// one decryption would undo the hash of two labels that differ by the offset.
fn sigma(label: u128) -> u128 {
    let (low, high) = (label as u64, (label >> 64) as u64);
    u128::from(high ^ low) << 64 | u128::from(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain;
    use crate::random::SessionId;

    fn pads(purpose: Domain, session: u8, first_cipher: u64) -> Pads {
        Pads::new(purpose, &Range { session: SessionId([session; 32]), first_cipher, count: 128 }, 2)
    }

    #[test]
    fn purpose_session_place_group_and_piece_give_other_pads() {
        let all = [
            pads(domain::OT_CHOSEN_PAD, 1, 0).group(0, 0, &[5], 0)[0],
            pads(domain::OT_CHOSEN_PAD, 1, 0).group(0, 1, &[5], 0)[0],
            pads(domain::OT_CHOSEN_PAD, 1, 0).group(1, 0, &[5], 0)[0],
            pads(domain::OT_CHOSEN_PAD, 1, 1).group(0, 0, &[5], 0)[0],
            pads(domain::OT_CHOSEN_PAD, 2, 0).group(0, 0, &[5], 0)[0],
            pads(domain::OT_CHOSEN_BIT_PAD, 1, 0).group(0, 0, &[5], 0)[0],
            pads(domain::OT_RANDOM_OUTPUT, 1, 0).group(0, 0, &[5], 0)[0],
            pads(domain::OT_RANDOM_OUTPUT, 1, 0).group(0, 0, &[5], 3)[0],
        ];
        for (index, pad) in all.iter().enumerate() {
            assert!(!all[..index].contains(pad));
        }
    }

    #[test]
    fn a_pad_is_the_hash_of_its_definition() {
        let pads = pads(domain::OT_CHOSEN_PAD, 1, 0);
        let labels: Vec<u128> =
            (0..10).map(|index| index * 0x1234_5678_9abc_def0_0fed_cba9_8765_4321).collect();
        let group = pads.group(3, 1, &labels, 99);
        for (label, pad) in labels.iter().zip(group.iter()) {
            let input = sigma(label ^ 99);
            let mut block = Array(input.to_le_bytes());
            Aes128Enc::new(&Array((pads.base ^ 7).to_le_bytes())).encrypt_block(&mut block);
            assert_eq!(*pad, u128::from_le_bytes(block.0) ^ input);
        }
    }

    #[test]
    fn sigma_and_its_sum_with_the_identity_are_one_to_one() {
        // Linear maps: one to one exactly when the images of the unit vectors are independent.
        for map in [sigma as fn(u128) -> u128, |label| sigma(label) ^ label] {
            let mut basis: Vec<u128> = Vec::new();
            for bit in 0..128 {
                let image = basis.iter().fold(map(1 << bit), |image, &row| image.min(image ^ row));
                assert_ne!(image, 0);
                basis.push(image);
                basis.sort_unstable_by(|one, other| other.cmp(one));
            }
        }
    }

    #[test]
    fn attack_without_sigma_one_decryption_gives_the_offset() {
        use aes::Aes128;
        use aes::cipher::BlockCipherDecrypt;
        let (key, label, offset) = (Array([7; 16]), 0x1234_u128, 0xdead_beef_u128 << 60 | 1);
        let cipher = Aes128::new(&key);
        let hash = |input: u128| {
            let mut block = Array(input.to_le_bytes());
            cipher.encrypt_block(&mut block);
            u128::from_le_bytes(block.0) ^ input
        };
        let undo = |output: u128| {
            let mut block = Array(output.to_le_bytes());
            cipher.decrypt_block(&mut block);
            u128::from_le_bytes(block.0)
        };
        // A message that is itself the offset, under the pad of the other label: what a garbled row may hold.
        let weakened = hash(label ^ offset) ^ offset;
        assert_eq!(undo(weakened ^ label) ^ label, offset);
        let ours = hash(sigma(label ^ offset)) ^ offset;
        assert_ne!(undo(ours ^ label) ^ label, offset);
        assert_ne!(undo(ours ^ sigma(label)) ^ sigma(label), sigma(offset));
    }
}
