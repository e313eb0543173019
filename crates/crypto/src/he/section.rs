//! Runs of coefficients as they travel: without their low bits, at one width, packed.

use super::bits::{BitWriter, WORD_WIDTH, is_padding_clear, numbers, packed_length, words};
use super::encoding::{compose, restore};
use super::error::HeError;
use super::kernel::{AlignedWords, LANES};
use super::ntt::NttTable;
use super::packing::Layout;
use super::parameters::HeParameters;

/// How many coefficients there are, how wide they travel, and modulo what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    count: usize,
    width: u32,
    dropped: u32,
    modulus: u128,
    primes: usize,
}

impl Section {
    /// One ciphertext of a request.
    pub(super) fn request(parameters: &HeParameters) -> Self {
        let format = parameters.format();
        Self {
            count: parameters.degree(),
            width: format.input_bits,
            dropped: format.input_dropped,
            modulus: parameters.primes().map(u128::from).product(),
            primes: parameters.tables().len(),
        }
    }

    /// The second half of a ciphertext of an answer.
    pub(super) fn uniform(parameters: &HeParameters) -> Self {
        let format = parameters.format();
        let (width, dropped) = (format.uniform_bits, format.uniform_dropped);
        let (modulus, primes) = (format.kept_modulus, format.kept_primes);
        Self { count: parameters.degree(), width, dropped, modulus, primes }
    }

    /// The useful coefficients of the first half of an answer's ciphertext.
    pub(super) fn values(layout: &Layout, ciphertext: usize) -> Self {
        let format = layout.parameters().format();
        let (width, dropped) = (format.value_bits, format.value_dropped);
        Self { count: layout.output_count(ciphertext), width, dropped, ..Self::uniform(layout.parameters()) }
    }

    /// Bytes on the wire.
    pub(super) fn length(&self) -> usize {
        packed_length(self.count, self.width)
    }

    /// Leaves out the low bits, and packs. Only what is uniform or pseudorandom already comes here.
    pub(super) fn write(&self, bytes: &mut Vec<u8>, parameters: &HeParameters, limbs: &[&AlignedWords]) {
        let mut writer = BitWriter::new(bytes);
        match limbs {
            [limb] => limb[..self.count]
                .iter()
                .for_each(|residue| writer.push((residue >> self.dropped).into(), self.width)),
            limbs => {
                for (first, second) in limbs[0].iter().zip(limbs[1].iter()).take(self.count) {
                    writer.push(compose(parameters, &[*first, *second]) >> self.dropped, self.width);
                }
            }
        }
        writer.finish();
    }

    /// The coefficients with the middle of the dropped bits in their place, modulo one prime; zeros fill the last lanes.
    pub(super) fn residues(&self, bytes: &[u8], table: &NttTable) -> AlignedWords {
        let (modulus, count) = (table.modulus(), self.count);
        let mut residues = AlignedWords::zeros(count.next_multiple_of(LANES));
        let places = residues.iter_mut();
        if self.primes == 1 && self.width <= WORD_WIDTH {
            // With the middle of the dropped bits a number may pass the prime, but not by half as much again.
            let restored = words(bytes, self.width, count).map(|sent| restore(sent.into(), self.dropped));
            places.zip(restored).for_each(|(place, number)| *place = modulus.correct(number as u64));
        } else {
            let restored = numbers(bytes, self.width, count).map(|sent| restore(sent, self.dropped));
            places.zip(restored).for_each(|(place, number)| *place = modulus.reduce(number));
        }
        residues
    }

    /// Refuses what is no number modulo the section's modulus, and stray bits after the last.
    pub(super) fn check(&self, what: &'static str, bytes: &[u8]) -> Result<(), HeError> {
        let (width, count, largest) = (self.width, self.count, (self.modulus - 1) >> self.dropped);
        // A first pass without an early end is faster, and almost always the only one.
        let is_in_range = match width <= WORD_WIDTH {
            true => words(bytes, width, count).fold(0, u64::max) <= largest as u64,
            false => numbers(bytes, width, count).fold(0, u128::max) <= largest,
        };
        if !is_in_range {
            let mut sent = numbers(bytes, width, count).enumerate();
            let (index, sent) = sent.find(|(_, number)| *number > largest).expect("some number is too large");
            return Err(HeError::CoefficientRange { what, index, largest, sent });
        }
        if !is_padding_clear(bytes, width, count) {
            return Err(HeError::Padding { what });
        }
        Ok(())
    }
}
