//! Benchmarks of `crypto::ot`: one thread, rates per side, with the bytes and rooflines beside them.
//!
//! `cargo bench -p sordino-crypto --bench ot`
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use crypto::cpu::CpuFeatures;
use crypto::ot::extension::{Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup};
use crypto::ot::ideal;
use crypto::ot::values::{ChoiceBits, CorrelationOffset};
use crypto::random::{Generator, Seed, SessionId};

const SESSION: SessionId = SessionId([1; 32]);
const CHUNK: usize = 1 << 17;

fn generator() -> Generator {
    Seed::from_bytes([2; 32]).generator()
}

fn states(cpu: CpuFeatures) -> (CorrelatedSender, CorrelatedReceiver) {
    let mut generator = generator();
    let offset = CorrelationOffset::random(&mut generator);
    ideal::extension_on(cpu, SESSION, offset, &mut generator)
}

fn extension(criterion: &mut Criterion) {
    let all = CpuFeatures::available();
    for (name, cpu) in [("best", all), ("avx2", all.limited_to("avx2")), ("portable", CpuFeatures::PORTABLE)]
    {
        let (mut sender, mut receiver) = states(cpu);
        let choices = ChoiceBits::random(CHUNK, &mut generator());
        let mut labels = vec![0; CHUNK];
        let mut group = criterion.benchmark_group(format!(
            "extension/{name}/{} B per OT",
            Corrections::byte_length(CHUNK) / CHUNK
        ));
        group.throughput(Throughput::Elements(CHUNK as u64));
        group.bench_function("receiver", |bencher| {
            bencher.iter(|| {
                receiver.next_chunk(CHUNK).unwrap().extend_into(black_box(&choices), &mut labels).unwrap()
            });
        });
        let corrections = receiver.next_chunk(CHUNK).unwrap().extend_into(&choices, &mut labels).unwrap();
        group.bench_function("sender", |bencher| {
            bencher.iter(|| {
                sender.next_chunk(CHUNK).unwrap().extend_into(black_box(&corrections), &mut labels).unwrap()
            });
        });
        group.finish();
    }
}

fn base(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("setup/128 base transfers and 32 trees");
    let offset = || CorrelationOffset::random(&mut generator());
    group.bench_function("receiver start", |bencher| {
        bencher.iter(|| ReceiverSetup::start(SESSION, &mut generator()))
    });
    let (offer, _) = ReceiverSetup::start(SESSION, &mut generator());
    group.bench_function("sender start", |bencher| {
        bencher.iter(|| SenderSetup::start(SESSION, offset(), &offer, &mut generator()));
    });
    let (answer, _) = SenderSetup::start(SESSION, offset(), &offer, &mut generator());
    group.bench_function("receiver start and finish", |bencher| {
        bencher.iter(|| {
            let (_, setup) = ReceiverSetup::start(SESSION, &mut generator());
            setup.finish(&answer, &mut generator()).unwrap()
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    extension(&mut criterion);
    base(&mut criterion);
    criterion.final_summary();
}
