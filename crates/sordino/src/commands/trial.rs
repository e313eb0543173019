//! What the verbs that try models share: threads, a bar, and what is noted about a model in a result's record.

use std::path::Path;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use network::inference_model::InferenceModel;
use recipes::data::{self, DataRequest, SyntheticSize};
use results::{FrozenModel, Noted, PrivateTiming, RecordFile, percent};

/// Notes in a record what a model does on test images; the share that it tells right is from 0 to 1.
pub(super) fn note_model(
    record: &Path,
    model: &InferenceModel,
    file: &Path,
    share: f64,
    images: u64,
) -> anyhow::Result<()> {
    let mut records = RecordFile::open(record)?;
    let outline = model.outline();
    let frozen = FrozenModel { file: file.display().to_string(), digest: digest(model) };
    records.for_model(&outline.name, outline.relu_count())?.note_model(frozen, percent(share), images);
    Ok(records.save()?)
}

/// Notes in a record what private inference with a model took.
pub(super) fn note_timing(
    record: &Path,
    model: &InferenceModel,
    timing: PrivateTiming,
) -> anyhow::Result<()> {
    let mut records = RecordFile::open(record)?;
    let outline = model.outline();
    let noted = records.for_model(&outline.name, outline.relu_count())?.note_timing(timing);
    if noted == Noted::No {
        bail!(
            "{} has a measurement of its trained weights with this protocol, which random ones do not replace; measure the \
             model that was frozen from them, or leave --record out",
            record.display()
        );
    }
    Ok(records.save()?)
}

/// What names a model.
pub(super) fn digest(model: &InferenceModel) -> String {
    model.digest().to_string()
}

/// The images of a folder, in the size that a model takes.
pub(super) fn images_for(model: &InferenceModel, directory: &Path) -> anyhow::Result<data::DataPair> {
    let side = Some(model.outline().input.height);
    let request =
        DataRequest { kind: data::find(directory)?.kind, side, synthetic: SyntheticSize::default() };
    Ok(data::open(&request, Some(directory))?)
}

/// The threads asked for, or one for each core.
pub(super) fn threads_or_all(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A bar on stderr.
pub(super) fn progress(images: usize) -> ProgressBar {
    let bar = ProgressBar::new(images as u64);
    if let Ok(style) = ProgressStyle::with_template("trying {bar:24} {pos}/{len} images, {eta} left") {
        bar.set_style(style);
    }
    bar
}
