//! A table or figure: what a paper prints, and for which networks.

use std::path::PathBuf;

use recipes::data::DataKind;
use recipes::method::OptimizeError;
use recipes::recipe::{NetworkSection, NetworkSectionError, Recipe, RecipeError, ScheduleKind};
use serde::{Deserialize, Serialize};

use super::Measured;

/// A table or figure that trains.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name for the command line.
    pub id: String,
    /// Where the paper has it.
    pub place: String,
    /// What it shows.
    pub title: String,
    /// What is learned from.
    pub data: DataKind,
    /// The recipe that rows begin with.
    pub recipe: String,
    /// Who teaches.
    pub teacher: Teacher,
    /// How each row is trained: one run for each.
    pub ways: Vec<Way>,
    /// Other epochs than the recipe's.
    #[serde(default)]
    pub epochs: Option<u32>,
    /// Another schedule than the recipe's.
    #[serde(default)]
    pub schedule: Option<ScheduleKind>,
    /// What must be known to read it.
    #[serde(default)]
    pub note: String,
    /// What is trained.
    pub rows: Vec<Row>,
}

/// One row: a network and what the paper prints for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What to call it.
    pub row: String,
    /// The network.
    pub network: NetworkSection,
    /// Its ReLUs as printed.
    #[serde(default)]
    pub relus: Option<Printed>,
    /// Our count, where the printed one cannot be that of the network.
    #[serde(default)]
    pub slip: Option<u64>,
    /// In percent, one for each way; `nan` where there is none.
    #[serde(default)]
    pub accuracy: Vec<f64>,
    /// Seconds.
    #[serde(default)]
    pub latency: Option<f64>,
    /// Of that, homomorphic encryption and garbled circuits.
    #[serde(default)]
    pub he_gc: Option<[f64; 2]>,
    /// What SNL or pruning keeps, or what Sphynx builds for.
    #[serde(default)]
    pub budget: Option<u64>,
    /// Other settings of the search.
    #[serde(default)]
    pub search: SearchChanges,
    /// All stages, most critical first, for DeepReDuce's pipeline; found by training where absent.
    #[serde(default)]
    pub order: Option<String>,
    /// Another data set than the entry's.
    #[serde(default)]
    pub data: Option<DataKind>,
    /// Whether the paper shows it to compare with, so that it is no point of the paper's front.
    #[serde(default)]
    pub baseline: bool,
    /// Another recipe than the entry's.
    #[serde(default)]
    pub recipe: Option<String>,
}

/// Settings of a search.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchChanges {
    /// The first penalty.
    pub first: Option<f64>,
    /// Adam's rate.
    pub learning_rate: Option<f64>,
    /// Nodes of Sphynx's cells beside their inputs.
    pub nodes: Option<usize>,
    /// Whether pruning narrows the residual stream, too.
    #[serde(default)]
    pub stream: bool,
}

/// Who teaches the runs of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Teacher {
    /// The same network with all its ReLUs.
    Same,
    /// ResNet-18 with all its ReLUs.
    ResNet18,
    /// The same network by SNL's recipe for what its search begins with.
    Snl,
    /// The same cells with a ReLU before every convolution (Sphynx appendix G).
    Sphynx,
}

/// How a row is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From labels alone.
    None,
    /// With Hinton's distillation.
    Kd,
    /// With decoupled distillation.
    Dkd,
    /// By SNL, pixel by pixel.
    Snl,
    /// By SNL, channel by channel.
    SnlChannels,
    /// By SNL with the authors' schedule of the penalty.
    SnlPatient,
    /// By l1 filter pruning, fine-tuned from labels alone.
    L1Pruning,
    /// All candidates of DeepReDuce's pipeline.
    Pipeline,
    /// With cells that a search of Sphynx finds, in the paper's places.
    SphynxCells,
    /// With places that a search of Sphynx finds, beside every candidate trained for itself.
    SphynxGrid,
}

impl Way {
    /// Whether somebody teaches.
    pub fn has_teacher(self) -> bool {
        !matches!(self, Self::None | Self::SphynxCells | Self::SphynxGrid)
    }

    /// For tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "no teacher",
            Self::Kd => "KD",
            Self::Dkd => "DKD",
            Self::Snl => "SNL",
            Self::SnlChannels => "SNL, channels",
            Self::SnlPatient => "SNL, authors' penalty",
            Self::L1Pruning => "l1 pruning",
            Self::Pipeline => "DeepReDuce, all candidates",
            Self::SphynxCells => "Sphynx, own cells",
            Self::SphynxGrid => "Sphynx, grid of places",
        }
    }
}

/// A count as a paper prints it, such as `229.38K`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Printed {
    text: String,
    value: u64,
    /// One in the last printed digit.
    unit: u64,
}

impl Printed {
    /// As printed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As a number.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Whether a count is printed so, rounded or cut.
    pub fn fits(&self, count: u64) -> bool {
        let rounds = 2 * count.abs_diff(self.value) <= self.unit;
        rounds || (count >= self.value && count - self.value < self.unit)
    }
}

impl TryFrom<String> for Printed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_suffix('K').unwrap_or(&text);
        let scale: u64 = if digits.len() < text.len() { 1000 } else { 1 };
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as u32);
        let number: f64 = digits.parse().map_err(|_| format!("{text:?} is no count"))?;
        let unit = scale.checked_div(10_u64.saturating_pow(decimals)).filter(|unit| *unit > 0);
        let unit = unit.ok_or_else(|| format!("{text:?} has parts of a ReLU"))?;
        Ok(Self { value: (number * scale as f64).round() as u64, unit, text })
    }
}

/// One training of one row.
#[derive(Clone, Debug)]
pub struct RowTraining<'a> {
    /// Of this row.
    pub row: &'a Row,
    /// In this way.
    pub way: Way,
    /// All that it needs.
    pub recipe: Recipe,
    /// How its teacher is trained, and where the recipe expects it.
    pub teacher: Option<(PathBuf, Recipe)>,
    /// ReLUs of the result; for a pipeline those of the network that it begins with.
    pub relus: u64,
    /// Multiply-adds of the result.
    pub macs: u64,
    /// How many networks are trained.
    pub networks: usize,
    /// Predicted, without the teacher.
    pub minutes: f64,
    /// Predicted for the teacher.
    pub teacher_minutes: f64,
    /// In percent, as printed.
    pub printed_accuracy: Option<f64>,
    /// What we measured.
    pub ours: Option<Measured>,
}

/// A table or figure that cannot be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No such entry.
    #[error(
        "there is no table or figure called {id:?}; did you mean {nearest}? `sordino reproduce --list` has all"
    )]
    Unknown {
        /// What was asked for.
        id: String,
        /// What is most like it.
        nearest: String,
    },
    /// A recipe that rows cannot begin with.
    #[error("no row can begin with a recipe called {name:?}")]
    NoRecipe {
        /// Its name.
        name: String,
    },
    /// SNL without a budget.
    #[error("{row} has no budget")]
    NoBudget {
        /// The row.
        row: String,
    },
    /// A recipe that cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A network that cannot be built.
    #[error(transparent)]
    Network(#[from] NetworkSectionError),
    /// A method that cannot be used so.
    #[error(transparent)]
    Optimize(#[from] OptimizeError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_counts_are_rounded_or_cut() {
        let printed = |text: &str| Printed::try_from(text.to_owned());
        assert!(printed("229.38K").unwrap().fits(229_376));
        assert!(printed("3.2K").unwrap().fits(3_264) && !printed("3.2K").unwrap().fits(3_300));
        assert!(!printed("16.6K").unwrap().fits(16_768));
        assert!(printed("0").unwrap().fits(0) && printed("952K").unwrap().fits(952_320));
        assert!(printed("many").is_err() && printed("1.2345K").is_err());
    }
}
