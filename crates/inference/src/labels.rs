//! The stream of wire labels that oblivious transfer gives, cut into batches that both parties know.
//!
//! The client's choices of one inference are one list of bits, part after part of the plan, each padded to whole
//! bytes. Both parties extend it batch by batch, so the server never holds more than one batch of labels.

use crypto::garble::label::WireLabel;
use crypto::ot::extension::{Corrections, CorrelatedReceiver, CorrelatedSender};
use crypto::ot::values::SecretBits;
use crypto::secret::Secret;

use crate::InferenceError;

/// Transfers per batch; a multiple of 2048, which is what the extension likes best.
const BATCH: usize = 1 << 18;

/// Bytes of corrections for so many transfers.
pub(crate) fn correction_bytes(transfers: usize) -> usize {
    batches(transfers).map(|count| 32 * count.div_ceil(8)).sum()
}

fn batches(transfers: usize) -> impl Iterator<Item = usize> {
    (0..transfers.div_ceil(BATCH)).map(move |index| BATCH.min(transfers - index * BATCH))
}

/// The client's side: all corrections in one message, all labels.
pub(crate) fn choose(
    receiver: &mut CorrelatedReceiver,
    choices: &[u8],
) -> Result<(Vec<u8>, Secret<Vec<u128>>), InferenceError> {
    let transfers = choices.len() * 8;
    let mut message = Vec::with_capacity(correction_bytes(transfers));
    let mut labels = Secret::new(vec![0; transfers]);
    for (count, (bytes, labels)) in
        batches(transfers).zip(choices.chunks(BATCH / 8).zip(labels.expose_mut().chunks_mut(BATCH)))
    {
        let bits = SecretBits::from_packed(count, bytes.to_vec())?;
        let corrections = receiver.next_chunk(count)?.extend_into(&bits, labels)?;
        message.extend_from_slice(corrections.to_bytes());
    }
    Ok((message, labels))
}

/// The server's side: labels of bit 0, batch by batch, in the order of the client's choices.
pub(crate) struct ZeroLabels<'a> {
    sender: &'a mut CorrelatedSender,
    corrections: &'a [u8],
    transfers: usize,
    batch: Vec<u128>,
    position: usize,
}

impl<'a> ZeroLabels<'a> {
    pub(crate) fn new(sender: &'a mut CorrelatedSender, corrections: &'a [u8], transfers: usize) -> Self {
        Self { sender, corrections, transfers, batch: Vec::new(), position: 0 }
    }

    /// The next labels; the padding to whole bytes behind them is passed over.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<WireLabel>, InferenceError> {
        let mut labels = Vec::with_capacity(count);
        let padded = count.next_multiple_of(8);
        let mut taken = 0;
        while taken < padded {
            if self.position == self.batch.len() {
                self.refill()?;
            }
            let available = (self.batch.len() - self.position).min(padded - taken);
            let wanted = available.min(count.saturating_sub(taken));
            labels.extend(self.batch[self.position..][..wanted].iter().map(|label| WireLabel::from(*label)));
            self.position += available;
            taken += available;
        }
        Ok(labels)
    }

    fn refill(&mut self) -> Result<(), InferenceError> {
        let count = BATCH.min(self.transfers);
        let (bytes, rest) = self.corrections.split_at(32 * count.div_ceil(8));
        self.corrections = rest;
        self.transfers -= count;
        self.batch.resize(count, 0);
        self.position = 0;
        let corrections = Corrections::from_bytes(count, bytes)?;
        Ok(self.sender.next_chunk(count)?.extend_into(&corrections, &mut self.batch)?)
    }
}

impl Drop for ZeroLabels<'_> {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.batch);
    }
}
