//! A checkpoint of a run becomes a model: calibrated on training images, tried on test images. Needs no libtorch.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use network::inference_model::InferenceModel;
use recipes::data::{self, Dataset};
use recipes::trial::{self, TrainedNetwork, calibration_images, spread};
use serde::Serialize;

use super::{Arguments, Report};
use crate::commands::model::{Calibration, Origin};
use crate::commands::trainer;
use crate::commands::trial::{note_model, progress, threads_or_all};

/// Training images that fix the scales.
const CALIBRATION_IMAGES: usize = 128;
/// Test images that the model is tried on.
const ACCURACY_IMAGES: usize = 1000;

/// What only checkpoints need.
#[derive(Debug, Args)]
pub(super) struct CheckpointArguments {
    /// For a run or model: the folder of the images it learned from [default: the one that the run's recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For a run or model: fix the scales on so many training images [default: 128].
    #[arg(long, value_name = "COUNT")]
    calibration_images: Option<usize>,
    /// For a run: try network and model on so many test images [default: 1000].
    #[arg(long, value_name = "COUNT")]
    accuracy_images: Option<usize>,
    /// For a run: threads that try images [default: all cores].
    #[arg(long, value_name = "COUNT", value_parser = crate::commands::threads)]
    threads: Option<usize>,
    /// For a run: note the model and its accuracy in the run's record, which `sordino pareto` shows; or in this one.
    #[arg(long, value_name = "RECORD", num_args = 0..=1, require_equals = true)]
    record: Option<Option<PathBuf>>,
}

impl CheckpointArguments {
    /// The folder of the images, where one was named.
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// How many training images fix the scales.
    pub(super) fn calibration_images(&self) -> usize {
        self.calibration_images.unwrap_or(CALIBRATION_IMAGES)
    }

    /// Refuses flags that mean nothing to a frozen model.
    pub(super) fn refuse_for_model(&self) -> anyhow::Result<()> {
        let is_given = self.accuracy_images.is_some() || self.threads.is_some() || self.record.is_some();
        if is_given {
            bail!(
                "--accuracy-images, --threads and --record belong to a run's folder; `sordino evaluate` tries a model"
            );
        }
        Ok(())
    }

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

/// What network and model do on test images, and what the run itself measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Accuracy {
    #[serde(flatten)]
    tried: trial::Accuracy,
    /// By set, from 0 to 1.
    measured_in_training: BTreeMap<String, f64>,
}

impl Accuracy {
    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let trial::Accuracy { images, float, integer, agreement, overflows } = &self.tried;
        writeln!(
            out,
            "{images} test images: network {:.2}%, model {:.2}% ({:+.2} points), same answer on {:.2}%, {overflows} overflows",
            100.0 * float,
            100.0 * integer,
            100.0 * (integer - float),
            100.0 * agreement,
        )?;
        for (set, accuracy) in &self.measured_in_training {
            writeln!(out, "training measured {:.2}% on all {set} images", 100.0 * accuracy)?;
        }
        Ok(())
    }
}

/// Freezes a checkpoint, tries the model, and writes it.
pub(super) fn freeze(arguments: &Arguments, path: &Path) -> anyhow::Result<Report> {
    if arguments.model.changes_network() {
        bail!(
            "{} is trained: its size, ReLUs, classes and normalization are fixed; only --weight-bits, \
             --activation-bits, --max-ring-bits, --margin and --outline can be chosen",
            path.display()
        );
    }
    let trained = TrainedNetwork::load(path).with_context(|| format!("{} is not usable", path.display()))?;
    let state = &trained.checkpoint.state;
    let extra = &arguments.checkpoint;
    let directory = extra.data.as_deref().or(state.recipe.data.directory.as_deref());
    let data = data::open(&state.recipe.data.request(), directory)?;
    if data.test.classes != state.classes || data.test.shape != state.input {
        bail!(
            "the images are of other sizes or classes than those of the run; name its data with --data DIR"
        );
    }
    let images = calibration_images(&data.training, extra.calibration_images());
    let (model, freezing) = trained.freeze(&images, arguments.model.freeze_options()?)?;
    let count = extra.accuracy_images.unwrap_or(ACCURACY_IMAGES);
    let threads = threads_or_all(extra.threads);
    let accuracy = try_model(&trained, &model, &spread(&data.test, count), threads)?;
    model.save(&arguments.output)?;
    if let Some(record) = &extra.record {
        let Some(accuracy) = &accuracy else {
            bail!("--record notes an accuracy, which --accuracy-images 0 leaves out")
        };
        let record = record.as_deref().unwrap_or(path);
        note_model(record, &model, &arguments.output, accuracy.tried.integer, accuracy.tried.images)?;
    }
    let mut report = Report::new(arguments, &model, freezing)?;
    report.weights =
        Origin::Checkpoint { path: path.into(), epoch: state.epoch, digest: trained.checkpoint.digest() };
    report.calibration = Calibration::Training { data: data.training.name };
    report.accuracy = accuracy;
    Ok(report)
}

/// Runs network and model side by side; nothing where there are no images.
fn try_model(
    trained: &TrainedNetwork,
    model: &InferenceModel,
    set: &Dataset,
    threads: usize,
) -> anyhow::Result<Option<Accuracy>> {
    if set.is_empty() {
        return Ok(None);
    }
    let bar = progress(set.len());
    let answers = float_answers(trained, set, threads)?;
    let tried = trial::Accuracy::measure(model, set, &answers, threads, &|| bar.inc(1))?;
    bar.finish_and_clear();
    Ok(Some(Accuracy { tried, measured_in_training: trained.checkpoint.state.accuracy.clone() }))
}

/// What the network says in floating point: by libtorch where this build has it, or else by the plain executor.
fn float_answers(trained: &TrainedNetwork, set: &Dataset, threads: usize) -> anyhow::Result<Vec<usize>> {
    match trainer::answers(&trained.checkpoint, set, threads)? {
        Some(answers) => Ok(answers),
        None => Ok(trained.answers(set, threads)?),
    }
}
