//! Tasks that only some operations can do: the whole search, in which weights and scores both learn, must find them.

use std::ops::ControlFlow;

use ::network::shape::Shape;
use ::network::zoo::genotype::{CellKind, CellOperation};
use recipes::data::Dataset;
use recipes::method::ReluBudget;
use recipes::method::sphynx::{CellSearch, WeightUpdates};
use recipes::random::Stream;
use recipes::recipe::Augmentation;

use super::super::*;
use super::state;
use crate::optimize::Told;
use crate::tensor::Device;

const SIDE: usize = 16;
const IMAGES: usize = 768;
/// Of a hundred pixels, so many are drawn anew: no image is sure.
const NOISE: u32 = 40;

/// Images of two grays by chance. In one class every pixel is as that some columns to its left, in the other it is the
/// opposite. A single pixel says nothing, nor does a filter too short to see both.
fn pairs_of_pixels(distance: usize) -> Dataset {
    let mut stream = Stream::new("pairs of pixels", 1);
    let labels: Vec<u16> = (0..IMAGES).map(|image| (image % 2) as u16).collect();
    let mut images = Vec::with_capacity(IMAGES * 3 * SIDE * SIDE);
    for label in &labels {
        let mut plane = vec![0_u8; SIDE * SIDE];
        for place in 0..plane.len() {
            let is_free = place % SIDE < distance || stream.below(100) < NOISE;
            plane[place] = match (is_free, label) {
                (true, _) => [64, 192][stream.below(2) as usize],
                (false, 0) => plane[place - distance],
                (false, _) => 0_u8.wrapping_sub(plane[place - distance]),
            };
        }
        (0..3).for_each(|_| images.extend(&plane));
    }
    Dataset {
        name: "pairs of pixels".to_owned(),
        shape: Shape::image(SIDE),
        classes: vec!["as the other".to_owned(), "the opposite".to_owned()],
        mean: vec![0.5; 3],
        deviation: vec![0.25; 3],
        images,
        labels,
    }
}

/// The rate of scores that learn, and of some that do not.
const RATE: f64 = 0.02;
const REST: f64 = 1e-12;

/// The operations of the only cell, behind a whole search whose scores move at this rate.
fn search(distance: usize, score_rate: f64) -> Vec<CellOperation> {
    crate::tensor::set_threads(1);
    let search = CellSearch {
        nodes: 1,
        channels: 3,
        // One cell, which reduces: nobody else can do its work.
        depth: 1,
        epochs: 8,
        batch: Some(32),
        score_rate: Some(score_rate),
        weights: Some(WeightUpdates { learning_rate: 0.1, ..WeightUpdates::default() }),
        ..CellSearch::default()
    };
    let section =
        SphynxSection { cell_search: search.clone(), ..SphynxSection::new(ReluBudget::Count(5000)) };
    let folder = tempfile::tempdir().unwrap();
    let set = pairs_of_pixels(distance);
    let searcher =
        CellSearcher::new(&search, &set, Augmentation::default(), state(section), folder.path(), Device::Cpu);
    let mut accuracy = 0.0;
    let cells = searcher.unwrap().run(folder.path(), 1 << 20, &mut |told| {
        if let Told::Epoch(epoch) = told {
            accuracy = epoch.accuracy;
        }
        ControlFlow::Continue(())
    });
    assert!(accuracy > 0.9, "weights learned the task: {accuracy}");
    cells.unwrap().wiring(CellKind::Reduce)[0].iter().map(|edge| edge.operation).collect()
}

/// Those that see eight columns at once: two filters of five one behind the other, or one of five with gaps.
fn reaches_far(operation: &CellOperation) -> bool {
    matches!(operation, CellOperation::Conv5 | CellOperation::Dilated5)
}

#[test]
fn the_search_picks_the_operations_that_a_task_needs() {
    let far = search(8, RATE);
    assert!(far.iter().all(reaches_far), "{far:?} for pixels far apart");
    let near = search(1, RATE);
    assert!(!near.iter().any(reaches_far), "{near:?} for pixels side by side");
}

#[test]
fn scores_that_do_not_learn_pick_nothing_of_use() {
    let far = search(8, REST);
    assert!(!far.iter().all(reaches_far), "{far:?} by chance; the test above would say nothing");
}
