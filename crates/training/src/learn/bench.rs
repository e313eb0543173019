//! How long a step takes.

use std::time::Instant;

use network::spec::NetworkSpec;
use recipes::random::Stream;
use recipes::recipe::{Augmentation, Distillation, Precision};

use super::{DeviceImages, GraphUse, ImageSet, LearnError, LearnOptions, Learner, StepRates};
use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::distill::Losses;
use crate::tensor::{Device, guarded};

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Images per step.
    pub batch: usize,
    /// Measured steps, after those that warm up.
    pub steps: usize,
    /// In which numbers.
    pub precision: Precision,
    /// Whether steps are recorded.
    pub graph: GraphUse,
    /// Whether each step gathers, crops and flips a new batch.
    pub data_pipeline: bool,
    /// Whose logits are computed in each step.
    pub teacher: Option<NetworkSpec>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// Of one step: forward, backward and optimizer; the median of ten stretches.
    pub milliseconds: f64,
    /// Batch over that time.
    pub images_per_second: f64,
    /// Whether steps were recorded, and if not, why.
    pub not_recorded: Option<String>,
    /// The mean of the first steps, and of those that were timed: the loss must have been computed.
    pub losses: (f64, f64),
}

/// Measures steps on random images with random labels.
///
/// # Errors
/// When the device has no room.
pub fn measure_step(
    spec: &NetworkSpec,
    options: &BenchOptions,
    device: Device,
) -> Result<StepTime, LearnError> {
    let mut learner = learner(spec, options, device)?;
    let rates = |_| StepRates { learning_rate: 0.05, ..StepRates::default() };
    let first = learner.run_epoch(0, &rates, &mut |_| {})?;
    let stretch = learner.steps_per_epoch();
    let mut times = Vec::new();
    learner.begin_epoch(1, &rates)?;
    for _ in 0..STRETCHES {
        guarded(|| learner.tables.rewind())?;
        device.wait();
        let began = Instant::now();
        for _ in 0..stretch {
            learner.one_step()?;
        }
        device.wait();
        times.push(began.elapsed().as_secs_f64() * 1e3 / stretch as f64);
    }
    times.sort_by(f64::total_cmp);
    let milliseconds = f64::midpoint(times[STRETCHES / 2 - 1], times[STRETCHES / 2]);
    let total = guarded(|| crate::tensor::to_floats(&learner.totals))?[0];
    Ok(StepTime {
        milliseconds,
        images_per_second: options.batch as f64 * 1e3 / milliseconds,
        not_recorded: learner.why_not_recorded().map(str::to_owned),
        losses: (first.loss, f64::from(total) / (stretch * STRETCHES as u64) as f64),
    })
}

/// Stretches of steps that are timed each by itself.
const STRETCHES: usize = 10;

fn learner(spec: &NetworkSpec, options: &BenchOptions, device: Device) -> Result<Learner, LearnError> {
    let shape = spec.draft().input;
    let classes = spec.draft().classes;
    let count = options.batch.max(1) * options.steps.div_ceil(STRETCHES).max(1);
    let mut stream = Stream::new("bench", 1);
    let images: Vec<u8> = (0..count as u64 * shape.scalars()).map(|_| stream.below(256) as u8).collect();
    let labels: Vec<u16> = (0..count).map(|_| stream.below(classes as u32) as u16).collect();
    let (mean, deviation) = (vec![0.5; shape.channels], vec![0.25; shape.channels]);
    let set =
        ImageSet { shape, classes, images: &images, labels: &labels, mean: &mean, deviation: &deviation };
    let images = DeviceImages::new(&set, device)?;
    let assemble = AssembleOptions { precision: options.precision, ..AssembleOptions::default() };
    let network = TrainableNetwork::new(spec, &assemble, device)?;
    let teacher = options.teacher.as_ref().map(|spec| TrainableNetwork::new(spec, &assemble, device));
    let teacher = teacher.transpose()?;
    let losses =
        Losses { distillation: teacher.as_ref().map(|_| Distillation::soft(4.0, 0.9)), ..Losses::default() };
    let augmentation = Augmentation { crop_padding: 4, flip: true, ..Augmentation::default() };
    let learn = LearnOptions {
        batch: options.batch,
        graph: options.graph,
        losses,
        augmentation,
        ..LearnOptions::default()
    };
    let mut learner = Learner::new(network, teacher, learn, images)?;
    if !options.data_pipeline {
        let batch = options.batch as i64;
        let images = guarded(|| learner.images.pixels.range(0, batch))?;
        let labels = learner.images.labels.narrow(0, 0, batch);
        learner.fixed_batch = Some((images, labels));
    }
    Ok(learner)
}
