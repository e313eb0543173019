//! Benchmarks of `sordino_crypto::ring`, one thread: multiply-adds per second for layers, bytes per second for vectors.
//!
//! Rooflines: a Zen 4 core does 64 byte products per cycle with VNNI, hence 64 / ceil(l / 8) multiply-adds (16 at
//! l = 32, about 59 billion per second at 3.7 GHz); `roofline` copies memory, at the two sizes that vectors are
//! measured with, and counts bytes read plus bytes written, as `vector` does.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use sordino_crypto::cpu::CpuFeatures;
use sordino_crypto::random::{Generator, Seed};
use sordino_crypto::ring::geometry::{ConvGeometry, ConvShape, Extent};
use sordino_crypto::ring::{PackedWeights, RingVector, RingWidth, Share, SumPool, Weights};

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    group
}

fn generator() -> Generator {
    Seed::from_bytes([1; 32]).generator()
}

fn random_values(bits: u32, count: usize) -> RingVector {
    let width = RingWidth::new(bits).expect("benchmarked widths are valid");
    Share::random(width, count, &mut generator()).expose().clone()
}

fn square(inputs: usize, outputs: usize, side: usize, filter: usize, stride: usize) -> ConvGeometry {
    ConvGeometry::square(inputs, outputs, side, filter, stride).expect("benchmarked shapes are valid")
}

fn depthwise(channels: usize, side: usize, stride: usize) -> ConvGeometry {
    let shape = ConvShape { groups: channels, ..*square(channels, channels, side, 3, stride).shape() };
    ConvGeometry::new(shape).expect("benchmarked shapes are valid")
}

/// One layer on one kind of processor.
struct Case {
    name: String,
    geometry: ConvGeometry,
    bits: u32,
    weight_bits: u32,
    features: CpuFeatures,
}

impl Case {
    fn new(name: &str, geometry: ConvGeometry) -> Self {
        Self { name: name.to_owned(), geometry, bits: 32, weight_bits: 8, features: CpuFeatures::available() }
    }

    /// Times whole calls: laying out the input, multiplying, writing the output.
    fn bench(self, group: &mut BenchmarkGroup<'_, WallTime>) {
        let Self { name, geometry, bits, weight_bits, features } = self;
        let mut generator = generator();
        let halves: Vec<i16> =
            (0..geometry.weight_len()).map(|_| generator.next_u64() as i16 >> (16 - weight_bits)).collect();
        let bytes: Vec<i8> = halves.iter().map(|&weight| weight as i8).collect();
        let weights = if weight_bits <= 8 { Weights::Bytes(&bytes) } else { Weights::Halves(&halves) };
        let layer =
            PackedWeights::for_features(geometry, weights, features).expect("the weights are the geometry's");
        let input = random_values(bits, geometry.input_len());
        group.throughput(Throughput::Elements(geometry.multiply_adds()));
        group.bench_function(format!("{name}/{bits} bits, weights {weight_bits}"), |bencher| {
            bencher.iter(|| layer.convolve(black_box(&input)).expect("the input is the geometry's"));
        });
    }
}

fn layers(criterion: &mut Criterion) {
    // A server has moved larger buffers before, after which the allocator keeps memory of this size at hand.
    drop(black_box(vec![1_u8; 16 << 20]));
    let mut group = group(criterion, "layer");
    for (name, geometry) in [
        ("3x3 64->64 at 32x32", square(64, 64, 32, 3, 1)),
        ("3x3 128->128 at 16x16", square(128, 128, 16, 3, 1)),
        ("3x3 256->256 at 8x8", square(256, 256, 8, 3, 1)),
        ("3x3 512->512 at 4x4", square(512, 512, 4, 3, 1)),
        ("3x3 64->128 stride 2 at 32x32", square(64, 128, 32, 3, 2)),
        ("1x1 64->128 stride 2 at 32x32", square(64, 128, 32, 1, 2)),
        ("1x1 256->64 at 32x32", square(256, 64, 32, 1, 1)),
        ("3x3 3->64 at 32x32", square(3, 64, 32, 3, 1)),
        ("3x3 depthwise 128 at 32x32", depthwise(128, 32, 1)),
        ("3x3 depthwise 128 stride 2 at 32x32", depthwise(128, 32, 2)),
        ("fully connected 512->100", square(512, 100, 1, 1, 1)),
        ("fully connected 4096->4096", square(4096, 4096, 1, 1, 1)),
    ] {
        Case::new(name, geometry).bench(&mut group);
    }
    for (bits, weight_bits) in [(16, 8), (20, 8), (41, 8), (64, 8), (32, 12), (41, 12)] {
        let case = Case::new("3x3 128->128 at 16x16", square(128, 128, 16, 3, 1));
        Case { bits, weight_bits, ..case }.bench(&mut group);
    }
    group.finish();
}

/// The same layer on lesser processors.
fn levels(criterion: &mut Criterion) {
    let mut group = group(criterion, "level");
    for ceiling in ["avx2", "portable"] {
        let features = CpuFeatures::detect().limited_to(ceiling);
        for bits in [20, 32, 41] {
            let case = Case::new(&format!("{ceiling}/3x3 128->128 at 16x16"), square(128, 128, 16, 3, 1));
            Case { bits, features, ..case }.bench(&mut group);
        }
        let case = Case::new(&format!("{ceiling}/3x3 depthwise 128 at 32x32"), depthwise(128, 32, 1));
        Case { features, ..case }.bench(&mut group);
    }
    group.finish();
}

fn pooling(criterion: &mut Criterion) {
    let mut group = group(criterion, "sum-pool");
    let side = Extent::square(32);
    let two = Extent::square(2);
    for (name, pool) in [
        ("2x2 stride 2, 64 at 32x32", SumPool::new(64, side, two, two, Extent::square(0))),
        ("global, 64 at 32x32", SumPool::global(64, side)),
    ] {
        let pool = pool.expect("benchmarked shapes are valid");
        let input = random_values(32, pool.geometry().input_len());
        group.throughput(Throughput::Bytes(4 * input.len() as u64));
        group
            .bench_function(name, |bencher| bencher.iter(|| pool.apply(black_box(&input)).expect("it fits")));
    }
    group.finish();
}

/// Vectors that stay in the cache, and vectors that do not.
const SIZES: [(&str, usize); 2] = [("64 Ki values", 1 << 16), ("16 Mi values", 1 << 24)];

fn vectors(criterion: &mut Criterion) {
    let mut group = group(criterion, "vector");
    for (size, count) in SIZES {
        let other = random_values(32, count);
        let mut values = random_values(32, count);
        group.throughput(Throughput::Bytes(12 * count as u64));
        group.bench_function(format!("add/32 bits/{size}"), |bencher| {
            bencher.iter(|| black_box(&mut values).add(black_box(&other)).expect("both are alike"));
        });
        group.throughput(Throughput::Bytes(8 * count as u64));
        group.bench_function(format!("truncate/32 bits/{size}"), |bencher| {
            bencher.iter(|| black_box(&mut values).truncate(12).expect("12 is below 32"));
        });
    }
    group.finish();
}

/// Bytes per second of the packed form.
fn packing(criterion: &mut Criterion) {
    let mut group = group(criterion, "packing");
    let count = 1 << 16;
    for bits in [8, 16, 20, 24, 31, 32, 41, 64] {
        let values = random_values(bits, count);
        let bytes = values.to_bytes();
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("to bytes/{bits} bits"), |bencher| {
            bencher.iter(|| black_box(&values).to_bytes());
        });
        group.bench_function(format!("from bytes/{bits} bits"), |bencher| {
            bencher.iter(|| {
                RingVector::from_bytes(values.width(), count, black_box(&bytes)).expect("packed above")
            });
        });
    }
    group.finish();
}

fn roofline(criterion: &mut Criterion) {
    let mut group = group(criterion, "roofline");
    for (size, count) in SIZES {
        let source = vec![1_u32; count];
        let mut target = vec![0_u32; count];
        group.throughput(Throughput::Bytes(8 * count as u64));
        group.bench_function(format!("copy/{size}"), |bencher| {
            bencher.iter(|| black_box(&mut target).copy_from_slice(black_box(&source)));
        });
    }
    group.finish();
}

criterion_group!(benches, layers, levels, pooling, vectors, packing, roofline);
criterion_main!(benches);
