//! Benchmarks of `sordino_crypto::ot`: one thread, rates per side, with the bytes and rooflines beside them.
//!
//! `cargo bench -p sordino-crypto --features testing --bench ot`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use criterion::{BatchSize, Criterion, Throughput};
use sordino_crypto::cpu::CpuFeatures;
use sordino_crypto::ot::extension::{
    Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup,
};
use sordino_crypto::ot::stages::{self, Stages};
use sordino_crypto::ot::values::{CorrelationOffset, SecretBits};
use sordino_crypto::ot::{Depth, ideal};
use sordino_crypto::random::{Generator, Seed, SessionId};

const SESSION: SessionId = SessionId([1; 32]);
const CHUNK: usize = 1 << 17;

fn generator() -> Generator {
    Seed::from_bytes([2; 32]).generator()
}

fn states(cpu: CpuFeatures, depth: Depth) -> (CorrelatedSender, CorrelatedReceiver) {
    let mut generator = generator();
    let offset = CorrelationOffset::random(&mut generator);
    ideal::extension_on(cpu, depth, SESSION, offset, &mut generator)
}

fn extension(criterion: &mut Criterion) {
    let all = CpuFeatures::available();
    let levels = [("best", all), ("avx2", all.limited_to("avx2")), ("portable", CpuFeatures::PORTABLE)];
    for ((name, cpu), depth) in levels.into_iter().flat_map(|level| Depth::ALL.map(|depth| (level, depth))) {
        let (_, mut receiver) = states(cpu, depth);
        let choices = SecretBits::random(CHUNK, &mut generator());
        let mut labels = vec![0; CHUNK];
        let mut group = criterion.benchmark_group(format!(
            "extension/{name}/{} B per OT",
            Corrections::byte_length(CHUNK, depth) / CHUNK
        ));
        group.throughput(Throughput::Elements(CHUNK as u64));
        group.bench_function("receiver", |bencher| {
            bencher.iter(|| {
                receiver.next_chunk(CHUNK).unwrap().extend_into(black_box(&choices), &mut labels).unwrap()
            });
        });
        // A chunk is accepted with its own corrections only.
        let (mut sender, mut receiver) = states(cpu, depth);
        let mut chosen = vec![0; CHUNK];
        group.bench_function("sender", |bencher| {
            bencher.iter_batched(
                || receiver.next_chunk(CHUNK).unwrap().extend_into(&choices, &mut chosen).unwrap(),
                |corrections| {
                    sender.next_chunk(CHUNK).unwrap().extend_into(&corrections, &mut labels).unwrap()
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

/// Both depths in turns, so that whatever else the machine does meets both: nanoseconds per OT, the least and the median
/// of many rounds. Criterion measures one after the other.
fn depths_in_turns() {
    const ROUNDS: usize = 101;
    let all = CpuFeatures::available();
    for (name, cpu) in [("best", all), ("avx2", all.limited_to("avx2"))] {
        let mut sides = Depth::ALL.map(|depth| states(cpu, depth));
        let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
        let choices = SecretBits::random(CHUNK, &mut generator());
        let mut labels = vec![0; CHUNK];
        for _ in 0..ROUNDS {
            for ((sender, receiver), times) in sides.iter_mut().zip(&mut times) {
                let start = Instant::now();
                let chunk = receiver.next_chunk(CHUNK).unwrap();
                let corrections = chunk.extend_into(&choices, &mut labels).unwrap();
                times[0].push(start.elapsed());
                let start = Instant::now();
                sender.next_chunk(CHUNK).unwrap().extend_into(&corrections, &mut labels).unwrap();
                times[1].push(start.elapsed());
            }
        }
        for (depth, times) in Depth::ALL.into_iter().zip(times) {
            for (side, mut times) in ["receiver", "sender"].into_iter().zip(times) {
                times.sort_unstable();
                let [least, median] =
                    [0, ROUNDS / 2].map(|place| times[place].as_secs_f64() * 1e9 / CHUNK as f64);
                println!("in turns/{name}/depth {depth}/{side}: {least:.1} ns per OT, median {median:.1}");
            }
        }
    }
}

/// The stages of a block apart, and what they are bounded by: an OT takes four cipher blocks of the receiver
/// (3.75 of the sender), or 32 at depth 8, and moves sixteen bytes through the transposition.
fn rooflines(criterion: &mut Criterion) {
    for depth in Depth::ALL {
        let mut stages = Stages::new(CpuFeatures::available(), depth, &mut generator());
        let mut group = criterion.benchmark_group(format!("stages of the extension/depth {depth}"));
        group.throughput(Throughput::Elements(stages::TRANSFERS as u64));
        group.bench_function("columns, per OT", |bencher| bencher.iter(|| stages.make_columns()));
        group.bench_function("transposition, per OT", |bencher| {
            bencher.iter(|| black_box(stages.transpose()[0]));
        });
        group.finish();
    }

    let mut group = criterion.benchmark_group("roofline");
    let cipher = Aes128Enc::new(&Array([3; 16]));
    let mut blocks = vec![Array([1; 16]); 1024];
    group.throughput(Throughput::Elements(1024 / 4));
    group.bench_function("four AES blocks of the aes crate, per OT", |bencher| {
        bencher.iter(|| cipher.encrypt_blocks(black_box(&mut blocks)));
    });
    let source = vec![5_u128; CHUNK];
    let mut target = vec![0_u128; CHUNK];
    group.throughput(Throughput::Elements(CHUNK as u64));
    group.bench_function("copy of one label, per OT", |bencher| {
        bencher.iter(|| black_box(&mut target).copy_from_slice(black_box(&source)));
    });
    group.finish();
}

fn base(criterion: &mut Criterion) {
    let offset = || CorrelationOffset::random(&mut generator());
    for depth in Depth::ALL {
        let trees = depth.trees();
        let mut group = criterion.benchmark_group(format!("setup/128 base transfers and {trees} trees"));
        group.bench_function("receiver start", |bencher| {
            bencher.iter(|| ReceiverSetup::start(SESSION, depth, &mut generator()))
        });
        let (offer, _) = ReceiverSetup::start(SESSION, depth, &mut generator());
        group.bench_function("sender start", |bencher| {
            bencher.iter(|| SenderSetup::start(SESSION, depth, offset(), &offer, &mut generator()));
        });
        let (answer, _) = SenderSetup::start(SESSION, depth, offset(), &offer, &mut generator());
        group.bench_function("receiver start and finish", |bencher| {
            bencher.iter(|| {
                let (_, setup) = ReceiverSetup::start(SESSION, depth, &mut generator());
                setup.finish(&answer, &mut generator()).unwrap()
            });
        });
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    depths_in_turns();
    extension(&mut criterion);
    rooflines(&mut criterion);
    base(&mut criterion);
    criterion.final_summary();
}
