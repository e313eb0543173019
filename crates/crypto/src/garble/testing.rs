//! Both parties in one process, for tests: oblivious transfer is dealt in the clear.

use std::sync::Arc;

use super::circuit::{Circuit, Output};
use super::hash::{HashCounter, HashKey};
use super::label::{Offset, WireLabel};
use super::layer::Layer;
use super::messages::{ActiveLabels, GarbledChunk, Reply};
use super::workspace::Workspace;
use crate::cpu::CpuFeatures;
use crate::random::{Generator, Seed};

/// Uniform values of `width` bits.
pub(crate) fn random_values(count: usize, width: u32, seed: u8) -> Vec<u64> {
    let mut generator = Seed::from_bytes([seed; 32]).generator();
    (0..count).map(|_| generator.next_u64() >> (64 - width)).collect()
}

/// Correlated oblivious transfer by a trusted dealer: zero labels for the server, chosen ones for the client.
pub(crate) fn deal(
    choices: &[u8],
    count: usize,
    offset: &Offset,
    generator: &mut Generator,
) -> (Vec<WireLabel>, Vec<WireLabel>) {
    let zero: Vec<WireLabel> = (0..count).map(|_| WireLabel::from(generator.next_u128())).collect();
    let chosen = zero
        .iter()
        .enumerate()
        .map(|(index, label)| label.for_bit(choices[index / 8] >> (index % 8) & 1 == 1, offset));
    let chosen = chosen.collect();
    (zero, chosen)
}

/// The whole protocol on a layer; what the server has at the end, or the client if the output is decoded.
pub(crate) fn run_both_parties(
    circuit: Circuit,
    instances: usize,
    server: &[u64],
    client: &[u64],
    blinds: &[u64],
) -> Vec<u64> {
    run_with(CpuFeatures::available(), circuit, instances, server, client, blinds)
}

/// The same on given kernels.
pub(crate) fn run_with(
    features: CpuFeatures,
    circuit: Circuit,
    instances: usize,
    server: &[u64],
    client: &[u64],
    blinds: &[u64],
) -> Vec<u64> {
    let layer = Layer::new(Arc::new(circuit), instances);
    let circuit = layer.circuit();
    let mut generator = Seed::from_bytes([42; 32]).generator();
    let offset = Offset::random(&mut generator);
    let key = HashKey::random(&mut generator);
    let counters = || HashCounter::new().take(layer.hash_count()).unwrap();
    let garblers = layer.garblers(key, &mut counters(), &mut generator).unwrap();
    let evaluators = layer.evaluators(key, &mut counters()).unwrap();
    let mut workspace = Workspace::new(features);
    let mut results = Vec::new();
    for ((chunk, garbler), evaluator) in layer.chunks().zip(garblers).zip(evaluators) {
        let lanes = chunk.len();
        let values =
            |values: &[u64], per_lane: usize| values[chunk.start * per_lane..chunk.end * per_lane].to_vec();
        let choices = circuit.choices(lanes, &values(client, circuit.client_widths().len())).unwrap();
        let (zero, chosen) = deal(choices.expose(), circuit.client_wires() * lanes, &offset, &mut generator);

        let (tables, prepared) = garbler.garble(&offset, &zero, &mut workspace).unwrap();
        let tables = GarbledChunk::from_bytes(circuit, lanes, tables.into_bytes()).unwrap();
        let evaluator = evaluator.receive(tables, chosen).unwrap();

        let server_values = values(server, circuit.server_widths().len());
        let (labels, waiting) = prepared.encode(&offset, &server_values, &mut workspace).unwrap();
        let labels = ActiveLabels::from_bytes(circuit, lanes, labels.into_bytes()).unwrap();
        if let Output::Decoded(_) = circuit.output() {
            results.extend(evaluator.decode(&labels, &mut workspace).unwrap());
            continue;
        }
        let blinds = if blinds.is_empty() { vec![] } else { values(blinds, 1) };
        let reply = evaluator.evaluate(&labels, &blinds, &mut workspace).unwrap();
        let reply = Reply::from_bytes(circuit, lanes, reply.into_bytes()).unwrap();
        results.extend(waiting.finish(reply).unwrap().expose());
    }
    results
}
