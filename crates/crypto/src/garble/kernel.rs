//! The gate hash H(i, x) = AES_{S xor i}(sigma(x)) xor sigma(x) and the gates on it, many lanes at a time.
//!
//! Guo, Katz, Wang, Weng, Yu: Better concrete security for half-gates garbling (CRYPTO 2020), section 7; the
//! gates are the half-gates of Zahur, Rosulek, Evans: Two halves make a whole (EUROCRYPT 2015). The schedules
//! of sixteen keys are made at once; a key serves one half-gate or row in all lanes of a chunk.
//!
//! All slices of labels have the same length, a multiple of [`GROUP`]; callers pad. Tables are plain bytes:
//! for each gate the generator's halves of all lanes, then the evaluator's.
//!
//! ```text
//! portable   safe, on the aes crate: the meaning of the other two
//! aesni      one block per instruction
//! vaes       four blocks per instruction
//! ```

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "x86_64")]
mod lockstep;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vaes;

use zeroize::Zeroize;

use crate::cpu::CpuFeatures;

/// Lanes are padded to a multiple of this, the number that the widest kernel takes at a time.
pub(crate) const GROUP: usize = 16;

/// Round keys of sixteen consecutive keys: `rounds[round][key]`.
#[derive(Clone, Default, Zeroize)]
#[repr(align(64))]
pub(crate) struct KeyBatch {
    rounds: [[u128; KeyBatch::KEYS]; 11],
}

impl KeyBatch {
    /// Keys in a batch.
    pub(crate) const KEYS: usize = 16;
}

/// sigma(L || R) = (L xor R) || L, a linear permutation without which the hash gives the offset away.
pub(crate) fn sigma(label: u128) -> u128 {
    label.rotate_left(64) ^ (label & (u128::MAX << 64))
}

/// The labels an AND gate reads: `out = shared xor ((left xor shared) and (right xor shared))`.
///
/// Without a shared wire this is AND, with one it is the majority of three, an adder's carry.
pub(crate) struct AndInputs<'a> {
    pub(crate) left: &'a [u128],
    pub(crate) right: &'a [u128],
    pub(crate) shared: Option<&'a [u128]>,
}

/// What the garbler's projection row of one bit adds up, each label lane holding two 64-bit pieces.
///
/// Piece j of a lane projects the bit onto `weight * k_j`, where k_j is given by two masks:
/// `((weight & keep) ^ negate) - negate`.
pub(crate) struct RowWeights<'a> {
    pub(crate) weight: u64,
    pub(crate) keep: &'a [u128],
    pub(crate) negate: &'a [u128],
}

/// The fastest set of routines that a processor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    AesNi,
    #[cfg(target_arch = "x86_64")]
    Vaes,
}

/// Calls the routine of the level; the two intrinsic levels exist only where the processor was found to have
/// them.
macro_rules! dispatch {
    ($kernel:expr, $routine:ident ( $($argument:expr),* )) => {
        match $kernel.0 {
            Level::Portable => portable::$routine($($argument),*),
            // SAFETY: `Kernel::for_cpu` gives this level only where AES-NI and AVX2 were detected.
            #[cfg(target_arch = "x86_64")]
            Level::AesNi => unsafe { aesni::$routine($($argument),*) },
            // SAFETY: `Kernel::for_cpu` gives this level only where VAES and AVX-512 F, BW, DQ, VL were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Vaes => unsafe { vaes::$routine($($argument),*) },
        }
    };
}

impl Kernel {
    /// The best kernel within these features. Features that this processor lacks are not believed.
    pub(crate) fn for_cpu(features: CpuFeatures) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let detected = CpuFeatures::detect();
            if features.vaes512 && features.aes && detected.vaes512 && detected.aes {
                return Self(Level::Vaes);
            }
            if features.avx2 && features.aes && detected.avx2 && detected.aes {
                return Self(Level::AesNi);
            }
        }
        let _ = features;
        Self(Level::Portable)
    }

    /// Schedules of the keys `base xor (counter + j)`, j from 0 to 15.
    pub(crate) fn expand(self, base: u128, counter: u64, keys: &mut KeyBatch) {
        let mut raw = [0; KeyBatch::KEYS];
        for (key, step) in raw.iter_mut().zip(0_u64..) {
            *key = base ^ u128::from(counter.wrapping_add(step));
        }
        dispatch!(self, expand(&raw, keys));
    }

    /// `out[j] = H(key, labels[j])`.
    pub(crate) fn hash(self, keys: &KeyBatch, key: usize, labels: &[u128], out: &mut [u128]) {
        check(key, &[labels.len(), out.len()]);
        dispatch!(self, hash(keys, key, labels, out));
    }

    /// `out[j] = AES(nonce xor j)` under the first key of the batch.
    pub(crate) fn keystream(self, keys: &KeyBatch, nonce: u128, out: &mut [u128]) {
        check(0, &[out.len()]);
        dispatch!(self, keystream(keys, nonce, out));
    }

    /// Writes the zero labels of the output wire and the tables of the gate, under keys `key` and `key + 1`.
    pub(crate) fn garble_and(
        self,
        keys: &KeyBatch,
        key: usize,
        offset: u128,
        inputs: &AndInputs<'_>,
        out: &mut [u128],
        tables: &mut [u8],
    ) {
        check_and(key, inputs, out.len(), tables.len());
        dispatch!(self, garble_and(keys, key, offset, inputs, out, tables));
    }

    /// Writes the active labels of the output wire.
    pub(crate) fn evaluate_and(
        self,
        keys: &KeyBatch,
        key: usize,
        inputs: &AndInputs<'_>,
        out: &mut [u128],
        tables: &[u8],
    ) {
        check_and(key, inputs, out.len(), tables.len());
        dispatch!(self, evaluate_and(keys, key, inputs, out, tables));
    }

    /// Writes the rows of one bit and adds its part of the masks to `sums`; arithmetic is on 64-bit pieces.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn garble_row(
        self,
        keys: &KeyBatch,
        key: usize,
        offset: u128,
        zero_labels: &[u128],
        weights: &RowWeights<'_>,
        rows: &mut [u128],
        sums: &mut [u128],
    ) {
        let lanes = zero_labels.len();
        check(key, &[lanes, rows.len(), sums.len(), weights.keep.len(), weights.negate.len()]);
        dispatch!(self, garble_row(keys, key, offset, zero_labels, weights, rows, sums));
    }

    /// Adds the hash of the active label, and the row where its color is one, to `sums`.
    pub(crate) fn evaluate_row(
        self,
        keys: &KeyBatch,
        key: usize,
        labels: &[u128],
        rows: &[u128],
        sums: &mut [u128],
    ) {
        check(key, &[labels.len(), rows.len(), sums.len()]);
        dispatch!(self, evaluate_row(keys, key, labels, rows, sums));
    }

    /// Encrypts eight registers of blocks `passes` times without touching memory: what AES can do at best.
    /// Returns the number of blocks, and one of them for the compiler's sake.
    pub(crate) fn encrypt_registers(self, keys: &KeyBatch, passes: usize) -> (usize, u128) {
        dispatch!(self, encrypt_registers(keys, passes))
    }

    /// `out = first xor second (xor third)`.
    pub(crate) fn xor(self, first: &[u128], second: &[u128], third: Option<&[u128]>, out: &mut [u128]) {
        check(0, &[first.len(), second.len(), third.unwrap_or(first).len(), out.len()]);
        dispatch!(self, xor(first, second, third, out));
    }
}

fn check(key: usize, lengths: &[usize]) {
    assert!(key < KeyBatch::KEYS, "a batch has sixteen keys");
    assert!(lengths.iter().all(|length| *length == lengths[0]), "lanes differ between the wires of a gate");
    assert!(lengths[0].is_multiple_of(GROUP), "lanes are padded to whole groups");
}

fn check_and(key: usize, inputs: &AndInputs<'_>, lanes: usize, table_bytes: usize) {
    let shared = inputs.shared.unwrap_or(inputs.left);
    check(key + 1, &[lanes, inputs.left.len(), inputs.right.len(), shared.len()]);
    assert!(table_bytes == 32 * lanes, "a gate has two halves of 16 bytes per lane");
}
