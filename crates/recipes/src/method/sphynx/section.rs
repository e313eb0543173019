//! What a recipe says about Sphynx: which networks, with which cells, and where their reduce cells stand.

use std::path::PathBuf;

use network::zoo::genotype::{Genotype, GenotypeError};
use serde::{Deserialize, Serialize};

use super::{CellSearch, LocationSearch, Rank, Strategy, Unseen};
use crate::method::ReluBudget;

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

    /// The same with the cells of files spelled out.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn spelled(&self) -> Result<Self, GenotypeError> {
        let mut section = self.clone();
        section.cells = section.cells.spelled()?;
        for network in &mut section.further {
            network.cells = network.cells.as_ref().map(CellsSource::spelled).transpose()?;
        }
        Ok(section)
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
                "optimize.cell_search.score_decay",
                cells.score_decay,
                (0.0..=1.0).contains(&cells.score_decay),
                "0 to 1",
            ),
            (
                "optimize.cell_search.frozen_epochs",
                cells.frozen_epochs().into(),
                cells.frozen_epochs() < cells.epochs,
                "fewer than optimize.cell_search.epochs: scores would never move",
            ),
            (
                "optimize.location_search.score_decay",
                locations.score_decay,
                (0.0..=1.0).contains(&locations.score_decay),
                "0 to 1",
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
                "optimize.location_search.grid_epochs",
                f64::from(locations.grid_epochs.unwrap_or(1)),
                locations.grid_epochs.is_none_or(epochs),
                "1 to 100000",
            ),
            (
                "optimize.location_search.companions",
                f64::from(locations.companions),
                locations.companions <= 100,
                "0 to 100",
            ),
            (
                "optimize.location_search.companions",
                f64::from(locations.companions),
                locations.companions == 0 || locations.unseen == Unseen::Zero,
                "0 beside unseen = \"mean\": their slopes are of another kind than that of the network that was drawn",
            ),
        ];
        let bad = checks.into_iter().find(|(_, value, is_good, _)| !is_good || !value.is_finite());
        let bad = bad.map(|(key, value, _, expected)| (key, value.to_string(), expected));
        let ranks_by_signs = cells.strategy == Strategy::PcDarts && cells.rank == Rank::Raw;
        // Times a raw score, which may be negative, a stronger edge would rank lower.
        let rank = (
            "optimize.cell_search.rank",
            "raw".to_owned(),
            "softmax with pc-darts, whose edges have weights of their own",
        );
        bad.or_else(|| ranks_by_signs.then_some(rank)).or_else(|| {
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
    /// The same with the cells that a file holds in the place of its name: what a run is known by must not change when the
    /// file does.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn spelled(&self) -> Result<Self, GenotypeError> {
        match self.file() {
            Some(path) => Ok(Self::Given(Genotype::from_file(&path)?.to_word())),
            None => Ok(self.clone()),
        }
    }

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
        let short = CellSearch { epochs: 6, ..search.clone() };
        assert_eq!(short.frozen_epochs(), 2);
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
        let both = "budget = 5\nlocation_search = { companions = 2, unseen = \"mean\" }";
        assert_eq!(key(both), "optimize.location_search.companions");
        for (text, wrong) in [
            ("frozen_epochs = 50", "frozen_epochs"),
            ("strategy = \"pc-darts\", rank = \"raw\"", "rank"),
            ("score_decay = -1.0", "score_decay"),
        ] {
            let key = key(&format!("budget = 5\ncell_search = {{ {text} }}"));
            assert_eq!(key, format!("optimize.cell_search.{wrong}"));
        }
        assert_eq!(
            key("budget = 5\ncell_search = { weights = { floor = 1.0 } }"),
            "optimize.cell_search.weights"
        );
    }
}
