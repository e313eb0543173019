//! Words that start on a cache line, so that one 512-bit load touches one line.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use crate::secret::Wipe;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A fixed number of words, a multiple of eight, aligned to 64 bytes.
#[derive(Clone)]
pub(in crate::he) struct AlignedWords(Vec<Line>);

impl AlignedWords {
    /// Zeros.
    pub(in crate::he) fn zeros(length: usize) -> Self {
        assert!(length.is_multiple_of(8), "whole cache lines");
        Self(vec![Line([0; 8]); length / 8])
    }
}

impl Deref for AlignedWords {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: `Line` is `repr(C)` around eight words and as large as they are, so the lines are that many words.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }
}

impl DerefMut for AlignedWords {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and the borrow of `self` is unique.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 8) }
    }
}

impl Wipe for AlignedWords {
    fn wipe(&mut self) {
        (**self).wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_and_all_there() {
        let mut words = AlignedWords::zeros(48);
        for (index, word) in words.iter_mut().enumerate() {
            *word = index as u64;
        }
        assert_eq!(words.as_ptr().addr() % 64, 0);
        assert!(words.iter().copied().eq(0..48));
        words.wipe();
        assert!(words.iter().all(|word| *word == 0) && words.len() == 48);
    }
}
