use super::*;
use crate::freeze::{FreezeOptions, freeze};
use crate::image::Image;
use crate::inference_model::ImageFormat;
use crate::mask::ActivationMask;
use crate::reference::{self, float};
use crate::spec::{Conv, FullyConnected, Pool};
use crate::walk::{Part, StageIndex};

/// A convolution with small weights that differ.
fn conv(builder: &mut ImportBuilder, name: &str, conv: Conv, input: ValueId) -> ValueId {
    let channels = builder.shape(input).channels;
    let count = conv.out * channels * conv.filter * conv.filter;
    let weights = (0..count).map(|index| ((index * 37 % 19) as f32 - 9.0) / 40.0).collect();
    let biases = (0..conv.out).map(|index| index as f32 / 10.0).collect();
    builder.weighted(name, &Layer::Conv(conv), LayerWeights::Linear { weights, biases }, input).unwrap()
}

/// Stem, two stages with a skip connection across the first, head; and a convolution that nobody reads.
fn small() -> ImportedNetwork {
    let mut builder = ImportBuilder::new("small", Shape::image(8)).unwrap();
    let stem = conv(&mut builder, "/stem/Conv", Conv::new(4, 3), ValueId::IMAGE);
    let stem = builder.layer("/stem/Relu", &Layer::Relu, stem).unwrap();
    let stem = builder.layer("pool", &Layer::MaxPool(Pool::new(2, 2)), stem).unwrap();
    let body = conv(&mut builder, "body", Conv::new(4, 3), stem);
    conv(&mut builder, "unread", Conv::new(7, 1), body);
    let sum = builder.join("sum", Join::Sum, vec![body, stem]).unwrap();
    let sum = builder.layer("relu", &Layer::Relu, sum).unwrap();
    let down = conv(&mut builder, "down", Conv::new(6, 3).stride(2), sum);
    let down = builder.affine("norm", vec![0.5; 6], vec![0.25; 6], down).unwrap();
    let down = builder.layer("relu", &Layer::Relu6, down).unwrap();
    let mean = builder.layer("mean", &Layer::GlobalAveragePool, down).unwrap();
    let weights = LayerWeights::Linear { weights: vec![0.25; 18], biases: vec![1.0, 2.0, 3.0] };
    let fc = Layer::FullyConnected(FullyConnected { out: 3 });
    let logits = builder.weighted("fc", &fc, weights, mean).unwrap();
    builder.finish(logits).unwrap()
}

#[test]
fn places_are_found_by_resolution() {
    let network = small();
    let place = |name: &str| {
        let step = network.walk().steps().iter().find(|step| step.name == name).unwrap();
        step.place.part
    };
    assert_eq!(place("stem/Conv"), Part::Stem);
    assert_eq!(place("pool"), Part::Stem);
    assert_eq!(place("body"), Part::Stage(StageIndex(1)));
    assert_eq!(place("sum"), Part::Stage(StageIndex(1)));
    assert_eq!(place("relu.2"), Part::Stage(StageIndex(2)));
    assert_eq!(place("mean"), Part::Head);
    assert_eq!(place("fc"), Part::Head);
    assert_eq!(network.walk().classes(), 3);
}

#[test]
fn what_nobody_reads_is_gone_and_sites_keep_their_names() {
    let network = small();
    assert!(network.walk().steps().iter().all(|step| step.name != "unread"));
    assert!(network.weights().layer("unread").is_none());
    let names: Vec<&str> = network.walk().sites().iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["stem/Relu", "relu", "relu.2"]);
    for site in network.walk().sites() {
        assert_eq!(network.walk().steps()[site.step].name, site.name);
        assert_eq!(network.walk().shape(network.walk().steps()[site.step].output), site.shape);
    }
}

#[test]
fn it_is_run_and_frozen_as_any_network() {
    let network = small();
    let images: Vec<Image> = (0..4).map(|seed| Image::random(network.input(), seed)).collect();
    let mask = ActivationMask::random(&network, 60, 3).unwrap();
    for mask in [None, Some(&mask)] {
        let (model, report) =
            freeze(&network, network.weights(), mask, &images, &FreezeOptions::default()).unwrap();
        assert_eq!(report.overflow_count(), 0);
        assert_eq!(model.outline().relu_count(), mask.map_or(64 * 4 + 16 * 4 + 4 * 6, |_| 60));
        let pixels = ImageFormat::usual(3).normalize(&images[0]);
        let expected = float::run(&network, network.weights(), mask, &pixels).unwrap();
        let unit = f64::powi(2.0, model.outline().logit_fraction() as i32);
        for (logit, expected) in reference::run(&model, &images[0]).unwrap().iter().zip(expected.logits()) {
            assert!((*logit as f64 / unit - f64::from(*expected)).abs() < 0.05, "{logit} {expected}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(ImportBuilder::new("x", Shape::new(0, 8, 8)).is_err());
    let mut builder = ImportBuilder::new("x", Shape::image(8)).unwrap();
    assert!(matches!(builder.slice("s", 2, 2, ValueId::IMAGE), Err(SpecFault::NoSuchChannel { .. })));
    assert!(builder.slice("s", usize::MAX, 2, ValueId::IMAGE).is_err());
    let half = builder.slice("s", 1, 2, ValueId::IMAGE).unwrap();
    assert!(builder.join("j", Join::Sum, vec![half, ValueId::IMAGE]).is_err());
    let error = builder.finish(half).unwrap_err().to_string();
    assert!(error.contains("ends at 2x8x8"), "{error}");
    let builder = ImportBuilder::new("x", Shape::vector(3)).unwrap();
    assert!(matches!(builder.finish(ValueId::IMAGE), Err(ImportFault::End { .. })));
    let mut builder = ImportBuilder::new("x", Shape::vector(3)).unwrap();
    let end = builder.affine("a", vec![f32::NAN; 3], vec![0.0; 3], ValueId::IMAGE).unwrap();
    assert!(builder.finish(end).unwrap_err().to_string().contains("NaN"));
}

#[test]
fn names_are_made_printable() {
    assert_eq!(printable("//a/b"), "a/b");
    assert_eq!(printable("\u{1b}[31m"), "[31m");
    assert_eq!(printable("\n"), "unnamed");
    assert_eq!(printable(&"ä".repeat(300)).len(), 200);
}
