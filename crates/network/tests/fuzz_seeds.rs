//! What the fuzzer starts from is understood by the decoders it fuzzes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use sordino_network::freeze::{FreezeOptions, freeze};
use sordino_network::image::Image;
use sordino_network::inference_model::{InferenceModel, WeightBits};
use sordino_network::mask::{ActivationMask, Bits, SiteMask};
use sordino_network::spec::NetworkSpec;
use sordino_network::weights::FloatWeights;
use sordino_network::zoo;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn seeds(target: &str) -> Vec<PathBuf> {
    let directory = repository().join("fuzz/seeds").join(target);
    let seeds: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!seeds.is_empty());
    seeds
}

#[test]
fn seeds_of_specs_are_specs_and_hold_every_network_that_ships() {
    for seed in seeds("network_spec") {
        NetworkSpec::from_file(&seed).unwrap_or_else(|error| panic!("{}: {error}", seed.display()));
    }
    for file in fs::read_dir(repository().join("networks")).unwrap() {
        let file = file.unwrap();
        if file.path().is_dir() {
            continue; // maps of tensor names
        }
        let seed = repository().join("fuzz/seeds/network_spec").join(file.file_name());
        assert_eq!(fs::read(&seed).unwrap(), fs::read(file.path()).unwrap(), "{}", seed.display());
    }
}

#[test]
fn seeds_of_names_are_names() {
    for seed in seeds("network_name") {
        let name = fs::read_to_string(seed).unwrap();
        zoo::build(&name, 32, 10).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_seed_of_masks_has_every_kind_of_mask() {
    let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
    let every_third = |count: u64| Bits::collect((0..count).map(|index| index % 3 == 0));
    let masks = spec.walk().sites().iter().zip(0..).map(|(site, index)| match index % 4 {
        0 => SiteMask::KeepAll,
        1 => SiteMask::DropAll,
        2 => SiteMask::Channels(every_third(site.shape.channels as u64)),
        _ => SiteMask::Pixels(every_third(site.shape.scalars())),
    });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let path = repository().join("fuzz/seeds/network_mask/every-kind");
    assert_eq!(fs::read(path).unwrap(), mask.to_bytes());
}

/// A model with names for its classes, a maximum, a skip connection and a pixel mask.
fn named_model() -> InferenceModel {
    let spec = zoo::build("resnet6:m=2,stem=imagenet", 16, 3).unwrap();
    let masks =
        spec.walk().sites().iter().map(|site| {
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|scalar| scalar % 3 == 0)))
        });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let class_names = ["cat", "dog", "ねこ"].map(str::to_owned).to_vec();
    let options = FreezeOptions { class_names, ..FreezeOptions::default() };
    let images = [Image::random(spec.draft().input, 1)];
    freeze(&spec, &FloatWeights::random(&spec, 1), Some(&mask), &images, &options).unwrap().0
}

/// The fuzz targets put header and digest around what they are given.
fn body(bytes: &[u8]) -> &[u8] {
    &bytes[12..bytes.len() - 32]
}

fn assert_seed(target: &str, name: &str, body: &[u8]) {
    let path = repository().join("fuzz/seeds").join(target).join(name);
    if std::env::var_os("SORDINO_WRITE_SEEDS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, body).unwrap();
    }
    assert!(fs::read(&path).unwrap() == body, "{}: SORDINO_WRITE_SEEDS=1 writes it anew", path.display());
}

#[test]
fn the_seeds_of_models_and_outlines_have_class_names() {
    let model = named_model();
    assert_seed("network_outline", "with-class-names", body(&model.outline().to_bytes()));
    // Written by the version before today's; its digest is the model's.
    let seed = fs::read(repository().join("fuzz/seeds/network_model/with-class-names")).unwrap();
    let old = [&b"SRDNMODL\x01\0\0\0"[..], &seed, model.digest().as_bytes()].concat();
    assert_eq!(InferenceModel::from_bytes(&old).unwrap(), model);
}

#[test]
fn the_seeds_of_packed_models_hold_coded_weights() {
    for weight_bits in [WeightBits::Eight, WeightBits::Twelve] {
        let spec = zoo::build("resnet6:m=6", 8, 3).unwrap();
        let options = FreezeOptions { weight_bits, ..FreezeOptions::default() };
        let images = [Image::random(spec.draft().input, 1)];
        let model = freeze(&spec, &FloatWeights::random(&spec, 1), None, &images, &options).unwrap().0;
        let bytes = model.to_bytes();
        let outline = body(&model.outline().to_bytes()).len();
        assert_eq!(body(&bytes)[outline], 1, "the number of tables");
        assert_seed("network_model", &format!("packed-{weight_bits:?}").to_lowercase(), body(&bytes));
    }
}
