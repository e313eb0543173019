//! What happened in a search, one JSON object a line.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use network::zoo::genotype::Genotype;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::CellScores;
use crate::file::{FileError, read_text, write_whole};

/// The log of a search of cells, in its folder.
pub const CELL_LOG: &str = "cells.jsonl";
/// The log of a search of locations, in its folder.
pub const LOCATION_LOG: &str = "locations.jsonl";
/// The cells that were found.
pub const CELLS_FILE: &str = "cells.toml";
/// What every candidate of a grid came to.
pub const GRID_FILE: &str = "grid.json";
/// The longest log.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One epoch of a search of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellEpoch {
    /// Epochs done.
    pub epoch: u32,
    /// Epochs to do.
    pub epochs: u32,
    /// The mean loss on the images that weights learn from.
    pub loss: f64,
    /// The share of them that was right while learning, from 0 to 1.
    pub training_accuracy: f64,
    /// The mean loss on the images that scores learn from.
    pub score_loss: f64,
    /// The share of those that is right after the epoch, as they are.
    pub accuracy: f64,
    /// All scores after the epoch.
    pub scores: CellScores,
    /// The cells that they stand for.
    pub cells: String,
    /// Seconds of learning.
    pub seconds: f64,
    /// Why a GPU could not record its steps, where that is so: each then takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

impl CellEpoch {
    /// The cells that the scores stand for.
    pub fn genotype(&self) -> Option<Genotype> {
        Genotype::from_word(&self.cells).ok()
    }
}

/// One epoch of a search of locations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocationEpoch {
    /// Epochs done.
    pub epoch: u32,
    /// Epochs to do.
    pub epochs: u32,
    /// The temperature.
    pub temperature: f64,
    /// The mean loss of the networks that were drawn to learn.
    pub loss: f64,
    /// The mean loss of those that were drawn for the scores.
    pub score_loss: f64,
    /// The pairs of reduce cells.
    pub candidates: Vec<[usize; 2]>,
    /// The chance of each after the epoch.
    pub distribution: Vec<f64>,
    /// How often each learned in it.
    pub drawn: Vec<u64>,
    /// Seconds of learning.
    pub seconds: f64,
}

/// One candidate of a grid (Figure 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridRow {
    /// The reduce cells.
    pub reduce: [usize; 2],
    /// In percent, after short training.
    pub accuracy: f64,
    /// On which images.
    pub measured_on: String,
    /// The chance that the search gave it, where there was one.
    pub chance: Option<f64>,
}

/// The number of a line's epoch.
pub trait Numbered {
    /// Epochs done.
    fn number(&self) -> u32;
}

impl Numbered for CellEpoch {
    fn number(&self) -> u32 {
        self.epoch
    }
}

impl Numbered for LocationEpoch {
    fn number(&self) -> u32 {
        self.epoch
    }
}

/// A log that is being written.
pub struct SearchLog {
    path: PathBuf,
    file: File,
}

impl SearchLog {
    /// Opens a log and keeps the lines of the epochs that are done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open<T: Numbered + DeserializeOwned>(path: &Path, done: u32) -> Result<Self, FileError> {
        let earlier = std::fs::read_to_string(path).unwrap_or_default();
        let is_kept = |line: &&str| serde_json::from_str::<T>(line).is_ok_and(|epoch| epoch.number() <= done);
        let kept: String = earlier.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
        write_whole(path, kept)?;
        let file = File::options().append(true).open(path).map_err(FileError::on("write", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add<T: Serialize>(&mut self, epoch: &T) -> Result<(), FileError> {
        let line = serde_json::to_string(epoch).expect("an epoch holds only names and numbers");
        writeln!(self.file, "{line}").map_err(FileError::on("write", &self.path))
    }
}

/// Reads a log; a last line without an end, as an interrupted search leaves it, and anything else that is no epoch is
/// left out.
///
/// # Errors
/// When it cannot be read.
pub fn read_epochs<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, FileError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u32) -> LocationEpoch {
        LocationEpoch {
            epoch: number,
            epochs: 3,
            temperature: 1.0,
            loss: 2.0,
            score_loss: 2.5,
            candidates: vec![[0, 1]],
            distribution: vec![1.0],
            drawn: vec![7],
            seconds: 0.5,
        }
    }

    #[test]
    fn a_resumed_search_forgets_the_epochs_that_it_repeats() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(LOCATION_LOG);
        let mut log = SearchLog::open::<LocationEpoch>(&path, 0).unwrap();
        (1..=3).for_each(|number| log.add(&epoch(number)).unwrap());
        let mut log = SearchLog::open::<LocationEpoch>(&path, 1).unwrap();
        log.add(&epoch(2)).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"epoch\":3").unwrap();
        assert_eq!(read_epochs::<LocationEpoch>(&path).unwrap(), [epoch(1), epoch(2)]);
    }
}
