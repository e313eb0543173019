use super::*;
use crate::freeze::{FreezeOptions, freeze};
use crate::image::Image;
use crate::mask::{ActivationMask, Bits, SiteMask};
use crate::weights::FloatWeights;
use crate::zoo;
use proptest::prelude::*;

/// A model with every kind of mask, a pooling and a skip connection.
fn model(weight_bits: WeightBits) -> InferenceModel {
    let spec = zoo::build("resnet10:m=3,stem=imagenet", 16, 5).unwrap();
    let weights = FloatWeights::random(&spec, 3);
    let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index % 3 {
        0 => SiteMask::KeepAll,
        1 => SiteMask::Channels(Bits::collect((0..site.shape.channels).map(|channel| channel != 1))),
        _ => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|scalar| scalar % 3 == 0))),
    });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let images = [Image::random(spec.draft().input, 1)];
    let options = FreezeOptions { weight_bits, ..FreezeOptions::default() };
    let model = freeze(&spec, &weights, Some(&mask), &images, &options).unwrap().0;
    model.with_class_names((0..5).map(|class| format!("class {class}")).collect()).unwrap()
}

/// A model with groups of several sizes, slopes and masked signs.
fn gated_model() -> InferenceModel {
    let spec = zoo::build("signet:signs=0+2+3,values=3,stream=4+4+6,depths=1+1+1", 16, 5).unwrap();
    let weights = FloatWeights::random(&spec, 3);
    let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index % 2 {
        0 => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|scalar| scalar % 3 == 0))),
        _ => SiteMask::Channels(Bits::collect((0..site.shape.channels).map(|channel| channel != 1))),
    });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let images = [Image::random(spec.draft().input, 1)];
    freeze(&spec, &weights, Some(&mask), &images, &FreezeOptions::default()).unwrap().0
}

#[test]
fn gates_read_back_and_damage_is_refused() {
    let model = gated_model();
    assert!(model.outline().gated_value_count() > 0);
    assert_eq!(InferenceModel::from_bytes(&model.to_bytes()).unwrap(), model);
    let outline = model.outline().to_bytes();
    assert_eq!(ModelOutline::from_bytes(&outline).unwrap(), *model.outline());
    let body = &outline[..outline.len() - 32];
    for end in 0..body.len() {
        assert!(ModelOutline::from_bytes(&sealed(body[..end].to_vec())).is_err());
    }
    // Whatever a changed byte says, it is read without a panic, and what is accepted is written as it was.
    for index in 12..body.len() {
        let mut changed = body.to_vec();
        changed[index] ^= 0x81;
        let changed = sealed(changed);
        if let Ok(other) = ModelOutline::from_bytes(&changed) {
            assert_eq!(other.to_bytes(), changed);
        }
    }
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let digest = blake3::hash(&body);
    body.extend(digest.as_bytes());
    body
}

#[test]
fn models_and_outlines_read_back() {
    for bits in [WeightBits::Eight, WeightBits::Twelve] {
        let model = model(bits);
        let bytes = model.to_bytes();
        assert_eq!(InferenceModel::from_bytes(&bytes).unwrap(), model);
        let plain = model.plain_bytes();
        assert_eq!(InferenceModel::from_bytes(&plain).unwrap(), model);
        assert_eq!(plain[8..12], [1, 0, 0, 0]);
        assert_eq!(bytes[8..12], [2, 0, 0, 0]);
        assert_eq!(*model.digest().as_bytes(), plain[plain.len() - 32..]);
        let outline = model.outline();
        assert_eq!(ModelOutline::from_bytes(&outline.to_bytes()).unwrap(), *outline);
    }
}

#[test]
fn weights_take_eight_or_twelve_bits_and_less_when_packed() {
    for bits in [WeightBits::Eight, WeightBits::Twelve] {
        let model = model(bits);
        let packed = |count: usize| if bits == WeightBits::Eight { count } else { (3 * count).div_ceil(2) };
        let layers = model.layers().iter();
        let secret: usize = layers.map(|layer| 8 * layer.biases.len() + packed(layer.weights.len())).sum();
        let plain = model.outline().to_bytes().len() + secret;
        assert_eq!(model.plain_bytes().len(), plain);
        assert!(model.to_bytes().len() < plain);
    }
}

#[test]
fn every_truncation_and_every_flipped_byte_is_refused() {
    let model = model(WeightBits::Eight);
    let outline = model.outline().to_bytes();
    for end in 0..outline.len() {
        assert!(ModelOutline::from_bytes(&outline[..end]).is_err());
    }
    for index in 0..outline.len() {
        let mut flipped = outline.clone();
        flipped[index] ^= 0x10;
        assert!(ModelOutline::from_bytes(&flipped).is_err());
    }
    for bytes in [model.to_bytes(), model.plain_bytes()] {
        for end in (0..bytes.len()).step_by(97) {
            assert!(InferenceModel::from_bytes(&bytes[..end]).is_err());
            let mut flipped = bytes.clone();
            flipped[end] ^= 0x01;
            assert!(InferenceModel::from_bytes(&flipped).is_err());
        }
    }
}

#[test]
fn refusals_say_what_was_expected_and_what_came() {
    let model = model(WeightBits::Eight);
    let bytes = model.plain_bytes();
    let body = &bytes[..bytes.len() - DIGEST_BYTES];
    let altered = |at: usize, value: &[u8]| {
        let mut body = body.to_vec();
        body[at..at + value.len()].copy_from_slice(value);
        InferenceModel::from_bytes(&sealed(body)).unwrap_err().to_string()
    };
    assert_eq!(
        InferenceModel::from_bytes(&model.outline().to_bytes()).unwrap_err().to_string(),
        "this is no model: it begins with \"SRDNOUTL\" instead of \"SRDNMODL\"; `sordino freeze` makes one of a network"
    );
    assert_eq!(altered(8, &[3]), "version 3 is unknown; this build reads versions 1 and 2");
    let mut outline = model.outline().to_bytes();
    outline.truncate(outline.len() - DIGEST_BYTES);
    outline[8] = 2;
    assert_eq!(
        ModelOutline::from_bytes(&sealed(outline)).unwrap_err().to_string(),
        "version 2 is unknown; this build reads version 1"
    );
    assert!(altered(12, &[255; 4]).contains("the length of a name is 4294967295; expected at most 512"));
    let names = body.windows(11).position(|window| window == b"\x07\0\0\0class 0").unwrap();
    assert_eq!(altered(names - 4, &[4]), "the number of class names is 4; expected 0, or one per class");
    assert!(altered(names, &[255; 4]).contains("the length of a name"));
    assert!(altered(names + 4, &[0xff]).contains("no UTF-8"));
    assert!(altered(names + 4, &[7]).contains("without control characters"));
    let mut named = model.outline().clone();
    named.class_names[0] = "bell\u{7}".to_owned();
    assert!(named.check().unwrap_err().to_string().contains("the name of class 0 has 5 bytes"));
    named.class_names.clear();
    named.steps[0].name = "\u{1b}]52;c;\u{7}".to_owned();
    assert!(named.check().unwrap_err().to_string().contains("no control characters"));
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    assert!(InferenceModel::from_bytes(&damaged).unwrap_err().to_string().contains("damaged"));
    let short = sealed(body[..body.len() - 3].to_vec());
    let message = InferenceModel::from_bytes(&short).unwrap_err().to_string();
    assert!(message.contains("end too early"), "{message}");
    let long = sealed([body, &[0; 2]].concat());
    assert_eq!(InferenceModel::from_bytes(&long).unwrap_err().to_string(), "2 bytes follow the end");
    // A weight of -128 fits a byte and no model.
    assert_eq!(
        altered(body.len() - 1, &[0x80]),
        "linear layer 12 has the weight -128; at most 127 is allowed"
    );
}

#[test]
fn files_are_replaced_whole_and_read_back() {
    let folder = std::env::temp_dir().join(format!("sordino-model-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.srdn");
    let model = model(WeightBits::Twelve);
    model.save(&path).unwrap();
    model.save(&path).unwrap();
    assert_eq!(InferenceModel::load(&path).unwrap(), model);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(InferenceModel::load(&path).unwrap_err().to_string().contains("cannot read"));
    assert!(model.save(&path).unwrap_err().to_string().contains("cannot write"));
}

proptest! {
    #[test]
    fn twelve_bits_pack_and_unpack(weights in prop::collection::vec(-2048_i16..2048, 0..50)) {
        let mut bytes = Vec::new();
        pack_twelve(&weights, &mut bytes);
        prop_assert_eq!(bytes.len(), (3 * weights.len()).div_ceil(2));
        prop_assert_eq!(unpack_twelve(&bytes, weights.len()).unwrap(), weights);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let body = [&OUTLINE_MAGIC[..], &[1, 0, 0, 0], &bytes].concat();
        prop_assert!(ModelOutline::from_bytes(&sealed(body)).is_err());
        for version in [1, 2] {
            let body = [&MODEL_MAGIC[..], &[version, 0, 0, 0], &bytes].concat();
            prop_assert!(InferenceModel::from_bytes(&sealed(body)).is_err());
        }
    }

    #[test]
    fn altered_outlines_are_refused_or_written_back(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let bytes = MODEL.outline().to_bytes();
        let mut body = bytes[..bytes.len() - DIGEST_BYTES].to_vec();
        for (at, value) in changes {
            let at = at % body.len();
            body[at] = value;
        }
        let bytes = sealed(body);
        if let Ok(outline) = ModelOutline::from_bytes(&bytes) {
            prop_assert_eq!(outline.to_bytes(), bytes);
            prop_assert!(outline.schedule().round_trips() <= outline.steps.len());
        }
    }
}

static MODEL: std::sync::LazyLock<InferenceModel> = std::sync::LazyLock::new(|| model(WeightBits::Eight));
