//! The inner loops of the extension: streams from leaves, columns from streams, labels from columns.
//!
//! A block is 2048 transfers. For each tree, [`Engine`] expands every leaf to 2048 bits and adds the streams up into
//! the tree's four or eight columns (bit b of a leaf's number decides whether it enters column b) and, at the
//! receiver, into their sum, which the choices correct. Leaves are added up sixteen at a time: what a group adds to
//! the lower four columns, and its sum, which enters the upper ones whole. So a stream takes two or three additions
//! whatever the depth. A transposition turns 128 columns of 2048 bits into 2048 labels. All levels give the same
//! bits; `unsafe` is loads and stores in `kernel/avx2.rs` and `kernel/avx512.rs`, and the calls into them after
//! detection.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod schedule;

use zeroize::{Zeroize, Zeroizing};

use crate::cpu::CpuFeatures;
use crate::ot::base::BASE_TRANSFERS;
use crate::ot::depth::Depth;
use crate::ot::tree::Leaves;
use crate::secret::{Secret, Wipe};

/// Transfers in one block.
pub(in crate::ot) const BLOCK: usize = 2048;
/// Cipher blocks of one leaf that one block of transfers uses up.
pub(in crate::ot) const CIPHERS_PER_BLOCK: usize = BLOCK / 128;
/// Columns of the matrix: bits of a label.
pub(in crate::ot) const COLUMNS: usize = BASE_TRANSFERS;
/// Leaves that are added up together: a whole tree of depth 4, a sixteenth of one of depth 8.
const GROUP: usize = 1 << GROUP_BITS;
/// Bits of a leaf's number within its group.
const GROUP_BITS: usize = 4;
/// Trees of the shallowest extension, which has most.
const MAXIMUM_TREES: usize = Depth::Four.trees();

/// A polynomial over two elements of degree below 256, low half first.
pub(in crate::ot) type Product = [u128; 2];

/// 2048 bits, transfer 0 in the lowest bit of the first word.
pub(in crate::ot) type Strip = [u128; CIPHERS_PER_BLOCK];

/// 512 transfers of every column, a unit that stays in the first-level cache while it is transposed.
type Quarter = [[u128; 4]; COLUMNS];

/// Where one block is worked on. Boxed once per chunk, wiped on drop.
#[repr(C, align(64))]
pub(in crate::ot) struct Workspace {
    columns: [Quarter; 4],
    /// One strip per tree: made by the receiver, taken by the sender.
    corrections: [Strip; MAXIMUM_TREES],
    /// The receiver's choices.
    pub(in crate::ot) choices: Strip,
}

impl Workspace {
    pub(in crate::ot) fn new() -> Box<Self> {
        Box::new(Self {
            columns: [[[0; 4]; COLUMNS]; 4],
            corrections: [[0; 16]; MAXIMUM_TREES],
            choices: [0; 16],
        })
    }

    /// One strip for each tree of this depth.
    pub(in crate::ot) fn corrections(&self, depth: Depth) -> &[Strip] {
        &self.corrections[..depth.trees()]
    }

    /// The same, to be loaded.
    pub(in crate::ot) fn corrections_mut(&mut self, depth: Depth) -> &mut [Strip] {
        &mut self.corrections[..depth.trees()]
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.columns.as_flattened_mut().as_flattened_mut().wipe();
        self.corrections.as_flattened_mut().wipe();
        self.choices.wipe();
    }
}

/// The keyed streams of all leaves, and the kernels that work on them.
pub(in crate::ot) struct Engine {
    depth: Depth,
    streams: Streams,
}

/// The keyed streams in the form the best kernel of this processor wants.
enum Streams {
    /// Safe code on the `aes` crate.
    Portable(Vec<portable::LeafCipher>),
    /// AES-NI and AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Vec<schedule::RoundKeys>),
    /// VAES and AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(Vec<schedule::RoundKeys>),
}

impl Engine {
    /// Keys the streams. Features that this processor lacks are ignored, whatever the caller claims.
    pub(in crate::ot) fn new(cpu: CpuFeatures, leaves: &Leaves) -> Self {
        Self { depth: leaves.depth, streams: Streams::new(cpu, leaves) }
    }

    /// How deep the trees are.
    pub(in crate::ot) fn depth(&self) -> Depth {
        self.depth
    }

    /// The receiver's columns of one block, and the corrections that turn the trees' own sums into its
    /// choices.
    pub(in crate::ot) fn receiver_columns(&self, first_cipher: u64, workspace: &mut Workspace) {
        match &self.streams {
            Streams::Portable(leaves) => {
                portable::receiver_columns(self.depth, leaves, first_cipher, workspace)
            }
            // SAFETY: `new` makes this variant only where AES-NI and AVX2 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx2(leaves) => unsafe {
                avx2::receiver_columns(self.depth, leaves, first_cipher, workspace)
            },
            // SAFETY: `new` makes this variant only where VAES and AVX-512 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx512(leaves) => unsafe {
                avx512::receiver_columns(self.depth, leaves, first_cipher, workspace)
            },
        }
    }

    /// The sender's columns of one block, corrected where its offset has a one.
    pub(in crate::ot) fn sender_columns(&self, first_cipher: u64, offset: u128, workspace: &mut Workspace) {
        match &self.streams {
            Streams::Portable(leaves) => {
                portable::sender_columns(self.depth, leaves, first_cipher, offset, workspace)
            }
            // SAFETY: `new` makes this variant only where AES-NI and AVX2 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx2(leaves) => unsafe {
                avx2::sender_columns(self.depth, leaves, first_cipher, offset, workspace)
            },
            // SAFETY: `new` makes this variant only where VAES and AVX-512 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx512(leaves) => unsafe {
                avx512::sender_columns(self.depth, leaves, first_cipher, offset, workspace)
            },
        }
    }

    /// Turns the columns of the workspace into labels, as many of the block as asked for.
    pub(in crate::ot) fn transpose_into(&self, workspace: &Workspace, labels: &mut [u128]) {
        if let Ok(labels) = labels.try_into() {
            return self.transpose(workspace, labels);
        }
        let mut block = Box::new(Secret::new([0; BLOCK]));
        self.transpose(workspace, block.expose_mut());
        labels.copy_from_slice(&block.expose()[..labels.len()]);
    }

    /// Turns labels into their columns, 128 at a time: word c of a square holds bit c of its labels. Missing labels are
    /// zeros.
    pub(in crate::ot) fn columns_of(&self, labels: &[u128], mut each: impl FnMut(&[u128; COLUMNS])) {
        let mut rows = Box::new(Zeroizing::new([[0; 4]; COLUMNS]));
        let mut columns = Box::new(Zeroizing::new([0; 4 * COLUMNS]));
        for labels in labels.chunks(4 * COLUMNS) {
            rows.as_flattened_mut().fill(0);
            for (index, label) in labels.iter().enumerate() {
                rows[index % COLUMNS][index / COLUMNS] = *label;
            }
            self.transpose_quarter(&rows, &mut columns);
            columns.as_chunks().0.iter().take(labels.len().div_ceil(COLUMNS)).for_each(&mut each);
        }
    }

    /// Adds to each sum the product of its word with the factor: polynomials over two elements, products unreduced.
    pub(in crate::ot) fn multiply_add(&self, sums: &mut [Product], words: &[u128], factor: u128) {
        match &self.streams {
            Streams::Portable(_) => {
                sums.iter_mut().zip(words).for_each(|(sum, word)| portable::multiply_add(sum, *word, factor));
            }
            // SAFETY: `new` makes these variants only where AES-NI is detected, which comes with PCLMULQDQ.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx2(_) | Streams::Avx512(_) => unsafe { avx2::multiply_add(sums, words, factor) },
        }
    }

    /// Turns the columns of the workspace into labels.
    fn transpose(&self, workspace: &Workspace, labels: &mut [u128; BLOCK]) {
        let quarters = workspace.columns.iter().zip(labels.as_chunks_mut().0);
        quarters.for_each(|(columns, labels)| self.transpose_quarter(columns, labels));
    }

    fn transpose_quarter(&self, columns: &Quarter, labels: &mut [u128; 512]) {
        match &self.streams {
            Streams::Portable(_) => portable::transpose(columns, labels),
            // SAFETY: `new` makes this variant only where AES-NI and AVX2 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx2(_) => unsafe { avx2::transpose(columns, labels) },
            // SAFETY: `new` makes this variant only where VAES and AVX-512 are detected.
            #[cfg(target_arch = "x86_64")]
            Streams::Avx512(_) => unsafe { avx512::transpose(columns, labels) },
        }
    }
}

impl Engine {
    /// Bytes that the keyed streams of the deepest engine take on this processor.
    pub(in crate::ot) fn most_bytes() -> usize {
        let leaves = Depth::Eight.trees() * Depth::Eight.leaves();
        #[cfg(target_arch = "x86_64")]
        {
            let cpu = CpuFeatures::available();
            if cpu.avx2 && cpu.aes {
                return leaves * size_of::<schedule::RoundKeys>();
            }
        }
        leaves * size_of::<portable::LeafCipher>()
    }
}

impl Streams {
    fn new(cpu: CpuFeatures, leaves: &Leaves) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let detected = CpuFeatures::detect();
            let may = |wanted: fn(&CpuFeatures) -> bool| wanted(&cpu) && wanted(&detected);
            // SAFETY: AES-NI is detected before either schedule is made.
            let schedules = || leaves.keys.iter().map(|leaf| unsafe { schedule::expand(leaf) }).collect();
            if may(|cpu| cpu.vaes512 && cpu.avx512 && cpu.aes) {
                return Self::Avx512(schedules());
            }
            if may(|cpu| cpu.avx2 && cpu.aes) {
                return Self::Avx2(schedules());
            }
        }
        let _ = cpu;
        Self::Portable(leaves.keys.iter().map(portable::LeafCipher::new).collect())
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        match self {
            // The ciphers of the `aes` crate wipe themselves.
            Self::Portable(leaves) => leaves.iter_mut().for_each(Zeroize::zeroize),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(leaves) | Self::Avx512(leaves) => leaves.zeroize(),
        }
    }
}

/// All ones where bit `index` of the offset is set, else zero.
fn offset_mask(offset: u128, index: usize) -> u64 {
    ((offset >> index) as u64 & 1).wrapping_neg()
}

#[cfg(test)]
mod tests;
