//! That all trees of a chunk were corrected towards the same choices, and were grown as they should be.
//!
//! A receiver that corrects trees towards different choices b would hold labels between the sender's two, and could
//! find out the offset by trying, the four or eight bits of a tree at a time. So the sender checks each chunk before
//! it uses a label of it (Roy, SoftSpokenOT, section 4, with a linear hash over the field of 2^128 elements, and with
//! the challenge taken from the corrections themselves, after Fiat and Shamir):
//!
//! ```text
//! X_w from a hash of all corrections      one field element for every 128 transfers
//! h(column) = sum of X_w column_w         128 bits of a column, taken as a field element
//!
//! receiver: h(b) and a digest of h(T_c), c = 0..127
//! sender:   the digest of h(Q_c) + D_c h(b) must be the same, since T_c = Q_c + D_c b
//! ```
//!
//! 128 further transfers with random choices enter h with the coefficient 1; h(b) is uniform through them and tells the
//! sender nothing. A tree whose choices have another hash passes only if the receiver knew the offset's bits there, all
//! four or eight: passing with g bits known has a chance of 2^-g, which is what guessing them is worth.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use super::Range;
use crate::domain;
use crate::ot::error::OtError;
use crate::ot::kernel::{COLUMNS, Engine, Product};
use crate::random::{Generator, Seed};

/// Transfers with random choices that every chunk has besides those it was asked for.
pub(super) const MASKING: usize = 128;

/// What the receiver sends to be checked.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Check {
    choices: u128,
    digest: [u8; 32],
}

impl Check {
    /// Length on the wire.
    pub(super) const BYTES: usize = 16 + 32;

    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.choices.to_le_bytes());
        bytes[16..].copy_from_slice(&self.digest);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (choices, digest) = bytes.split_first_chunk().expect("48 bytes");
        let digest = *digest.first_chunk().expect("32 more bytes");
        Self { choices: u128::from_le_bytes(*choices), digest }
    }

    /// The receiver's, for packed choices and the choices of the masking transfers.
    pub(super) fn make(corrected: &Corrected<'_>, labels: [&[u128]; 2], choices: &[u8], mask: u128) -> Self {
        let columns = corrected.hash_columns(labels);
        Self { choices: corrected.hash_bits(choices) ^ mask, digest: digest(&columns) }
    }

    /// The sender's comparison.
    pub(super) fn verify(
        &self,
        corrected: &Corrected<'_>,
        labels: [&[u128]; 2],
        offset: u128,
    ) -> Result<(), OtError> {
        let mut columns = corrected.hash_columns(labels);
        for (index, column) in columns.iter_mut().enumerate() {
            // A mask made by hand becomes a jump on the offset's bit in optimized code; scripts/constant-time sees it.
            let bit = Choice::from((offset >> index) as u8 & 1);
            column.conditional_assign(&(*column ^ self.choices), bit);
        }
        match bool::from(digest(&columns).ct_eq(&self.digest)) {
            true => Ok(()),
            false => Err(OtError::Inconsistent),
        }
    }
}

/// A chunk whose corrections are fixed, and with them the challenge.
pub(super) struct Corrected<'a> {
    engine: &'a Engine,
    challenge: [u8; 32],
}

impl<'a> Corrected<'a> {
    /// Of these corrections, those of the masking transfers included.
    pub(super) fn new(engine: &'a Engine, range: &Range, corrections: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(domain::OT_CHECK_CHALLENGE.context());
        hasher.update(&range.session.0);
        hasher.update(&range.first_cipher.to_le_bytes());
        hasher.update(&(range.count as u64).to_le_bytes());
        hasher.update(corrections);
        Self { engine, challenge: *hasher.finalize().as_bytes() }
    }

    fn challenge(&self) -> Generator {
        Seed::from_bytes(self.challenge).generator()
    }

    /// h of packed bits, without the masking ones.
    fn hash_bits(&self, bits: &[u8]) -> u128 {
        let mut challenge = self.challenge();
        let mut sum = Zeroizing::new([Product::default()]);
        for bytes in bits.chunks(16) {
            let mut word = Zeroizing::new([0; 16]);
            word[..bytes.len()].copy_from_slice(bytes);
            let word = Zeroizing::new([u128::from_le_bytes(*word)]);
            self.engine.multiply_add(&mut *sum, &*word, challenge.next_u128());
        }
        reduce(&sum[0])
    }

    /// h of every column of the labels, and of the masking ones.
    fn hash_columns(&self, [labels, masking]: [&[u128]; 2]) -> Zeroizing<[u128; COLUMNS]> {
        let mut challenge = self.challenge();
        let mut sums = Zeroizing::new([Product::default(); COLUMNS]);
        self.engine.columns_of(labels, |words| {
            self.engine.multiply_add(&mut *sums, words, challenge.next_u128());
        });
        self.engine.columns_of(masking, |words| {
            sums.iter_mut().zip(words).for_each(|(sum, word)| sum[0] ^= word);
        });
        let mut hashes = Zeroizing::new([0; COLUMNS]);
        hashes.iter_mut().zip(sums.iter()).for_each(|(hash, sum)| *hash = reduce(sum));
        hashes
    }
}

/// The choices of a chunk's masking transfers: nobody else's, and no other chunk's.
pub(super) fn masking_choices(seed: &Seed, range: &Range) -> Zeroizing<[u8; MASKING / 8]> {
    let mut hasher = blake3::Hasher::new_derive_key(domain::OT_CHECK_MASK.context());
    hasher.update(seed.expose()).update(&range.session.0).update(&range.first_cipher.to_le_bytes());
    let mut choices = Zeroizing::new([0; MASKING / 8]);
    hasher.finalize_xof().fill(&mut *choices);
    choices
}

fn digest(columns: &[u128; COLUMNS]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(domain::OT_CHECK_DIGEST.context());
    for column in columns {
        hasher.update(&column.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Modulo x^128 + x^7 + x^2 + x + 1.
fn reduce([low, high]: &Product) -> u128 {
    let fold = |word: u128| word ^ word << 1 ^ word << 2 ^ word << 7;
    let beyond = high >> 127 ^ high >> 126 ^ high >> 121;
    low ^ fold(*high) ^ fold(beyond)
}

#[cfg(test)]
mod tests {
    use super::super::receiver::masking_labels;
    use super::super::{CorrelatedReceiver, CorrelatedSender, ReceiverChunk};
    use super::*;
    use crate::cpu::CpuFeatures;
    use crate::ot::depth::Depth;
    use crate::ot::values::{CorrelationOffset, SecretBits};
    use crate::ot::{ideal, tree};
    use crate::random::SessionId;

    /// Multiplication by x, again and again.
    fn slow_product(left: u128, right: u128) -> u128 {
        let times_x = |value: u128| value << 1 ^ if value >> 127 == 1 { 0x87 } else { 0 };
        let mut power = left;
        let mut product = 0;
        for bit in 0..128 {
            if right >> bit & 1 == 1 {
                product ^= power;
            }
            power = times_x(power);
        }
        product
    }

    fn engine(cpu: CpuFeatures, generator: &mut Generator) -> Engine {
        let (keys, _) = ideal::base_transfers(0, generator);
        let (_, leaves) = tree::grow(SessionId([1; 32]), Depth::default(), &keys, generator);
        Engine::new(cpu, &leaves)
    }

    #[test]
    fn products_are_those_of_the_field() {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        for cpu in [CpuFeatures::PORTABLE, CpuFeatures::available()] {
            let engine = engine(cpu, &mut generator);
            let mut factors: Vec<[u128; 2]> =
                (0..200).map(|_| [generator.next_u128(), generator.next_u128()]).collect();
            factors.push([1 << 127; 2]);
            for [left, right] in factors {
                let mut sum = [Product::default()];
                engine.multiply_add(&mut sum, &[left], right);
                assert_eq!(reduce(&sum[0]), slow_product(left, right));
            }
        }
    }

    #[test]
    fn hashes_of_bits_and_of_columns_are_the_same_function() {
        let mut generator = Seed::from_bytes([2; 32]).generator();
        for cpu in [CpuFeatures::PORTABLE, CpuFeatures::available()] {
            let engine = engine(cpu, &mut generator);
            let range = Range { session: SessionId([1; 32]), first_cipher: 3, count: 700 };
            let corrected = Corrected::new(&engine, &range, b"corrections");
            let labels: Vec<u128> = (0..700).map(|_| generator.next_u128()).collect();
            let hashes = corrected.hash_columns([&labels, &[0; MASKING]]);
            for column in [0, 1, 64, 127] {
                let bits: Vec<bool> = labels.iter().map(|label| label >> column & 1 == 1).collect();
                assert_eq!(hashes[column], corrected.hash_bits(SecretBits::from_bools(&bits).expose()));
            }
        }
    }

    /// A receiver that lies, and the sender that it lies to.
    struct Cheat {
        depth: Depth,
        receiver: CorrelatedReceiver,
        sender: CorrelatedSender,
        generator: Generator,
    }

    impl Cheat {
        fn new(depth: Depth) -> Self {
            let mut generator = Seed::from_bytes([3; 32]).generator();
            let offset = CorrelationOffset::random(&mut generator);
            let (cpu, session) = (CpuFeatures::available(), SessionId([9; 32]));
            let (sender, receiver) = ideal::extension_on(cpu, depth, session, offset, &mut generator);
            Self { depth, receiver, sender, generator }
        }

        /// The offset's bits that a tree carries.
        fn offset_bits(&self, tree: usize) -> u128 {
            self.sender.offset().expose() >> (self.depth.bits() * tree) & (self.depth.leaves() as u128 - 1)
        }

        /// Corrects some trees towards another choice in one transfer, and guesses the offset's bits there.
        fn attempt(&mut self, lies: &[(usize, u128)]) -> Result<(), OtError> {
            let choices = SecretBits::random(300, &mut self.generator);
            let mut labels = vec![0; 300];
            let chunk = self.receiver.next_chunk(300).unwrap();
            let mut corrections =
                ReceiverChunk::twin_for_attack(&chunk).extend_into(&choices, &mut labels).unwrap();
            let (keys, range) = chunk.parts_for_attack();
            // Transfer 77 of these trees.
            let mut lie = [0; 38];
            lie[77 / 8] = 1 << (77 % 8);
            for (tree, _) in lies {
                corrections.bytes[tree * 38 + 77 / 8] ^= lie[77 / 8];
            }
            let masking = masking_labels(&keys, &range);
            let corrected = Corrected::new(keys.engine(), &range, corrections.corrected());
            let mask = u128::from_le_bytes(*masking_choices(keys.masking(), &range));
            let mut columns = corrected.hash_columns([&labels, &masking]);
            for (tree, guess) in lies {
                for bit in 0..self.depth.bits() {
                    columns[self.depth.bits() * tree + bit] ^=
                        (guess >> bit & 1).wrapping_neg() & corrected.hash_bits(&lie);
                }
            }
            let choices = corrected.hash_bits(choices.expose()) ^ mask;
            let check = Check { choices, digest: digest(&columns) };
            let strips = corrections.bytes.len() - Check::BYTES;
            corrections.bytes[strips..].copy_from_slice(&check.to_bytes());
            self.sender.extend(&corrections).map(drop)
        }
    }

    #[test]
    fn attack_a_lie_in_one_tree_passes_only_with_the_offsets_bits_guessed() {
        for depth in Depth::ALL {
            let mut cheat = Cheat::new(depth);
            for tree in [1, depth.trees() - 1] {
                let guesses = 0..depth.leaves() as u128;
                let passed: Vec<u128> =
                    guesses.filter(|guess| cheat.attempt(&[(tree, *guess)]).is_ok()).collect();
                assert_eq!(passed, [cheat.offset_bits(tree)], "one guess of all leaves, and the right one");
            }
        }
    }

    #[test]
    fn attack_the_tree_of_the_fixed_bit_hides_one_bit_less() {
        for depth in Depth::ALL {
            let mut cheat = Cheat::new(depth);
            // Who knows that the lowest bit is set has half as many guesses to make.
            let guesses = (0..depth.leaves() as u128).filter(|guess| guess & 1 == 1);
            let passed: Vec<u128> = guesses.filter(|guess| cheat.attempt(&[(0, *guess)]).is_ok()).collect();
            assert_eq!(passed, [cheat.offset_bits(0)]);
        }
    }

    #[test]
    fn attack_lies_in_two_trees_pass_only_with_both_guessed() {
        for depth in Depth::ALL {
            let mut cheat = Cheat::new(depth);
            let right = [2, 3].map(|tree| (tree, cheat.offset_bits(tree)));
            assert_eq!(cheat.attempt(&right), Ok(()));
            for wrong in 0..depth.bits() {
                for tree in 0..2 {
                    let mut guesses = right;
                    guesses[tree].1 ^= 1 << wrong;
                    assert_eq!(cheat.attempt(&guesses), Err(OtError::Inconsistent));
                }
            }
        }
    }
}
