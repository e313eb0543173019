use super::*;
use crate::inference_model::{MAX_RING_BITS, ModelOperation};
use crate::mask::{Bits, SiteMask};
use crate::reference::{self, Coins, float};
use crate::spec::NetworkSpec;
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
        build("vgg11:c=4,hidden=16,pool=average", 32),
        slim("mobilenetv1"),
        slim("mobilenetv2"),
        slim("mobilenetv2:clip=yes"),
        hybrid.clone(),
        build("sphynx:c=4,d=5", 16),
        build("sphynx:c=4,d=5,conv=separable", 16),
        build("signet:signs=0+2+4,stream=4+8+16,depths=1+1+1", 16),
        build("signet:signs=4+2,values=2,stream=8+8,depths=2+1,slopes=no,branches=yes", 16),
        build("signet:signs=0+4,values=1,stream=4+8,depths=1+2,full=2,stem-relu=yes", 16),
        listed_groups(),
        build("darts:c=4,d=4", 16),
        build("pc-darts:c=4,d=4", 16),
        transform::reuse_relus(&resnet, Reuse::new(2)).unwrap(),
        transform::reuse_relus(&resnet, Reuse { scope: ReuseScope::All, ..Reuse::new(2) }).unwrap(),
        culled(&resnet, 1),
        culled(&culled(&resnet, 1), 2),
        thinned(&resnet),
        thinned(&culled(&hybrid, 1)),
    ]
}

/// Groups of different sizes whose leaders are not their first channels.
fn listed_groups() -> NetworkSpec {
    let text = "name = \"listed\"\nclasses = 10\ninput = { channels = 3, height = 8, width = 8 }\n\
                head = [\"global_average_pool\", \"classifier\"]\n[stem]\n\
                layers = [{ conv = { out = 6, filter = 3 } }, \"batch_norm\", \
                { shared_signs = { groups = [[5, 0, 1], [2], [4, 3]], slopes = true } }, \
                { conv = { out = 8, filter = 3 } }, \"batch_norm\", \
                { shared_signs = { groups = [[7, 0, 2, 4], [1, 3], [6, 5]] } }]\n";
    NetworkSpec::from_toml(text).unwrap()
}

fn images(spec: &NetworkSpec, first: u64, count: u64) -> Vec<Image> {
    (first..first + count).map(|seed| Image::random(spec.draft().input, seed)).collect()
}

/// A mask with whole, empty, channel-wise and pixel-wise sites.
fn mixed_mask(spec: &NetworkSpec, seed: u64) -> ActivationMask {
    let mut stream = crate::image::RandomBytes::new("mask", seed);
    let mut bits =
        |count: usize| Bits::collect((0..count).map(|_| stream.byte() & 3 == 0).collect::<Vec<_>>());
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
        let pixels: Vec<f32> =
            format.encode(&image).into_iter().map(|pixel| (pixel as f64 / step) as f32).collect();
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

/// What a frozen network must show: at most this error, relative to the largest logit, and this many classes of 8.
struct Demand {
    error: f64,
    classes: usize,
}

fn check_one(spec: &NetworkSpec, mask: Option<&ActivationMask>, options: &FreezeOptions, demand: &Demand) {
    let weights = FloatWeights::random(spec, 11);
    let (model, report) = freeze(spec, &weights, mask, &images(spec, 1, 8), options).unwrap();
    let name = spec.name();
    assert_eq!(report.overflows, [], "{name}");
    assert_eq!(model.outline().check(), Ok(()), "{name}");
    assert_eq!(InferenceModel::from_bytes(&model.to_bytes()).unwrap(), model, "{name}");
    let outline = model.outline();
    assert_eq!(ModelOutline::from_bytes(&outline.to_bytes()).unwrap(), *outline, "{name}");
    let relus = mask.map_or_else(|| crate::cost::Cost::of(spec).relus, ActivationMask::relu_count);
    assert_eq!(outline.relu_count(), relus, "{name}");
    let whole = ActivationMask::keep_all(spec);
    let cost = crate::cost::Cost::masked(spec, mask.unwrap_or(&whole));
    assert_eq!(outline.counts(), cost.counts(), "{name}");
    let (error, classes) = compare(spec, &weights, mask, &model);
    assert!(
        error < demand.error && classes >= demand.classes,
        "{name}: error {error}, {classes} of 8 classes"
    );
}

const DEFAULT_DEMAND: Demand = Demand { error: 0.35, classes: 5 };

#[test]
fn integer_logits_approximate_float_logits_for_every_family() {
    for spec in small_zoo() {
        check_one(&spec, None, &FreezeOptions::default(), &DEFAULT_DEMAND);
    }
}

#[test]
fn integer_logits_approximate_float_logits_with_masks() {
    for (spec, seed) in small_zoo().into_iter().zip(0..) {
        check_one(&spec, Some(&mixed_mask(&spec, seed)), &FreezeOptions::default(), &DEFAULT_DEMAND);
    }
}

#[test]
fn more_bits_bring_the_integers_closer() {
    let options = FreezeOptions {
        weight_bits: WeightBits::Twelve,
        activation_bits: 15,
        logit_bits: 24,
        image: Some(ImageFormat { fraction: 14, ..ImageFormat::usual(3) }),
        ..FreezeOptions::default()
    };
    for spec in small_zoo() {
        // Where a sign decides over several values, one that is nearly zero may come out otherwise, and they jump.
        let error = if crate::cost::Cost::of(&spec).shares_signs() { 0.05 } else { 0.02 };
        check_one(&spec, None, &options, &Demand { error, classes: 8 });
    }
}

/// HybReNet 2x5x3x with the stem's and first stage's ReLUs culled and the others thinned: 26,112 ReLUs.
fn culled_and_thinned() -> NetworkSpec {
    let spec = zoo::build("hrn-2x5x3x:m=8", 32, 100).unwrap();
    let spec = transform::drop_stem_relus(&spec).unwrap();
    let spec = transform::cull_stage(&spec, StageIndex(1)).unwrap();
    (2..=4).fold(spec, |spec, stage| {
        transform::thin_stage(&spec, StageIndex(stage), ThinChoice::default()).unwrap()
    })
}

#[test]
fn long_linear_runs_fit_wide_rings_without_round_trips_of_their_own() {
    let spec = culled_and_thinned();
    let weights = FloatWeights::random(&spec, 1);
    let options = FreezeOptions { widest_ring_bits: MAX_RING_BITS, ..FreezeOptions::default() };
    let (model, report) = freeze(&spec, &weights, None, &images(&spec, 1, 4), &options).unwrap();
    assert_eq!(model.outline().relu_count(), 26_112);
    assert_eq!((report.round_trips, report.rescaling_round_trips), (6, 0));
    assert_eq!(report.overflows, []);
    // The skip connections across the remaining ReLUs are rescaled in their round trips, so later rings are narrow.
    let widest_after = |stage: usize| {
        let steps = model.outline().steps.iter();
        let of_stage = steps.filter(|step| step.place.part == crate::walk::Part::Stage(StageIndex(stage)));
        of_stage.map(|step| step.ring_bits).max().unwrap()
    };
    assert!(widest_after(1) <= MAX_RING_BITS);
    assert!(widest_after(3) <= 32 && widest_after(4) <= 32, "{} {}", widest_after(3), widest_after(4));
}

#[test]
fn usual_rings_cost_a_long_linear_run_one_round_trip() {
    let spec = culled_and_thinned();
    let weights = FloatWeights::random(&spec, 1);
    let options = FreezeOptions::default();
    let (_, report) = freeze(&spec, &weights, None, &images(&spec, 1, 2), &options).unwrap();
    assert!(report.widest_ring_bits <= 40, "{}", report.widest_ring_bits);
    assert_eq!((report.round_trips, report.rescaling_round_trips), (7, 1));
    assert_eq!(report.overflows, []);
}

#[test]
fn a_ring_that_nothing_narrows_is_refused() {
    let spec = culled_and_thinned();
    let weights = FloatWeights::random(&spec, 1);
    let options = FreezeOptions { widest_ring_bits: 24, activation_bits: 20, ..FreezeOptions::default() };
    let refusal = freeze(&spec, &weights, None, &images(&spec, 1, 1), &options).unwrap_err().to_string();
    assert!(refusal.contains("bits, and at most 24 were asked for"), "{refusal}");
}

#[test]
fn freezing_anew_keeps_weights_and_round_trips_of_every_family() {
    for (spec, seed) in small_zoo().into_iter().zip(0..) {
        let mask = mixed_mask(&spec, seed);
        let (weights, calibration) = (FloatWeights::random(&spec, 2), images(&spec, 1, 2));
        let options = FreezeOptions::default();
        let (model, before) = freeze(&spec, &weights, Some(&mask), &calibration, &options).unwrap();
        let (again, after) = refreeze(&model, &calibration, &options).unwrap();
        assert_eq!((&before.overflows, &after.overflows), (&vec![], &vec![]), "{}", spec.name());
        assert_eq!(before.round_trips, after.round_trips, "{}", spec.name());
        assert_eq!(model.outline().relu_count(), again.outline().relu_count());
        let both = model.layers().iter().zip(again.layers());
        assert!(both.clone().all(|(one, other)| one.weights == other.weights), "{}", spec.name());
    }
}

#[test]
fn freezing_anew_narrows_rings_and_keeps_weights_and_answers() {
    let spec = culled_and_thinned();
    let (weights, calibration) = (FloatWeights::random(&spec, 1), images(&spec, 1, 4));
    let wide =
        FreezeOptions { widest_ring_bits: MAX_RING_BITS, activation_bits: 13, ..FreezeOptions::default() };
    let (model, before) = freeze(&spec, &weights, None, &calibration, &wide).unwrap();
    let narrow = FreezeOptions { widest_ring_bits: 40, ..wide };
    let (again, after) = refreeze(&model, &calibration, &narrow).unwrap();
    assert!(before.widest_ring_bits > 40 && after.widest_ring_bits <= 40, "{}", after.widest_ring_bits);
    for (one, other) in model.layers().iter().zip(again.layers()) {
        assert_eq!(one.weights, other.weights);
    }
    for image in &images(&spec, 7, 5) {
        let scaled = |model: &InferenceModel| {
            let unit = scales::power(-(model.outline().logit_fraction() as i32));
            let logits = reference::run(model, image).unwrap();
            logits.into_iter().map(|logit| logit as f64 * unit).collect::<Vec<f64>>()
        };
        let (one, other) = (scaled(&model), scaled(&again));
        let largest = one.iter().fold(0.0, |largest: f64, logit| largest.max(logit.abs()));
        let differs = |(one, other): (&f64, &f64)| (one - other).abs() / largest;
        let worst = one.iter().zip(&other).map(differs).fold(0.0, f64::max);
        assert!(worst < 0.01, "{worst}");
    }
}

#[test]
fn what_freezing_does_not_make_is_not_frozen_anew() {
    let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
    let (weights, calibration) = (FloatWeights::random(&spec, 2), images(&spec, 1, 1));
    let options = FreezeOptions::default();
    let (model, _) = freeze(&spec, &weights, None, &calibration, &options).unwrap();
    let mut outline = model.outline().clone();
    // The mean over the map as a sum of another scale.
    for step in outline.steps.iter_mut().rev().take(2) {
        step.fraction += 1;
    }
    let odd = InferenceModel::new(outline, model.layers().to_vec()).unwrap();
    let refusal = |images: &[Image]| refreeze(&odd, images, &options).unwrap_err().to_string();
    assert!(refusal(&calibration).contains("head.mean1 cannot be frozen anew"));
    assert!(refusal(&[]).contains("0 images"));
}

#[test]
fn resnet18_fits_24_bits() {
    let spec = zoo::build("resnet18", 32, 100).unwrap();
    let weights = FloatWeights::random(&spec, 1);
    let (model, report) =
        freeze(&spec, &weights, None, &images(&spec, 1, 1), &FreezeOptions::default()).unwrap();
    assert_eq!(report.overflows, []);
    assert!(report.widest_ring_bits <= 24, "{}", report.widest_ring_bits);
    assert_eq!((report.round_trips, report.rescales.len()), (17, 0));
    assert_eq!((report.layers.len(), report.convolutions_after), (21, 20));
    assert_eq!(model.outline().relu_count(), 557_056);
}

#[test]
fn a_batch_norm_before_a_relu_hardly_widens_it() {
    let spec = zoo::build("wrn-16x2", 16, 10).unwrap();
    let weights = FloatWeights::random(&spec, 1);
    let (model, report) =
        freeze(&spec, &weights, None, &images(&spec, 1, 2), &FreezeOptions::default()).unwrap();
    let widths = model.outline().steps.iter().filter_map(|step| match &step.operation {
        ModelOperation::Activate { width, .. } => Some(*width),
        _ => None,
    });
    let widest = widths.max().unwrap();
    assert!(widest <= 24 && report.widest_ring_bits <= 25, "{widest} {}", report.widest_ring_bits);
}

/// Shares from a hash.
struct HashedShares(u64);

impl Coins for HashedShares {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        let word = |number: usize| (number as u64).to_le_bytes();
        let text = [self.0.to_le_bytes(), word(value.0), word(scalar)].concat();
        u64::from_le_bytes(blake3::hash(&text).as_bytes()[..8].try_into().unwrap())
    }
}

#[test]
fn with_coins_relus_are_exact_and_dropped_positions_off_by_less_than_one_unit() {
    for (spec, seed) in small_zoo().into_iter().zip(0..) {
        let mask = mixed_mask(&spec, seed);
        let weights = FloatWeights::random(&spec, 2);
        let calibration = images(&spec, 1, 2);
        let (model, _) =
            freeze(&spec, &weights, Some(&mask), &calibration, &FreezeOptions::default()).unwrap();
        let outline = model.outline();
        let trace = reference::trace(&model, &calibration[0], Some(&HashedShares(seed))).unwrap();
        for (id, step) in outline.numbered_steps() {
            let ModelOperation::Activate { shift, mask, ceiling, .. } = &step.operation else { continue };
            let (input, output) = (&trace.values[step.inputs[0].0], &trace.values[id.output().0]);
            let pixels = step.shape.pixels() as usize;
            for (scalar, (before, after)) in input.iter().zip(output).enumerate() {
                let (row, column) = (scalar % pixels / step.shape.width, scalar % step.shape.width);
                if mask.keeps(step.shape, scalar / pixels, row, column) {
                    let rounded = (before + (1 << shift >> 1)).max(0) >> shift;
                    assert_eq!(*after, ceiling.map_or(rounded, |ceiling| rounded.min(ceiling as i64)));
                } else {
                    assert!(((after << shift) - before).abs() < 1 << shift, "{} {scalar}", step.name);
                }
            }
        }
        let exact = trace.values.last().unwrap();
        for (logit, value) in trace.logits.iter().zip(exact) {
            let floor = value >> outline.logit_drop;
            assert!(*logit == floor || *logit == floor - 1);
        }
        let same = reference::run_with(&model, &calibration[0], &HashedShares(seed)).unwrap();
        assert_eq!(same, trace.logits);
        assert_eq!(trace.first_difference(&trace, outline), None);
    }
}

#[test]
fn the_first_difference_names_step_and_scalar() {
    let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
    let weights = FloatWeights::random(&spec, 2);
    let calibration = images(&spec, 1, 1);
    let (model, _) = freeze(&spec, &weights, None, &calibration, &FreezeOptions::default()).unwrap();
    let trace = reference::trace(&model, &calibration[0], None).unwrap();
    let mut other = trace.clone();
    // Equal in the value's ring, so no difference.
    other.values[1][0] += 1 << model.outline().steps[0].ring_bits;
    assert_eq!(trace.first_difference(&other, model.outline()), None);
    other.values[2][5] += 1;
    let difference = trace.first_difference(&other, model.outline()).unwrap();
    assert_eq!((difference.value, difference.scalar), (ValueId(2), 5));
    assert_eq!(difference.step.as_deref(), Some("stem.relu1"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
    let other = zoo::build("resnet10:m=3", 16, 10).unwrap();
    let weights = FloatWeights::random(&spec, 2);
    let one = images(&spec, 1, 1);
    let options = FreezeOptions::default();
    let refusal =
        |weights: &FloatWeights, mask: Option<&ActivationMask>, images: &[Image], options: &FreezeOptions| {
            freeze(&spec, weights, mask, images, options).unwrap_err().to_string()
        };
    let mask = ActivationMask::keep_all(&other);
    assert_eq!(refusal(&weights, Some(&mask), &one, &options), "the mask was made for another network");
    assert!(refusal(&weights, None, &[], &options).contains("0 images"));
    let wrong = refusal(&weights, None, &images(&other, 1, 1), &options);
    assert_eq!(wrong, "the image is 3x16x16, the network takes 3x8x8");
    let wrong = refusal(&FloatWeights::random(&other, 1), None, &one, &options);
    assert!(wrong.contains("stem.conv1 has 81 weights, the network needs 54"), "{wrong}");
    for odd in [
        FreezeOptions { margin: 0.5, ..options.clone() },
        FreezeOptions { margin: f32::NAN, ..options.clone() },
        FreezeOptions { activation_bits: 30, ..options.clone() },
        FreezeOptions { logit_bits: 0, ..options.clone() },
        FreezeOptions { widest_ring_bits: 63, ..options.clone() },
    ] {
        assert!(refusal(&weights, None, &one, &odd).contains("cannot be used"));
    }
    let grey = FreezeOptions { image: Some(ImageFormat::usual(1)), ..options };
    assert!(refusal(&weights, None, &one, &grey).contains("1 means"));
}

#[test]
fn values_beyond_the_margin_are_counted() {
    for (name, whose) in [("resnet10:m=2", "relu"), ("signet:signs=2,stream=4,depths=1", "signs")] {
        let spec = zoo::build(name, 8, 10).unwrap();
        let weights = FloatWeights::random(&spec, 2);
        let (model, report) =
            freeze(&spec, &weights, None, &images(&spec, 1, 1), &FreezeOptions::default()).unwrap();
        assert_eq!(report.overflow_count(), 0, "{name}");
        let mut outline = model.outline().clone();
        for step in &mut outline.steps {
            match &mut step.operation {
                ModelOperation::Activate { width, .. } => *width -= 2,
                ModelOperation::Gate(gate) => gate.width -= 2,
                _ => {}
            }
        }
        let narrow = InferenceModel::new(outline, model.layers().to_vec()).unwrap();
        let report = FreezeReport::new(&narrow, (0, 0), (0, 0), &[], 2.0, &images(&spec, 1, 1)).unwrap();
        assert!(report.overflow_count() > 0, "{name}");
        assert!(
            report.overflows.iter().all(|overflow| overflow.name.contains(whose)),
            "{name}: {:?}",
            report.overflows.iter().map(|overflow| &overflow.name).collect::<Vec<_>>()
        );
    }
}

#[test]
fn widths_are_reported_with_the_largest_value_they_hold() {
    for name in ["resnet10:m=2", "signet:signs=0+2,values=3,stream=4+4,depths=1+1"] {
        let spec = zoo::build(name, 8, 10).unwrap();
        let (weights, calibration) = (FloatWeights::random(&spec, 2), images(&spec, 1, 2));
        let frozen = |margin: f32| {
            let options = FreezeOptions { margin, ..FreezeOptions::default() };
            freeze(&spec, &weights, None, &calibration, &options).unwrap()
        };
        let (model, report) = frozen(2.0);
        let outline = model.outline();
        let traces: Vec<_> =
            calibration.iter().map(|image| reference::trace(&model, image, None).unwrap()).collect();
        for WidthReport { step, width, largest, room, name } in &report.widths {
            let value = outline.steps.get(*step).map_or(outline.output(), |step| step.inputs[0]);
            let values = traces.iter().flat_map(|trace| &trace.values[value.0]);
            assert_eq!(*largest, values.map(|value| value.unsigned_abs()).max().unwrap(), "{name}");
            assert_eq!(*room, (1_u64 << (width - 1)) as f64 / *largest as f64, "{name}");
        }
        let is_read = |step: &ModelStep| {
            matches!(step.operation, ModelOperation::Activate { .. } | ModelOperation::Gate(_))
        };
        assert_eq!(report.widths.len(), outline.steps.iter().filter(|step| is_read(step)).count() + 1);
        let (before, after) = (report.least_room, frozen(8.0).1.least_room);
        assert!(before >= 1.9 && after >= 7.6, "{name}: {before} and {after}");
    }
}

/// A value that follows another one's sign wraps by itself, so it is counted by itself.
#[test]
fn a_follower_alone_may_overflow() {
    let spec = zoo::build("signet:signs=2,values=3,stream=4,depths=1,slopes=no", 8, 10).unwrap();
    let weights = FloatWeights::random(&spec, 2);
    let one = images(&spec, 1, 1);
    let (model, _) = freeze(&spec, &weights, None, &one, &FreezeOptions::default()).unwrap();
    let is_gate = |step: &&ModelStep| matches!(step.operation, ModelOperation::Gate(_));
    let step = model.outline().steps.iter().find(is_gate).unwrap();
    let ModelOperation::Gate(gate) = &step.operation else { unreachable!("it was found as one") };
    let trace = reference::trace(&model, &one[0], None).unwrap();
    assert_eq!(count_overflows(&model, &trace), 0);
    for channel in 0..3 {
        let mut beyond = trace.clone();
        beyond.values[step.inputs[0].0][channel * 64] = 1 << (gate.width - 1);
        assert_eq!(count_overflows(&model, &beyond), 1, "channel {channel} of the first sign's");
    }
}

#[test]
fn a_coarse_outline_tells_no_scale_of_a_channel() {
    let spec = zoo::build("resnet18:m=4", 16, 10).unwrap();
    let images: Vec<_> = (0..4).map(|seed| Image::random(spec.draft().input, seed)).collect();
    let options = FreezeOptions { outline: OutlineDetail::Coarse, ..FreezeOptions::default() };
    let outlines: Vec<_> = (0..2)
        .map(|seed| freeze(&spec, &FloatWeights::random(&spec, seed), None, &images, &options).unwrap().0)
        .collect();
    for model in &outlines {
        model.outline().check().unwrap();
        for step in &model.outline().steps {
            if let ModelOperation::Linear { channel_shifts, .. } = &step.operation {
                assert!(channel_shifts.iter().all(|shift| *shift == channel_shifts[0]), "{}", step.name);
            }
        }
    }
}
