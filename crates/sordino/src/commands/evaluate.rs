//! `sordino evaluate RUN`: how a trained network does on images that it did not learn from.
//! `sordino evaluate MODEL.sordino`: so does a frozen model, on integers in the clear; needs no libtorch.

mod confusion;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use network::cost::Counts;
use network::inference_model::InferenceModel;
use recipes::data::{self, ClassMatch};
use recipes::trial::{TrialRounding, model_answers, spread};
use results::RecordFile;
use serde::Serialize;

use super::model::is_model_file;
use super::train::DeviceChoice;
use super::trial::{digest, images_for, note_model, progress, threads_or_all};
use super::{Answer, trainer, write_json};
use crate::report::counted;
use confusion::Confusion;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of a run, or of one of its checkpoints; or a frozen model.
    #[arg(value_name = "RUN")]
    pub(super) checkpoint: PathBuf,
    /// The folder of the images [default: the one that the run's recipe names].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// What to compute on; frozen models are computed on the processor [default: cuda where there is one].
    #[arg(long, value_enum)]
    pub(super) device: Option<DeviceChoice>,
    /// CPU threads [default: all cores].
    #[arg(long, value_name = "COUNT", value_parser = super::threads)]
    pub(super) threads: Option<usize>,
    /// For a model: so many test images, evenly over all of them [default: all].
    #[arg(long, value_name = "COUNT")]
    images: Option<usize>,
    /// For a model: round by shares as private inference does, drawn from this seed, instead of to nearest.
    #[arg(long, value_name = "SEED", conflicts_with = "record")]
    private_rounding: Option<u16>,
    /// For a model: note its accuracy in the record of the run that it was frozen from, which `sordino pareto` shows:
    /// the run's folder, record.json or records.json.
    #[arg(long, value_name = "RECORD")]
    record: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What `--json` prints for a model.
#[derive(Serialize)]
struct ModelReport {
    network: String,
    #[serde(flatten)]
    counts: Counts,
    digest: String,
    data: String,
    images: u64,
    correct: u64,
    integer_accuracy: f64,
    /// Whether the images' classes were found by name; otherwise the n-th is the model's n-th.
    classes_by_name: bool,
    /// The seed of the shares that rounded; none for rounding to nearest.
    private_rounding: Option<u16>,
    /// Values of all images that do not fit their widths; in private they wrap.
    overflows: u64,
    confusions: Vec<Confusion>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if is_model_file(&arguments.checkpoint) {
        return evaluate_model(arguments, &arguments.checkpoint, out);
    }
    if arguments.images.is_some() || arguments.record.is_some() || arguments.private_rounding.is_some() {
        bail!(
            "--images, --private-rounding and --record belong to a frozen model, whose name ends in .sordino"
        );
    }
    trainer::evaluate(arguments, out)
}

fn evaluate_model(arguments: &Arguments, path: &Path, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if let Some(DeviceChoice::Cuda) = arguments.device {
        bail!("frozen models are computed on integers by the processor; leave --device cuda out");
    }
    let model = InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))?;
    let (set, matched) = test_images(arguments, &model)?.with_classes_of(&model.outline().class_names)?;
    if matched == ClassMatch::ByOrder {
        eprintln!(
            "note: no class of the images has the name of one of the model's; the n-th is taken for its n-th"
        );
    }
    let set = spread(&set, arguments.images.unwrap_or(set.len()));
    if set.is_empty() {
        bail!("there are no test images; expected at least one");
    }
    let bar = progress(set.len());
    let rounding = arguments.private_rounding.map_or(TrialRounding::Nearest, TrialRounding::Private);
    let answers = model_answers(&model, &set, rounding, threads_or_all(arguments.threads), &|| bar.inc(1))?;
    bar.finish_and_clear();
    let correct = answers.correct(&set.labels);
    let (images, share) = (set.len() as u64, correct as f64 / set.len() as f64);
    if let Some(record) = &arguments.record {
        note_model(record, &model, path, share, images)?;
    }
    let confusions = confusion::largest(&set.classes, &set.labels, &answers.classes);
    let report = ModelReport {
        network: model.outline().name.clone(),
        counts: model.outline().counts(),
        digest: digest(&model),
        data: set.name,
        images,
        correct,
        integer_accuracy: share,
        classes_by_name: matched == ClassMatch::ByName,
        private_rounding: arguments.private_rounding,
        overflows: answers.overflows,
        confusions,
    };
    if arguments.json {
        return write_json(out, &report);
    }
    writeln!(out, "{}, frozen, {}", report.network, report.counts)?;
    let rounded = if report.private_rounding.is_some() { ", rounded as in private" } else { "" };
    writeln!(out, "{:.2}% of {images} test images of {}{rounded}", 100.0 * share, report.data)?;
    match report.overflows {
        0 => writeln!(out, "no value is out of its range")?,
        overflows => writeln!(
            out,
            "{} out of range, wrapping in private; `sordino freeze --margin` makes more room",
            counted(overflows, "value")
        )?,
    }
    if !report.confusions.is_empty() {
        writeln!(out, "\nThe most frequent confusions:\n")?;
        confusion::table(&report.confusions).write(out)?;
    }
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
    Ok(images_for(model, directory)?.test)
}
