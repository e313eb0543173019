//! The sender: it lacks one leaf of each tree, and its labels differ from the receiver's by the offset or not
//! at all.

use std::sync::Arc;

use super::check::{Corrected, MASKING};
use super::{Corrections, Counter, Range};
use crate::cpu::CpuFeatures;
use crate::ot::base::{self, BaseReceiverKeys, ReceiverPoints, SenderPoint};
use crate::ot::depth::Depth;
use crate::ot::error::OtError;
use crate::ot::kernel::{BLOCK, CIPHERS_PER_BLOCK, Engine, Workspace};
use crate::ot::tree::{self, TreeSums};
use crate::ot::values::{CorrelationOffset, Labels, check_count, opaque_debug};
use crate::random::{Generator, SessionId};

/// The sender while it waits for the tree sums. In the base transfers it is the receiver, and chooses by its
/// offset.
pub struct SenderSetup {
    session: SessionId,
    depth: Depth,
    offset: CorrelationOffset,
    keys: BaseReceiverKeys,
}

impl SenderSetup {
    /// Answers the receiver's point. The offset must be fresh: of this session and no other. The depth is the one that
    /// the receiver started with.
    pub fn start(
        session: SessionId,
        depth: Depth,
        offset: CorrelationOffset,
        offer: &SenderPoint,
        generator: &mut Generator,
    ) -> (ReceiverPoints, Self) {
        let choices = tree::base_choices(depth, &offset);
        let (message, keys) = base::receive(session, choices, offer, generator);
        (message, Self { session, depth, offset, keys })
    }

    /// Rebuilds the trees without their hidden leaves.
    pub fn finish(self, sums: &TreeSums) -> CorrelatedSender {
        let Self { session, depth, offset, keys } = self;
        CorrelatedSender::from_base(session, depth, offset, &keys, sums, CpuFeatures::available())
    }
}

/// The streams of the leaves the sender knows, and the offset that says which it lacks.
struct Keys {
    engine: Engine,
    offset: CorrelationOffset,
}

/// The sender's state: its leaves, its offset and a counter that only moves forward.
///
/// It can be neither cloned nor saved, see [`super::CorrelatedReceiver`].
///
/// ```
/// fn moves_to_a_thread<State: Send>() {}
/// moves_to_a_thread::<sordino_crypto::ot::extension::CorrelatedSender>();
/// ```
/// ```compile_fail,E0277
/// fn has_a_second_copy<State: Clone>() {}
/// has_a_second_copy::<sordino_crypto::ot::extension::CorrelatedSender>();
/// ```
pub struct CorrelatedSender {
    keys: Arc<Keys>,
    counter: Counter,
}

impl CorrelatedSender {
    /// Rebuilds the trees on base keys that are there already.
    pub(in crate::ot) fn from_base(
        session: SessionId,
        depth: Depth,
        offset: CorrelationOffset,
        keys: &BaseReceiverKeys,
        sums: &TreeSums,
        cpu: CpuFeatures,
    ) -> Self {
        let leaves = tree::puncture(session, depth, &offset, keys, sums);
        let engine = Engine::new(cpu, &leaves);
        Self { keys: Arc::new(Keys { engine, offset }), counter: Counter::new(session) }
    }

    /// The offset between the two labels of every transfer.
    pub fn offset(&self) -> &CorrelationOffset {
        &self.keys.offset
    }

    /// How deep the trees are.
    pub fn depth(&self) -> Depth {
        self.keys.engine.depth()
    }

    /// Takes the next `count` transfers from the streams. The receiver must take the same count at the same
    /// turn.
    ///
    /// # Errors
    /// When the count is zero or above [`super::MAXIMUM_CHUNK`], or the state is exhausted.
    pub fn next_chunk(&mut self, count: usize) -> Result<SenderChunk, OtError> {
        Ok(SenderChunk { keys: Arc::clone(&self.keys), range: self.counter.take(count)? })
    }

    /// Takes the next chunk and spends it on these corrections.
    ///
    /// # Errors
    /// As [`Self::next_chunk`].
    pub fn extend(&mut self, corrections: &Corrections) -> Result<SenderLabels, OtError> {
        self.next_chunk(corrections.count())?.extend(corrections)
    }
}

/// A range of transfers that waits for the receiver's corrections, here or on another thread.
///
/// ```compile_fail,E0277
/// fn has_a_second_copy<Chunk: Clone>() {}
/// has_a_second_copy::<sordino_crypto::ot::extension::SenderChunk>();
/// ```
pub struct SenderChunk {
    keys: Arc<Keys>,
    range: Range,
}

impl SenderChunk {
    /// How many transfers the chunk has.
    pub fn count(&self) -> usize {
        self.range.count
    }

    /// This side's labels: those of choice 0.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] or [`OtError::Depth`] when the corrections are for another count or for trees of another
    /// depth, [`OtError::Inconsistent`] when they are not for one list of choices; the chunk is lost then, and after the
    /// latter the session.
    pub fn extend(self, corrections: &Corrections) -> Result<SenderLabels, OtError> {
        let mut labels = Labels::zeroed(self.range.count);
        self.fill(corrections, &mut labels)?;
        Ok(SenderLabels { labels })
    }

    /// Like [`Self::extend`], into a buffer of the caller that can be used again.
    ///
    /// # Errors
    /// As [`Self::extend`], and [`OtError::ItemCount`] when there are not as many places as transfers.
    pub fn extend_into(self, corrections: &Corrections, labels: &mut [u128]) -> Result<(), OtError> {
        self.fill(corrections, labels)
    }

    fn fill(&self, corrections: &Corrections, labels: &mut [u128]) -> Result<(), OtError> {
        check_count(self.range.count, corrections.count())?;
        check_count(self.range.count, labels.len())?;
        let Keys { engine, offset } = &*self.keys;
        check_depth(engine.depth(), corrections.depth())?;
        let mut workspace = Workspace::new();
        for (block, labels) in labels.chunks_mut(BLOCK).enumerate() {
            corrections.load_block(block, workspace.corrections_mut(engine.depth()));
            let first_cipher = self.range.first_cipher + (block * CIPHERS_PER_BLOCK) as u64;
            engine.sender_columns(first_cipher, offset.expose(), &mut workspace);
            engine.transpose_into(&workspace, labels);
        }
        corrections.load_masking(workspace.corrections_mut(engine.depth()));
        engine.sender_columns(self.range.masking_cipher(), offset.expose(), &mut workspace);
        let mut masking = Labels::zeroed(MASKING);
        engine.transpose_into(&workspace, &mut masking);
        let corrected = Corrected::new(engine, &self.range, corrections.corrected());
        corrections.check().verify(&corrected, [labels, &masking], offset.expose())
    }
}

fn check_depth(expected: Depth, given: Depth) -> Result<(), OtError> {
    if given != expected {
        return Err(OtError::Depth { expected, given });
    }
    Ok(())
}

/// The sender's outcome of one chunk: label `Q_j` of choice 0; that of choice 1 is `Q_j` xor the offset.
pub struct SenderLabels {
    labels: Labels,
}

impl SenderLabels {
    /// One label per transfer: that of choice 0.
    pub fn labels(&self) -> &[u128] {
        &self.labels
    }
}

opaque_debug!(SenderSetup, CorrelatedSender, SenderChunk, SenderLabels);
