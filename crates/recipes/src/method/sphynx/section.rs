//! What a recipe says about Sphynx: which cells, which locations, and how both are searched.
//!
//! Defaults are those of the paper's Tables 5 and 6, with one exception: locations are searched in 100 epochs, not in 600.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::method::ReluBudget;
use crate::recipe::Precision;

/// Sphynx's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SphynxSection {
    /// How many ReLUs the network may have: a count.
    pub budget: ReluBudget,
    /// Where the cells come from.
    #[serde(default)]
    pub cells: CellsSource,
    /// Where the reduce cells stand.
    #[serde(default)]
    pub locations: LocationSource,
    /// Initial channels, instead of those that the budget gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u64>,
    /// Cells, likewise; with `channels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// Other networks to train beside this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherNetwork>,
    /// Search and stop: nothing is trained.
    #[serde(default)]
    pub only_search: bool,
    /// How cells are searched.
    #[serde(default)]
    pub cell_search: CellSearch,
    /// How locations are searched.
    #[serde(default)]
    pub location_search: LocationSearch,
}

impl SphynxSection {
    /// The paper's settings.
    pub fn new(budget: ReluBudget) -> Self {
        Self {
            budget,
            cells: CellsSource::default(),
            locations: LocationSource::default(),
            channels: None,
            depth: None,
            further: Vec::new(),
            only_search: false,
            cell_search: CellSearch::default(),
            location_search: LocationSearch::default(),
        }
    }

    /// Whether any network has searched cells.
    pub fn searches_cells(&self) -> bool {
        let further = self.further.iter().map(|network| network.cells.as_ref().unwrap_or(&self.cells));
        std::iter::once(&self.cells).chain(further).any(|cells| *cells == CellsSource::Search)
    }

    pub(crate) fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let (cells, locations) = (&self.cell_search, &self.location_search);
        let rate = |rate: f64| rate > 0.0 && rate <= 10.0;
        let epochs = |epochs: u32| (1..=100_000).contains(&epochs);
        let at_least_two = |count: usize| (2..=65_536).contains(&count);
        let checks = [
            ("optimize.cell_search.nodes", cells.nodes as f64, (1..=8).contains(&cells.nodes), "1 to 8"),
            (
                "optimize.cell_search.channels",
                cells.channels as f64,
                (1..=1000).contains(&cells.channels),
                "1 to 1000",
            ),
            (
                "optimize.cell_search.depth",
                cells.depth as f64,
                (3..=100).contains(&cells.depth),
                "3 to 100 cells",
            ),
            ("optimize.cell_search.epochs", cells.epochs.into(), epochs(cells.epochs), "1 to 100000"),
            (
                "optimize.cell_search.batch",
                cells.batch() as f64,
                at_least_two(cells.batch()),
                "2 to 65536 images",
            ),
            (
                "optimize.cell_search.score_rate",
                cells.score_rate(),
                rate(cells.score_rate()),
                "above 0, at most 10",
            ),
            (
                "optimize.location_search.epochs",
                locations.epochs.into(),
                epochs(locations.epochs),
                "1 to 100000",
            ),
            (
                "optimize.location_search.batch",
                locations.batch as f64,
                at_least_two(locations.batch),
                "2 to 65536 images",
            ),
            (
                "optimize.location_search.score_rate",
                locations.score_rate,
                rate(locations.score_rate),
                "above 0, at most 10",
            ),
            (
                "optimize.location_search.temperature",
                locations.temperature,
                locations.temperature > 0.0,
                "a number above 0",
            ),
            (
                "optimize.location_search.last_temperature",
                locations.last_temperature,
                locations.last_temperature > 0.0,
                "a number above 0",
            ),
            (
                "optimize.location_search.companions",
                f64::from(locations.companions),
                locations.companions <= 100,
                "0 to 100",
            ),
        ];
        let bad = checks.into_iter().find(|(_, value, is_good, _)| !is_good || !value.is_finite());
        let bad = bad.map(|(key, value, _, expected)| (key, value.to_string(), expected));
        bad.or_else(|| {
            let both = [
                ("optimize.cell_search.weights", cells.updates()),
                ("optimize.location_search.weights", locations.weights),
            ];
            both.into_iter().find_map(|(key, updates)| updates.out_of_range(key))
        })
    }
}

/// Another network to train by the same recipe; what it leaves out is as in the section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherNetwork {
    /// How many ReLUs it may have.
    pub budget: ReluBudget,
    /// Where its cells come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<CellsSource>,
    /// Where its reduce cells stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<LocationSource>,
}

/// Where cells come from: `published`, `search`, or a TOML file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CellsSource {
    /// Those of the paper.
    Published,
    /// A search finds them.
    #[default]
    Search,
    /// A file, or a word that spells them.
    Given(String),
}

impl TryFrom<String> for CellsSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for CellsSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "published" => Ok(Self::Published),
            "search" => Ok(Self::Search),
            _ if text.ends_with(".toml") || text.contains('@') => Ok(Self::Given(text.to_owned())),
            _ => Err(format!(
                "{text:?} are no cells; expected published, search, or a file that ends in .toml"
            )),
        }
    }
}

impl From<CellsSource> for String {
    fn from(cells: CellsSource) -> Self {
        match cells {
            CellsSource::Published => "published".to_owned(),
            CellsSource::Search => "search".to_owned(),
            CellsSource::Given(text) => text,
        }
    }
}

impl CellsSource {
    /// The file, where it is one.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Given(text) if text.ends_with(".toml") => Some(PathBuf::from(text)),
            _ => None,
        }
    }
}

/// Where the reduce cells stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum LocationSource {
    /// Where the paper has them, for its depths.
    Published,
    /// At one and two thirds of the depth.
    Thirds,
    /// A search finds them.
    #[default]
    Search,
}

/// How operation scores learn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Strategy {
    /// DARTS of first order: weights are taken as they are.
    #[default]
    Darts,
    /// DARTS of second order: one step of the weights is looked ahead.
    DartsSecond,
    /// PC-DARTS: a quarter of the channels, edges with weights of their own.
    PcDarts,
}

/// What stands at the end of a cell under search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Post {
    /// 1x1 convolution, batch norm, ReLU; channels grow fourfold.
    #[default]
    Paper,
    /// ReLU on all concatenated channels, 1x1 convolution with constants, batch norm; channels double.
    Authors,
}

/// What is done to the inputs of a cell under search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preprocess {
    /// A 1x1 convolution, or a factorized reduce behind a reduce cell.
    #[default]
    Linear,
    /// The same only where the channels do not fit.
    None,
}

/// What edges are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// Shares (Sphynx appendix A).
    #[default]
    Softmax,
    /// Scores as they are (the authors' code).
    Raw,
}

/// Which epoch's cells are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// The last.
    Last,
    /// The one of the best accuracy, as in the authors' code; the paper does not say.
    #[default]
    Best,
}

/// How weights move while scores are searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightUpdates {
    /// The first rate.
    pub learning_rate: f64,
    /// The last rate of the cosine, which changes with the epoch.
    pub floor: f64,
    /// Of the past gradients.
    pub momentum: f64,
    /// Whether the gradient looks ahead: yes in the paper, no in the authors' code.
    pub nesterov: bool,
    /// Pull towards zero.
    pub weight_decay: f64,
    /// The longest gradient.
    pub clip: f64,
}

impl Default for WeightUpdates {
    fn default() -> Self {
        Self {
            learning_rate: 0.025,
            floor: 0.001,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 3e-4,
            clip: 5.0,
        }
    }
}

impl WeightUpdates {
    fn out_of_range(&self, key: &'static str) -> Option<(&'static str, String, &'static str)> {
        let is_good = self.learning_rate > 0.0
            && self.learning_rate <= 100.0
            && (0.0..=self.learning_rate).contains(&self.floor)
            && (0.0..1.0).contains(&self.momentum)
            && (0.0..=1.0).contains(&self.weight_decay)
            && self.clip > 0.0;
        let expected = "learning_rate above 0 and at most 100, floor at most that, momentum below 1, weight_decay up to 1, clip above 0";
        (!is_good).then(|| (key, format!("{self:?}"), expected))
    }
}

/// How cells are searched (Table 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CellSearch {
    /// How scores learn.
    pub strategy: Strategy,
    /// Nodes of a cell beside its inputs: 4, or 2 for the smaller cells of appendix F.4.
    pub nodes: usize,
    /// Initial channels of the network that searches.
    pub channels: usize,
    /// Its cells.
    pub depth: usize,
    /// How often it sees every image.
    pub epochs: u32,
    /// Images of a step; 64, or 256 for PC-DARTS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// How weights move; for PC-DARTS from 0.1 to 0 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightUpdates>,
    /// Adam's rate for scores; 3e-4, or 6e-4 for PC-DARTS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_rate: Option<f64>,
    /// Pull of scores towards zero.
    pub score_decay: f64,
    /// Epochs before scores move; 0, or 15 for PC-DARTS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_epochs: Option<u32>,
    /// The end of a cell.
    pub post: Post,
    /// The beginning of a cell.
    pub preprocess: Preprocess,
    /// What edges are ranked by.
    pub rank: Rank,
    /// Which epoch's cells are taken.
    pub choose: Choose,
    /// Numbers of the forward and backward pass, on a GPU.
    pub precision: Precision,
    /// Epochs between two checkpoints.
    pub checkpoint_every: u32,
}

impl Default for CellSearch {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            nodes: 4,
            channels: 5,
            depth: 8,
            epochs: 50,
            batch: None,
            weights: None,
            score_rate: None,
            score_decay: 1e-3,
            frozen_epochs: None,
            post: Post::default(),
            preprocess: Preprocess::default(),
            rank: Rank::default(),
            choose: Choose::default(),
            precision: Precision::default(),
            checkpoint_every: 5,
        }
    }
}

impl CellSearch {
    fn is_partial(&self) -> bool {
        self.strategy == Strategy::PcDarts
    }

    /// Images of a step.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(if self.is_partial() { 256 } else { 64 })
    }

    /// How weights move.
    pub fn updates(&self) -> WeightUpdates {
        let usual = WeightUpdates::default();
        let partial = WeightUpdates { learning_rate: 0.1, floor: 0.0, ..usual };
        self.weights.unwrap_or(if self.is_partial() { partial } else { usual })
    }

    /// Adam's rate for scores.
    pub fn score_rate(&self) -> f64 {
        self.score_rate.unwrap_or(if self.is_partial() { 6e-4 } else { 3e-4 })
    }

    /// Epochs before scores move.
    pub fn frozen_epochs(&self) -> u32 {
        self.frozen_epochs.unwrap_or(if self.is_partial() { 15 } else { 0 })
    }
}

/// Which pairs of cells may reduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidates {
    /// All.
    #[default]
    All,
    /// Those within two thirds of the depth, before which the auxiliary head stands.
    Authors,
}

/// Whether weights or scores move first in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateOrder {
    /// As in Algorithm 1.
    #[default]
    WeightsFirst,
    /// As in the authors' code.
    ScoresFirst,
}

/// How locations are searched (Algorithm 1, Table 6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocationSearch {
    /// Which pairs of cells may reduce.
    pub candidates: Candidates,
    /// How often all images are seen; 600 in the paper.
    pub epochs: u32,
    /// Images of a step.
    pub batch: usize,
    /// How weights move.
    pub weights: WeightUpdates,
    /// Adam's rate for the scores of locations.
    pub score_rate: f64,
    /// Their pull towards zero.
    pub score_decay: f64,
    /// The first temperature.
    pub temperature: f64,
    /// The last one, reached in a line.
    pub last_temperature: f64,
    /// Networks that also run, with weight 0, when scores learn: 0 in the paper, 2 in the authors' code.
    pub companions: u32,
    /// What moves first.
    pub order: UpdateOrder,
    /// Epochs for which every candidate is trained alone afterwards, to be reported beside the search (Figure 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid_epochs: Option<u32>,
    /// Epochs between two checkpoints.
    pub checkpoint_every: u32,
}

impl Default for LocationSearch {
    fn default() -> Self {
        Self {
            candidates: Candidates::default(),
            epochs: 100,
            batch: 64,
            weights: WeightUpdates::default(),
            score_rate: 3e-4,
            score_decay: 1e-3,
            temperature: 1000.0,
            last_temperature: 0.1,
            companions: 0,
            order: UpdateOrder::default(),
            grid_epochs: None,
            checkpoint_every: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SphynxSection, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_short_section_has_the_papers_settings() {
        let section = read("budget = 25600").unwrap();
        assert_eq!(section, SphynxSection::new(ReluBudget::Count(25_600)));
        assert_eq!(read(&toml::to_string(&section).unwrap()), Ok(section.clone()));
        let search = &section.cell_search;
        assert_eq!((search.batch(), search.updates().learning_rate, search.score_rate()), (64, 0.025, 3e-4));
        assert_eq!(section.out_of_range(), None);
        assert!(section.searches_cells());
    }

    #[test]
    fn a_strategy_brings_its_own_settings() {
        let section = read("budget = 25600\ncell_search = { strategy = \"pc-darts\" }").unwrap();
        let search = &section.cell_search;
        assert_eq!((search.batch(), search.score_rate(), search.frozen_epochs()), (256, 6e-4, 15));
        assert_eq!((search.updates().learning_rate, search.updates().floor), (0.1, 0.0));
        let other = CellSearch { batch: Some(32), ..search.clone() };
        assert_eq!(other.batch(), 32);
    }

    #[test]
    fn cells_are_words_or_files() {
        let cells =
            |text: &str| read(&format!("budget = 5000\ncells = {text:?}")).map(|section| section.cells);
        assert_eq!(cells("published"), Ok(CellsSource::Published));
        assert_eq!(cells("mine.toml").unwrap().file(), Some(PathBuf::from("mine.toml")));
        let error = cells("mine").unwrap_err();
        assert!(error.contains("published, search, or a file"), "{error}");
        let section =
            read("budget = 5000\ncells = \"published\"\nfurther = [{ budget = 51200, cells = \"search\" }]")
                .unwrap();
        assert!(section.searches_cells());
    }

    #[test]
    fn values_out_of_range_are_named() {
        let key = |text: &str| read(text).unwrap().out_of_range().unwrap().0;
        assert_eq!(key("budget = 5\ncell_search = { nodes = 9 }"), "optimize.cell_search.nodes");
        assert_eq!(key("budget = 5\nlocation_search = { batch = 1 }"), "optimize.location_search.batch");
        assert_eq!(
            key("budget = 5\ncell_search = { weights = { floor = 1.0 } }"),
            "optimize.cell_search.weights"
        );
    }
}
