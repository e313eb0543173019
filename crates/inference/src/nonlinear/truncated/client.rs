//! The client's side: what the transfers left it with, then one masked reply.

use std::sync::Arc;

use crypto::garble::truncate::{ClientInputs, PreparedTruncation, TruncationOffer, TruncationOpening};
use crypto::secret::Secret;

use super::TruncatedPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::Incoming;
use crate::nonlinear::{
    ClientSide, ClientTools, OnlineTools, Opened, OwnValues, Part, PreparedClientPart, low_bits,
};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Work;

#[derive(Debug)]
struct Prepared {
    part: Arc<TruncatedPart>,
    truncation: PreparedTruncation,
}

impl ClientSide for TruncatedPart {
    fn choose(&self, own: OwnValues<'_>, choices: &mut Vec<u8>) -> Result<(), InferenceError> {
        choices.extend_from_slice(self.shape.choices(self.gather(own.share).expose()).expose());
        Ok(())
    }

    fn accept(
        self: Arc<Self>,
        own: OwnValues<'_>,
        tools: &mut ClientTools<'_>,
        offer: &mut dyn Incoming,
    ) -> Result<Box<dyn PreparedClientPart>, InferenceError> {
        let bytes = offer.piece(self.bytes().offer)?;
        let offer = TruncationOffer::from_bytes(&self.shape, self.count(), &bytes)?;
        let labels = tools.take_labels(self.count());
        let shares = self.gather(own.share);
        let mask = low_bits(self.shape.output_bits());
        let blinds = self.positions.iter().map(|position| own.blinds[*position as usize] & mask);
        let blinds = Secret::new(blinds.collect::<Vec<_>>());
        let mut counters = tools.counter.take(self.hash_count())?;
        let truncation = PreparedTruncation::new(
            self.shape,
            tools.key,
            &mut counters,
            ClientInputs { shares: shares.expose(), blinds: blinds.expose(), labels: labels.expose() },
            &self.factors,
            &offer,
        )?;
        Ok(Box::new(Prepared { part: self, truncation }))
    }

    fn stored_client_bytes(&self) -> usize {
        PreparedTruncation::stored_bytes(&self.shape, self.count())
    }

    fn revive_client(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedClientPart>, StoredError> {
        let bytes = reader.take(self.stored_client_bytes());
        let truncation = PreparedTruncation::from_bytes(&self.shape, self.count(), bytes)?;
        Ok(Box::new(Prepared { part: self, truncation }))
    }
}

impl PreparedClientPart for Prepared {
    fn open(
        self: Box<Self>,
        opening: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
    ) -> Result<Opened, InferenceError> {
        let Self { part, truncation } = *self;
        let bytes = opening.piece(part.bytes().opening)?;
        let start = Instant::now();
        let opening = TruncationOpening::from_bytes(&part.shape, part.count(), &bytes)?;
        let reply = truncation.reply(&opening, &part.factors)?.to_bytes(&part.shape);
        tools.times.spent(Work::Truncation, start);
        Ok(Opened::Reply(reply))
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        writer.push(self.truncation.into_bytes().expose());
    }
}
