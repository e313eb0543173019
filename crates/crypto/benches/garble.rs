//! Benchmarks of `sordino_crypto::garble`: per ReLU on one thread, with bytes, and AES blocks beside the roofline.
//!
//! A summary with the best of several runs is printed first; criterion's statistics follow.
#![allow(missing_docs, clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use sordino_crypto::cpu::CpuFeatures;
use sordino_crypto::garble::Workspace;
use sordino_crypto::garble::argmax::ArgmaxShape;
use sordino_crypto::garble::circuit::Circuit;
use sordino_crypto::garble::clip::ClipShape;
use sordino_crypto::garble::evaluator::PreparedEvaluator;
use sordino_crypto::garble::garbler::{ChunkGarbler, PreparedGarbler, WaitingGarbler};
use sordino_crypto::garble::hash::{HashCounter, HashKey, encrypt_at_full_speed};
use sordino_crypto::garble::label::{Offset, WireLabel};
use sordino_crypto::garble::layer::Layer;
use sordino_crypto::garble::maximum::MaximumShape;
use sordino_crypto::garble::messages::{ActiveLabels, Reply};
use sordino_crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use sordino_crypto::random::{Generator, Seed};

const INSTANCES: usize = 1024;
const REPEATS: usize = 60;

/// A layer with both parties' material; oblivious transfer is dealt in the clear.
struct Bench {
    layer: Layer,
    offset: Offset,
    key: HashKey,
    generator: Generator,
    workspace: Workspace,
    zero_labels: Vec<Vec<WireLabel>>,
    server: Vec<u64>,
    blinds: Vec<u64>,
}

impl Bench {
    fn new(circuit: Circuit, instances: usize, features: CpuFeatures) -> Self {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        let layer = Layer::new(Arc::new(circuit), instances);
        let circuit = layer.circuit();
        let offset = Offset::random(&mut generator);
        let key = HashKey::random(&mut generator);
        let labels = |generator: &mut Generator, lanes: usize| {
            (0..circuit.client_wires() * lanes).map(|_| generator.next_u128().into()).collect()
        };
        let zero_labels = layer.chunks().map(|chunk| labels(&mut generator, chunk.len())).collect();
        let server = (0..instances * circuit.server_widths().len()).map(|_| generator.next_u64()).collect();
        let shares = circuit.reply_bytes(1) > 0 && circuit.row_count() > 0;
        let blinds = (0..if shares { instances } else { 0 }).map(|_| generator.next_u64()).collect();
        let workspace = Workspace::new(features);
        Self { layer, offset, key, generator, workspace, zero_labels, server, blinds }
    }

    fn garblers(&mut self) -> Vec<ChunkGarbler> {
        let mut counters = HashCounter::new().take(self.layer.hash_count()).expect("a fresh counter");
        self.layer.garblers(self.key, &mut counters, &mut self.generator).expect("enough counters")
    }

    fn garble(&mut self, garblers: Vec<ChunkGarbler>) -> Vec<(Vec<u8>, PreparedGarbler)> {
        let chunks = garblers.into_iter().zip(&self.zero_labels);
        chunks
            .map(|(garbler, labels)| {
                let (tables, prepared) =
                    garbler.garble(&self.offset, labels, &mut self.workspace).expect("labels of the chunk");
                (tables.into_bytes(), prepared)
            })
            .collect()
    }

    /// Garbles as a server that sends each chunk before it makes the next.
    fn garble_streaming(&mut self, garblers: Vec<ChunkGarbler>) {
        let mut frame = vec![0; self.layer.circuit().table_bytes(64)];
        for (garbler, labels) in garblers.into_iter().zip(&self.zero_labels) {
            let tables = &mut frame[..self.layer.circuit().table_bytes(garbler.lanes())];
            let prepared = garbler.garble_into(&self.offset, labels, tables, &mut self.workspace);
            black_box(prepared.expect("labels of the chunk"));
            black_box(&mut frame);
        }
    }

    fn encode(&mut self, prepared: Vec<PreparedGarbler>) -> Vec<(ActiveLabels, WaitingGarbler)> {
        let per_lane = self.layer.circuit().server_widths().len();
        let chunks = prepared.into_iter().zip(self.layer.chunks());
        chunks
            .map(|(prepared, chunk)| {
                let values = &self.server[chunk.start * per_lane..chunk.end * per_lane];
                prepared.encode(&self.offset, values, &mut self.workspace).expect("values of the chunk")
            })
            .collect()
    }

    /// Encodes as a server that sends each chunk before it makes the next.
    fn encode_streaming(&mut self, prepared: Vec<PreparedGarbler>) {
        let circuit = self.layer.circuit();
        let per_lane = circuit.server_widths().len();
        let mut frame = vec![0; circuit.label_bytes(64)];
        for (prepared, chunk) in prepared.into_iter().zip(self.layer.chunks()) {
            let message = &mut frame[..circuit.label_bytes(chunk.len())];
            let values = &self.server[chunk.start * per_lane..chunk.end * per_lane];
            let waiting = prepared.encode_into(&self.offset, values, message, &mut self.workspace);
            black_box(waiting.expect("values of the chunk"));
            black_box(&mut frame);
        }
    }

    /// A garbled layer as the client holds it before the online phase, and the server's part.
    fn prepared(&mut self) -> (Vec<PreparedEvaluator>, Vec<PreparedGarbler>) {
        let garblers = self.garblers();
        let garbled = self.garble(garblers);
        let mut counters = HashCounter::new().take(self.layer.hash_count()).expect("a fresh counter");
        let evaluators = self.layer.evaluators(self.key, &mut counters).expect("enough counters");
        let circuit = self.layer.circuit();
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for ((evaluator, (tables, prepared)), labels) in
            evaluators.into_iter().zip(garbled).zip(&self.zero_labels)
        {
            let tables = sordino_crypto::garble::messages::GarbledChunk::from_bytes(
                circuit,
                evaluator.lanes(),
                tables,
            );
            let tables = tables.expect("tables of the chunk");
            clients.push(evaluator.receive(tables, labels.clone()).expect("labels of the chunk"));
            servers.push(prepared);
        }
        (clients, servers)
    }

    fn evaluate(
        &mut self,
        clients: Vec<PreparedEvaluator>,
        labels: &[(ActiveLabels, WaitingGarbler)],
    ) -> Vec<Reply> {
        let chunks = clients.into_iter().zip(labels).zip(self.layer.chunks());
        chunks
            .map(|((client, (labels, _)), chunk)| {
                let blinds = if self.blinds.is_empty() { &[][..] } else { &self.blinds[chunk] };
                client.evaluate(labels, blinds, &mut self.workspace).expect("material of the chunk")
            })
            .collect()
    }
}

fn best(mut run: impl FnMut() -> Duration) -> f64 {
    (0..REPEATS).map(|_| run()).min().expect("at least one repeat").as_nanos() as f64
}

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

/// Nanoseconds per AES-128 block in registers.
fn roofline(features: CpuFeatures) -> f64 {
    let passes = 5000;
    let blocks = encrypt_at_full_speed(features, passes);
    best(|| timed(|| encrypt_at_full_speed(features, passes))) / blocks as f64
}

fn summarize(name: &str, circuit: Circuit, features: CpuFeatures) {
    let roofline = roofline(features);
    let mut bench = Bench::new(circuit, INSTANCES, features);
    let unit = |nanoseconds: f64| nanoseconds / INSTANCES as f64;
    let garble = unit(best(|| {
        let garblers = bench.garblers();
        timed(|| bench.garble_streaming(garblers))
    }));
    let encode = unit(best(|| {
        let (_, servers) = bench.prepared();
        timed(|| bench.encode_streaming(servers))
    }));
    let is_shared = bench.layer.reply_bytes() > 0;
    let evaluate = unit(best(|| {
        let (clients, servers) = bench.prepared();
        let labels = bench.encode(servers);
        if !is_shared {
            return timed(|| {
                for (client, (labels, _)) in clients.into_iter().zip(&labels) {
                    black_box(client.decode(labels, &mut bench.workspace).expect("material of the chunk"));
                }
            });
        }
        timed(|| bench.evaluate(clients, &labels))
    }));
    let circuit = bench.layer.circuit();
    let ands = circuit.and_count() as f64;
    let hashed_rows = circuit.hash_count() as f64 - 2.0 * ands;
    let (garble_blocks, evaluate_blocks) = (4.0 * ands + 2.0 * hashed_rows, 2.0 * ands + hashed_rows);
    println!(
        "{name:34} {ands:5} AND + {:3} rows, {:6} B tables, {:5} B online | garble {garble:7.1} ns, {:6.1} M AND/s, \
         {:5.0} M AES/s ({:3.0}% of roofline) | evaluate {evaluate:7.1} ns, {:6.1} M AND/s, {:5.0} M AES/s ({:3.0}%) | \
         encode {encode:6.1} ns",
        circuit.row_count(),
        circuit.table_bytes(1),
        circuit.label_bytes(1) + circuit.reply_bytes(1),
        1e3 * ands / garble,
        1e3 * garble_blocks / garble,
        100.0 * roofline * garble_blocks / garble,
        1e3 * ands / evaluate,
        1e3 * evaluate_blocks / evaluate,
        100.0 * roofline * evaluate_blocks / evaluate,
    );
}

fn relu(rounding: Rounding, form: ReluForm) -> Circuit {
    ReluShape::new(32, 12, 32, rounding, form).expect("a valid shape").circuit()
}

fn summary() {
    let features = CpuFeatures::available();
    for (name, level) in [("vector", features), ("AES-NI", features.limited_to("avx2"))] {
        println!("AES-128 roofline, one thread, {name}: {:.0} million blocks/s", 1e3 / roofline(level));
    }
    summarize("relu exact", relu(Rounding::Floor, ReluForm::Projection), features);
    summarize("relu exact, gates alone", relu(Rounding::Floor, ReluForm::AndOnly), features);
    let clip = ClipShape::new(32, 12, 32, Rounding::Floor, 6 << 12).expect("a valid shape");
    summarize("relu6 exact", clip.circuit(), features);
    let maximum = MaximumShape::new(4, 32, 32).expect("a valid shape");
    summarize("maximum of 4", maximum.circuit(), features);
    let argmax = ArgmaxShape::new(10, 32).expect("a valid shape");
    summarize("argmax of 10", argmax.circuit(), features);
    let aes_ni = features.limited_to("avx2");
    summarize("relu exact, AES-NI", relu(Rounding::Floor, ReluForm::Projection), aes_ni);
    let portable = CpuFeatures::PORTABLE;
    summarize("relu exact, portable", relu(Rounding::Floor, ReluForm::Projection), portable);
}

fn statistics(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("garble");
    group.throughput(Throughput::Elements(INSTANCES as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for (name, form) in [("relu/projection", ReluForm::Projection), ("relu/and-only", ReluForm::AndOnly)] {
        let garbling = std::cell::RefCell::new(Bench::new(
            relu(Rounding::Floor, form),
            INSTANCES,
            CpuFeatures::available(),
        ));
        group.bench_function(format!("{name}/garble"), |bencher| {
            bencher.iter_batched(
                || garbling.borrow_mut().garblers(),
                |garblers| garbling.borrow_mut().garble_streaming(garblers),
                BatchSize::PerIteration,
            );
        });
        group.bench_function(format!("{name}/evaluate"), |bencher| {
            bencher.iter_batched(
                || {
                    let mut bench = garbling.borrow_mut();
                    let (clients, servers) = bench.prepared();
                    let labels = bench.encode(servers);
                    (clients, labels)
                },
                |(clients, labels)| garbling.borrow_mut().evaluate(clients, &labels),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn main() {
    // `cargo test` runs benches without `--bench`; there is nothing to measure then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // A filter asks for criterion's statistics of one measurement.
    if std::env::args().skip(1).all(|argument| argument.starts_with('-')) {
        summary();
    }
    let mut criterion = Criterion::default().configure_from_args();
    statistics(&mut criterion);
    criterion.final_summary();
}
