//! The server's side: offers before the image, and what the client advances; openings after, and a share from each reply.

use std::sync::Arc;

use crypto::garble::gates::{AdvancedGates, OfferedGates, SenderSide, WaitingGates};
use crypto::garble::label::Offset;
use crypto::random::Seed;
use crypto::ring::RingVector;

use super::GatedPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing};
use crate::nonlinear::{
    AdvanceTools, Offered, OfferedServerPart, OnlineTools, PreparedServerPart, ServerSide, ServerTools,
    WaitingServerPart,
};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Work;

#[derive(Debug)]
struct OfferedPart {
    part: Arc<GatedPart>,
    chunks: Vec<OfferedGates>,
}

#[derive(Debug)]
struct Prepared {
    part: Arc<GatedPart>,
    chunks: Vec<AdvancedGates>,
}

struct Waiting {
    part: Arc<GatedPart>,
    chunks: Vec<WaitingGates>,
}

impl ServerSide for GatedPart {
    /// A few chunks at a time, divided among the threads.
    fn offer(
        self: Arc<Self>,
        tools: &mut ServerTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Offered, InferenceError> {
        let shape = self.shape;
        let mut ranges = self.chunks();
        let mut chunks = Vec::new();
        loop {
            let start = Instant::now();
            let mut group = Vec::new();
            for range in ranges.by_ref().take(tools.workers.chunks_at_once()) {
                let signs = range.len();
                let labels = tools.take_label_groups(shape.transfers_per_sign(), signs)?;
                let counters = tools.counter.take(shape.hash_count(signs))?;
                let reverse = tools.reverse.take(signs);
                let mut seed = [0; 32];
                tools.coins.fill(&mut seed);
                group.push((labels, counters, reverse, Seed::from_bytes(seed)));
            }
            tools.times.spent(Work::Transfer, start);
            if group.is_empty() {
                return Ok(Offered::Waiting(Box::new(OfferedPart { part: self, chunks })));
            }
            let start = Instant::now();
            let (key, offset) = (tools.key, tools.offset);
            let offers = tools.workers.divide(group, |(labels, counters, reverse, seed)| {
                let (mut offer, mut coins) = (Vec::new(), seed.generator());
                let forward = SenderSide { key, counters, offset, zero_labels: labels.expose() };
                let gates = OfferedGates::new(shape, forward, reverse, &mut coins, &mut offer);
                gates.map(|gates| (gates, offer))
            })?;
            tools.times.spent(Work::Gates, start);
            for (gates, offer) in offers {
                chunks.push(gates);
                to.piece(&offer)?;
            }
        }
    }

    fn stored_server_bytes(&self) -> usize {
        self.sum(AdvancedGates::stored_bytes)
    }

    fn revive_server(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, StoredError> {
        let chunk = |range: std::ops::Range<usize>| {
            let bytes = reader.take(AdvancedGates::stored_bytes(&self.shape, range.len()));
            AdvancedGates::from_bytes(&self.shape, range.len(), bytes)
        };
        let chunks = self.chunks().map(chunk).collect::<Result<_, _>>()?;
        Ok(Box::new(Prepared { part: self, chunks }))
    }
}

impl OfferedServerPart for OfferedPart {
    fn take_advance(
        self: Box<Self>,
        advance: &mut dyn Incoming,
        tools: &mut AdvanceTools<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, InferenceError> {
        let Self { part, chunks } = *self;
        let mut group = Vec::with_capacity(chunks.len());
        for (range, chunk) in part.chunks().zip(chunks) {
            let bytes = advance.piece(part.shape.advance_bytes(range.len()))?;
            group.push((chunk, tools.counter.take(part.shape.reverse_hash_count(range.len()))?, bytes));
        }
        let start = Instant::now();
        let chunks = tools.workers.map(group, |(chunk, mut counters, bytes)| {
            chunk.take_advance(tools.key, &mut counters, &bytes)
        })?;
        tools.times.spent(Work::Gates, start);
        Ok(Box::new(Prepared { part, chunks }))
    }
}

impl PreparedServerPart for Prepared {
    fn open(
        self: Box<Self>,
        share: &RingVector,
        _: &Offset,
        tools: &mut OnlineTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Box<dyn WaitingServerPart>, InferenceError> {
        let Self { part, chunks } = *self;
        let shares = part.gather(share);
        let mut waiting = Vec::with_capacity(chunks.len());
        let mut chunks = part.chunks().zip(chunks);
        loop {
            let start = Instant::now();
            let group: Vec<_> = chunks.by_ref().take(tools.workers.chunks_at_once()).collect();
            if group.is_empty() {
                return Ok(Box::new(Waiting { part, chunks: waiting }));
            }
            let opened = tools.workers.map(group, |(range, chunk)| {
                let mut opening = Vec::new();
                let own = &shares.expose()[part.values_of(&range)];
                chunk.open(own, part.slopes_of(&range), &mut opening).map(|gates| (gates, opening))
            })?;
            tools.times.spent(Work::Gates, start);
            for (gates, opening) in opened {
                waiting.push(gates);
                to.piece(&opening)?;
            }
        }
    }

    fn stored_bytes(&self) -> usize {
        self.part.stored_server_bytes()
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        self.chunks.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
    }
}

impl WaitingServerPart for Waiting {
    fn finish(
        self: Box<Self>,
        reply: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
        values: &mut [u64],
    ) -> Result<(), InferenceError> {
        let Self { part, chunks } = *self;
        let mut chunks = part.chunks().zip(chunks);
        loop {
            let mut group = Vec::new();
            for (range, chunk) in chunks.by_ref().take(tools.workers.chunks_at_once()) {
                let bytes = reply.piece(part.shape.reply_bytes(range.len()))?;
                group.push((range, chunk, bytes));
            }
            if group.is_empty() {
                return Ok(());
            }
            let start = Instant::now();
            let outcomes = tools
                .workers
                .map(group, |(range, chunk, bytes)| chunk.finish(&bytes).map(|outcome| (range, outcome)))?;
            for (range, outcome) in outcomes {
                for (position, value) in part.positions[part.values_of(&range)].iter().zip(outcome.expose()) {
                    values[*position as usize] = *value;
                }
            }
            tools.times.spent(Work::Gates, start);
        }
    }
}
