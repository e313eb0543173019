//! The server garbles: tables before the image, labels of its own bits after, and a share from each reply.

use std::sync::Arc;

use crypto::garble::garbler::{PreparedGarbler, WaitingGarbler};
use crypto::garble::label::Offset;
use crypto::garble::messages::Reply;
use crypto::ring::RingVector;

use super::GarbledPart;
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing};
use crate::nonlinear::{
    Offered, OnlineTools, PreparedServerPart, ServerSide, ServerTools, WaitingServerPart,
};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Work;
use crate::workers::pieces;

#[derive(Debug)]
struct PreparedCircuits {
    part: Arc<GarbledPart>,
    chunks: Vec<PreparedGarbler>,
}

struct WaitingCircuits {
    part: Arc<GarbledPart>,
    chunks: Vec<WaitingGarbler>,
}

impl ServerSide for GarbledPart {
    /// Garbles a few chunks at a time, divided among the threads.
    fn offer(
        self: Arc<Self>,
        tools: &mut ServerTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Offered, InferenceError> {
        let circuit = self.layer.circuit();
        let mut counters = tools.counter.take(self.layer.hash_count())?;
        let garblers = self.layer.garblers(tools.key, &mut counters, &mut tools.seeds)?;
        let mut chunks = Vec::with_capacity(garblers.len());
        let mut garblers = garblers.into_iter();
        loop {
            let start = Instant::now();
            let mut group = Vec::new();
            for garbler in garblers.by_ref().take(tools.workers.chunks_at_once()) {
                let labels = tools.take_labels(circuit.client_wires() * garbler.lanes())?;
                group.push((garbler, labels));
            }
            tools.times.spent(Work::Transfer, start);
            if group.is_empty() {
                return Ok(Offered::Ready(Box::new(PreparedCircuits { part: self, chunks })));
            }
            let start = Instant::now();
            let lengths = group.iter().map(|(garbler, _)| circuit.table_bytes(garbler.lanes()));
            let tables = pieces(&mut tools.frame, lengths);
            let items = group.into_iter().zip(tables).collect();
            let (workers, offset) = (tools.workers, tools.offset);
            chunks.extend(workers.divide(items, |((garbler, labels), tables)| {
                workers.with_workspace(|space| garbler.garble_into(offset, labels.expose(), tables, space))
            })?);
            tools.times.spent(Work::Garbling, start);
            to.piece(&tools.frame)?;
        }
    }

    fn stored_server_bytes(&self) -> usize {
        let circuit = self.layer.circuit();
        self.layer.chunks().map(|range| PreparedGarbler::stored_bytes(circuit, range.len())).sum()
    }

    fn revive_server(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, StoredError> {
        let circuit = self.layer.circuit();
        let chunk = |range: std::ops::Range<usize>| {
            let bytes = reader.take(PreparedGarbler::stored_bytes(circuit, range.len()));
            PreparedGarbler::from_bytes(circuit, range.len(), bytes)
        };
        let chunks = self.layer.chunks().map(chunk).collect::<Result<_, _>>()?;
        Ok(Box::new(PreparedCircuits { part: self, chunks }))
    }
}

impl PreparedServerPart for PreparedCircuits {
    /// Labels of the server's bits, chunks divided among the threads.
    fn open(
        self: Box<Self>,
        share: &RingVector,
        offset: &Offset,
        tools: &mut OnlineTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Box<dyn WaitingServerPart>, InferenceError> {
        let Self { part, chunks } = *self;
        let inputs = part.server_inputs(share);
        let (arity, circuit) = (part.arity(), part.layer.circuit());
        let mut waiting = Vec::with_capacity(chunks.len());
        let mut chunks = part.layer.chunks().zip(chunks);
        loop {
            let start = Instant::now();
            let group: Vec<_> = chunks.by_ref().take(tools.workers.chunks_at_once()).collect();
            if group.is_empty() {
                return Ok(Box::new(WaitingCircuits { part, chunks: waiting }));
            }
            let lengths = group.iter().map(|(range, _)| circuit.label_bytes(range.len()));
            let labels = pieces(tools.frame, lengths);
            let items = group.into_iter().zip(labels).collect();
            waiting.extend(tools.workers.map(items, |((range, chunk), labels)| {
                let values = &inputs.expose()[range.start * arity..range.end * arity];
                tools.workers.with_workspace(|space| chunk.encode_into(offset, values, labels, space))
            })?);
            tools.times.spent(Work::Garbling, start);
            to.piece(tools.frame)?;
        }
    }

    fn stored_bytes(&self) -> usize {
        self.part.stored_server_bytes()
    }

    fn store(self: Box<Self>, writer: &mut Writer) {
        self.chunks.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
    }
}

impl WaitingServerPart for WaitingCircuits {
    fn finish(
        self: Box<Self>,
        reply: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
        values: &mut [u64],
    ) -> Result<(), InferenceError> {
        let circuit = self.part.layer.circuit();
        for (range, chunk) in self.part.layer.chunks().zip(self.chunks) {
            let bytes = reply.piece(circuit.reply_bytes(range.len()))?;
            let start = Instant::now();
            let outcome = chunk.finish(Reply::from_bytes(circuit, range.len(), bytes)?)?;
            for (position, value) in self.part.outputs[range].iter().zip(outcome.expose()) {
                values[*position as usize] = *value;
            }
            tools.times.spent(Work::Garbling, start);
        }
        Ok(())
    }
}
