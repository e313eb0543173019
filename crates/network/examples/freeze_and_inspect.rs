//! A network from the zoo, fewer ReLUs, integers instead of floats.
//!
//! `cargo run -p sordino-network --example freeze_and_inspect -- small.sordino` also writes the model, to be served.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::path::Path;

use sordino_network::cost::Cost;
use sordino_network::freeze::{FreezeOptions, freeze};
use sordino_network::image::Image;
use sordino_network::reference;
use sordino_network::transform;
use sordino_network::walk::StageIndex;
use sordino_network::weights::FloatWeights;
use sordino_network::zoo;

fn main() -> Result<(), Box<dyn Error>> {
    // A ResNet for images of 8x8 pixels in ten classes, two channels wide.
    let baseline = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10)?;
    let culled = transform::cull_stage(&baseline, StageIndex(1))?;
    for (what, network) in [("as named", &baseline), ("without the ReLUs of stage 1", &culled)] {
        println!("{} {what}: {} ReLUs", network.name(), Cost::of(network).relus);
    }

    // Random weights know no classes; trained ones come from a safetensors file or a run.
    let weights = FloatWeights::random(&culled, 1);
    let input = culled.draft().input;
    let images: Vec<_> = (0..4).map(|seed| Image::random(input, seed)).collect();
    let (model, report) = freeze(&culled, &weights, None, &images, &FreezeOptions::default())?;
    println!("frozen: widest ring {} bits, {} round trips", report.widest_ring_bits, report.round_trips);

    // What private inference will answer, in the clear.
    println!("logits of an image: {:?}", reference::run(&model, &Image::random(input, 100))?);
    if let Some(path) = std::env::args_os().nth(1) {
        model.save(Path::new(&path))?;
    }
    Ok(())
}
