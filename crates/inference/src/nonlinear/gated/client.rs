//! The client's side: pads of its bits before the image, one evaluation and a masked reply after.

use std::sync::Arc;

use crypto::garble::gates::{ClientInputs, PreparedGates, SenderSide};
use crypto::garble::label::WireLabel;
use crypto::secret::Secret;

use super::GatedPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::Incoming;
use crate::nonlinear::{ClientSide, ClientTools, OnlineTools, Opened, OwnValues, PreparedClientPart};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Work;

#[derive(Debug)]
struct Prepared {
    part: Arc<GatedPart>,
    chunks: Vec<PreparedGates>,
}

/// What the client brings to the gates of a part: shares and blinds of every value, a coin for every sign.
struct Inputs {
    shares: Secret<Vec<u64>>,
    /// rho.
    coins: Secret<Vec<u64>>,
    blinds: Secret<Vec<u64>>,
}

impl GatedPart {
    fn inputs(&self, own: OwnValues<'_>) -> Inputs {
        let blinds = self.positions.iter().map(|position| own.blinds[*position as usize]);
        let blinds: Secret<Vec<u64>> = Secret::new(blinds.collect());
        // A ring has 62 bits at most, so the top bit of a fresh word is a coin that nothing else depends on. A sign takes that
        // of its compared value.
        let leaders = self.chunks().flat_map(|signs| {
            let first = self.values_of(&signs).start;
            &blinds.expose()[first..first + signs.len()]
        });
        // Its room is made once, so that no unwiped copy stays behind.
        let mut coins = Secret::new(Vec::with_capacity(self.signs));
        coins.expose_mut().extend(leaders.map(|blind| blind >> 63));
        Inputs { shares: self.gather(own.share), coins, blinds }
    }
}

impl ClientSide for GatedPart {
    fn choose(&self, own: OwnValues<'_>, choices: &mut Vec<u8>) -> Result<(), InferenceError> {
        let Inputs { shares, coins, .. } = self.inputs(own);
        for range in self.chunks() {
            let chosen = self.shape.choices(&shares.expose()[self.values_of(&range)], &coins.expose()[range]);
            choices.extend_from_slice(chosen.expose());
        }
        Ok(())
    }

    fn accept(
        self: Arc<Self>,
        own: OwnValues<'_>,
        tools: &mut ClientTools<'_>,
        offer: &mut dyn Incoming,
    ) -> Result<Box<dyn PreparedClientPart>, InferenceError> {
        let Inputs { shares, coins, blinds } = self.inputs(own);
        let mut group = Vec::new();
        for range in self.chunks() {
            let signs = range.len();
            let bytes = offer.piece(self.shape.offer_bytes(signs))?;
            let labels = tools.take_label_groups(self.shape.transfers_per_sign(), signs);
            let counters = tools.counter.take(self.shape.hash_count(signs))?;
            let zero_labels = tools.take_reverse_labels(signs)?;
            let reverse_counters = tools.reverse_counter.take(self.shape.reverse_hash_count(signs))?;
            group.push((range, bytes, labels, counters, zero_labels, reverse_counters));
        }
        let (key, reverse_key, offset) = (tools.key, tools.reverse_key, tools.reverse_offset);
        let chunks =
            tools.workers.map(group, |(range, offer, labels, mut counters, zero, reverse_counters)| {
                let values = self.values_of(&range);
                let own = ClientInputs {
                    shares: &shares.expose()[values.clone()],
                    coins: &coins.expose()[range],
                    blinds: &blinds.expose()[values],
                    labels: labels.expose(),
                };
                let zero_labels: &[WireLabel] = zero.expose();
                let reverse =
                    SenderSide { key: reverse_key, counters: reverse_counters, offset, zero_labels };
                let mut advance = Vec::new();
                PreparedGates::new(self.shape, key, &mut counters, own, reverse, &offer, &mut advance)
                    .map(|gates| (gates, advance))
            })?;
        let (chunks, advances): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
        tools.advance.extend(advances.into_iter().flatten());
        Ok(Box::new(Prepared { part: self, chunks }))
    }

    fn stored_client_bytes(&self) -> usize {
        self.sum(PreparedGates::stored_bytes)
    }

    fn revive_client(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedClientPart>, StoredError> {
        let chunk = |range: std::ops::Range<usize>| {
            let bytes = reader.take(PreparedGates::stored_bytes(&self.shape, range.len()));
            PreparedGates::from_bytes(&self.shape, range.len(), bytes)
        };
        let chunks = self.chunks().map(chunk).collect::<Result<_, _>>()?;
        Ok(Box::new(Prepared { part: self, chunks }))
    }
}

impl PreparedClientPart for Prepared {
    /// Replies to chunks as their openings come in.
    fn open(
        self: Box<Self>,
        opening: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
    ) -> Result<Opened, InferenceError> {
        let Self { part, chunks } = *self;
        let mut replied = Vec::with_capacity(part.sum(crypto::garble::gates::GateShape::reply_bytes));
        let mut chunks = part.chunks().zip(chunks);
        loop {
            let mut group = Vec::new();
            for (range, chunk) in chunks.by_ref().take(tools.workers.chunks_at_once()) {
                let bytes = opening.piece(part.shape.opening_bytes(range.len()))?;
                group.push((chunk, part.slopes_of(&range), bytes));
            }
            if group.is_empty() {
                return Ok(Opened::Reply(replied));
            }
            let start = Instant::now();
            let replies = tools.workers.map(group, |(chunk, slopes, opening)| {
                let mut reply = Vec::new();
                chunk.reply(&opening, slopes, &mut reply).map(|()| reply)
            })?;
            replies.iter().for_each(|reply| replied.extend_from_slice(reply));
            tools.times.spent(Work::Gates, start);
        }
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        self.chunks.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
    }
}
