//! What happens in an epoch of a search.

use network::zoo::genotype::Genotype;
use serde::{Deserialize, Serialize};

use super::CellScores;
use crate::method::search_log::Numbered;

/// The log of a search of cells, in its folder.
pub const CELL_LOG: &str = "cells.jsonl";
/// The log of a search of locations, in its folder.
pub const LOCATION_LOG: &str = "locations.jsonl";
/// The cells that were found.
pub const CELLS_FILE: &str = "cells.toml";
/// What every candidate of a grid came to.
pub const GRID_FILE: &str = "grid.json";

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
    /// The mean loss on the images that scores learn from; none in epochs before scores move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_loss: Option<f64>,
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
