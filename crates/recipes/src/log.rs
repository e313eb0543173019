//! What happened in a run, one JSON object per line of `log.jsonl`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use network::cost::Counts;
use serde::{Deserialize, Serialize};

use crate::file::{FileError, read_text, write_whole};
use crate::recipe::Precision;

/// The name of the file in a run's folder.
pub const FILE: &str = "log.jsonl";
/// The longest log; a thousand epochs need less than a megabyte.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A run began, or went on.
    Start(Start),
    /// An epoch ended.
    Epoch(Epoch),
    /// The run ended.
    End(End),
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// What the recipe is for.
    pub title: String,
    /// The network, reduced.
    pub network: String,
    /// Its ReLUs, after masking; comparisons and gated values, where channels share signs.
    #[serde(flatten)]
    pub counts: Counts,
    /// Its weights.
    pub parameters: u64,
    /// The data.
    pub data: String,
    /// Images to learn from.
    pub images: u64,
    /// Epochs to do.
    pub epochs: u32,
    /// The seed.
    pub seed: u64,
    /// `cpu` or `cuda`.
    pub device: String,
    /// In which numbers it computes; logs of before do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Epochs that were done before.
    pub resumed_after: u32,
    /// Whether the same seed gives the same bits.
    pub deterministic: bool,
}

/// The figures of one epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Epochs done.
    pub epoch: u32,
    /// The learning rate of its last step.
    pub learning_rate: f64,
    /// The mean loss.
    pub loss: f64,
    /// The share of training images that were told right while learning, from 0 to 1.
    pub training_accuracy: f64,
    /// Images per second.
    pub images_per_second: f64,
    /// Seconds of learning.
    pub seconds: f64,
    /// What it was tried on (`held-out` or `test`), and the share that was right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// How a network did on images that it did not learn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// `held-out` or `test`.
    pub on: String,
    /// The share that was right, from 0 to 1.
    pub accuracy: f64,
    /// How many images.
    pub images: u64,
    /// The mean cross-entropy.
    pub loss: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// What the weights of the last epoch do on each set.
    pub results: Vec<Tried>,
    /// Seconds of this process.
    pub seconds: f64,
}

/// A log that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is no event.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A log that is being written.
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log of a run. What it holds beyond `done` epochs goes: those epochs are repeated.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn open(run: &Path, done: u32) -> Result<Self, LogError> {
        let path = run.join(FILE);
        let kept: Vec<Event> = match path.is_file() && done > 0 {
            true => read(&path)?.into_iter().filter(|event| happened_by(event, done)).collect(),
            false => Vec::new(),
        };
        let text: String = kept.iter().map(line).collect();
        write_whole(&path, text)?;
        let file = File::options().append(true).open(&path).map_err(FileError::on("write", &path))?;
        Ok(Self { path, file })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add(&mut self, event: &Event) -> Result<(), LogError> {
        let written = self.file.write_all(line(event).as_bytes());
        Ok(written.map_err(FileError::on("write", &self.path))?)
    }
}

fn happened_by(event: &Event, done: u32) -> bool {
    match event {
        Event::Start(start) => start.resumed_after < done,
        Event::Epoch(epoch) => epoch.epoch <= done,
        Event::End(_) => false,
    }
}

fn line(event: &Event) -> String {
    let mut text = serde_json::to_string(event).expect("an event holds only names and numbers");
    text.push('\n');
    text
}

/// Reads a log: the file, or the folder of the run. A last line without an end, as an interrupted run leaves it, is left out.
///
/// # Errors
/// When there is none, or a line is no event.
pub fn read(path: &Path) -> Result<Vec<Event>, LogError> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let advice = "; expected the folder of a run or a log, such as OUT/trained of an optimization";
    let text = read_text(&path, MAX_FILE_BYTES).map_err(|error| error.advise(advice))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| LogError::Line {
            path: path.clone(),
            line: index + 1,
            reason: error.to_string(),
        })
    };
    whole.lines().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u32) -> Event {
        Event::Epoch(Epoch {
            epoch: number,
            learning_rate: 0.1,
            loss: 1.5,
            training_accuracy: 0.5,
            images_per_second: 10.0,
            seconds: 2.0,
            tried: Some(Tried { on: "test".into(), accuracy: 0.25, images: 4, loss: 1.0 }),
        })
    }

    #[test]
    fn a_resumed_run_forgets_the_epochs_that_it_repeats() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = Log::open(scratch.path(), 0).unwrap();
        (1..=3).for_each(|number| log.add(&epoch(number)).unwrap());
        let mut log = Log::open(scratch.path(), 2).unwrap();
        log.add(&epoch(3)).unwrap();
        assert_eq!(read(scratch.path()).unwrap(), [epoch(1), epoch(2), epoch(3)]);
        Log::open(scratch.path(), 0).unwrap();
        assert!(read(scratch.path()).unwrap().is_empty());
    }

    #[test]
    fn half_a_last_line_is_left_out_and_other_damage_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(FILE);
        std::fs::write(&path, format!("{}{{\"event\":\"ep", line(&epoch(1)))).unwrap();
        assert_eq!(read(&path).unwrap(), [epoch(1)]);
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 1: "));
        assert!(
            read(Path::new("/nowhere")).unwrap_err().to_string().contains("expected the folder of a run")
        );
    }
}
