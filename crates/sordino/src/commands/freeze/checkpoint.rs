//! A checkpoint of a run becomes a model: calibrated on training images, tried on test images. Needs no libtorch.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use network::freeze::{FreezeOptions, count_overflows};
use network::image::Image;
use network::inference_model::{ImageFormat, InferenceModel};
use network::mask::ActivationMask;
use network::reference::{self, float};
use network::spec::NetworkSpec;
use network::weights::FloatWeights;
use recipes::checkpoint::{Checkpoint, Part};
use recipes::data::{self, Dataset};
use recipes::random::Stream;
use serde::Serialize;

use super::{Arguments, Report};
use crate::commands::model::{Calibration, Origin};
use crate::commands::trainer;
use crate::commands::trial::{self, in_parallel, largest, progress, spread, threads_or_all};

/// Training images that fix the scales.
const CALIBRATION_IMAGES: usize = 128;
/// Test images that the model is tried on.
const ACCURACY_IMAGES: usize = 1000;

/// What only checkpoints need.
#[derive(Debug, Args)]
pub(super) struct CheckpointArguments {
    /// For a run: the folder of its images [default: the one that its recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For a run: fix the scales on so many training images [default: 128].
    #[arg(long, value_name = "COUNT")]
    calibration_images: Option<usize>,
    /// For a run: try network and model on so many test images [default: 1000].
    #[arg(long, value_name = "COUNT")]
    accuracy_images: Option<usize>,
    /// For a run: threads that try images [default: all cores].
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// For a run: note the model and its accuracy in the run's record, which `sordino pareto` shows; or in this one.
    #[arg(long, value_name = "RECORD", num_args = 0..=1, require_equals = true)]
    record: Option<Option<PathBuf>>,
}

impl CheckpointArguments {
    /// Refuses flags that mean nothing to a network by name.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let given = [
            ("--data", self.data.is_some()),
            ("--calibration-images", self.calibration_images.is_some()),
            ("--accuracy-images", self.accuracy_images.is_some()),
            ("--threads", self.threads.is_some()),
            ("--record", self.record.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => bail!("{flag} belongs to a run's folder; a network by name has no images"),
            None => Ok(()),
        }
    }
}

/// What network and model do on test images.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Accuracy {
    /// How many images.
    images: u64,
    /// The share that the network tells right in floating point, from 0 to 1.
    float: f64,
    /// The share that the model tells right on integers.
    integer: f64,
    /// Images on which both say the same.
    agreement: f64,
    /// Values of all these images that do not fit their widths.
    overflows: u64,
    /// Accuracies that the run itself measured, by set.
    measured_in_training: std::collections::BTreeMap<String, f64>,
}

impl Accuracy {
    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "{} test images: network {:.2}%, model {:.2}% ({:+.2} points), same answer on {:.2}%, {} overflows",
            self.images,
            100.0 * self.float,
            100.0 * self.integer,
            100.0 * (self.integer - self.float),
            100.0 * self.agreement,
            self.overflows
        )?;
        for (set, accuracy) in &self.measured_in_training {
            writeln!(out, "training measured {:.2}% on all {set} images", 100.0 * accuracy)?;
        }
        Ok(())
    }
}

/// A trained network, ready to be tried.
struct Trained {
    checkpoint: Checkpoint,
    spec: NetworkSpec,
    weights: FloatWeights,
    mask: Option<ActivationMask>,
    format: ImageFormat,
}

/// Freezes a checkpoint, tries the model, and writes it.
pub(super) fn freeze(arguments: &Arguments, path: &Path) -> anyhow::Result<Report> {
    if arguments.model.changes_network() {
        bail!(
            "{} is trained: its size, ReLUs, classes and normalization are fixed; only --weight-bits, \
             --activation-bits and --outline can be chosen",
            path.display()
        );
    }
    let checkpoint =
        Checkpoint::load(path, Part::Weights).with_context(|| format!("{} is not usable", path.display()))?;
    let spec = checkpoint.spec()?;
    let trained = Trained {
        weights: checkpoint.float_weights(&spec)?,
        mask: checkpoint.mask(&spec)?,
        format: checkpoint.state.normalization.image_format(),
        spec,
        checkpoint,
    };
    let state = &trained.checkpoint.state;
    let extra = &arguments.checkpoint;
    let directory = extra.data.as_deref().or(state.recipe.data.directory.as_deref());
    let data = data::open(&state.recipe.data.request(), directory)?;
    if data.test.classes != state.classes || data.test.shape != state.input {
        bail!(
            "the images are of other sizes or classes than those of the run; name its data with --data DIR"
        );
    }
    let images = calibration_images(&data.training, extra.calibration_images.unwrap_or(CALIBRATION_IMAGES));
    let options = FreezeOptions {
        class_names: state.classes.clone(),
        image: Some(trained.format.clone()),
        ..arguments.model.freeze_options()?
    };
    let (model, freezing) =
        network::freeze::freeze(&trained.spec, &trained.weights, trained.mask.as_ref(), &images, &options)?;
    let count = extra.accuracy_images.unwrap_or(ACCURACY_IMAGES);
    let threads = threads_or_all(extra.threads);
    let mut accuracy = try_model(&trained, &model, &spread(&data.test, count), threads)?;
    if let Some(accuracy) = &mut accuracy {
        accuracy.measured_in_training = state.accuracy.clone();
    }
    model.save(&arguments.output)?;
    if let Some(record) = &extra.record {
        let Some(accuracy) = &accuracy else {
            bail!("--record notes an accuracy, which --accuracy-images 0 leaves out")
        };
        let record = record.as_deref().unwrap_or(path);
        trial::note_model(record, &model, &arguments.output, accuracy.integer, accuracy.images)?;
    }
    let mut report = Report::new(arguments, &model, freezing)?;
    report.weights =
        Origin::Checkpoint { path: path.into(), epoch: state.epoch, digest: trained.checkpoint.digest() };
    report.calibration = Calibration::Training { data: data.training.name };
    report.accuracy = accuracy;
    Ok(report)
}

/// Some training images, the same each time.
fn calibration_images(set: &Dataset, count: usize) -> Vec<Image> {
    let mut order: Vec<usize> = (0..set.len()).collect();
    Stream::new("calibration images", 1).shuffle(&mut order);
    order.into_iter().take(count).map(|index| set.image(index)).collect()
}

/// Runs network and model side by side; nothing where there are no images.
fn try_model(
    trained: &Trained,
    model: &InferenceModel,
    set: &Dataset,
    threads: usize,
) -> anyhow::Result<Option<Accuracy>> {
    if set.is_empty() {
        return Ok(None);
    }
    let bar = progress(set.len());
    let answers = float_answers(trained, set, threads)?;
    let counts = Counts::default();
    in_parallel(set.len(), threads, &|index| {
        counts.add(model, &set.image(index), usize::from(set.labels[index]), answers[index])?;
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    let share = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / set.len() as f64;
    Ok(Some(Accuracy {
        images: set.len() as u64,
        float: share(&counts.float),
        integer: share(&counts.integer),
        agreement: share(&counts.same),
        overflows: counts.overflows.load(Ordering::Relaxed),
        measured_in_training: std::collections::BTreeMap::new(),
    }))
}

/// What the network says in floating point: by libtorch where this build has it, or else by the plain executor.
fn float_answers(trained: &Trained, set: &Dataset, threads: usize) -> anyhow::Result<Vec<usize>> {
    if let Some(answers) = trainer::answers(&trained.checkpoint, set, threads)? {
        return Ok(answers);
    }
    let answers: Vec<AtomicUsize> = set.labels.iter().map(|_| AtomicUsize::new(0)).collect();
    in_parallel(set.len(), threads, &|index| {
        let pixels = trained.format.normalize(&set.image(index));
        let trace = float::run(&trained.spec, &trained.weights, trained.mask.as_ref(), &pixels)?;
        let answer = largest(trace.logits().iter().map(|logit| f64::from(*logit)));
        answers[index].store(answer, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(answers.into_iter().map(AtomicUsize::into_inner).collect())
}

/// What the threads have found so far.
#[derive(Default)]
struct Counts {
    float: AtomicU64,
    integer: AtomicU64,
    same: AtomicU64,
    overflows: AtomicU64,
}

impl Counts {
    fn add(&self, model: &InferenceModel, image: &Image, class: usize, float: usize) -> anyhow::Result<()> {
        let trace = reference::trace(model, image, None)?;
        let integer = largest(trace.logits.iter().map(|logit| *logit as f64));
        let count = |counter: &AtomicU64, value: u64| counter.fetch_add(value, Ordering::Relaxed);
        count(&self.float, u64::from(float == class));
        count(&self.integer, u64::from(integer == class));
        count(&self.same, u64::from(float == integer));
        count(&self.overflows, count_overflows(model, &trace));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::data::{SyntheticSize, synthetic};

    #[test]
    fn calibration_images_are_the_same_each_time() {
        let set = synthetic(&SyntheticSize { training: 10, test: 40, ..SyntheticSize::default() }).test;
        assert_eq!(calibration_images(&set, 5), calibration_images(&set, 5));
    }
}
