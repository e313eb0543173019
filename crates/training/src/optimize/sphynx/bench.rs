//! How long a step of the search of cells takes, and of how many operations it is made.

use std::time::Instant;

use network::shape::Shape;
use recipes::data::Dataset;
use recipes::method::sphynx::{CellSearch, Strategy};
use recipes::random::Stream;
use recipes::recipe::{Augmentation, Precision};

use super::cell::EdgeFilters;
use super::cells::Learning;
use super::halves::Half;
use super::network::{Computation, SearchNetwork};
use super::recorded::Recorded;
use crate::learn::LearnError;
use crate::tensor::{Device, OperationCounts, count_operations, guarded};

/// Stretches of steps that are timed each by itself.
const STRETCHES: usize = 10;

/// What to measure.
#[derive(Clone, Debug)]
pub struct SearchBenchOptions {
    /// The network under search and its batch.
    pub search: CellSearch,
    /// How second convolutions are computed; as searches on the device do it, where absent.
    pub filters: Option<EdgeFilters>,
    /// Measured steps, after those that warm up.
    pub steps: usize,
    /// Side of the images.
    pub side: usize,
    /// Number of classes.
    pub classes: usize,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStepTime {
    /// Of one step, in which scores and weights move: the median of ten stretches.
    pub milliseconds: f64,
    /// Numbers of maps and filters.
    pub precision: Precision,
    /// How often a step asks for each operation, by its name in libtorch.
    pub operations: OperationCounts,
    /// Why a GPU could not record the step.
    pub not_recorded: Option<String>,
}

/// Measures steps of a search on random images with random labels.
///
/// # Errors
/// When a batch is empty, or the device has no room.
pub fn measure_search_step(
    options: &SearchBenchOptions,
    device: Device,
) -> Result<SearchStepTime, LearnError> {
    let SearchBenchOptions { search, filters, steps, side, classes } = options;
    let stretch = steps.div_ceil(STRETCHES).max(1);
    let usual = Computation::on(device, search);
    let computation = Computation { filters: filters.unwrap_or(usual.filters), ..usual };
    let network = SearchNetwork::new(search, Shape::image(*side), *classes, 1, computation)?;
    let set = random_images((*side, *classes), 2 * stretch * search.batch());
    let augmentation = Augmentation { crop_padding: 4, flip: true, ..Augmentation::default() };
    let halves = Half::both(&set, (search.batch(), augmentation), 1, device)?;
    let mut learning = guarded(|| Learning::new(network, halves, search, device))?;
    let is_second_order = search.strategy == Strategy::DartsSecond;
    let step = |learning: &mut Learning| learning.step(true, is_second_order);
    let mut recorded = Recorded::default();
    guarded(|| begin(&mut learning))?;
    let (outcome, operations) = {
        let _alone = device.alone();
        count_operations(|| guarded(|| step(&mut learning)))?
    };
    outcome?;
    guarded(|| begin(&mut learning))?;
    recorded.run(device, &mut learning, step)?;
    let mut times = Vec::with_capacity(STRETCHES);
    for _ in 0..STRETCHES {
        guarded(|| begin(&mut learning))?;
        device.wait();
        let began = Instant::now();
        for _ in 0..stretch {
            recorded.run(device, &mut learning, step)?;
        }
        device.wait();
        times.push(began.elapsed().as_secs_f64() * 1e3 / stretch as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(SearchStepTime {
        milliseconds: f64::midpoint(times[STRETCHES / 2 - 1], times[STRETCHES / 2]),
        precision: computation.precision,
        operations,
        not_recorded: recorded.refusal().map(str::to_owned),
    })
}

fn begin(learning: &mut Learning) {
    learning.halves.iter_mut().for_each(|half| half.begin_epoch(0, 0.025));
}

fn random_images((side, classes): (usize, usize), count: usize) -> Dataset {
    let mut stream = Stream::new("search bench", 1);
    let shape = Shape::image(side);
    let pixels = count as u64 * shape.scalars();
    Dataset {
        name: "random".to_owned(),
        shape,
        classes: (0..classes).map(|class| class.to_string()).collect(),
        mean: vec![0.5; shape.channels],
        deviation: vec![0.25; shape.channels],
        images: (0..pixels).map(|_| stream.below(256) as u8).collect(),
        labels: (0..count).map(|_| stream.below(classes as u32) as u16).collect(),
    }
}
