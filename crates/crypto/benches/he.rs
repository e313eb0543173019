//! Benchmarks of `sordino_crypto::he`, one thread: the four 3x3 layers of a ResNet-18 at 32-bit shares.
//!
//! `cargo bench -p sordino-crypto --bench he`. Beside each layer stand its products, the bytes in both directions, and
//! the bytes of weights that an answer has to read: memory bandwidth is the roofline of the server.
#![allow(missing_docs, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use sordino_crypto::he::{
    AnswerSecrets, ClientKey, ConvolutionShape, Halves, HeOutline, HeParameters, LayerSecrets, LayerUniform,
    Layout, LinearAnswer, LinearRequest, LinearShape, PreparedWeights, PublicSeed, RequestSecrets,
    WeightBits, WeightStorage, bench_support,
};
use sordino_crypto::random::{Direction, InferenceId, Scope, Seed, SessionId};

const LAYERS: [(usize, usize); 4] = [(64, 32), (128, 16), (256, 8), (512, 4)];

/// The fastest of many runs, which a busy machine disturbs least.
fn best<T>(repeats: usize, mut run: impl FnMut() -> T) -> f64 {
    let mut once = || {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    };
    (0..repeats).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn scope(direction: Direction) -> Scope {
    Scope { session: SessionId([1; 32]), inference: InferenceId([2; 16]), step: 1, direction }
}

fn layers(criterion: &mut Criterion) {
    let shape =
        |(channels, size)| LinearShape::Convolution(ConvolutionShape::same(channels, channels, size, 3));
    let outline =
        HeOutline::from_layers(32, WeightBits::Eight, LAYERS.map(shape).to_vec()).also_bearing(4608);
    let parameters = HeParameters::from_outline(&outline).expect("the working point");
    println!("{parameters}");
    for layer in LAYERS {
        bench_layer(criterion, &parameters, &shape(layer), &format!("{0}->{0} at {1}x{1}", layer.0, layer.1));
    }
}

fn bench_layer(criterion: &mut Criterion, parameters: &HeParameters, shape: &LinearShape, name: &str) {
    let (up, down) = (scope(Direction::ClientToServer), scope(Direction::ServerToClient));
    let root = Seed::from_bytes([7; 32]);
    let layout = Layout::new(parameters, shape).expect("announced");
    let session = PublicSeed::derive(&[3; 32]);
    let (uniform, layer) = (LayerUniform::new(&session, 1), LayerSecrets::derive(&root, &session, 1));
    let key = ClientKey::generate(parameters, &root, &up);
    let public_key = key.public_key(&session, &root, &up);
    let mut generator = Seed::from_bytes([8; 32]).generator();
    let blinds: Vec<_> = (0..shape.input_values()).map(|_| generator.next_u64() & 0xffff_ffff).collect();
    let weights: Vec<_> = (0..shape.weights()).map(|_| (generator.next_u64() % 255) as i16 - 127).collect();
    let prepared = PreparedWeights::new(&layout, &weights, WeightStorage::Everything).expect("8-bit weights");
    let on_the_fly =
        PreparedWeights::new(&layout, &weights, WeightStorage::AtMost(0)).expect("8-bit weights");
    let encrypt = || {
        key.encrypt(&layout, &uniform, &blinds, RequestSecrets::derive(&root, &up)).expect("as many blinds")
    };
    let request = encrypt();
    let answer_with = |weights: &PreparedWeights, halves: Halves| {
        let secrets = (&layer, AnswerSecrets::derive(&root, &down));
        weights.answer(&public_key, &request, secrets, halves).expect("fits")
    };
    let answer = |weights: &PreparedWeights| answer_with(weights, Halves::First);
    let second = answer_with(&prepared, Halves::Both).0.take_second_halves().expect("both were asked for");
    let answered = answer(&prepared).0;
    println!(
        "{name}: {} x {} ciphertexts, {} products, up {:.2} MB, down {:.2} MB, weights {:.0} MB",
        layout.input_ciphertexts(),
        layout.output_ciphertexts(),
        layout.products(),
        LinearRequest::length(&layout) as f64 / 1e6,
        LinearAnswer::length(&layout, Halves::First) as f64 / 1e6,
        PreparedWeights::bytes(&layout) as f64 / 1e6,
    );
    println!(
        "{name}: best of 20: encrypt {:.2} ms, server {:.2} ms, first of a session {:.2} ms (weights on the fly {:.1} ms), decrypt \
         {:.2} ms",
        1e3 * best(20, encrypt),
        1e3 * best(20, || answer(&prepared)),
        1e3 * best(20, || answer_with(&prepared, Halves::Both)),
        1e3 * best(5, || answer(&on_the_fly)),
        1e3 * best(20, || key.decrypt(&layout, &second, &answered).expect("fits")),
    );
    let mut group = criterion.benchmark_group(name);
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    group.bench_function("client encrypt", |bencher| bencher.iter(encrypt));
    group.bench_function("server answer", |bencher| bencher.iter(|| answer(&prepared)));
    group.bench_function("server answer, weights on the fly", |bencher| bencher.iter(|| answer(&on_the_fly)));
    group.bench_function("client decrypt", |bencher| {
        bencher.iter(|| key.decrypt(&layout, &second, &answered).expect("fits"))
    });
    let (sent, received) = (request.to_bytes(&layout), answered.to_bytes());
    group.bench_function("server reads the request", |bencher| {
        bencher.iter(|| LinearRequest::from_bytes(&layout, &sent).expect("well formed"));
    });
    group.bench_function("client reads the answer", |bencher| {
        bencher.iter(|| LinearAnswer::from_bytes(&layout, Halves::First, &received).expect("well formed"));
    });
    group.finish();
}

fn kernels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernels");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    for degree in [2048, 4096] {
        let mut transform = bench_support::Transform::new(degree);
        let (forward, inverse) = (best(2000, || transform.forward()), best(2000, || transform.inverse()));
        println!(
            "transforms of degree {degree}: best of 2000: {:.2} / {:.2} us",
            1e6 * forward,
            1e6 * inverse
        );
        group.bench_function(BenchmarkId::new("forward transform", degree), |b| {
            b.iter(|| transform.forward())
        });
        group.bench_function(BenchmarkId::new("inverse transform", degree), |b| {
            b.iter(|| transform.inverse())
        });
    }
    // Weights of 32 terms and 4 outputs of one limb: 4 MB, so that the figure includes the memory behind the cache.
    let mut accumulation = bench_support::MultiplyAccumulate::new(32);
    let seconds = best(200, || accumulation.run());
    println!(
        "multiply-accumulate: best of 200: {:.2} us a product and limb, {:.1} GB/s of weights",
        1e6 * seconds / 128.0,
        accumulation.weight_bytes() as f64 / seconds / 1e9
    );
    group.throughput(criterion::Throughput::Bytes(accumulation.weight_bytes() as u64));
    group.bench_function("multiply-accumulate, 128 products of one limb", |b| {
        b.iter(|| black_box(accumulation.run()));
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    kernels(&mut criterion);
    layers(&mut criterion);
    criterion.final_summary();
}
