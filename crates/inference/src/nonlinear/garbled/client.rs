//! The client evaluates: tables and labels of its own bits before the image, labels of the server's bits after.

use std::sync::Arc;

use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::messages::{ActiveLabels, GarbledChunk};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;

use super::GarbledPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::Incoming;
use crate::nonlinear::{ClientSide, ClientTools, OnlineTools, Opened, OwnValues, PreparedClientPart};
use crate::stored::{Reader, StoredError, Writer, packed_bytes};
use crate::transcript::Work;

#[derive(Debug)]
struct PreparedCircuits {
    part: Arc<GarbledPart>,
    chunks: Vec<PreparedEvaluator>,
    /// The client's share of each instance's outcome; none where it decodes that itself.
    blinds: Option<Secret<Vec<u64>>>,
}

impl ClientSide for GarbledPart {
    fn choose(&self, own: OwnValues<'_>, choices: &mut Vec<u8>) -> Result<(), InferenceError> {
        let inputs = self.client_inputs(own.share);
        let arity = self.arity();
        for range in self.layer.chunks() {
            let values = &inputs.expose()[range.start * arity..range.end * arity];
            choices.extend_from_slice(self.layer.circuit().choices(range.len(), values)?.expose());
        }
        Ok(())
    }

    fn accept(
        self: Arc<Self>,
        own: OwnValues<'_>,
        tools: &mut ClientTools<'_>,
        offer: &mut dyn Incoming,
    ) -> Result<Box<dyn PreparedClientPart>, InferenceError> {
        let circuit = self.layer.circuit();
        let mut counters = tools.counter.take(self.layer.hash_count())?;
        let mut chunks = Vec::with_capacity(self.layer.chunk_count());
        for evaluator in self.layer.evaluators(tools.key, &mut counters)? {
            let lanes = evaluator.lanes();
            let tables = GarbledChunk::from_bytes(circuit, lanes, offer.piece(circuit.table_bytes(lanes))?)?;
            let mut labels = tools.take_labels(circuit.client_wires() * lanes);
            // From here on the evaluator wipes them.
            chunks.push(evaluator.receive(tables, std::mem::take(labels.expose_mut()))?);
        }
        let blinds = || self.outputs.iter().map(|position| own.blinds[*position as usize]).collect();
        let blinds = (!self.tells_client).then(|| Secret::new(blinds()));
        Ok(Box::new(PreparedCircuits { part: self, chunks, blinds }))
    }

    fn stored_client_bytes(&self) -> usize {
        let circuit = self.layer.circuit();
        let chunks = self.layer.chunks().map(|range| PreparedEvaluator::stored_bytes(circuit, range.len()));
        let blinds = self.blind_width().map_or(0, |width| packed_bytes(width, self.outputs.len()));
        blinds + chunks.sum::<usize>()
    }

    fn revive_client(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedClientPart>, StoredError> {
        let circuit = self.layer.circuit();
        let blinds = match self.blind_width() {
            Some(width) => {
                let share = reader.share(width, self.outputs.len())?;
                Some(Secret::new(share.expose().to_unsigned()))
            }
            None => None,
        };
        let chunk = |range: std::ops::Range<usize>| {
            let bytes = reader.take(PreparedEvaluator::stored_bytes(circuit, range.len()));
            PreparedEvaluator::from_bytes(circuit, range.len(), bytes)
        };
        let chunks = self.layer.chunks().map(chunk).collect::<Result<_, _>>()?;
        Ok(Box::new(PreparedCircuits { part: self, chunks, blinds }))
    }
}

impl GarbledPart {
    /// A blind lives in the ring of the circuit's output.
    fn blind_width(&self) -> Option<RingWidth> {
        let width =
            || RingWidth::new(self.layer.circuit().output_bits()).expect("circuits have a ring's outputs");
        (!self.tells_client).then(width)
    }
}

impl PreparedClientPart for PreparedCircuits {
    /// Evaluates chunks as their labels come in.
    fn open(
        self: Box<Self>,
        opening: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
    ) -> Result<Opened, InferenceError> {
        let Self { part, chunks, blinds } = *self;
        let Some(blinds) = blinds else { return decode(&part, chunks, opening, tools) };
        let circuit = part.layer.circuit();
        let mut replied = Vec::with_capacity(part.layer.reply_bytes());
        let mut chunks = part.layer.chunks().zip(chunks);
        loop {
            let mut group = Vec::new();
            for (range, chunk) in chunks.by_ref().take(tools.workers.chunks_at_once()) {
                let bytes = opening.piece(circuit.label_bytes(range.len()))?;
                group.push((range, chunk, bytes));
            }
            if group.is_empty() {
                return Ok(Opened::Reply(replied));
            }
            let start = Instant::now();
            let replies = tools.workers.map(group, |(range, chunk, bytes)| {
                let labels = ActiveLabels::from_bytes(circuit, range.len(), bytes)?;
                tools.workers.with_workspace(|space| chunk.evaluate(&labels, &blinds.expose()[range], space))
            })?;
            replies.iter().for_each(|reply| replied.extend_from_slice(reply.as_bytes()));
            tools.times.spent(Work::Garbling, start);
        }
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        if let (Some(blinds), Some(width)) = (self.blinds, self.part.blind_width()) {
            writer.push_share(&Share::new(RingVector::from_unsigned(width, blinds.expose())));
        }
        self.chunks.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
    }
}

/// The outcome of a single circuit, for the client itself.
fn decode(
    part: &GarbledPart,
    chunks: Vec<PreparedEvaluator>,
    opening: &mut dyn Incoming,
    tools: &OnlineTools<'_>,
) -> Result<Opened, InferenceError> {
    let circuit = part.layer.circuit();
    let labels = ActiveLabels::from_bytes(circuit, 1, opening.piece(circuit.label_bytes(1))?)?;
    let chunk = chunks.into_iter().next().expect("a circuit that tells the client is planned once");
    let outcome = tools.workers.with_workspace(|space| chunk.decode(&labels, space))?;
    Ok(Opened::Class(outcome[0] as usize))
}
