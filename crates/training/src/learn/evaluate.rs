//! How good a network is: on images as they are, with nothing learned.

use super::{DeviceImages, LearnError};
use crate::assemble::{Mode, TrainableNetwork};
use crate::distill::{Targets, cross_entropy};
use crate::tensor::{Kind, Tensor, guarded, no_grad, to_floats};

/// Images that a network looks at in one go, where nothing is learned.
pub(crate) const TRIAL_BATCH: usize = 250;

/// What a network makes of a set of images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evaluation {
    pub(crate) correct: u64,
    pub(crate) images: u64,
    /// The mean cross-entropy.
    pub(crate) loss: f64,
}

impl Evaluation {
    /// The fraction of right answers.
    pub(crate) fn accuracy(&self) -> f64 {
        self.correct as f64 / self.images as f64
    }
}

/// Runs every image once, some at a time.
///
/// # Errors
/// When the images do not fit the network, or the device runs out of memory.
pub(crate) fn evaluate(
    network: &TrainableNetwork,
    images: &DeviceImages,
    batch: usize,
) -> Result<Evaluation, LearnError> {
    images.check(network)?;
    evaluate_with(images, batch, |pixels| network.forward(pixels, Mode::Evaluate).logits)
}

/// The same for whatever makes logits of images.
///
/// # Errors
/// When the device runs out of memory.
pub(crate) fn evaluate_with(
    images: &DeviceImages,
    batch: usize,
    logits: impl Fn(&Tensor) -> Tensor,
) -> Result<Evaluation, LearnError> {
    let device = images.pixels.device();
    let _alone = device.alone();
    let totals = guarded(|| {
        no_grad(|| {
            let mut totals = device.zeros(&[2], Kind::Double);
            for (start, count) in batches(images.len(), batch) {
                let logits = logits(&images.pixels.range(start, count));
                let labels = images.labels.narrow(0, start, count);
                let right = logits.argmax(-1, false).eq_tensor(&labels).sum(Kind::Double);
                let targets = Targets::plain(&labels, images.classes, 0.0, logits.kind());
                let loss = cross_entropy(&logits, &targets.chances).to_kind(Kind::Double) * count as f64;
                totals += Tensor::stack(&[loss, right], 0);
            }
            to_floats(&totals)
        })
    })?;
    let images = images.len() as u64;
    Ok(Evaluation { correct: totals[1] as u64, images, loss: f64::from(totals[0]) / images as f64 })
}

/// The logits of every image, one row after the other.
pub(crate) fn predict(
    network: &TrainableNetwork,
    images: &DeviceImages,
    batch: usize,
) -> Result<Vec<f32>, LearnError> {
    images.check(network)?;
    let rows = |(start, count)| {
        let run = || network.forward(&images.pixels.range(start, count), Mode::Evaluate).logits;
        guarded(|| to_floats(&no_grad(run)))
    };
    let _alone = network.device().alone();
    let mut logits = Vec::with_capacity(images.len() * network.classes());
    for range in batches(images.len(), batch) {
        logits.extend(rows(range)?);
    }
    Ok(logits)
}

/// Starts and lengths that cover a number of images.
pub(super) fn batches(images: usize, batch: usize) -> impl Iterator<Item = (i64, i64)> {
    let batch = batch.max(1);
    (0..images).step_by(batch).map(move |start| (start as i64, batch.min(images - start) as i64))
}
