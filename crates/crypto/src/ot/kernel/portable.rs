//! The safe twin of the kernels: the `aes` crate and integer arithmetic.

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use zeroize::{Zeroize, Zeroizing};

use super::{CIPHERS_PER_BLOCK, GROUP, GROUP_BITS, Product, Quarter, Strip, Workspace, offset_mask};
use crate::ot::depth::Depth;
use crate::ot::tree::LeafKey;

/// The keyed stream of one leaf.
pub(in crate::ot) struct LeafCipher {
    /// Wipes itself on drop.
    cipher: Aes128,
    whitening: u128,
}

impl LeafCipher {
    pub(super) fn new(leaf: &LeafKey) -> Self {
        Self { cipher: Aes128::new(&Array(leaf.key)), whitening: leaf.whitening }
    }

    /// 2048 bits of the stream from cipher block `first` on.
    pub(super) fn stream(&self, first: u64) -> Strip {
        let counter = |index: usize| u128::from(first + index as u64) ^ self.whitening;
        let mut blocks: [_; CIPHERS_PER_BLOCK] =
            std::array::from_fn(|index| Array(counter(index).to_le_bytes()));
        self.cipher.encrypt_blocks(&mut blocks);
        blocks.map(|block| u128::from_le_bytes(block.0))
    }
}

impl Zeroize for LeafCipher {
    fn zeroize(&mut self) {
        self.whitening.zeroize();
    }
}

pub(super) fn receiver_columns(depth: Depth, leaves: &[LeafCipher], first: u64, workspace: &mut Workspace) {
    for (tree, leaves) in leaves.chunks_exact(depth.leaves()).enumerate() {
        let Folded { sum, columns } = &*Zeroizing::new(fold(leaves, 0, first));
        for (correction, (sum, choices)) in
            workspace.corrections[tree].iter_mut().zip(sum.iter().zip(&workspace.choices))
        {
            *correction = sum ^ choices;
        }
        for (bit, column) in columns[..depth.bits()].iter().enumerate() {
            put_column(workspace, tree * depth.bits() + bit, column);
        }
    }
}

pub(super) fn sender_columns(
    depth: Depth,
    leaves: &[LeafCipher],
    first: u64,
    offset: u128,
    workspace: &mut Workspace,
) {
    for (tree, leaves) in leaves.chunks_exact(depth.leaves()).enumerate() {
        // Leaf 0 is the one the sender does not know; it enters no column.
        let Folded { columns, .. } = &mut *Zeroizing::new(fold(leaves, 1, first));
        for (bit, column) in columns[..depth.bits()].iter_mut().enumerate() {
            let mask = u128::from(offset_mask(offset, tree * depth.bits() + bit));
            let mask = mask | mask << 64;
            for (word, correction) in column.iter_mut().zip(&workspace.corrections[tree]) {
                *word ^= mask & correction;
            }
            put_column(workspace, tree * depth.bits() + bit, column);
        }
    }
}

/// The sum of some streams, and for each bit the sum of those whose leaf's number has it.
#[derive(Default, Zeroize)]
struct Folded {
    sum: Strip,
    columns: [Strip; Depth::Eight.bits()],
}

/// All streams of a tree from leaf `from` on, which is in the first group.
fn fold(leaves: &[LeafCipher], from: usize, first: u64) -> Folded {
    let mut folded = Folded::default();
    for (number, group) in leaves.chunks_exact(GROUP).enumerate() {
        let skipped = if number == 0 { from } else { 0 };
        let mut sum = Zeroizing::new(Strip::default());
        let (lower, upper) = folded.columns.split_at_mut(GROUP_BITS);
        for (within, leaf) in group.iter().enumerate().skip(skipped) {
            let stream = Zeroizing::new(leaf.stream(first));
            add(&mut sum, &stream);
            add_where_set(lower, within, &stream);
        }
        add(&mut folded.sum, &sum);
        add_where_set(upper, number, &sum);
    }
    folded
}

/// Adds the strip to the columns of the bits that are set in a public number.
fn add_where_set(columns: &mut [Strip], number: usize, strip: &Strip) {
    for (bit, column) in columns.iter_mut().enumerate() {
        if number >> bit & 1 == 1 {
            add(column, strip);
        }
    }
}

fn add(sum: &mut Strip, stream: &Strip) {
    for (sum, word) in sum.iter_mut().zip(stream) {
        *sum ^= word;
    }
}

fn put_column(workspace: &mut Workspace, column: usize, strip: &Strip) {
    for (quarter, words) in workspace.columns.iter_mut().zip(strip.as_chunks().0) {
        quarter[column] = *words;
    }
}

/// 128 columns of 512 bits to 512 labels: four squares of 128 bits, each transposed by halving (Hacker's
/// Delight, section 7-3).
pub(super) fn transpose(columns: &Quarter, labels: &mut [u128; 512]) {
    for (square, labels) in labels.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        for (label, column) in labels.iter_mut().zip(columns) {
            *label = column[square];
        }
        transpose_square(labels);
    }
}

/// Adds the product of a word with a public factor: schoolbook, a bit of the factor at a time.
pub(super) fn multiply_add(sum: &mut Product, word: u128, factor: u128) {
    for bit in 0..128 {
        let mask = (factor >> bit & 1).wrapping_neg();
        sum[0] ^= (word << bit) & mask;
        sum[1] ^= (word >> 1 >> (127 - bit)) & mask;
    }
}

fn transpose_square(rows: &mut [u128; 128]) {
    let mut mask = u128::MAX >> 64;
    let mut distance = 64;
    while distance > 0 {
        for start in (0..128).step_by(2 * distance) {
            for row in start..start + distance {
                let swapped = (rows[row] >> distance ^ rows[row + distance]) & mask;
                rows[row + distance] ^= swapped;
                rows[row] ^= swapped << distance;
            }
        }
        distance /= 2;
        mask ^= mask << distance;
    }
}
