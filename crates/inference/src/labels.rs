//! The stream of wire labels that oblivious transfer gives, cut into batches that both parties know.
//!
//! The client's choices of one inference are one list of bits, part after part of the plan, each padded to whole
//! bytes. Both parties extend it batch by batch, so the server never holds more than one batch of labels a thread.
//! The server's choices are another list, of transfers in the other direction.

use crypto::garble::gates::ReverseReceiver;
use crypto::garble::label::WireLabel;
use crypto::ot::Depth;
use crypto::ot::extension::{Corrections, CorrelatedReceiver, CorrelatedSender, ExpandedChunk};
use crypto::ot::values::SecretBits;
use crypto::random::Generator;
use crypto::secret::Secret;

use crate::InferenceError;
use crate::workers::Workers;

/// Transfers per batch; a multiple of 2048, which is what the extension likes best.
pub(crate) const BATCH: usize = 1 << 18;

/// Bytes of corrections for so many transfers.
pub(crate) fn correction_bytes(transfers: usize, depth: Depth) -> usize {
    batches(transfers).map(|count| Corrections::byte_length(count, depth)).sum()
}

fn batches(transfers: usize) -> impl Iterator<Item = usize> {
    (0..transfers.div_ceil(BATCH)).map(move |index| BATCH.min(transfers - index * BATCH))
}

/// The client's side before its choices are known: all labels, and what the corrections are made from.
pub(crate) struct ExpandedLabels {
    chunks: Vec<ExpandedChunk>,
    labels: Secret<Vec<u128>>,
}

impl ExpandedLabels {
    /// Does all the work that needs no choices.
    pub(crate) fn expand(
        receiver: &mut CorrelatedReceiver,
        transfers: usize,
        workers: &Workers,
    ) -> Result<Self, InferenceError> {
        let mut labels = Secret::new(vec![0; transfers]);
        let mut items = Vec::new();
        for (count, labels) in batches(transfers).zip(labels.expose_mut().chunks_mut(BATCH)) {
            items.push((receiver.next_chunk(count)?, labels));
        }
        let chunks = workers.divide(items, |(chunk, labels)| chunk.expand_into(labels))?;
        Ok(Self { chunks, labels })
    }

    /// All corrections in one message, all labels.
    pub(crate) fn choose(self, choices: &[u8]) -> Result<(Vec<u8>, ReceivedLabels), InferenceError> {
        let mut message = Vec::new();
        let batches = choices.chunks(BATCH / 8).zip(self.labels.expose().chunks(BATCH));
        for (chunk, (bytes, labels)) in self.chunks.into_iter().zip(batches) {
            let bits = SecretBits::from_packed(8 * bytes.len(), bytes.to_vec())?;
            message.extend_from_slice(chunk.correct(&bits, labels)?.to_bytes());
        }
        Ok((message, ReceivedLabels { labels: self.labels, position: 0 }))
    }
}

/// The client's labels of the bits it chose, in their order.
pub(crate) struct ReceivedLabels {
    labels: Secret<Vec<u128>>,
    position: usize,
}

impl ReceivedLabels {
    /// The next labels; the padding to whole bytes behind them is passed over.
    pub(crate) fn take(&mut self, count: usize) -> Secret<Vec<WireLabel>> {
        let labels = &self.labels.expose()[self.position..][..count];
        self.position += count.next_multiple_of(8);
        Secret::new(labels.iter().map(|label| WireLabel::from(*label)).collect())
    }
}

/// Coins of the server and the labels it got for them, in the order of the plan.
pub(crate) struct ReverseChoices {
    choices: Secret<Vec<u8>>,
    labels: ReceivedLabels,
}

impl ReverseChoices {
    /// None.
    pub(crate) fn none() -> Self {
        let labels = ReceivedLabels { labels: Secret::new(Vec::new()), position: 0 };
        Self { choices: Secret::new(Vec::new()), labels }
    }

    /// So many, a multiple of eight, from coins of this inference alone; and what the client needs for them.
    pub(crate) fn draw(
        receiver: &mut CorrelatedReceiver,
        count: usize,
        mut coins: Generator,
        workers: &Workers,
    ) -> Result<(Vec<u8>, Self), InferenceError> {
        let mut choices = Secret::new(vec![0; count / 8]);
        coins.fill(choices.expose_mut());
        let expanded = ExpandedLabels::expand(receiver, count, workers)?;
        let (corrections, labels) = expanded.choose(choices.expose())?;
        Ok((corrections, Self { choices, labels }))
    }

    /// The next ones; the padding to whole bytes behind them is passed over.
    pub(crate) fn take(&mut self, count: usize) -> ReverseReceiver {
        let first = self.labels.position;
        let bit = |place: usize| u64::from(self.choices.expose()[place / 8] >> (place % 8) & 1);
        let choices = Secret::new((first..first + count).map(bit).collect());
        ReverseReceiver { choices, labels: self.labels.take(count) }
    }
}

/// The side that does not choose: labels of bit 0, batch by batch, in the order of the other's choices.
pub(crate) struct ZeroLabels {
    corrections: Vec<u8>,
    /// Where the corrections of the next batch begin.
    corrected: usize,
    transfers: usize,
    batch: Secret<Vec<u128>>,
    position: usize,
}

impl ZeroLabels {
    pub(crate) fn new(transfers: usize) -> Self {
        let (corrections, batch) = (Vec::new(), Secret::new(Vec::new()));
        Self { corrections, corrected: 0, transfers, batch, position: 0 }
    }

    /// Takes the other's corrections, as many bytes as [`correction_bytes`] says.
    pub(crate) fn correct(&mut self, corrections: Vec<u8>) {
        self.corrections = corrections;
    }

    /// The next labels; the padding to whole bytes behind them is passed over.
    pub(crate) fn take(
        &mut self,
        sender: &mut CorrelatedSender,
        workers: &Workers,
        count: usize,
    ) -> Result<Secret<Vec<WireLabel>>, InferenceError> {
        // Its room is made once, so that no unwiped copy stays behind.
        let mut labels = Secret::new(Vec::with_capacity(count));
        let padded = count.next_multiple_of(8);
        let mut taken = 0;
        while taken < padded {
            if self.position == self.batch.expose().len() {
                self.refill(sender, workers)?;
            }
            let batch = &self.batch.expose()[self.position..];
            let available = batch.len().min(padded - taken);
            let wanted = available.min(count.saturating_sub(taken));
            labels.expose_mut().extend(batch[..wanted].iter().map(|label| WireLabel::from(*label)));
            self.position += available;
            taken += available;
        }
        Ok(labels)
    }

    /// The next batch for each thread.
    fn refill(&mut self, sender: &mut CorrelatedSender, workers: &Workers) -> Result<(), InferenceError> {
        assert!(self.transfers > 0, "the plan counts every label that is taken");
        let counts: Vec<usize> = batches(self.transfers).take(workers.threads()).collect();
        let total = counts.iter().sum();
        self.transfers -= total;
        self.batch = Secret::new(vec![0; total]);
        self.position = 0;
        let (depth, mut items) = (sender.depth(), Vec::with_capacity(counts.len()));
        for (count, labels) in counts.into_iter().zip(self.batch.expose_mut().chunks_mut(BATCH)) {
            let length = Corrections::byte_length(count, depth);
            let bytes = &self.corrections[self.corrected..][..length];
            self.corrected += length;
            items.push((sender.next_chunk(count)?, bytes, labels));
        }
        workers.divide(items, |(chunk, bytes, labels)| {
            chunk.extend_into(&Corrections::from_bytes(labels.len(), depth, bytes)?, labels)
        })?;
        Ok(())
    }
}
