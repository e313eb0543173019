//! `sordino reproduce --check`: every frozen model of a folder, tried again and held against what stands beside it.
//!
//! Beside `NAME.sordino` lies `NAME.frozen.json`, what freezing it said: the digest of the file and its accuracy. On all
//! images that it was measured on, integers must give the same number of right answers; on a part of them, one that chance
//! explains. So it is with the records of results that name the file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use network::inference_model::InferenceModel;
use recipes::data::Dataset;
use recipes::trial::{TrialRounding, model_answers, spread};
use results::{ResultRecord, collect};
use serde::{Deserialize, Serialize};

use super::super::trial::{digest, images_for, progress, threads_or_all};
use super::super::{Answer, write_json};
use crate::report::{Table, grouped};

/// The seed of the shares that round where only that accuracy was noted.
const ROUNDING_SEED: u16 = 1;
/// How many deviations a part of the images may be away from all of them.
const DEVIATIONS: f64 = 3.0;

/// What a model's note says, as far as it is checked.
#[derive(Deserialize)]
struct Note {
    digest: String,
    accuracy: Option<NotedAccuracy>,
}

#[derive(Clone, Copy, Deserialize)]
struct NotedAccuracy {
    images: u64,
    /// Rounded to nearest; from 0 to 1.
    integer: Option<f64>,
    /// Rounded by shares; from 0 to 1.
    private_rounding: Option<f64>,
}

/// What came of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// The same right answers.
    Holds,
    /// Not all images were tried; chance explains the difference.
    Agrees,
    /// Another accuracy.
    Differs,
    /// Its note is right, and its record has another accuracy.
    RecordDiffers,
    /// Not the file that the note is about.
    OtherFile,
    /// No accuracy was noted.
    NothingNoted,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Agrees => "agrees, as far as it was tried",
            Self::Differs => "differs",
            Self::RecordDiffers => "its record differs",
            Self::OtherFile => "another file than its note says",
            Self::NothingNoted => "no accuracy noted",
        }
    }

    fn is_good(self) -> bool {
        matches!(self, Self::Holds | Self::Agrees)
    }
}

/// What `--json` says of a model.
#[derive(Serialize)]
struct Checked {
    file: String,
    /// From 0 to 1.
    noted: Option<f64>,
    noted_images: Option<u64>,
    /// By the record that names the file; from 0 to 1.
    recorded: Option<f64>,
    rounded: &'static str,
    came: Option<f64>,
    images: Option<u64>,
    verdict: Verdict,
}

/// What to try, and on what.
pub(super) struct Check<'a> {
    pub(super) models: &'a Path,
    pub(super) records: Option<&'a Path>,
    pub(super) data: Option<&'a Path>,
    pub(super) images: Option<usize>,
    pub(super) threads: Option<usize>,
    pub(super) json: bool,
}

impl Check<'_> {
    pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let files = self.files()?;
        let Some(data) = self.data else {
            bail!(
                "the models of {} (there are {}) are tried on test images, which nobody named; name their folder \
                 with --data DIR, such as that of CIFAR-100's binary files",
                self.models.display(),
                files.len()
            );
        };
        let records = self.records()?;
        let checked: Vec<Checked> =
            files.iter().map(|file| self.check(file, data, &records)).collect::<anyhow::Result<_>>()?;
        let is_good = checked.iter().all(|checked| checked.verdict.is_good());
        if self.json {
            write_json(out, &checked)?;
        } else {
            write_table(&checked, out)?;
        }
        Ok(if is_good { Answer::Yes } else { Answer::No })
    }

    /// The frozen models of the folder, by name.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(self.models).with_context(|| {
            format!("cannot read {}; name the folder of the models with --models", self.models.display())
        })?;
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "sordino")).collect();
        files.sort();
        if files.is_empty() {
            bail!("{} holds no frozen models; expected files that end in .sordino", self.models.display());
        }
        Ok(files)
    }

    /// The records to compare with: those of the folder that was named, or what lies in `results` beside the models.
    fn records(&self) -> anyhow::Result<Vec<ResultRecord>> {
        let beside = self.models.with_file_name("results");
        let found = match self.records {
            Some(folder) => collect(folder)?,
            None if beside.is_dir() => collect(&beside)?,
            None => Vec::new(),
        };
        Ok(found.into_iter().map(|run| run.record).collect())
    }

    fn check(&self, file: &Path, data: &Path, records: &[ResultRecord]) -> anyhow::Result<Checked> {
        let beside = file.with_extension("frozen.json");
        let text = std::fs::read_to_string(&beside).with_context(|| {
            format!("cannot read {}, which says what {} does", beside.display(), file.display())
        })?;
        let note: Note = serde_json::from_str(&text)
            .with_context(|| format!("{} is no note of a model", beside.display()))?;
        let model =
            InferenceModel::load(file).with_context(|| format!("{} is not usable", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let noted = note.accuracy.and_then(|accuracy| match (accuracy.integer, accuracy.private_rounding) {
            (Some(share), _) => Some((accuracy.images, share, TrialRounding::Nearest)),
            (None, share) => Some((accuracy.images, share?, TrialRounding::Private(ROUNDING_SEED))),
        });
        let mut checked = Checked {
            file: name,
            noted: noted.map(|noted| noted.1),
            noted_images: noted.map(|noted| noted.0),
            recorded: None,
            rounded: if matches!(noted, Some((_, _, TrialRounding::Private(_)))) {
                "by shares"
            } else {
                "to nearest"
            },
            came: None,
            images: None,
            verdict: Verdict::NothingNoted,
        };
        if digest(&model) != note.digest {
            checked.verdict = Verdict::OtherFile;
            return Ok(checked);
        }
        let Some((noted_images, share, rounding)) = noted else { return Ok(checked) };
        let (correct, images) = self.try_model(&model, images_for(&model, data)?.test, rounding)?;
        checked.came = Some(correct as f64 / images as f64);
        checked.images = Some(images);
        checked.verdict = judge((share, noted_images), (correct, images));
        // Records have what integers do that are rounded to nearest.
        let of_file = recorded(records, &note.digest).filter(|_| rounding == TrialRounding::Nearest);
        checked.recorded = of_file.map(|recorded| recorded.0);
        if let (true, Some(recorded)) = (checked.verdict.is_good(), of_file)
            && !judge(recorded, (correct, images)).is_good()
        {
            checked.verdict = Verdict::RecordDiffers;
        }
        Ok(checked)
    }

    /// How many of how many test images a model tells right.
    fn try_model(
        &self,
        model: &InferenceModel,
        set: Dataset,
        rounding: TrialRounding,
    ) -> anyhow::Result<(u64, u64)> {
        let (set, _) = set.with_classes_of(&model.outline().class_names)?;
        let set = spread(&set, self.images.unwrap_or(set.len()));
        if set.is_empty() {
            bail!("there are no test images; expected at least one");
        }
        let bar = progress(set.len());
        let answers = model_answers(model, &set, rounding, threads_or_all(self.threads), &|| bar.inc(1))?;
        bar.finish_and_clear();
        Ok((answers.correct(&set.labels), set.len() as u64))
    }
}

/// The accuracy of a file by the record that names it, and on how many images that is.
fn recorded(records: &[ResultRecord], digest: &str) -> Option<(f64, u64)> {
    let record = records.iter().find(|record| record.model.as_ref().is_some_and(|it| it.digest == digest))?;
    Some((record.integer_accuracy? / 100.0, record.integer_images?))
}

/// Whether right answers are those that were noted: exactly on as many images, within chance on fewer.
fn judge((share, noted_images): (f64, u64), (correct, images): (u64, u64)) -> Verdict {
    if images >= noted_images {
        let noted = (share * noted_images as f64).round() as u64;
        return if (correct, images) == (noted, noted_images) { Verdict::Holds } else { Verdict::Differs };
    }
    let count = images as f64;
    let deviation = (share * (1.0 - share) / count).sqrt().max(1.0 / count);
    match (correct as f64 / count - share).abs() <= DEVIATIONS * deviation {
        true => Verdict::Agrees,
        false => Verdict::Differs,
    }
}

fn write_table(checked: &[Checked], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["<model", "noted", "record", "came", "images", "<rounded", "<verdict"]);
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", 100.0 * share));
    for checked in checked {
        table.row(vec![
            checked.file.clone(),
            percent(checked.noted),
            percent(checked.recorded),
            percent(checked.came),
            checked.images.map_or_else(|| "-".to_owned(), grouped),
            checked.rounded.to_owned(),
            checked.verdict.words().to_owned(),
        ]);
    }
    table.write(out)?;
    let good = checked.iter().filter(|checked| checked.verdict.is_good()).count();
    writeln!(out, "\n{good} of {} models do what their notes say", checked.len())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_images_must_agree_and_a_part_may_differ_by_chance() {
        assert_eq!(judge((0.7246, 10_000), (7246, 10_000)), Verdict::Holds);
        assert_eq!(judge((0.7246, 10_000), (7245, 10_000)), Verdict::Differs);
        // 100 images: the deviation is 4.5 points.
        assert_eq!(judge((0.7246, 10_000), (61, 100)), Verdict::Agrees);
        assert_eq!(judge((0.7246, 10_000), (55, 100)), Verdict::Differs);
        assert_eq!(judge((1.0, 500), (100, 100)), Verdict::Agrees);
        // Other images than those of the note.
        assert_eq!(judge((0.5, 10), (10, 20)), Verdict::Differs);
    }
}
