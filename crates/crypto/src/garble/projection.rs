//! Projection rows: turning bits on wires into an additive share without a gate.
//!
//! After Ball, Malkin, Rosulek: Garbling gadgets for Boolean and arithmetic circuits (CCS 2016), section 4,
//! here as a sum of bits times a select bit. All arithmetic is modulo two to the bits of an entry; [c] is the
//! label of color c, p the color of the zero label, H_1 and H_2 the two halves of one hash.
//!
//! ```text
//! garbler     R_ij = H_j(X_i[0]) - H_j(X_i[1]) + k_j 2^i (1 - 2 p_i)       (k_1, k_2) = (p_v, 1 - 2 p_v)
//!             M_j  = sum_i (H_j(X_i[0]) - k_j 2^i p_i)
//!             R_v  = H(V[0]) - H(V[1]) - M_2                                keeps m = M_1 + H(V[0])
//!                                        rows R_ij, R_v  -->
//! evaluator   E_j  = sum_i (H_j(X_i) + c_i R_ij)
//!             S    = E_1 + H(V) + c_v (R_v + E_2) = v X + m
//! ```
//!
//! Plain terms, which no wire selects, are rows of one piece with k_1 = 1. Every row holds the hash of one
//! label that the evaluator lacks, and no other message holds that hash, save M_2 inside R_v, which the hash
//! of V's missing label hides: all rows are jointly uniform.

use super::circuit::{Projection, Selection, Term};
use super::hash::KeyStream;
use super::kernel::{Kernel, RowWeights};
use super::workspace::{Labels, Scratch};

/// What both sides need to walk the rows of a chunk.
pub(super) struct RowContext<'a> {
    pub(super) kernel: Kernel,
    pub(super) keys: &'a mut KeyStream,
    pub(super) labels: &'a Labels,
    pub(super) scratch: &'a mut Scratch,
    pub(super) lanes: usize,
}

const LOW: u128 = u64::MAX as u128;
const HIGH: u128 = !LOW;

fn color_mask(label: u128) -> u128 {
    (label & 1).wrapping_neg()
}

impl RowContext<'_> {
    /// Writes all rows; returns the mask m of each lane, of which the low bits count.
    pub(super) fn garble(&mut self, projection: &Projection, offset: u128, tables: &mut [u8]) -> Vec<u64> {
        let entry = projection.entry_bytes();
        let mut tables = tables;
        let mut masks = vec![0_u64; self.lanes];
        if let Some(selection) = &projection.selected {
            let (rows, rest) = tables.split_at_mut(self.lanes * entry * (2 * selection.terms.len() + 1));
            self.garble_selection(selection, offset, entry, rows, &mut masks);
            tables = rest;
        }
        self.scratch.keep.fill(LOW);
        self.scratch.negate.fill(0);
        self.scratch.sums.fill(0);
        for (term, rows) in projection.plain.iter().zip(tables.chunks_exact_mut(self.lanes * entry)) {
            self.garble_term(term, offset);
            write_low(&self.scratch.rows[..self.lanes], entry, rows);
        }
        for (mask, sum) in masks.iter_mut().zip(&self.scratch.sums) {
            *mask = mask.wrapping_add(*sum as u64);
        }
        masks
    }

    fn garble_selection(
        &mut self,
        selection: &Selection,
        offset: u128,
        entry: usize,
        tables: &mut [u8],
        masks: &mut [u64],
    ) {
        let select = self.labels.of(selection.select.index());
        for (lane, label) in select.iter().enumerate() {
            // k_1 = p_v in the low piece, k_2 = 1 - 2 p_v in the high one.
            let permute = color_mask(*label);
            self.scratch.keep[lane] = permute & LOW | HIGH;
            self.scratch.negate[lane] = permute & HIGH;
        }
        self.scratch.sums.fill(0);
        let (bits, last) = tables.split_at_mut(self.lanes * 2 * entry * selection.terms.len());
        for (term, rows) in selection.terms.iter().zip(bits.chunks_exact_mut(self.lanes * 2 * entry)) {
            self.garble_term(term, offset);
            write_both(&self.scratch.rows[..self.lanes], entry, rows);
        }
        self.garble_select(select, offset);
        let Scratch { rows, sums, select_sums, .. } = &mut *self.scratch;
        for (lane, mask) in masks.iter_mut().enumerate() {
            let second = (sums[lane] >> 64) as u64;
            rows[lane] = u128::from((rows[lane] as u64).wrapping_sub(second));
            *mask = (sums[lane] as u64).wrapping_add(select_sums[lane] as u64);
        }
        write_low(&rows[..self.lanes], entry, last);
    }

    fn garble_term(&mut self, term: &Term, offset: u128) {
        let (keys, key) = self.keys.take(1);
        let Scratch { rows, sums, keep, negate, .. } = &mut *self.scratch;
        let weights = RowWeights { weight: term.weight, keep, negate };
        let labels = self.labels.of(term.wire.index());
        self.kernel.garble_row(keys, key, offset, labels, &weights, rows, sums);
    }

    /// A row of weight zero: the difference of the two hashes in `rows`, the hash of color 0 in
    /// `select_sums`.
    fn garble_select(&mut self, select: &[u128], offset: u128) {
        let (keys, key) = self.keys.take(1);
        let Scratch { rows, select_sums, keep, negate, .. } = &mut *self.scratch;
        select_sums.fill(0);
        let weights = RowWeights { weight: 0, keep, negate };
        self.kernel.garble_row(keys, key, offset, select, &weights, rows, select_sums);
    }

    /// The masked sum S of each lane, of which the low bits count.
    pub(super) fn evaluate(&mut self, projection: &Projection, tables: &[u8]) -> Vec<u64> {
        let entry = projection.entry_bytes();
        let mut tables = tables;
        let mut totals = vec![0_u64; self.lanes];
        if let Some(selection) = &projection.selected {
            let (rows, rest) = tables.split_at(self.lanes * entry * (2 * selection.terms.len() + 1));
            self.evaluate_selection(selection, entry, rows, &mut totals);
            tables = rest;
        }
        self.scratch.sums.fill(0);
        for (term, rows) in projection.plain.iter().zip(tables.chunks_exact(self.lanes * entry)) {
            read_low(rows, entry, &mut self.scratch.rows[..self.lanes]);
            self.evaluate_term(term);
        }
        for (total, sum) in totals.iter_mut().zip(&self.scratch.sums) {
            *total = total.wrapping_add(*sum as u64);
        }
        totals
    }

    fn evaluate_selection(&mut self, selection: &Selection, entry: usize, tables: &[u8], totals: &mut [u64]) {
        self.scratch.sums.fill(0);
        let (bits, last) = tables.split_at(self.lanes * 2 * entry * selection.terms.len());
        for (term, rows) in selection.terms.iter().zip(bits.chunks_exact(self.lanes * 2 * entry)) {
            read_both(rows, entry, &mut self.scratch.rows[..self.lanes]);
            self.evaluate_term(term);
        }
        let Scratch { rows, sums, select_sums, .. } = &mut *self.scratch;
        select_sums.fill(0);
        read_low(last, entry, &mut rows[..self.lanes]);
        let (keys, key) = self.keys.take(1);
        let select = self.labels.of(selection.select.index());
        self.kernel.evaluate_row(keys, key, select, rows, select_sums);
        for (lane, total) in totals.iter_mut().enumerate() {
            let chosen = (sums[lane] >> 64) & color_mask(select[lane]);
            let first = (sums[lane] as u64).wrapping_add(select_sums[lane] as u64);
            *total = first.wrapping_add(chosen as u64);
        }
    }

    fn evaluate_term(&mut self, term: &Term) {
        let (keys, key) = self.keys.take(1);
        let Scratch { rows, sums, .. } = &mut *self.scratch;
        self.kernel.evaluate_row(keys, key, self.labels.of(term.wire.index()), rows, sums);
    }
}

/// Calls a routine that is compiled for each length of an entry.
macro_rules! by_entry {
    ($entry:expr, $routine:ident ( $($argument:expr),* )) => {
        match $entry {
            1 => $routine::<1>($($argument),*),
            2 => $routine::<2>($($argument),*),
            3 => $routine::<3>($($argument),*),
            4 => $routine::<4>($($argument),*),
            5 => $routine::<5>($($argument),*),
            6 => $routine::<6>($($argument),*),
            7 => $routine::<7>($($argument),*),
            8 => $routine::<8>($($argument),*),
            _ => unreachable!("a ring has 1 to 64 bits"),
        }
    };
}

fn write_low(rows: &[u128], entry: usize, bytes: &mut [u8]) {
    fn write<const ENTRY: usize>(rows: &[u128], bytes: &mut [u8]) {
        for (row, bytes) in rows.iter().zip(bytes.as_chunks_mut::<ENTRY>().0) {
            bytes.copy_from_slice(&(*row as u64).to_le_bytes()[..ENTRY]);
        }
    }
    by_entry!(entry, write(rows, bytes));
}

fn write_both(rows: &[u128], entry: usize, bytes: &mut [u8]) {
    fn write<const ENTRY: usize>(rows: &[u128], bytes: &mut [u8]) {
        for (row, [first, second]) in rows.iter().zip(bytes.as_chunks_mut::<ENTRY>().0.as_chunks_mut::<2>().0)
        {
            first.copy_from_slice(&(*row as u64).to_le_bytes()[..ENTRY]);
            second.copy_from_slice(&((*row >> 64) as u64).to_le_bytes()[..ENTRY]);
        }
    }
    by_entry!(entry, write(rows, bytes));
}

fn widen<const ENTRY: usize>(bytes: &[u8; ENTRY]) -> u128 {
    let mut word = [0; 8];
    word[..ENTRY].copy_from_slice(bytes);
    u128::from(u64::from_le_bytes(word))
}

fn read_low(bytes: &[u8], entry: usize, rows: &mut [u128]) {
    fn read<const ENTRY: usize>(bytes: &[u8], rows: &mut [u128]) {
        for (row, bytes) in rows.iter_mut().zip(bytes.as_chunks::<ENTRY>().0) {
            *row = widen(bytes);
        }
    }
    by_entry!(entry, read(bytes, rows));
}

fn read_both(bytes: &[u8], entry: usize, rows: &mut [u128]) {
    fn read<const ENTRY: usize>(bytes: &[u8], rows: &mut [u128]) {
        for (row, [first, second]) in rows.iter_mut().zip(bytes.as_chunks::<ENTRY>().0.as_chunks::<2>().0) {
            *row = widen(first) | widen(second) << 64;
        }
    }
    by_entry!(entry, read(bytes, rows));
}
