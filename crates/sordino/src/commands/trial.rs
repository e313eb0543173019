//! A frozen model on images whose classes are known, in the clear; and what is noted about it in a result's record.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use network::inference_model::InferenceModel;
use network::reference;
use recipes::data::Dataset;
use results::{FrozenModel, PrivateTiming, RecordFile, percent};

/// How many images of a set a model tells right on integers.
pub(super) fn count_right(model: &InferenceModel, set: &Dataset, threads: usize) -> anyhow::Result<u64> {
    if model.outline().input != set.shape || model.outline().classes != set.classes.len() {
        bail!(
            "{} takes images of {} in {} classes, the set has {} in {}",
            model.outline().name,
            model.outline().input,
            model.outline().classes,
            set.shape,
            set.classes.len()
        );
    }
    let bar = progress(set.len());
    let right = AtomicU64::new(0);
    in_parallel(set.len(), threads, &|index| {
        let logits = reference::run(model, &set.image(index))?;
        let class = largest(logits.iter().map(|logit| *logit as f64));
        right.fetch_add(u64::from(class == usize::from(set.labels[index])), Ordering::Relaxed);
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(right.into_inner())
}

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
    records.for_model(&outline.name, outline.relu_count())?.note_timing(timing);
    Ok(records.save()?)
}

/// What names a model.
pub(super) fn digest(model: &InferenceModel) -> String {
    model.digest().iter().map(|byte| format!("{byte:02x}")).collect()
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

/// So many images, evenly over a set that may be sorted by class.
pub(super) fn spread(set: &Dataset, count: usize) -> Dataset {
    let count = count.min(set.len());
    let indices: Vec<u32> = (0..count).map(|index| (index * set.len() / count) as u32).collect();
    set.subset(&indices)
}

/// Does something for every number below a count, on several threads.
pub(super) fn in_parallel(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let share = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            work(index)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, 256)).map(|_| scope.spawn(share)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker returns its errors"))
    })
}

/// The place of the largest number; the first of several.
pub(super) fn largest(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, value) in values.enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::data::{SyntheticSize, synthetic};

    #[test]
    fn images_are_spread_over_the_whole_set() {
        let set = synthetic(&SyntheticSize { training: 10, test: 40, ..SyntheticSize::default() }).test;
        assert_eq!(spread(&set, 4).labels, [0, 0, 0, 0]);
        assert_eq!(spread(&set, 4).image(3), set.image(30));
        assert_eq!(spread(&set, 99), set);
        assert!(spread(&set, 0).is_empty());
    }

    #[test]
    fn the_first_of_equal_logits_is_the_answer() {
        assert_eq!(largest([1.0, 3.0, 3.0].into_iter()), 1);
        assert_eq!(largest([f64::NAN, -1.0].into_iter()), 1);
    }
}
