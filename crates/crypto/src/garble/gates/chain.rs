//! The sign of a sum of two shares as a shared bit: a garbled carry chain, half of it made before the image.
//!
//! Kolesnikov's information-theoretic garbling (GESS, ASIACRYPT 2005), one bit at a time; new is that what does not depend
//! on the server's share goes ahead. Bit i of the server's share is s_i, the client's c_i, the carry into it k_i:
//!
//! ```text
//! k_0 = 0,   k_(i+1) = majority(s_i, c_i, k_i),   b = 1 xor s_(n-1) xor c_(n-1) xor k_(n-1)
//! ```
//!
//! The two labels of k_i have n - i bits. The lowest is the color, k_i xor pi_i; the others, sigma, open the next level.
//! A transfer in which the client chooses by c_i gives pads P_i\[c_i\]\[x\] for both colors x of the incoming label, as long
//! as the next label; level 0 has one. The labels of one wire differ by D_i, whose color is 1.
//!
//! The majority copies c_i where k_i differs from s_i, and is s_i where not. The server fixes before the image, by a coin
//! x\*_i, at which color the first case will stand; its permute bit is then pi_i = x\*_i xor s_i xor 1. So what a label needs
//! in order to follow c_i is independent of s_i, and goes out with the offer. The last coin is p: the client ends with
//! b xor p, the server with p.

use super::GateShape;
use crate::garble::bits::{low_bits, spread};
use crate::garble::error::GarbleError;
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::{Offset, WireLabel};
use crate::random::Generator;
use crate::secret::Secret;
use crate::wide::wide;

/// One value per sign.
pub(super) type Words = Secret<Vec<u64>>;

/// Bits of the pads and of the outgoing label of a level.
pub(super) fn pad_bits(bits: u32, level: u32) -> u32 {
    bits - level - 1
}

/// Bits of each level's words in the offer: none for level 0.
pub(super) fn offer_bits(bits: u32) -> impl Iterator<Item = u32> + Clone {
    (1..bits - 1).map(move |level| bits - level)
}

/// Bits of each level's words in the opening.
pub(super) fn opening_bits(bits: u32) -> impl Iterator<Item = u32> + Clone {
    (0..bits - 1).map(move |level| bits - level)
}

/// The two pads of a level from one hash.
fn halves(hashes: &Secret<Vec<u128>>, mask: u64) -> [Words; 2] {
    [cut(hashes, 0, mask), cut(hashes, 64, mask)]
}

/// A part of each hash.
pub(super) fn cut(hashes: &Secret<Vec<u128>>, shift: u32, mask: u64) -> Words {
    Secret::new(cut_words(hashes.expose(), shift, mask))
}

wide! {
    fn cut_words(hashes: &[u128], shift: u32, mask: u64) -> Vec<u64> {
        hashes.iter().map(|hash| (hash >> shift) as u64 & mask).collect()
    }
}

#[inline(always)]
fn select(bit: u64, zero: u64, one: u64) -> u64 {
    zero ^ (spread(bit) & (zero ^ one))
}

/// What the server keeps of a chain between offer and opening.
#[derive(Debug)]
pub(super) struct ServerChain {
    pub(super) bits: u32,
    /// Bit i is x\*_i, from 1 on; bit n - 1 is p.
    pub(super) stars: Words,
    pub(super) levels: Vec<ServerLevel>,
}

/// One level of the server's.
#[derive(Debug)]
pub(super) struct ServerLevel {
    /// P_i\[0\]\[0\].
    pub(super) zero: Words,
    /// P_i\[0\]\[1\]; at level 0, which has one pad a choice, the sum of both choices' pads.
    pub(super) one: Words,
    /// D_(i+1).
    pub(super) difference: Words,
}

impl ServerChain {
    /// Makes the words of the offer, level after level. `zero_labels` are those of all signs for c_0, then for c_1, and so on.
    pub(super) fn offer(
        shape: &GateShape,
        key: HashKey,
        counters: &mut CounterRange,
        offset: &Offset,
        zero_labels: &[WireLabel],
        masks: &[u64],
        generator: &mut Generator,
    ) -> Result<(Vec<Words>, Self), GarbleError> {
        let (bits, signs) = (shape.compared_bits(), masks.len());
        let mask = low_bits(bits - 1);
        let star = |p: &u64| generator.next_u64() & mask & !1 | p << (bits - 1);
        let stars: Words = Secret::new(masks.iter().map(star).collect());
        let mut chain = Self { bits, stars, levels: Vec::with_capacity(bits as usize - 1) };
        let mut offer = Vec::with_capacity(bits as usize - 2);
        for (level, labels) in (0..bits - 1).zip(zero_labels.chunks_exact(signs)) {
            let pads = hash_labels(key, counters.take(GateShape::hashes_of(signs))?, labels, Some(offset));
            let [zero, one] = pads.map(|hashes| halves(&hashes, low_bits(pad_bits(bits, level))));
            if level == 0 {
                let differences = masks.iter().map(|_| generator.next_u64() & mask | 1).collect();
                chain.levels.push(first_level(&zero[0], &one[0], Secret::new(differences)));
            } else {
                let (words, own) = chain.offer_level(level, zero, &one);
                offer.push(words);
                chain.levels.push(own);
            }
        }
        Ok((offer, chain))
    }

    /// What lets a label follow c_i: sigma at the color that is not x\*, and a color bit for each color.
    pub(super) fn offer_level(&self, level: u32, zero: [Words; 2], one: &[Words; 2]) -> (Words, ServerLevel) {
        let [at_0, at_1] = [0, 1].map(|color| -> Words {
            let pads = zero[color].expose().iter().zip(one[color].expose());
            Secret::new(pads.map(|(zero, one)| zero ^ one).collect())
        });
        let words = offer_words(at_0.expose(), at_1.expose(), self.stars.expose(), level);
        let differences = at_0.expose().iter().zip(at_1.expose()).map(|(at_0, at_1)| (at_0 ^ at_1) | 1);
        let difference = Secret::new(differences.collect());
        let [zero, one] = zero;
        (Secret::new(words), ServerLevel { zero, one, difference })
    }

    /// p of every sign.
    pub(super) fn masks(&self) -> Words {
        Secret::new(self.stars.expose().iter().map(|stars| stars >> (self.bits - 1)).collect())
    }

    /// The words of the opening, level after level, for the server's inputs: shares without their dropped bits.
    pub(super) fn open(&self, inputs: &[u64]) -> Vec<Words> {
        let first = &self.levels[0];
        let pads = first.zero.expose().iter().zip(first.one.expose()).zip(first.difference.expose());
        let (mut words, mut labels) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for (((pad, sum), difference), (input, stars)) in pads.zip(inputs.iter().zip(self.stars.expose())) {
            let color = pad & 1 ^ (stars ^ input ^ 2) >> 1 & 1;
            words.push((sum ^ (difference & spread(input & 1))) << 1 | color);
            labels.push(pad ^ color);
        }
        let (mut opening, mut labels) = (vec![Secret::new(words)], Secret::new(labels));
        for level in 1..self.bits - 1 {
            opening.push(self.open_level(level, inputs, labels.expose_mut()));
        }
        opening
    }

    /// One level: takes the labels of carry 0 into it, and leaves those of carry 0 out of it.
    fn open_level(&self, level: u32, inputs: &[u64], labels: &mut [u64]) -> Words {
        let before = self.levels[level as usize - 1].difference.expose();
        let ServerLevel { zero, one, difference } = &self.levels[level as usize];
        let (zero, one, after) = (zero.expose(), one.expose(), difference.expose());
        Secret::new(open_words(level, zero, one, after, labels, before, inputs, self.stars.expose()))
    }
}

wide! {
    /// The words of an offer, from the sums of both choices' pads at each color.
    fn offer_words(at_0: &[u64], at_1: &[u64], stars: &[u64], level: u32) -> Vec<u64> {
        let word = |((at_0, at_1), stars): ((&u64, &u64), &u64)| {
            let star = stars >> level & 1;
            let other = select(star, *at_1, *at_0);
            let colors = (at_0 & 1 ^ star ^ 1) | (at_1 & 1 ^ star) << 1;
            other >> 1 << 2 | colors
        };
        at_0.iter().zip(at_1).zip(stars).map(word).collect()
    }
}

wide! {
    /// The words of a level's opening; `before` and `after` are the differences of its incoming and outgoing labels.
    fn open_words(
        level: u32,
        zero: &[u64],
        one: &[u64],
        after: &[u64],
        labels: &mut [u64],
        before: &[u64],
        inputs: &[u64],
        stars: &[u64],
    ) -> Vec<u64> {
        let mut words = vec![0; labels.len()];
        let pads = zero.iter().zip(one).zip(after);
        let places = labels.iter_mut().zip(before).zip(inputs.iter().zip(stars));
        for ((((zero, one), after), ((label, before), (input, stars))), word) in pads.zip(places).zip(&mut words) {
            let (bit, star) = (input >> level & 1, stars >> level & 1);
            let permute = star ^ bit ^ 1;
            let next_permute = (stars ^ input) >> (level + 1) & 1 ^ 1;
            let at_color = |color: u64| (*label ^ (before & spread(color ^ permute))) >> 1;
            let (at_0, at_1) = (zero ^ at_color(0), one ^ at_color(1));
            let color = at_0 & 1 ^ next_permute ^ (star & bit);
            *label = at_0 ^ color ^ (after & spread(star & bit));
            let outcome = *label ^ (after & spread(bit & (star ^ 1)));
            *word = (at_1 ^ outcome) << 1 | color;
        }
        words
    }
}

/// Level 0 has no incoming label, and the difference of its outgoing ones is drawn.
pub(super) fn first_level(zero: &Words, one: &Words, difference: Words) -> ServerLevel {
    let sums = zero.expose().iter().zip(one.expose()).map(|(zero, one)| zero ^ one).collect();
    ServerLevel { zero: Secret::new(zero.expose().clone()), one: Secret::new(sums), difference }
}

/// What the client keeps of a chain between offer and opening.
#[derive(Debug)]
pub(super) struct ClientChain {
    /// c_0, and c_(n-1) above it.
    pub(super) ends: Words,
    /// Its pads, for both colors of the incoming label, with the offer's words where c_i is one. Level 0 has no color.
    pub(super) levels: Vec<[Words; 2]>,
}

impl ClientChain {
    /// Takes the words of the offer. `labels` are those it chose by the bits of its inputs, shares without dropped bits.
    pub(super) fn accept(
        shape: &GateShape,
        key: HashKey,
        counters: &mut CounterRange,
        labels: &[WireLabel],
        inputs: &[u64],
        offer: &[Words],
    ) -> Result<Self, GarbleError> {
        let (bits, signs) = (shape.compared_bits(), inputs.len());
        let end = |input: &u64| input & 1 | (input >> (bits - 1) & 1) << 1;
        let ends = Secret::new(inputs.iter().map(end).collect());
        let mut levels = Vec::with_capacity(bits as usize - 1);
        for (level, labels) in (0..bits - 1).zip(labels.chunks_exact(signs)) {
            let [hashes, _] = hash_labels(key, counters.take(GateShape::hashes_of(signs))?, labels, None);
            let [zero, one] = halves(&hashes, low_bits(pad_bits(bits, level)));
            levels.push(match level {
                0 => [zero, Secret::new(Vec::new())],
                _ => Self::accept_level(level, [zero, one], inputs, &offer[level as usize - 1]),
            });
        }
        Ok(Self { ends, levels })
    }

    /// Adds the offer's words to the pads where c_i is one.
    pub(super) fn accept_level(
        level: u32,
        mut pads: [Words; 2],
        inputs: &[u64],
        offer: &Words,
    ) -> [Words; 2] {
        let [zero, one] = &mut pads;
        accept_words(level, zero.expose_mut(), one.expose_mut(), inputs, offer.expose());
        pads
    }

    /// b xor p of each sign, from the words of the opening.
    pub(super) fn evaluate(&self, opening: &[Words]) -> Words {
        let first = self.levels[0][0].expose().iter().zip(opening[0].expose()).zip(self.ends.expose());
        let labels = first.map(|((pad, word), ends)| pad ^ (word >> 1 & spread(ends & 1)) ^ (word & 1));
        let mut labels: Words = Secret::new(labels.collect());
        for ([zero, one], words) in self.levels.iter().zip(opening).skip(1) {
            pass_level(labels.expose_mut(), zero.expose(), one.expose(), words.expose());
        }
        let ends = self.ends.expose();
        labels.expose_mut().iter_mut().zip(ends).for_each(|(label, ends)| *label = *label & 1 ^ ends >> 1);
        labels
    }
}

wide! {
    /// Adds an offer's words to the pads of the signs whose bit is one.
    fn accept_words(level: u32, zero: &mut [u64], one: &mut [u64], inputs: &[u64], offer: &[u64]) {
        for (((zero, one), word), input) in zero.iter_mut().zip(one).zip(offer).zip(inputs) {
            let chosen = word & spread(input >> level & 1);
            *zero ^= chosen >> 2 << 1 | chosen & 1;
            *one ^= chosen >> 2 << 1 | chosen >> 1 & 1;
        }
    }
}

wide! {
    /// Takes the labels of a carry to those of the next one.
    fn pass_level(labels: &mut [u64], zero: &[u64], one: &[u64], words: &[u64]) {
        for (label, ((zero, one), word)) in labels.iter_mut().zip(zero.iter().zip(one).zip(words)) {
            let color = *label & 1;
            *label = select(color, zero ^ (word & 1), one ^ word >> 1) ^ *label >> 1;
        }
    }
}
