//! Sums over taps of shifted planes: depthwise convolutions, small groups and pooling.
//!
//! The planes are dealt out by stride beforehand (`ring::planes`), so that every tap is a fixed distance from
//! the output position and each loop below runs over neighboring words.

use super::Vectorized;
use crate::ring::word::Word;

/// Output positions that are summed together, so that the sums stay in registers.
pub(crate) const CHUNK: usize = 32;

/// One shifted plane and its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap<W> {
    /// Words from the output position to the tap's.
    pub(crate) offset: usize,
    /// The weight as a ring word.
    pub(crate) weight: W,
}

/// Writes to each sum the weighted sum of its taps; `planes` holds all taps of all sums.
pub(crate) struct WeightedSum<'a, W> {
    pub(crate) planes: &'a [W],
    pub(crate) taps: &'a [Tap<W>],
    pub(crate) mask: W,
    pub(crate) sums: &'a mut [W],
}

impl<W: Word> Vectorized for WeightedSum<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { planes, taps, mask, sums } = self;
        for (chunk, target) in sums.chunks_mut(CHUNK).enumerate() {
            let mut total = [W::default(); CHUNK];
            for tap in taps {
                // A last chunk may reach past the image into the slack behind the planes.
                let source = &planes[chunk * CHUNK + tap.offset..][..CHUNK];
                for (sum, value) in total.iter_mut().zip(source) {
                    *sum = sum.plus(value.times(tap.weight));
                }
            }
            for (target, sum) in target.iter_mut().zip(total) {
                *target = sum & mask;
            }
        }
    }
}

/// Writes to each sum the plain sum of its taps.
pub(crate) struct PlainSum<'a, W> {
    pub(crate) planes: &'a [W],
    pub(crate) offsets: &'a [usize],
    pub(crate) mask: W,
    pub(crate) sums: &'a mut [W],
}

impl<W: Word> Vectorized for PlainSum<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { planes, offsets, mask, sums } = self;
        for (chunk, target) in sums.chunks_mut(CHUNK).enumerate() {
            let mut total = [W::default(); CHUNK];
            for offset in offsets {
                let source = &planes[chunk * CHUNK + offset..][..CHUNK];
                for (sum, value) in total.iter_mut().zip(source) {
                    *sum = sum.plus(*value);
                }
            }
            for (target, sum) in target.iter_mut().zip(total) {
                *target = sum & mask;
            }
        }
    }
}

/// Writes to each sum the sum of one run of `length` neighboring values.
pub(crate) struct RunSum<'a, W> {
    pub(crate) values: &'a [W],
    pub(crate) length: usize,
    pub(crate) mask: W,
    pub(crate) sums: &'a mut [W],
}

impl<W: Word> Vectorized for RunSum<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { values, length, mask, sums } = self;
        for (target, run) in sums.iter_mut().zip(values.chunks_exact(length)) {
            *target = run.iter().fold(W::default(), |sum, value| sum.plus(*value)) & mask;
        }
    }
}
