//! The receiver: it knows every leaf, chooses, and gets one label per transfer.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::check::{self, Check, Corrected, MASKING};
use super::{Corrections, Counter, Range, load_strip, strips_length};
use crate::cpu::CpuFeatures;
use crate::ot::base::{BaseSender, BaseSenderKeys, ReceiverPoints, SenderPoint};
use crate::ot::depth::Depth;
use crate::ot::error::OtError;
use crate::ot::kernel::{BLOCK, CIPHERS_PER_BLOCK, Engine, Workspace};
use crate::ot::tree::{self, TreeSums};
use crate::ot::values::{Labels, SecretBits, check_count, opaque_debug};
use crate::random::{Generator, Seed, SessionId};

/// The receiver while it waits for the base receiver's points. In the base transfers it is the sender.
pub struct ReceiverSetup {
    session: SessionId,
    depth: Depth,
    base: BaseSender,
}

impl ReceiverSetup {
    /// Opens the setup of an extension with trees of this depth, which the sender must know too.
    pub fn start(session: SessionId, depth: Depth, generator: &mut Generator) -> (SenderPoint, Self) {
        let (message, base) = BaseSender::start(session, generator);
        (message, Self { session, depth, base })
    }

    /// Grows the trees and hands the sender all but one leaf of each.
    ///
    /// # Errors
    /// When the peer's points are unusable.
    pub fn finish(
        self,
        answer: &ReceiverPoints,
        generator: &mut Generator,
    ) -> Result<(TreeSums, CorrelatedReceiver), OtError> {
        let keys = self.base.finish(answer)?;
        let cpu = CpuFeatures::available();
        Ok(CorrelatedReceiver::from_base(self.session, self.depth, &keys, generator, cpu))
    }
}

/// The receiver's state: all leaves and a counter that only moves forward.
///
/// Two chunks from one place of the streams would show the sender the sum of their choices, so the state can
/// be neither cloned nor saved. After a crash there are new base transfers and a new offset.
///
/// ```
/// fn moves_to_a_thread<State: Send>() {}
/// moves_to_a_thread::<sordino_crypto::ot::extension::CorrelatedReceiver>();
/// ```
/// ```compile_fail,E0277
/// fn has_a_second_copy<State: Clone>() {}
/// has_a_second_copy::<sordino_crypto::ot::extension::CorrelatedReceiver>();
/// ```
pub struct CorrelatedReceiver {
    keys: Arc<Keys>,
    counter: Counter,
}

/// What all chunks of a state share.
pub(super) struct Keys {
    engine: Engine,
    /// Where the choices of masking transfers come from.
    masking: Seed,
}

impl CorrelatedReceiver {
    /// Grows the trees on base keys that are there already.
    pub(in crate::ot) fn from_base(
        session: SessionId,
        depth: Depth,
        keys: &BaseSenderKeys,
        generator: &mut Generator,
        cpu: CpuFeatures,
    ) -> (TreeSums, Self) {
        let (sums, leaves) = tree::grow(session, depth, keys, generator);
        let keys = Keys { engine: Engine::new(cpu, &leaves), masking: generator.seed() };
        (sums, Self { keys: Arc::new(keys), counter: Counter::new(session) })
    }

    /// How deep the trees are.
    pub fn depth(&self) -> Depth {
        self.keys.engine.depth()
    }

    /// Takes the next `count` transfers from the streams. The sender must take the same count at the same
    /// turn.
    ///
    /// # Errors
    /// When the count is zero or above [`super::MAXIMUM_CHUNK`], or the state is exhausted.
    pub fn next_chunk(&mut self, count: usize) -> Result<ReceiverChunk, OtError> {
        Ok(ReceiverChunk { keys: Arc::clone(&self.keys), range: self.counter.take(count)? })
    }

    /// Takes the next chunk and spends it on these choices.
    ///
    /// # Errors
    /// As [`Self::next_chunk`].
    pub fn extend(&mut self, choices: SecretBits) -> Result<(Corrections, ReceiverLabels), OtError> {
        self.next_chunk(choices.count())?.extend(choices)
    }
}

/// A range of transfers to be spent on one set of choices, here or on another thread.
///
/// ```compile_fail,E0277
/// fn has_a_second_copy<Chunk: Clone>() {}
/// has_a_second_copy::<sordino_crypto::ot::extension::ReceiverChunk>();
/// ```
pub struct ReceiverChunk {
    keys: Arc<Keys>,
    range: Range,
}

impl ReceiverChunk {
    /// How many transfers the chunk has.
    pub fn count(&self) -> usize {
        self.range.count
    }

    /// Makes the message for the sender, and this side's labels with the choices they belong to.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] when there are not as many choices as transfers; the chunk is lost then.
    pub fn extend(self, choices: SecretBits) -> Result<(Corrections, ReceiverLabels), OtError> {
        let mut labels = Labels::zeroed(self.range.count);
        let corrections = self.extend_into(&choices, &mut labels)?;
        Ok((corrections, ReceiverLabels { labels, choices }))
    }

    /// Like [`Self::extend`], into a buffer of the caller that can be used again.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] when there are not as many choices or places as transfers; the chunk is lost
    /// then.
    pub fn extend_into(self, choices: &SecretBits, labels: &mut [u128]) -> Result<Corrections, OtError> {
        check_count(self.range.count, choices.count())?;
        self.expand_into(labels)?.correct(choices, labels)
    }

    /// Does all the work that needs no choices yet, labels included.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] when there are not as many places as transfers; the chunk is lost then.
    pub fn expand_into(self, labels: &mut [u128]) -> Result<ExpandedChunk, OtError> {
        let (count, engine) = (self.range.count, &self.keys.engine);
        check_count(count, labels.len())?;
        let depth = engine.depth();
        // The last strip is written whole before it is cut.
        let bytes = Vec::with_capacity(Corrections::byte_length(count, depth) + BLOCK / 8);
        let mut sums = Corrections { count, depth, bytes };
        let mut workspace = Workspace::new();
        for (block, labels) in labels.chunks_mut(BLOCK).enumerate() {
            let first_cipher = self.range.first_cipher + (block * CIPHERS_PER_BLOCK) as u64;
            engine.receiver_columns(first_cipher, &mut workspace);
            sums.push_block(labels.len(), workspace.corrections(depth));
            engine.transpose_into(&workspace, labels);
        }
        let masking_choices = check::masking_choices(&self.keys.masking, &self.range);
        load_strip(&mut workspace.choices, &*masking_choices);
        engine.receiver_columns(self.range.masking_cipher(), &mut workspace);
        sums.push_block(MASKING, workspace.corrections(depth));
        let mut masking = Labels::zeroed(MASKING);
        engine.transpose_into(&workspace, &mut masking);
        let ReceiverChunk { keys, range } = self;
        Ok(ExpandedChunk { keys, range, sums, masking, masking_choices })
    }
}

/// A chunk whose labels are there and whose choices are still to come: the sums of the trees' streams. It makes one
/// message and is spent by it; sent as it is, or for two sets of choices, it would show them.
///
/// ```compile_fail,E0277
/// fn has_a_second_copy<Chunk: Clone>() {}
/// has_a_second_copy::<sordino_crypto::ot::extension::ExpandedChunk>();
/// ```
pub struct ExpandedChunk {
    keys: Arc<Keys>,
    range: Range,
    /// Corrections for choices that are all zero, but for the masking transfers'; no check yet.
    sums: Corrections,
    masking: Labels,
    masking_choices: Zeroizing<[u8; MASKING / 8]>,
}

impl ExpandedChunk {
    /// Makes the message for the sender; the labels are those that the expansion wrote.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] when there are not as many choices or labels as transfers; the chunk is lost then.
    pub fn correct(self, choices: &SecretBits, labels: &[u128]) -> Result<Corrections, OtError> {
        let mut corrections = self.sums;
        check_count(corrections.count, choices.count())?;
        check_count(corrections.count, labels.len())?;
        let (strips, block) = (corrections.strips_length(), strips_length(BLOCK, corrections.depth));
        let blocks = corrections.bytes[..strips].chunks_mut(block);
        for (block, choices) in blocks.zip(choices.expose().chunks(BLOCK / 8)) {
            for strip in block.chunks_exact_mut(choices.len()) {
                strip.iter_mut().zip(choices).for_each(|(sum, choice)| *sum ^= choice);
            }
        }
        let corrected = Corrected::new(&self.keys.engine, &self.range, &corrections.bytes);
        let mask = u128::from_le_bytes(*self.masking_choices);
        let check = Check::make(&corrected, [labels, &self.masking], choices.expose(), mask);
        corrections.bytes.extend_from_slice(&check.to_bytes());
        Ok(corrections)
    }
}

/// The receiver's outcome of one chunk: label `T_j` and choice `b_j` of each transfer.
pub struct ReceiverLabels {
    labels: Labels,
    choices: SecretBits,
}

impl ReceiverLabels {
    /// One label per transfer.
    pub fn labels(&self) -> &[u128] {
        &self.labels
    }

    /// The choices they were made with.
    pub fn choices(&self) -> &SecretBits {
        &self.choices
    }
}

opaque_debug!(ReceiverSetup, CorrelatedReceiver, ReceiverChunk, ExpandedChunk, ReceiverLabels);

/// The labels of a chunk's masking transfers once more, for the test that cheats with them.
#[cfg(test)]
pub(super) fn masking_labels(keys: &Keys, range: &Range) -> Labels {
    let mut workspace = Workspace::new();
    keys.engine.receiver_columns(range.masking_cipher(), &mut workspace);
    let mut masking = Labels::zeroed(MASKING);
    keys.engine.transpose_into(&workspace, &mut masking);
    masking
}

#[cfg(test)]
impl Keys {
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn masking(&self) -> &Seed {
        &self.masking
    }
}

#[cfg(test)]
impl ReceiverChunk {
    pub(super) fn parts_for_attack(self) -> (Arc<Keys>, Range) {
        (self.keys, self.range)
    }

    /// A second chunk over the same range, which the product never makes: for the test that shows why.
    pub(super) fn twin_for_attack(chunk: &Self) -> Self {
        let Range { session, first_cipher, count } = chunk.range;
        Self { keys: Arc::clone(&chunk.keys), range: Range { session, first_cipher, count } }
    }
}
