//! The smallest filters go, the rest is the network as it was, and counts are those of the specs.

use std::collections::BTreeMap;

use network::image::Image;
use network::reference::float;
use network::walk::{Operation, StepId};
use network::weights::{FloatWeights, LayerWeights};
use network::zoo;

use super::*;
use crate::array::Array;
use crate::checkpoint::Arrays;

/// Numbers as a checkpoint has them.
fn arrays(spec: &NetworkSpec, weights: &FloatWeights) -> Arrays {
    let mut arrays = Arrays::new();
    let mut add = |step: &str, part: &str, shape: &[usize], values: &[f32]| {
        arrays.insert(format!("{step}.{part}"), Array::from_floats(shape, values));
    };
    for step in spec.walk().steps() {
        match (weights.layer(&step.name), &step.operation) {
            (Some(LayerWeights::Linear { weights, .. }), Operation::Conv(conv)) => {
                let shape = [conv.outputs, conv.inputs / conv.groups, conv.filter, conv.filter];
                add(&step.name, "weight", &shape, weights);
            }
            (
                Some(LayerWeights::Linear { weights, biases }),
                Operation::FullyConnected { inputs, outputs },
            ) => {
                add(&step.name, "weight", &[*outputs, *inputs], weights);
                add(&step.name, "bias", &[*outputs], biases);
            }
            (Some(LayerWeights::BatchNorm { scale, shift, mean, variance }), _) => {
                let parts =
                    [("weight", scale), ("bias", shift), ("running_mean", mean), ("running_var", variance)];
                parts.iter().for_each(|(part, values)| add(&step.name, part, &[values.len()], values));
            }
            _ => {}
        }
    }
    arrays
}

fn weights(spec: &NetworkSpec, arrays: &Arrays) -> FloatWeights {
    let part = |step: &str, part: &str| arrays.get(&format!("{step}.{part}")).and_then(Array::floats);
    let layers = spec.walk().steps().iter().filter_map(|step| {
        let channels = spec.walk().shape(step.output).channels;
        let of = |name: &str| part(&step.name, name).unwrap_or_else(|| vec![0.0; channels]);
        let layer = match &step.operation {
            Operation::Conv(_) | Operation::FullyConnected { .. } => {
                LayerWeights::Linear { weights: of("weight"), biases: of("bias") }
            }
            Operation::BatchNorm { .. } => LayerWeights::BatchNorm {
                scale: of("weight"),
                shift: of("bias"),
                mean: of("running_mean"),
                variance: of("running_var"),
            },
            _ => return None,
        };
        Some((step.name.clone(), layer))
    });
    FloatWeights::new(spec, layers.collect()).unwrap()
}

/// Makes a channel one that is always zero.
fn silence(spec: &NetworkSpec, channels: &PrunableChannels, channel: usize, arrays: &mut Arrays) {
    let mut zero = |step: StepId, part: &str| {
        let name = format!("{}.{part}", spec.walk().steps()[step.0].name);
        if let Some(array) = arrays.get_mut(&name) {
            let mut values = array.floats().unwrap();
            let length = values.len() / channels.channels;
            values[channel * length..][..length].fill(0.0);
            *array = Array::from_floats(&array.shape, &values);
        }
    };
    channels.makers.iter().for_each(|step| zero(*step, "weight"));
    for step in &channels.followers {
        zero(*step, "bias");
        zero(*step, "running_mean");
    }
}

/// Filters that make zeros are the smallest, so they go, and nobody misses them: the logits are the same, to the bit.
#[test]
fn without_filters_of_zeros_the_logits_are_the_same() {
    for (name, side, stream) in [
        ("resnet18:m=4,depths=1+1+1+1", 16, false),
        ("resnet18:m=4,depths=2+1+1+1", 16, true),
        ("wrn-10x1", 16, true),
        ("vgg11:c=4,hidden=8", 64, false),
        ("mobilenetv2", 32, true),
    ] {
        let whole = zoo::build(name, side, 10).unwrap();
        let all = Cost::of(&whole).relus;
        let pruning = Pruning::new(&whole, stream, all).unwrap();
        let mut before = arrays(&whole, &FloatWeights::random(&whole, 5));
        // The third of every four is silent.
        let mut silent = 0;
        for channels in pruning.prunable() {
            for channel in (2..channels.channels).step_by(4) {
                silence(&whole, channels, channel, &mut before);
                silent += channels.relus_per_channel;
            }
        }
        let pruning = Pruning::new(&whole, stream, all - silent).unwrap();
        let norms: Vec<Vec<f64>> =
            pruning.prunable().iter().map(|channels| filter_norms(&whole, channels, &before)).collect();
        let kept = pruning.choose(Ranking::Network, &norms);
        assert!(kept.iter().all(|kept| kept.iter().all(|channel| channel % 4 != 2)), "{name}: {kept:?}");
        let counts: Vec<usize> = kept.iter().map(Vec::len).collect();
        let section = NetworkSection::named(name);
        let plan = pruning.planned(&section, &whole, &counts).unwrap();
        assert_eq!(plan.cost.relus, all - silent, "{name}");
        let pruned = plan.section().build(whole.draft().input, 10).unwrap();
        let after = copy_kept(&whole, pruning.prunable(), &kept, &before);
        assert!(after.values().map(|array| array.bytes.len()).sum::<usize>() < total(&before), "{name}");
        let image = Image::random(whole.draft().input, 3);
        let format = network::inference_model::ImageFormat::usual(3);
        let logits = |spec: &NetworkSpec, arrays: &Arrays| {
            let trace = float::run(spec, &weights(spec, arrays), None, &format.normalize(&image)).unwrap();
            trace.logits().to_vec()
        };
        assert_eq!(logits(&pruned, &after), logits(&whole, &before), "{name}");
    }
}

fn total(arrays: &Arrays) -> usize {
    arrays.values().map(|array| array.bytes.len()).sum()
}

/// Layers of 4 and 8 channels, of 10 and 1 ReLUs each, beside 100 others.
fn by_hand(budget: u64) -> Pruning {
    let layer = |name: &str, channels, relus_per_channel| PrunableChannels {
        name: name.to_owned(),
        channels,
        makers: Vec::new(),
        followers: Vec::new(),
        readers: Vec::new(),
        relus_per_channel,
        is_stream: false,
    };
    Pruning { prunable: vec![layer("one", 4, 10), layer("two", 8, 1)], others: 100, budget }
}

#[test]
fn every_layer_loses_the_same_part_and_the_rest_is_filled() {
    assert_eq!(by_hand(148).counts(), [4, 8]);
    assert_eq!(by_hand(124).counts(), [2, 4]);
    // Five eighths of each take 125; what is left is too little for the first layer.
    assert_eq!(by_hand(127).counts(), [2, 7]);
    assert_eq!(by_hand(135).counts(), [3, 5]);
    assert_eq!(by_hand(111).counts(), [1, 1]);
    for budget in 111..=148 {
        let pruning = by_hand(budget);
        let relus = pruning.relus(&pruning.counts());
        assert!(relus <= budget && budget - relus < 10, "{budget}: {relus}");
    }
}

#[test]
fn the_largest_norms_stay() {
    let norms = vec![vec![0.3, 0.1, 0.9, 0.2], vec![5.0, 1.0, 7.0, 2.0, 2.0, 9.0, 3.0, 8.0]];
    assert_eq!(by_hand(124).choose(Ranking::Layers, &norms), [vec![0, 2], vec![0, 2, 5, 7]]);
    // Of the two that are equal the earlier stays.
    assert_eq!(by_hand(126).choose(Ranking::Layers, &norms)[1], [0, 2, 3, 5, 6, 7]);
    assert_eq!(by_hand(127).choose(Ranking::Network, &norms), [vec![0, 2], vec![0, 2, 3, 4, 5, 6, 7]]);
    // Beside the mean of their layers: 0.8, 0.27, 2.4, 0.53 and 1.1, 0.22, 1.5, 0.43, 0.43, 1.9, 0.65, 1.7.
    let scaled: Vec<Vec<f64>> = norms
        .iter()
        .zip([1000.0, 1.0])
        .map(|(norms, by)| norms.iter().map(|norm| norm * by).collect())
        .collect();
    assert_eq!(by_hand(127).choose(Ranking::Network, &scaled), by_hand(127).choose(Ranking::Network, &norms));
    assert_eq!(by_hand(111).choose(Ranking::Network, &norms), [vec![2], vec![5]]);
}

#[test]
fn norms_are_sums_of_magnitudes_over_all_that_write_a_channel() {
    let spec = zoo::build("resnet18:m=2,depths=1+1+1+1", 8, 10).unwrap();
    let mut numbers = arrays(&spec, &FloatWeights::random(&spec, 1));
    let all = network::transform::prunable_channels(&spec);
    let stream = all.iter().find(|channels| channels.name == "stem.conv1").unwrap();
    let set = |numbers: &mut Arrays, name: &str, values: [f32; 2]| {
        let array = numbers.get_mut(name).unwrap();
        let length = array.shape.iter().product::<usize>() / 2;
        let values: Vec<f32> = values.iter().flat_map(|value| vec![*value; length]).collect();
        *array = Array::from_floats(&array.shape, &values);
    };
    // 27 and 18 weights for each filter.
    set(&mut numbers, "stem.conv1.weight", [1.0, -2.0]);
    set(&mut numbers, "stage1.block1.body.conv2.weight", [-3.0, 0.5]);
    assert_eq!(filter_norms(&spec, stream, &numbers), [27.0 + 54.0, 54.0 + 9.0]);
}

fn recipe(network: &str, lines: &str) -> Recipe {
    let text = format!(
        "[data]\nset = \"cifar100\"\n[network]\n{network}\n[training]\nepochs = 3\nbatch = 8\n[optimize]\nmethod = \"l1-pruning\"\n{lines}"
    );
    Recipe::from_toml(&text).unwrap()
}

fn planned(network: &str, lines: &str) -> Result<super::super::Preview, String> {
    let shape = network::shape::Shape::image(32);
    super::super::preview(&recipe(network, lines), shape, 100).map_err(|error| error.to_string())
}

#[track_caller]
fn plan(network: &str, lines: &str) -> PlannedNetwork {
    match planned(network, lines) {
        Ok(super::super::Preview::Networks(mut plans)) => plans.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_has_the_counts_of_its_spec() {
    let half = plan("name = \"resnet18\"", "budget = 434176");
    // 311,296 ReLUs stand behind the stem and the additions; half of the other 245,760 stay.
    assert_eq!(half.cost.relus, 434_176);
    let expected: BTreeMap<String, usize> = (1..=4)
        .flat_map(|stage| (1..=2).map(move |block| (stage, block)))
        .map(|(stage, block)| (format!("stage{stage}.block{block}.body.conv1"), 16 << stage))
        .collect();
    assert_eq!(half.reduction.keep_channels, expected);
    assert_eq!(half.title, "resnet18 (8 layers pruned to 960 channels)");
    // The section writes the same network, so a record that holds it can be read without anything else.
    let again = half.section().build(network::shape::Shape::image(32), 100).unwrap();
    assert_eq!(Cost::of(&again), half.cost);
    let close = plan("name = \"resnet18\"", "budget = \"70%\"");
    let budget = 557_056 * 7 / 10;
    assert!(close.cost.relus <= budget && budget - close.cost.relus < 64, "{}", close.cost.relus);
    // The stream goes further, and thinning leaves nothing behind additions.
    let narrow = plan("name = \"resnet18\"", "budget = 50000\nstream = true");
    assert!(narrow.cost.relus <= 50_000 && narrow.cost.relus > 49_900, "{}", narrow.cost.relus);
    let thinned = plan("name = \"resnet18\"\nthin = [1, 2, 3, 4]", "budget = 50000");
    assert!(thinned.cost.relus <= 50_000 && thinned.cost.relus > 49_900, "{}", thinned.cost.relus);
    assert!(thinned.title.starts_with("resnet18 (thin 1+2+3+4, 8 layers pruned to"), "{}", thinned.title);
    let vgg = plan("name = \"vgg16\"", "budget = \"25%\"");
    assert!(vgg.cost.relus <= 71_168 && vgg.cost.relus > 71_164, "{}", vgg.cost.relus);
    let all = plan("name = \"resnet18\"", "budget = 557056");
    assert_eq!((all.title.as_str(), all.cost.relus), ("resnet18", 557_056));
}

#[test]
fn what_cannot_be_reached_is_refused_with_what_can() {
    let text = planned("name = \"resnet18\"", "budget = 300000").unwrap_err();
    assert_eq!(
        text,
        "pruning filters leaves resnet18 at least 314016 ReLUs, more than the budget of 300000: the others stand behind \
         additions or hidden layers, and every layer keeps a channel; give 314016 or more; with --stream (optimize.stream in a \
         recipe) channels of the residual stream go, too, down to 6464 ReLUs"
    );
    let text = planned("name = \"resnet18\"", "budget = 1000\nstream = true").unwrap_err();
    assert!(text.ends_with("give 6464 or more"), "{text}");
    let text = planned("name = \"signet\"", "budget = 10000").unwrap_err();
    assert!(text.contains("no filter can go") && !text.contains("--stream"), "{text}");
    let text = planned("name = \"resnet6\"", "budget = 100000").unwrap_err();
    assert!(text.contains("no filter can go; with --stream"), "{text}");
    let text = planned("name = \"resnet18\"", "budget = 600000").unwrap_err();
    assert!(text.contains("557056 ReLUs"), "{text}");
    assert!(matches!(
        planned("name = \"resnet18\"", "budget = 400000\nranking = \"network\""),
        Ok(super::super::Preview::Ranked { budget: 400_000, .. })
    ));
    assert!(planned("name = \"resnet18\"", "budget = 300000\nranking = \"network\"").is_err());
}
