//! The server's side: an offer, an opening, and its share from the reply.

use std::sync::Arc;

use crypto::garble::label::Offset;
use crypto::garble::truncate::{OfferedTruncation, TruncationReply, WaitingTruncation};
use crypto::ring::RingVector;

use super::TruncatedPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing};
use crate::nonlinear::{
    Offered, OnlineTools, Part, PreparedServerPart, ServerSide, ServerTools, WaitingServerPart,
};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Work;

#[derive(Debug)]
struct Prepared {
    part: Arc<TruncatedPart>,
    truncation: OfferedTruncation,
}

struct Waiting {
    part: Arc<TruncatedPart>,
    truncation: WaitingTruncation,
}

impl ServerSide for TruncatedPart {
    fn offer(
        self: Arc<Self>,
        tools: &mut ServerTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Offered, InferenceError> {
        let start = Instant::now();
        let labels = tools.take_labels(self.count())?;
        let mut counters = tools.counter.take(self.hash_count())?;
        let (offer, truncation) = OfferedTruncation::new(
            self.shape,
            tools.key,
            &mut counters,
            tools.offset,
            labels.expose(),
            &mut tools.coins,
        )?;
        let bytes = offer.to_bytes(&self.shape);
        tools.times.spent(Work::Truncation, start);
        to.piece(&bytes)?;
        Ok(Offered::Ready(Box::new(Prepared { part: self, truncation })))
    }

    fn stored_server_bytes(&self) -> usize {
        OfferedTruncation::stored_bytes(&self.shape, self.count())
    }

    fn revive_server(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, StoredError> {
        let bytes = reader.take(self.stored_server_bytes());
        let truncation = OfferedTruncation::from_bytes(&self.shape, self.count(), bytes)?;
        Ok(Box::new(Prepared { part: self, truncation }))
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
        let Self { part, truncation } = *self;
        let start = Instant::now();
        let (opening, truncation) = truncation.open(part.gather(share).expose())?;
        let bytes = opening.to_bytes(&part.shape);
        tools.times.spent(Work::Truncation, start);
        to.piece(&bytes)?;
        Ok(Box::new(Waiting { part, truncation }))
    }

    fn stored_bytes(&self) -> usize {
        self.part.stored_server_bytes()
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        writer.push(self.truncation.into_bytes().expose());
    }
}

impl WaitingServerPart for Waiting {
    fn finish(
        self: Box<Self>,
        reply: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
        values: &mut [u64],
    ) -> Result<(), InferenceError> {
        let Self { part, truncation } = *self;
        let bytes = reply.piece(part.bytes().reply)?;
        let start = Instant::now();
        let reply = TruncationReply::from_bytes(&part.shape, part.count(), &bytes)?;
        let outcome = truncation.finish(&reply, &part.factors)?;
        for (position, value) in part.positions.iter().zip(outcome.expose()) {
            values[*position as usize] = *value;
        }
        tools.times.spent(Work::Truncation, start);
        Ok(())
    }
}
