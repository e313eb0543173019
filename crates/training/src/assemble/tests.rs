//! Networks of every family against the plain executor, their counts, their gradients, and numbers in and out.

use network::cost;
use network::mask::{ActivationMask, Bits, SiteMask};
use network::reference::float;
use network::spec::NetworkSpec;
use network::transform;
use network::walk::{Operation, StageIndex};
use network::weights::{FloatWeights, LayerWeights};
use network::zoo;
use recipes::random::Stream;

use super::*;
use crate::tensor::{no_grad, to_floats};

/// One small network of every family, and what transforms make of them.
fn small_networks() -> Vec<NetworkSpec> {
    let names = [
        ("resnet10:m=2,stem=imagenet", 32),
        ("resnet18:m=2", 16),
        ("resnet10:m=4", 8),
        ("resnet20:m=3", 8),
        ("hrn-2x5x3x:m=4", 16),
        ("wrn-16x1", 16),
        ("vgg11:c=2,hidden=4", 32),
        ("mobilenetv1", 8),
        ("mobilenetv2:clip=yes", 8),
        ("sphynx:c=2,d=3,reduce=1+2", 16),
        ("darts:c=4,d=4", 16),
        ("pc-darts:c=4,d=3", 16),
        ("signet:signs=0+2+3,values=4,stream=4+6+8,depths=1+2+1,full=2,stem-relu=yes", 16),
        ("signet:signs=2+3,values=1,stream=4+6,depths=1+2,branches=yes", 16),
        ("signet:signs=2+3,values=2,stream=4+6,depths=1+2,slopes=no,shortcut=strided", 16),
    ];
    let mut specs: Vec<NetworkSpec> = names
        .iter()
        .map(|(name, side)| zoo::build(name, *side, 10).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect();
    let reshaped = zoo::build("hrn-2x5x3x:m=8", 16, 10).unwrap();
    let thinned = transform::thin_stage(&reshaped, StageIndex(2), transform::ThinChoice::AfterSum).unwrap();
    specs.push(transform::cull_stage(&thinned, StageIndex(1)).unwrap());
    specs.push(transform::reuse_relus(&specs[specs.len() - 1], transform::Reuse::new(4)).unwrap());
    specs.push(NetworkSpec::from_toml(LISTED).unwrap());
    specs
}

/// Signs shared by channels that stand apart.
const LISTED: &str = r#"
    name = "listed"
    classes = 10
    input = { channels = 3, height = 6, width = 6 }
    head = ["global_average_pool", "classifier"]
    [stem]
    layers = [
        { conv = { out = 6, filter = 3 } }, "batch_norm",
        { shared_signs = { groups = [[4, 0], [1, 5, 3], [2]], slopes = true } },
        { conv = { out = 4, filter = 3 } }, "batch_norm", { shared_signs = { groups = [[3, 0, 1, 2]] } },
        { conv = { out = 4, filter = 3 } }, "batch_norm", { shared_signs = { values_per_sign = 4 } },
    ]
"#;

fn image(spec: &NetworkSpec, seed: u64) -> Vec<f32> {
    let mut stream = Stream::new("image", seed);
    (0..spec.draft().input.scalars()).map(|_| stream.between(-2.0, 2.0)).collect()
}

fn batch(spec: &NetworkSpec, count: u64, kind: Kind) -> Tensor {
    // Tests run side by side already, and small tensors gain nothing from more threads.
    crate::tensor::set_threads(1);
    let Shape { channels, height, width } = spec.draft().input;
    let numbers: Vec<f32> = (0..count).flat_map(|seed| image(spec, seed)).collect();
    let shape = [count as i64, channels as i64, height as i64, width as i64];
    Device::Cpu.floats(&numbers, &shape).to_kind(kind)
}

fn assemble(spec: &NetworkSpec, precision: Precision) -> TrainableNetwork {
    let options = AssembleOptions { precision, ..AssembleOptions::default() };
    TrainableNetwork::new(spec, &options, Device::Cpu).unwrap()
}

fn random_mask(spec: &NetworkSpec) -> ActivationMask {
    let mut stream = Stream::new("mask", 4);
    let masks = spec.walk().sites().iter().map(|site| match site.index.0 % 4 {
        0 => SiteMask::KeepAll,
        1 => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|_| stream.below(2) == 1))),
        2 => SiteMask::Channels(Bits::collect((0..site.shape.channels).map(|_| stream.below(2) == 1))),
        _ => SiteMask::DropAll,
    });
    ActivationMask::new(spec, masks.collect()).unwrap()
}

/// Random weights, with batch norms that learn no scale left without one.
fn random_weights(spec: &NetworkSpec, seed: u64) -> FloatWeights {
    let mut layers = FloatWeights::random(spec, seed).layers().clone();
    for step in spec.walk().steps() {
        if let (Operation::BatchNorm { affine: false }, Some(LayerWeights::BatchNorm { scale, shift, .. })) =
            (&step.operation, layers.get_mut(&step.name))
        {
            scale.fill(1.0);
            shift.fill(0.0);
        }
    }
    FloatWeights::new(spec, layers).unwrap()
}

/// Compares the logits of two images with the plain executor's.
fn assert_equals_the_reference(network: &TrainableNetwork, weights: &FloatWeights, mask: &ActivationMask) {
    let spec = network.spec();
    let came = to_floats(&no_grad(|| network.forward(&batch(spec, 2, Kind::Float), Mode::Evaluate).logits));
    for index in 0..2 {
        let trace = float::run(spec, weights, Some(mask), &image(spec, index)).unwrap();
        let scale = trace.logits().iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
        for (came, expected) in came[index as usize * 10..].iter().zip(trace.logits()) {
            assert!((came - expected).abs() < 2e-4 * scale, "{}: {came} {expected}", spec.name());
        }
    }
}

#[test]
fn every_family_computes_what_the_plain_executor_computes() {
    for spec in small_networks() {
        let weights = random_weights(&spec, 3);
        for innermost_channels in [false, true] {
            let options = AssembleOptions::default();
            let mut network =
                TrainableNetwork::laid_out(&spec, &options, Device::Cpu, innermost_channels).unwrap();
            network.load_float_weights(&weights).unwrap();
            assert_equals_the_reference(&network, &weights, &ActivationMask::keep_all(&spec));
            assert_eq!(network.to_float_weights().unwrap(), weights, "{}", spec.name());
        }
    }
}

#[test]
fn masked_networks_compute_what_the_plain_executor_computes() {
    for spec in small_networks() {
        let weights = random_weights(&spec, 5);
        let mask = random_mask(&spec);
        let mut network = assemble(&spec, Precision::F32);
        network.load_float_weights(&weights).unwrap();
        network.set_mask(&mask).unwrap();
        assert_eq!(network.relu_count(), mask.relu_count());
        assert_equals_the_reference(&network, &weights, &mask);
    }
}

#[test]
fn what_is_counted_from_the_spec_is_what_is_trained() {
    for spec in small_networks() {
        let network = assemble(&spec, Precision::F32);
        let figures = cost::Cost::of(&spec);
        assert_eq!(network.relu_count(), figures.relus, "{}", spec.name());
        assert_eq!(network.counts(), figures.counts(), "{}", spec.name());
        assert_eq!(network.parameter_count(), figures.parameters, "{}", spec.name());
    }
}

#[test]
fn slopes_leave_as_sixteenths() {
    let spec = zoo::build("signet:signs=0+2,stream=4+4,depths=1+1", 8, 10).unwrap();
    let network = assemble(&spec, Precision::F32);
    let name = "stage2.block1.body.signs1";
    let (_, mut slope) =
        network.parameters().named().find(|(known, _)| *known == format!("{name}.slope")).unwrap();
    let _ = no_grad(|| slope.fill_(0.2));
    let weights = network.to_float_weights().unwrap();
    assert_eq!(weights.layer(name), Some(&LayerWeights::Slopes { slopes: vec![0.1875; 8] }));
    // A checkpoint keeps what was learned, so that learning goes on where it was.
    assert_eq!(network.to_arrays()[&format!("{name}.slope")].floats().unwrap(), [0.2; 8]);
    assert_equals_the_reference(&network, &weights, &ActivationMask::keep_all(&spec));
}

#[test]
fn bf16_stays_near_full_precision() {
    let spec = zoo::build("hrn-2x5x3x:m=4", 16, 10).unwrap();
    let weights = random_weights(&spec, 3);
    let logits = |precision| {
        let mut network = assemble(&spec, precision);
        network.load_float_weights(&weights).unwrap();
        let mode = Mode::Train { drop_path: None };
        to_floats(&no_grad(|| network.forward(&batch(&spec, 8, Kind::Float), mode).logits))
    };
    let (exact, rounded) = (logits(Precision::F32), logits(Precision::Bf16));
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let difference: Vec<f32> = exact.iter().zip(&rounded).map(|(a, b)| a - b).collect();
    assert!(norm(&difference) < 0.05 * norm(&exact), "{} of {}", norm(&difference), norm(&exact));
    assert!(norm(&difference) > 0.0);
}

/// Depthwise and clipped, as MobileNets are.
const SEPARABLE: &str = r#"
    name = "separable"
    classes = 10
    input = { channels = 3, height = 6, width = 6 }
    head = ["global_average_pool", "classifier"]
    [stem]
    layers = [
        { conv = { out = 4, filter = 3, bias = true } }, "batch_norm", "relu6",
        { conv = { out = 4, filter = 3, groups = "depthwise", stride = 2 } }, "plain_batch_norm", "relu6",
        { max_pool = { window = 2, stride = 1 } }, { conv = { out = 5, filter = 3, dilation = 2 } }, "relu",
    ]
"#;

/// Compares a few entries of the gradient of `sum(logits * factors)` with finite differences, in f64.
fn check_gradients(network: &mut TrainableNetwork, mode: Mode<'_>) {
    let spec = network.spec().clone();
    let images = batch(&spec, 3, Kind::Double);
    let mut stream = Stream::new("factors", 1);
    let factors: Vec<f32> = (0..30).map(|_| stream.between(-1.0, 1.0)).collect();
    let factors = Device::Cpu.floats(&factors, &[3, 10]).to_kind(Kind::Double);
    let loss = |network: &TrainableNetwork| {
        let output = network.forward(&images, mode);
        let second = output.auxiliary.map(|logits| (logits * &factors).sum(None));
        let first = (output.logits * &factors).sum(None);
        second.map_or_else(|| first.shallow_clone(), |second| &first + second)
    };
    let value = loss(network);
    let gradient = network.parameters_mut().gradient(&value).copy();
    let names: Vec<(String, Tensor, Tensor)> = {
        let parameters = network.parameters();
        let gradients: Vec<Tensor> = parameters.named_in(&gradient).map(|(_, value)| value).collect();
        parameters.named().zip(gradients).map(|((name, value), g)| (name.to_owned(), value, g)).collect()
    };
    // Slopes are used as sixteenths, between which differences are zero or infinite; `signs` has their test.
    for (name, value, gradient) in names.into_iter().filter(|(name, ..)| !name.ends_with(".slope")) {
        let flat = value.reshape([-1]);
        let index = i64::from(stream.below(flat.numel() as u32));
        // The entry of a view with any strides, as a tensor of no dimensions.
        let sides = value.size();
        let mut rest = index;
        let mut entry = value.shallow_clone();
        let mut slope = gradient.shallow_clone();
        for (dimension, _) in sides.iter().enumerate() {
            let inner: i64 = sides[dimension + 1..].iter().product();
            entry = entry.get(rest / inner);
            slope = slope.get(rest / inner);
            rest %= inner;
        }
        let start = entry.double_value(&[]);
        // So small that hardly a ReLU turns on or off in between.
        let step = 1e-7;
        let mut at = |value: f64| {
            let _ = no_grad(|| entry.fill_(value));
            no_grad(|| loss(network)).double_value(&[])
        };
        let (above, below) = (at(start + step), at(start - step));
        at(start);
        let (came, expected) = (slope.double_value(&[]), (above - below) / (2.0 * step));
        let tolerance = 1e-4 * expected.abs().max(came.abs()).max(0.1);
        assert!((came - expected).abs() < tolerance, "{} {name}: {came} {expected}", spec.name());
    }
}

#[test]
fn gradients_of_every_family_are_those_of_finite_differences() {
    // Batch statistics make every layer's gradient pass through every other image, so this checks batch norms too.
    let mut specs = vec![NetworkSpec::from_toml(SEPARABLE).unwrap()];
    for name in
        ["resnet10:m=2", "hrn-2x5x3x:m=4", "wrn-10x1", "sphynx:c=2,d=2,reduce=1", "darts:c=4,d=2,reduce=1"]
    {
        specs.push(zoo::build(name, 8, 10).unwrap_or_else(|error| panic!("{name}: {error}")));
    }
    specs.push(zoo::build("vgg11:c=2,hidden=4", 32, 10).unwrap());
    let reshaped = zoo::build("hrn-2x2x2x:m=8,depths=1+1+1+1", 8, 10).unwrap();
    specs.push(transform::reuse_relus(&reshaped, transform::Reuse::new(4)).unwrap());
    // Where every value has its own sign, gradients are exact.
    let signet = "signet:signs=2+3,values=1,stream=4+6,depths=1+1,branches=yes,full=2";
    specs.push(zoo::build(signet, 8, 10).unwrap());
    for spec in specs {
        check_gradients(&mut assemble(&spec, Precision::F64), Mode::Train { drop_path: None });
    }
}

#[test]
fn gradients_of_masks_scores_dropped_paths_and_the_second_head() {
    let spec = zoo::build("sphynx:c=2,d=3,reduce=1", 16, 10).unwrap();
    let options =
        AssembleOptions { precision: Precision::F64, auxiliary_head: true, ..AssembleOptions::default() };
    let mut network = TrainableNetwork::new(&spec, &options, Device::Cpu).unwrap();
    let edges = network.drop_path_edges() as i64;
    let mut stream = Stream::new("drop", 1);
    let factors: Vec<f32> = (0..edges * 3).map(|_| stream.below(2) as f32 * 2.0).collect();
    let factors = Device::Cpu.floats(&factors, &[edges, 3]);
    check_gradients(&mut network, Mode::Train { drop_path: Some(&factors) });

    for name in ["resnet10:m=2", "hrn-2x5x3x:m=2", "signet:signs=2+3,values=1,stream=4+6"] {
        let spec = zoo::build(name, 8, 10).unwrap();
        let mut network = assemble(&spec, Precision::F64);
        network.set_mask(&random_mask(&spec)).unwrap();
        check_gradients(&mut network, Mode::Train { drop_path: None });
        for granularity in [Granularity::Pixel, Granularity::Channel] {
            let mut network = assemble(&spec, Precision::F64);
            network.enable_keep_scores(granularity).unwrap();
            no_grad(|| {
                for (name, value) in network.parameters().named() {
                    if name.ends_with(".keep") {
                        let mut value = value;
                        let _ = value.fill_(0.7);
                    }
                }
            });
            check_gradients(&mut network, Mode::Train { drop_path: None });
        }
    }
}

#[test]
fn keep_scores_begin_as_relus_and_end_as_a_mask() {
    let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
    let images = batch(&spec, 2, Kind::Float);
    let mut network = assemble(&spec, Precision::F32);
    let run =
        |network: &TrainableNetwork| to_floats(&no_grad(|| network.forward(&images, Mode::Evaluate).logits));
    let before = run(&network);
    network.enable_keep_scores(Granularity::Pixel).unwrap();
    assert_eq!(run(&network), before);
    assert_eq!(network.mask_from_keep_scores(0.01), ActivationMask::keep_all(&spec));
    let (site, scores) = network.keep_scores()[2];
    let total = scores.numel() as u64;
    let _ = no_grad(|| scores.get(0).get(0).fill_(0.005));
    let mask = network.mask_from_keep_scores(0.01);
    assert_eq!(mask.relu_count_at(site), total / 2);
    network.set_mask(&mask).unwrap();
    assert!(!network.has_keep_scores());
    assert_eq!(network.relu_count(), ActivationMask::keep_all(&spec).relu_count() - total / 2);
    assert_ne!(run(&network), before);
}

#[test]
fn arrays_carry_a_network_from_one_layout_to_another() {
    let spec = zoo::build("sphynx:c=2,d=3,reduce=1", 16, 10).unwrap();
    let options = AssembleOptions { auxiliary_head: true, seed: 3, ..AssembleOptions::default() };
    let network = TrainableNetwork::laid_out(&spec, &options, Device::Cpu, true).unwrap();
    let arrays = network.to_arrays();
    let mut other = assemble(&spec, Precision::F32);
    assert_ne!(other.to_arrays()["stem.conv1.weight"], arrays["stem.conv1.weight"]);
    other.load_arrays(&arrays).unwrap();
    for (name, array) in other.to_arrays() {
        assert_eq!(array, arrays[&name], "{name}");
    }
    assert_eq!(other.to_float_weights().unwrap(), network.to_float_weights().unwrap());
}

#[test]
fn arrays_of_another_network_are_refused_and_change_nothing() {
    let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
    let mut network = assemble(&spec, Precision::F32);
    let good = network.to_arrays();
    let mut refuse = |change: &dyn Fn(&mut std::collections::BTreeMap<String, recipes::array::Array>)| {
        let mut arrays = good.clone();
        change(&mut arrays);
        let words = network.load_arrays(&arrays).unwrap_err().to_string();
        assert_eq!(network.to_arrays(), good);
        words
    };
    assert!(
        refuse(&|arrays| drop(arrays.remove("stem.norm1.running_var"))).contains("stem.norm1.running_var")
    );
    let extra = recipes::array::Array::from_floats(&[1], &[1.0]);
    assert!(refuse(&|arrays| drop(arrays.insert("other".to_owned(), extra.clone()))).contains("\"other\""));
    assert!(
        refuse(&|arrays| drop(arrays.insert("head.fc1.bias".to_owned(), extra.clone()))).contains("[10]")
    );
    let other = ActivationMask::keep_all(&zoo::build("resnet10:m=2", 16, 10).unwrap());
    assert!(network.set_mask(&other).is_err());
}

#[test]
fn an_auxiliary_head_needs_blocks_to_stand_on() {
    let text = "name = \"plain\"\nclasses = 2\ninput = { channels = 1, height = 4, width = 4 }\n\
                head = [\"classifier\"]\n";
    let spec = NetworkSpec::from_toml(text).unwrap();
    let options = AssembleOptions { auxiliary_head: true, ..AssembleOptions::default() };
    let error = TrainableNetwork::new(&spec, &options, Device::Cpu).err().unwrap();
    assert!(error.to_string().contains("0 blocks"), "{error}");
}
