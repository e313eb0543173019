//! The module end to end: every kernel, every number of lanes, and what is refused.

use std::sync::Arc;

use proptest::prelude::*;

use super::argmax::ArgmaxShape;
use super::circuit::Circuit;
use super::clip::ClipShape;
use super::evaluator::{ChunkEvaluator, PreparedEvaluator};
use super::garbler::{ChunkGarbler, PreparedGarbler};
use super::hash::{HashCounter, HashKey};
use super::label::{Offset, WireLabel};
use super::maximum::MaximumShape;
use super::messages::{ActiveLabels, GarbledChunk, Reply};
use super::relu::{ReluForm, ReluShape, Rounding};
use super::testing::{deal, random_values, run_with};
use super::*;
use crate::cpu::CpuFeatures;
use crate::random::{Generator, Seed};

fn generator() -> Generator {
    Seed::from_bytes([21; 32]).generator()
}

fn relu(form: ReluForm) -> Circuit {
    ReluShape::new(16, 4, 20, Rounding::Floor, form).unwrap().circuit()
}

fn levels() -> [CpuFeatures; 3] {
    let all = CpuFeatures::detect();
    [all, all.limited_to("avx2"), CpuFeatures::PORTABLE]
}

#[test]
fn every_kernel_and_number_of_lanes_agrees_with_the_circuit_in_the_clear() {
    let circuits = [
        relu(ReluForm::Projection),
        relu(ReluForm::AndOnly),
        ClipShape::new(16, 4, 20, Rounding::Nearest, 600).unwrap().circuit(),
        MaximumShape::new(3, 12, 17).unwrap().circuit(),
        ArgmaxShape::new(5, 9).unwrap().circuit(),
    ];
    for features in levels() {
        for instances in [1, 3, 15, 16, 17, 31, 63, 64, 65, 130] {
            for circuit in &circuits {
                let values = |widths: &[u32], seed| {
                    let columns: Vec<Vec<u64>> =
                        widths.iter().map(|width| random_values(instances, *width, seed)).collect();
                    (0..instances)
                        .flat_map(|lane| columns.iter().map(move |column| column[lane]).collect::<Vec<_>>())
                        .collect::<Vec<u64>>()
                };
                let (server, client) =
                    (values(circuit.server_widths(), 1), values(circuit.client_widths(), 2));
                let takes_blinds = matches!(circuit.output(), circuit::Output::Share(_));
                let blinds = if takes_blinds { vec![0; instances] } else { vec![] };
                let got = run_with(features, circuit.clone(), instances, &server, &client, &blinds);
                assert_eq!(
                    got,
                    circuit.run_in_the_clear(&server, &client),
                    "{features:?}, {instances} lanes"
                );
            }
        }
    }
}

/// A circuit of random gates over random distinct wires, whose output is a random projection.
fn random_circuit(generator: &mut Generator) -> Circuit {
    let mut builder = circuit::Builder::new(&[5, 3], &[4]);
    let mut wires: Vec<circuit::Wire> =
        [builder.server_value(0), builder.server_value(1), builder.client_value(0)].concat();
    for _ in 0..60 {
        let mut pick = wires.clone();
        let mut draw = || pick.swap_remove((generator.next_u64() % pick.len() as u64) as usize);
        let (first, second, third) = (draw(), draw(), draw());
        wires.push(match generator.next_u64() % 5 {
            0 => builder.xor(first, second),
            1 => builder.parity(first, second, third),
            2 => builder.not(first),
            3 => builder.and(first, second),
            _ => builder.majority(first, second, third),
        });
    }
    let mut terms = |count: usize| -> Vec<circuit::Term> {
        let mut term = |_| circuit::Term {
            wire: wires[(generator.next_u64() % wires.len() as u64) as usize],
            weight: generator.next_u64(),
        };
        (0..count).map(&mut term).collect()
    };
    let selection = circuit::Selection { select: terms(1)[0].wire, terms: terms(4) };
    let plain = terms(3);
    builder.finish(circuit::Output::Share(circuit::Projection {
        output_bits: 43,
        selected: Some(selection),
        plain,
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_circuits_agree_with_themselves_in_the_clear(seed in any::<[u8; 32]>(), instances in 1_usize..70) {
        let mut generator = Seed::from_bytes(seed).generator();
        let circuit = random_circuit(&mut generator);
        let mut lane = |widths: &[u32]| -> Vec<u64> {
            widths.iter().map(|width| generator.next_u64() >> (64 - width)).collect()
        };
        let server: Vec<u64> = (0..instances).flat_map(|_| lane(circuit.server_widths())).collect();
        let client: Vec<u64> = (0..instances).flat_map(|_| lane(circuit.client_widths())).collect();
        let got = run_with(CpuFeatures::available(), circuit.clone(), instances, &server, &client, &vec![0; instances]);
        prop_assert_eq!(got, circuit.run_in_the_clear(&server, &client));
    }
}

/// The messages of one chunk, garbled and evaluated on given kernels.
fn transcript(features: CpuFeatures, lanes: usize) -> [Vec<u8>; 3] {
    let circuit = Arc::new(relu(ReluForm::Projection));
    let mut generator = generator();
    let offset = Offset::random(&mut generator);
    let key = HashKey::random(&mut generator);
    let mut counter = HashCounter::new();
    let mut counters = counter.take(circuit.hash_count()).unwrap();
    let garbler = ChunkGarbler::new(&circuit, lanes, key, &mut counters, &mut generator).unwrap();
    let mut counters = HashCounter::new().take(circuit.hash_count()).unwrap();
    let evaluator = ChunkEvaluator::new(&circuit, lanes, key, &mut counters).unwrap();
    let (server, client) = (random_values(lanes, 16, 1), random_values(lanes, 16, 2));
    let choices = circuit.choices(lanes, &client).unwrap();
    let (zero, chosen) = deal(choices.expose(), 16 * lanes, &offset, &mut generator);
    let mut workspace = Workspace::new(features);

    let (tables, prepared) = garbler.garble(&offset, &zero, &mut workspace).unwrap();
    let table_bytes = tables.as_bytes().to_vec();
    let evaluator = evaluator.receive(tables, chosen).unwrap();
    // Both sides store what they prepared and read it back.
    let stored = prepared.into_bytes();
    let prepared = PreparedGarbler::from_bytes(&circuit, lanes, stored.expose()).unwrap();
    let stored = evaluator.into_bytes();
    let evaluator = PreparedEvaluator::from_bytes(&circuit, lanes, stored.expose()).unwrap();
    let (labels, waiting) = prepared.encode(&offset, &server, &mut workspace).unwrap();
    let reply = evaluator.evaluate(&labels, &random_values(lanes, 20, 3), &mut workspace).unwrap();
    let reply_bytes = reply.as_bytes().to_vec();
    let want = circuit.run_in_the_clear(&server, &client);
    let shares = waiting.finish(reply).unwrap();
    for ((share, blind), want) in shares.expose().iter().zip(random_values(lanes, 20, 3)).zip(want) {
        assert_eq!(share.wrapping_add(blind) & 0xf_ffff, want);
    }
    [table_bytes, labels.into_bytes(), reply_bytes]
}

#[test]
fn all_kernels_write_the_same_messages_and_material_survives_storage() {
    for lanes in [1, 5, 16, 33, 64] {
        let [all, aes_ni, portable] = levels().map(|features| transcript(features, lanes));
        assert_eq!(all, portable, "{lanes} lanes");
        assert_eq!(aes_ni, portable, "{lanes} lanes");
    }
}

struct Chunk {
    circuit: Arc<Circuit>,
    garbler: ChunkGarbler,
    evaluator: ChunkEvaluator,
    offset: Offset,
    workspace: Workspace,
}

fn chunk(circuit: Circuit, lanes: usize) -> Chunk {
    let circuit = Arc::new(circuit);
    let mut generator = generator();
    let key = HashKey::random(&mut generator);
    let counters = || HashCounter::new().take(circuit.hash_count()).unwrap();
    Chunk {
        garbler: ChunkGarbler::new(&circuit, lanes, key, &mut counters(), &mut generator).unwrap(),
        evaluator: ChunkEvaluator::new(&circuit, lanes, key, &mut counters()).unwrap(),
        offset: Offset::random(&mut generator),
        workspace: Workspace::new(CpuFeatures::available()),
        circuit,
    }
}

fn labels(count: usize) -> Vec<WireLabel> {
    let mut generator = generator();
    (0..count).map(|_| generator.next_u128().into()).collect()
}

fn miscount(what: Counted, expected: usize, came: usize) -> GarbleError {
    GarbleError::Count { what, expected, came }
}

#[test]
fn wrong_counts_are_refused_with_what_was_expected_and_what_came() {
    let wrong = |came| {
        let mut chunk = chunk(relu(ReluForm::Projection), 3);
        chunk.garbler.garble(&chunk.offset, &labels(came), &mut chunk.workspace).unwrap_err()
    };
    assert_eq!(wrong(47), miscount(Counted::ClientLabels, 48, 47));
    assert_eq!(wrong(49), miscount(Counted::ClientLabels, 48, 49));

    let mut good = chunk(relu(ReluForm::Projection), 3);
    let (tables, prepared) = good.garbler.garble(&good.offset, &labels(48), &mut good.workspace).unwrap();
    let error = prepared.encode(&good.offset, &[0; 2], &mut good.workspace).unwrap_err();
    assert_eq!(error, miscount(Counted::ServerValues, 3, 2));
    let error = chunk(relu(ReluForm::Projection), 3).evaluator.receive(tables, labels(47)).unwrap_err();
    assert_eq!(error, miscount(Counted::ClientLabels, 48, 47));

    let tables = || GarbledChunk(vec![0; good.circuit.table_bytes(3)]);
    let prepared = || chunk(relu(ReluForm::Projection), 3).evaluator.receive(tables(), labels(48)).unwrap();
    let active = ActiveLabels(vec![0; good.circuit.label_bytes(3)]);
    let error = prepared().evaluate(&active, &[0; 4], &mut good.workspace).unwrap_err();
    assert_eq!(error, miscount(Counted::Blinds, 3, 4));
    assert_eq!(prepared().decode(&active, &mut good.workspace), Err(GarbleError::OutputKind));
}

#[test]
fn messages_of_another_chunk_are_refused() {
    let mut three = chunk(relu(ReluForm::Projection), 3);
    let four = chunk(relu(ReluForm::Projection), 4);
    let (tables, _) = three.garbler.garble(&three.offset, &labels(48), &mut three.workspace).unwrap();
    assert!(matches!(
        four.evaluator.receive(tables, labels(64)),
        Err(GarbleError::MessageLength { message: Message::Tables, .. })
    ));
    let tables = GarbledChunk(vec![0; three.circuit.table_bytes(3)]);
    let prepared = three.evaluator.receive(tables, labels(48)).unwrap();
    let active = ActiveLabels(vec![0; three.circuit.label_bytes(4)]);
    assert!(matches!(
        prepared.evaluate(&active, &[0; 3], &mut three.workspace),
        Err(GarbleError::MessageLength { message: Message::Labels, .. })
    ));
}

#[test]
fn a_reply_with_padding_bits_is_refused() {
    let mut chunk = chunk(relu(ReluForm::Projection), 1);
    let (_, prepared) = chunk.garbler.garble(&chunk.offset, &labels(16), &mut chunk.workspace).unwrap();
    let (_, waiting) = prepared.encode(&chunk.offset, &[5], &mut chunk.workspace).unwrap();
    let reply = Reply::from_bytes(&chunk.circuit, 1, vec![0, 0, 0x10]).unwrap();
    assert_eq!(waiting.finish(reply).unwrap_err(), GarbleError::Padding { message: Message::Reply });
}

#[test]
fn stored_material_of_the_wrong_length_is_refused() {
    let circuit = Arc::new(relu(ReluForm::Projection));
    for wrong in
        [0, 1, PreparedGarbler::stored_bytes(&circuit, 3) - 1, PreparedGarbler::stored_bytes(&circuit, 3) + 1]
    {
        assert!(PreparedGarbler::from_bytes(&circuit, 3, &vec![0; wrong]).is_err());
    }
    let right = PreparedEvaluator::stored_bytes(&circuit, 3);
    assert!(PreparedEvaluator::from_bytes(&circuit, 3, &vec![0; right - 1]).is_err());
    assert!(PreparedEvaluator::from_bytes(&circuit, 3, &vec![0; right]).is_ok());
    // A position from which the counters would run over.
    assert!(PreparedEvaluator::from_bytes(&circuit, 3, &vec![0xff; right]).is_err());
}

#[test]
fn nothing_prepared_prints_its_secrets() {
    let mut chunk = chunk(relu(ReluForm::Projection), 1);
    let (_, prepared) = chunk.garbler.garble(&chunk.offset, &labels(16), &mut chunk.workspace).unwrap();
    let text = format!("{prepared:?}");
    assert!(text.contains("LabelSeed(Secret(..))") && text.contains("output: Secret(..)"), "{text}");
    let text = format!("{:?}", chunk.workspace);
    assert!(text.len() < 200, "a workspace prints no labels: {text}");
}
