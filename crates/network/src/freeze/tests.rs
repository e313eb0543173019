use super::*;
use crate::inference_model::ModelOperation;
use crate::mask::{Bits, SiteMask};
use crate::reference::{self, Coins, float};
use crate::transform::{self, Reuse, ReuseScope, ThinChoice};
use crate::walk::StageIndex;
use crate::zoo;

/// Every family at a small size, and the transforms.
fn small_zoo() -> Vec<NetworkSpec> {
    let build = |name: &str, side: usize| zoo::build(name, side, 10).unwrap();
    let slim = |name: &str| transform::scale_channels(&build(name, 32), 0.25).unwrap();
    let culled = |spec: &NetworkSpec, stage| transform::cull_stage(spec, StageIndex(stage)).unwrap();
    let thinned = |spec: &NetworkSpec| {
        (1..=spec.stage_count()).fold(spec.clone(), |spec, stage| {
            transform::thin_stage(&spec, StageIndex(stage), ThinChoice::default()).unwrap()
        })
    };
    let resnet = build("resnet18:m=4", 16);
    let hybrid = build("hrn-2x5x3x:m=4", 16);
    vec![
        resnet.clone(),
        build("resnet18:m=4,stem=imagenet", 32),
        build("resnet20:m=4", 16),
        build("wrn-10x1", 16),
        build("wrn-10x1:final-relu=no", 16),
        build("vgg11:c=4,hidden=16", 32),
        slim("mobilenetv1"),
        slim("mobilenetv2"),
        slim("mobilenetv2:clip=yes"),
        hybrid.clone(),
        build("sphynx:c=4,d=5", 16),
        build("sphynx:c=4,d=5,conv=separable", 16),
        build("darts:c=4,d=4", 16),
        build("pc-darts:c=4,d=4", 16),
        transform::reuse_relus(&resnet, Reuse::new(2)).unwrap(),
        transform::reuse_relus(&resnet, Reuse { scope: ReuseScope::AllLayers, ..Reuse::new(2) }).unwrap(),
        culled(&resnet, 1),
        culled(&culled(&resnet, 1), 2),
        thinned(&resnet),
        thinned(&culled(&hybrid, 1)),
    ]
}

fn images(spec: &NetworkSpec, first: u64, count: u64) -> Vec<Image> {
    (first..first + count).map(|seed| Image::random(spec.draft().input, seed)).collect()
}

/// A mask with whole, empty, channel-wise and pixel-wise sites.
fn mixed_mask(spec: &NetworkSpec, seed: u64) -> ActivationMask {
    let mut stream = crate::image::RandomBytes::new("mask", seed);
    let mut bits = |count: usize| Bits::collect((0..count).map(|_| stream.byte() & 3 == 0).collect::<Vec<_>>());
    let masks = spec.walk().sites().iter().zip(seed as usize..).map(|(site, turn)| match turn % 4 {
        0 => SiteMask::Pixels(bits(site.shape.scalars() as usize)),
        1 => SiteMask::Channels(bits(site.shape.channels)),
        2 => SiteMask::KeepAll,
        _ => SiteMask::DropAll,
    });
    ActivationMask::new(spec, masks.collect()).unwrap()
}

/// Largest logit difference over fresh images in units of the logits' deviation, and how often the class agrees.
fn compare(
    spec: &NetworkSpec,
    weights: &FloatWeights,
    mask: Option<&ActivationMask>,
    model: &InferenceModel,
) -> (f64, usize) {
    let (mut worst, mut agreeing) = (0.0_f64, 0);
    let unit = scales::power(i32::try_from(model.outline().logit_fraction()).unwrap());
    for image in images(spec, 1, 8) {
        // Rounded pixels for both: random networks are chaotic and would blow that difference up.
        let format = &model.outline().image;
        let step = scales::power(format.fraction as i32);
        let pixels: Vec<f32> = format.encode(&image).into_iter().map(|pixel| (pixel as f64 / step) as f32).collect();
        let float = float::run(spec, weights, mask, &pixels).unwrap();
        let float: Vec<f64> = float.logits().iter().map(|logit| f64::from(*logit)).collect();
        let integer: Vec<f64> =
            reference::run(model, &image).unwrap().into_iter().map(|logit| logit as f64 / unit).collect();
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let difference: Vec<f64> = float.iter().zip(&integer).map(|(a, b)| a - b).collect();
        worst = worst.max(largest(&difference) / largest(&float));
        let class = |values: &[f64]| (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]));
        agreeing += usize::from(class(&float) == class(&integer));
    }
    (worst, agreeing)
}

fn check_one(spec: &NetworkSpec, mask: Option<&ActivationMask>, options: &FreezeOptions, bound: f64) {
    let weights = FloatWeights::random(spec, 11);
    let (model, report) = freeze(spec, &weights, mask, &images(spec, 1, 8), options).unwrap();
    let name = spec.name();
    assert_eq!(report.overflows, [], "{name}");
    assert_eq!(model.outline().check(), Ok(()), "{name}");
    assert_eq!(InferenceModel::from_bytes(&model.to_bytes()).unwrap(), model, "{name}");
    let relus = mask.map_or_else(|| crate::cost::Cost::of(spec).relus, ActivationMask::relu_count);
    assert_eq!(model.outline().relu_count(), relus, "{name}");
    let (error, agreeing) = compare(spec, &weights, mask, &model);
    println!(
        "{name:40} error {error:.4} agree {agreeing}/8 widest {} trips {} rescales {} (paid {}) convs {}->{}",
        report.widest_ring_bits,
        report.round_trips,
        report.rescales.len(),
        report.rescaling_round_trips,
        report.convolutions_before,
        report.convolutions_after
    );
    if std::env::var("NOASSERT").is_ok() { return; }
    assert!(error < bound, "{name}: {error}");
    assert!(agreeing >= 6, "{name}: {agreeing} of 8");
}

#[test]
fn integer_logits_approximate_float_logits_for_every_family() {
    for spec in small_zoo() {
        check_one(&spec, None, &FreezeOptions::default(), 0.2);
    }
}

#[test]
fn integer_logits_approximate_float_logits_with_masks() {
    for (spec, seed) in small_zoo().into_iter().zip(0..) {
        check_one(&spec, Some(&mixed_mask(&spec, seed)), &FreezeOptions::default(), 0.2);
    }
}

#[test]
fn more_bits_bring_the_integers_closer() {
    for spec in small_zoo() {
        let options = FreezeOptions {
            weight_bits: WeightBits::Twelve,
            activation_bits: 15,
            logit_bits: 24,
            image: Some(ImageFormat { fraction: 14, ..ImageFormat::usual(3) }),
            ..FreezeOptions::default()
        };
        check_one(&spec, None, &options, 0.02);
    }
}


#[test]
#[ignore]
fn full_numbers() {
    let hrn = zoo::build("hrn-2x5x3x:m=8", 32, 100).unwrap();
    let culled = transform::cull_stage(&hrn, StageIndex(1)).unwrap();
    let thinned = (2..=4).fold(culled, |spec, stage| {
        transform::thin_stage(&spec, StageIndex(stage), ThinChoice::default()).unwrap()
    });
    for spec in [thinned, zoo::build("resnet18", 32, 100).unwrap(), zoo::build("wrn-22x8", 32, 100).unwrap()] {
        let start = std::time::Instant::now();
        let weights = FloatWeights::random(&spec, 1);
        let random = start.elapsed();
        let pixels = ImageFormat::usual(3).normalize(&images(&spec, 1, 1)[0]);
        let start = std::time::Instant::now();
        float::run(&spec, &weights, None, &pixels).unwrap();
        let one = start.elapsed();
        let start = std::time::Instant::now();
        let (model, report) = freeze(&spec, &weights, None, &images(&spec, 1, 2), &FreezeOptions::default()).unwrap();
        let frozen = start.elapsed();
        let start = std::time::Instant::now();
        reference::run(&model, &images(&spec, 1, 1)[0]).unwrap();
        println!("{} random {random:?} float {one:?} freeze {frozen:?} integer {:?} bytes {} outline {}", spec.name(), start.elapsed(), model.to_bytes().len(), model.outline().to_bytes().len());
        println!("{:?} trips {} rescales {:?} relus {}", report.overflows, report.round_trips, report.rescales, model.outline().relu_count());
        for step in &model.outline().steps {
            let width = match &step.operation { ModelOperation::Activate { width, shift, .. } => format!("width {width} shift {shift}"), _ => String::new() };
            println!("  {:40} {:?} f {} ring {} {width}", step.name, step.inputs, step.fraction, step.ring_bits);
        }
        let (error, agreeing) = compare(&spec, &weights, None, &model);
        println!("{error} {agreeing}");
    }
}
