//! What tests of the command line share.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod postgres;
pub(crate) mod processes;
pub(crate) mod scratch;

use sordino::network::freeze::{FreezeOptions, freeze};
use sordino::network::image::Image;
use sordino::network::inference_model::InferenceModel;
use sordino::network::weights::FloatWeights;
use sordino::network::zoo;

/// A few hundred ReLUs, random weights.
pub(crate) fn tiny_model(seed: u64) -> InferenceModel {
    let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
    let weights = FloatWeights::random(&spec, seed);
    let images: Vec<_> = (0..2).map(|number| Image::random(spec.draft().input, number)).collect();
    freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0
}
