//! `sordino evaluate RUN`: how a trained network does on images that it did not learn from.
//! `sordino evaluate MODEL.sordino`: so does a frozen model, on integers in the clear; needs no libtorch.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use network::inference_model::InferenceModel;
use serde::Serialize;
use training::data::{self, DataRequest, SyntheticSize};
use training::optimize::RecordFile;

use super::model::is_model_file;
use super::train::DeviceChoice;
use super::trial::{count_right, digest, note_model, spread, threads_or_all};
use super::{Answer, write_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of a run, or of one of its checkpoints; or a frozen model.
    #[arg(value_name = "RUN")]
    checkpoint: PathBuf,
    /// The folder of the images [default: the one that the run's recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// What to compute on [default: cuda where there is one].
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// CPU threads [default: all cores].
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// For a model: so many test images, evenly over all of them [default: all].
    #[arg(long, value_name = "COUNT")]
    images: Option<usize>,
    /// For a model: note its accuracy in the record of the run that it was frozen from, which `sordino pareto` shows:
    /// the run's folder, record.json or records.json.
    #[arg(long, value_name = "RECORD")]
    record: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints for a model.
#[derive(Serialize)]
struct ModelReport {
    network: String,
    relus: u64,
    digest: String,
    data: String,
    images: u64,
    correct: u64,
    integer_accuracy: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if is_model_file(&arguments.checkpoint) {
        return evaluate_model(arguments, &arguments.checkpoint, out);
    }
    if arguments.images.is_some() || arguments.record.is_some() {
        bail!("--images and --record belong to a frozen model, whose name ends in .sordino");
    }
    evaluate_run(arguments, out)
}

fn evaluate_model(arguments: &Arguments, path: &Path, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let model = InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))?;
    let set = test_images(arguments, &model)?;
    let set = spread(&set, arguments.images.unwrap_or(set.len()));
    if set.is_empty() {
        bail!("there are no test images; expected at least one");
    }
    let correct = count_right(&model, &set, threads_or_all(arguments.threads))?;
    let (images, share) = (set.len() as u64, correct as f64 / set.len() as f64);
    if let Some(record) = &arguments.record {
        note_model(record, &model, path, share, images)?;
    }
    let report = ModelReport {
        network: model.outline().name.clone(),
        relus: model.outline().relu_count(),
        digest: digest(&model),
        data: set.name,
        images,
        correct,
        integer_accuracy: share,
    };
    if arguments.json {
        return write_json(out, &report);
    }
    writeln!(out, "{}, frozen, {} ReLUs", report.network, report.relus)?;
    writeln!(out, "{:.2}% of {images} test images of {}", 100.0 * share, report.data)?;
    if let Some(record) = &arguments.record {
        writeln!(out, "noted in {}", RecordFile::open(record)?.path().display())?;
    }
    Ok(Answer::Yes)
}

/// The test images: of the data that the record's recipe names, or of whatever the folder holds.
fn test_images(arguments: &Arguments, model: &InferenceModel) -> anyhow::Result<data::Dataset> {
    if let Some(record) = &arguments.record {
        let mut records = RecordFile::open(record)?;
        let recipe = &records.for_model(&model.outline().name, model.outline().relu_count())?.recipe.data;
        let directory = arguments.data.as_deref().or(recipe.directory.as_deref());
        return Ok(data::open(&recipe.request(), directory)?.test);
    }
    let Some(directory) = &arguments.data else {
        bail!(
            "a model does not know its images; name them with --data DIR, or the run it was frozen from with --record"
        );
    };
    let side = Some(model.outline().input.height);
    let survey = data::survey(directory, side);
    let Some(kind) = survey.kind else {
        bail!(
            "{} holds no images that are known; `sordino data check` says what is there",
            directory.display()
        );
    };
    let request = DataRequest { kind, side, synthetic: SyntheticSize::default() };
    Ok(data::open(&request, Some(directory))?.test)
}

#[cfg(not(feature = "training"))]
fn evaluate_run(arguments: &Arguments, _: &mut dyn Write) -> anyhow::Result<Answer> {
    let _ = arguments.device;
    super::train::missing()
}

#[cfg(feature = "training")]
fn evaluate_run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let device = super::train::device(arguments.device)?;
    let outcome =
        training::run::evaluate(&arguments.checkpoint, arguments.data.as_deref(), device, arguments.threads)?;
    if arguments.json {
        return write_json(out, &outcome);
    }
    let counted = match outcome.gated_values {
        0 => format!("{} ReLUs", outcome.relus),
        gated_values => network::text::comparisons(outcome.relus, gated_values),
    };
    writeln!(out, "{} after epoch {}, {counted}", outcome.network, outcome.epoch)?;
    for tried in &outcome.results {
        writeln!(
            out,
            "{:.2}% of {} {} images, cross-entropy {:.4}",
            100.0 * tried.accuracy,
            tried.images,
            tried.on,
            tried.loss
        )?;
    }
    Ok(Answer::Yes)
}
