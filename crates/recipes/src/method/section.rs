//! What a recipe says about optimizing: the method, its budget, its switches.
//!
//! The recipe's `[training]` is the last training: the fine-tuning of SNL, SENet and pruning, DeepReDuce's and DeepReShape's training of the
//! reduced network, each with the recipe's teacher.

use std::path::PathBuf;

use network::spec::MAX_VALUES_PER_SIGN;
use serde::{Deserialize, Serialize};

use super::l1_pruning::L1PruningSection;
use super::senet::SenetSection;
use super::sphynx::SphynxSection;
use super::{Granularity, GroupingRule, MAX_MOVED, PenaltySchedule, ReluBudget};

/// The method and what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase")]
pub enum OptimizeSection {
    /// Keep scores under a penalty.
    Snl(SnlSection),
    /// Cull, thin, reshape by criticality.
    DeepReduce(DeepReduceSection),
    /// HybReNets for a budget.
    DeepReshape(DeepReshapeSection),
    /// Signets for a budget.
    #[serde(rename = "shared-signs")]
    SharedSigns(SharedSignsSection),
    /// ReLUs for each layer by its sensitivity.
    Senet(SenetSection),
    /// Filters with the smallest norms go.
    #[serde(rename = "l1-pruning")]
    L1Pruning(L1PruningSection),
    /// Cells and locations by search.
    Sphynx(Box<SphynxSection>),
}

impl OptimizeSection {
    /// What the method is called.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Snl(_) => "snl",
            Self::DeepReduce(_) => "deepreduce",
            Self::DeepReshape(_) => "deepreshape",
            Self::SharedSigns(_) => "shared-signs",
            Self::Senet(_) => "senet",
            Self::L1Pruning(_) => "l1-pruning",
            Self::Sphynx(_) => "sphynx",
        }
    }

    /// How many ReLUs or comparisons may stay; none where all candidates are wanted.
    pub fn budget(&self) -> Option<ReluBudget> {
        match self {
            Self::Snl(section) => Some(section.budget),
            Self::DeepReduce(section) => section.budget,
            Self::DeepReshape(section) => Some(section.budget),
            Self::SharedSigns(section) => Some(section.budget),
            Self::Senet(section) => Some(section.budget),
            Self::L1Pruning(section) => Some(section.budget),
            Self::Sphynx(section) => Some(section.budget),
        }
    }

    /// The same recipe for another budget.
    pub(crate) fn set_budget(&mut self, budget: ReluBudget) {
        match self {
            Self::Snl(section) => section.budget = budget,
            Self::DeepReduce(section) => section.budget = Some(budget),
            Self::DeepReshape(section) => section.budget = budget,
            Self::SharedSigns(section) => section.budget = budget,
            Self::Senet(section) => section.budget = budget,
            Self::L1Pruning(section) => section.budget = budget,
            Self::Sphynx(section) => section.budget = budget,
        }
    }

    /// What is out of its range: the key, what came and what can be used.
    pub(crate) fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        match self {
            Self::Snl(section) => section.out_of_range(),
            Self::SharedSigns(section) => section.out_of_range(),
            Self::Senet(section) => section.out_of_range(),
            Self::Sphynx(section) => section.out_of_range(),
            Self::DeepReduce(section) => section.out_of_range(),
            Self::DeepReshape(_) | Self::L1Pruning(_) => None,
        }
    }
}

impl DeepReduceSection {
    fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let untrained = self.probe_epochs == Some(0);
        untrained.then(|| ("optimize.probe_epochs", "0".to_owned(), "1 or more"))
    }
}

impl SnlSection {
    fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let section = self;
        let (first, raise) = match section.penalty {
            PenaltySchedule::Patient { first, raise, .. } | PenaltySchedule::Paced { first, raise, .. } => {
                (first, raise)
            }
        };
        let checks = [
            ("optimize.penalty.first", first, first > 0.0 && first <= 1e3, "a number above 0, at most 1000"),
            ("optimize.penalty.raise", raise, raise > 1.0 && raise <= 10.0, "a factor above 1, at most 10"),
            ("optimize.learning_rate", section.learning_rate, section.learning_rate > 0.0, "a rate above 0"),
            ("optimize.temperature", section.temperature, section.temperature > 0.0, "a number above 0"),
            ("optimize.batch", section.batch as f64, section.batch >= 2, "2 images or more"),
            (
                "optimize.taylor_epochs",
                f64::from(section.taylor_epochs.unwrap_or(1)),
                section.taylor_epochs != Some(0),
                "1 or more",
            ),
            ("optimize.distillation", section.distillation, section.distillation >= 0.0, "0 or more"),
            ("optimize.max_moved", section.max_moved, (0.0..=0.5).contains(&section.max_moved), "0 to 0.5"),
        ];
        let bad = checks.into_iter().find(|(_, value, is_good, _)| !is_good || !value.is_finite());
        bad.map(|(key, value, _, expected)| (key, value.to_string(), expected))
    }
}

/// SNL's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnlSection {
    /// How many ReLUs stay.
    pub budget: ReluBudget,
    /// A run or checkpoint of the network that is to lose ReLUs; the recipe's teacher where absent. A network that
    /// was thinned first may start from the weights of the full one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
    /// One score per scalar or per channel.
    #[serde(default)]
    pub granularity: Granularity,
    /// How the penalty moves.
    #[serde(default)]
    pub penalty: PenaltySchedule,
    /// Epochs in which [`taylor`](super::taylor) scores take the ReLUs down to the budget, without a penalty; keep scores are
    /// learned under one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taylor_epochs: Option<u32>,
    /// Adam's rate, for weights and scores.
    #[serde(default = "search_rate")]
    pub learning_rate: f64,
    /// Images of one step of the search.
    #[serde(default = "search_batch")]
    pub batch: usize,
    /// By which logits are divided.
    #[serde(default = "temperature")]
    pub temperature: f64,
    /// Weight of the distillation in the search; the cross-entropy has 1.
    #[serde(default = "unit")]
    pub distillation: f64,
    /// The longest search.
    #[serde(default = "max_epochs")]
    pub max_epochs: u32,
    /// The largest part of the budget that may be moved by rank.
    #[serde(default = "max_moved")]
    pub max_moved: f64,
    /// Epochs between two checkpoints of the search.
    #[serde(default = "checkpoint_every")]
    pub checkpoint_every: u32,
}

impl SnlSection {
    /// The authors' settings.
    pub fn new(budget: ReluBudget) -> Self {
        Self {
            budget,
            start: None,
            granularity: Granularity::default(),
            penalty: PenaltySchedule::default(),
            taylor_epochs: None,
            learning_rate: search_rate(),
            batch: search_batch(),
            temperature: temperature(),
            distillation: unit(),
            max_epochs: max_epochs(),
            max_moved: max_moved(),
            checkpoint_every: checkpoint_every(),
        }
    }
}

fn search_rate() -> f64 {
    1e-3
}

fn search_batch() -> usize {
    128
}

fn temperature() -> f64 {
    4.0
}

fn unit() -> f64 {
    1.0
}

fn max_epochs() -> u32 {
    2000
}

fn max_moved() -> f64 {
    MAX_MOVED
}

fn checkpoint_every() -> u32 {
    10
}

/// DeepReDuce's pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepReduceSection {
    /// How many ReLUs may stay; all candidates are trained where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ReluBudget>,
    /// All stages, most critical first, such as "3,2,4,1"; found by training where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Epochs of the probes that find it; those of the training where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_epochs: Option<u32>,
    /// Find the order and stop.
    #[serde(default)]
    pub only_criticality: bool,
    /// Also the smallest networks, with one block in each surviving stage (`*` in the paper).
    #[serde(default)]
    pub single_blocks: bool,
}

/// DeepReShape's rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepReshapeSection {
    /// How many ReLUs may stay.
    pub budget: ReluBudget,
    /// All stages, most critical first.
    #[serde(default = "paper_order")]
    pub order: String,
    /// Apply Algorithm 2 to the network itself, whatever HybReNets its depths would have.
    #[serde(default)]
    pub keep_network: bool,
}

fn paper_order() -> String {
    "3,2,4,1".to_owned()
}

/// Signets for a budget of comparisons, and masks on their signs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedSignsSection {
    /// How many comparisons there may be.
    pub budget: ReluBudget,
    /// How many values follow each sign, its own included; chosen by [`shared_signs`](super::shared_signs) where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_per_sign: Option<u64>,
    /// Which channels share a sign.
    #[serde(default, skip_serializing_if = "is_neighbors")]
    pub grouping: GroupingRule,
    /// Epochs with a sign for each value, by which groups are chosen; a quarter of the training's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grouping_epochs: Option<u32>,
    /// What is trained first to teach, where the recipe names no teacher.
    #[serde(default = "teacher_network")]
    pub teacher_network: String,
    /// SNL's search for the signs that are needed at all, after the training; all stay where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<SnlSection>,
    /// Epochs of the training after that search.
    #[serde(default = "mask_epochs")]
    pub mask_epochs: u32,
    /// Its rate.
    #[serde(default = "mask_learning_rate")]
    pub mask_learning_rate: f64,
}

impl SharedSignsSection {
    fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let values = self.values_per_sign.unwrap_or(1);
        if !(1..=MAX_VALUES_PER_SIGN as u64).contains(&values) {
            return Some(("optimize.values_per_sign", values.to_string(), "1 to 64"));
        }
        if self.grouping_epochs == Some(0) {
            return Some(("optimize.grouping_epochs", "0".to_owned(), "1 or more"));
        }
        if self.mask_epochs == 0 {
            return Some(("optimize.mask_epochs", "0".to_owned(), "1 or more"));
        }
        if !(self.mask_learning_rate > 0.0 && self.mask_learning_rate.is_finite()) {
            let rate = self.mask_learning_rate.to_string();
            return Some(("optimize.mask_learning_rate", rate, "a rate above 0"));
        }
        let mask = self.mask.as_ref()?;
        if let Some(start) = &mask.start {
            let expected = "no start: the search begins with what was trained";
            return Some(("optimize.mask.start", start.display().to_string(), expected));
        }
        let (key, value, expected) = mask.out_of_range()?;
        let key = key.strip_prefix("optimize.").unwrap_or(key);
        Some(("optimize.mask", format!("{key} = {value}"), expected))
    }
}

fn is_neighbors(rule: &GroupingRule) -> bool {
    *rule == GroupingRule::Neighbors
}

fn teacher_network() -> String {
    "resnet18".to_owned()
}

fn mask_epochs() -> u32 {
    80
}

fn mask_learning_rate() -> f64 {
    0.03
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        optimize: OptimizeSection,
    }

    fn read(text: &str) -> Result<OptimizeSection, String> {
        toml::from_str::<File>(text).map(|file| file.optimize).map_err(|error| error.to_string())
    }

    #[test]
    fn a_short_section_has_the_authors_settings() {
        let section = read("[optimize]\nmethod = \"snl\"\nbudget = 50000\n").unwrap();
        assert_eq!(section, OptimizeSection::Snl(SnlSection::new(ReluBudget::Count(50_000))));
        let text = toml::to_string(&File { optimize: section.clone() }).unwrap();
        assert_eq!(read(&text), Ok(section));
        let part = read("[optimize]\nmethod = \"deepreshape\"\nbudget = \"25%\"\n").unwrap();
        assert_eq!(part.budget(), Some(ReluBudget::FractionOfBaseline(0.25)));
        assert!(read("[optimize]\nmethod = \"deepreduce\"\n").unwrap().budget().is_none());
    }

    #[test]
    fn unknown_keys_and_senseless_budgets_are_refused() {
        assert!(read("[optimize]\nmethod = \"snl\"\nbudget = 5\nlamda = 1\n").unwrap_err().contains("lamda"));
        assert!(read("[optimize]\nmethod = \"snl\"\nbudget = 0\n").unwrap_err().contains("budget of zero"));
        assert!(read("[optimize]\nmethod = \"sanet\"\nbudget = 5\n").unwrap_err().contains("deepreduce"));
    }

    #[test]
    fn shared_signs_may_have_a_mask() {
        let text = "[optimize]\nmethod = \"shared-signs\"\nbudget = 13056\n";
        let OptimizeSection::SharedSigns(section) = read(text).unwrap() else { panic!("shared signs") };
        assert_eq!((section.values_per_sign, section.teacher_network.as_str()), (None, "resnet18"));
        assert!(section.mask.is_none() && section.mask_epochs == 80);
        let masked = read(&format!("{text}mask = {{ budget = \"50%\", batch = 64 }}\n")).unwrap();
        let written = toml::to_string(&File { optimize: masked.clone() }).unwrap();
        assert_eq!(read(&written), Ok(masked));
        let out_of_range = |line: &str| read(&format!("{text}{line}\n")).unwrap().out_of_range().unwrap();
        assert_eq!(out_of_range("values_per_sign = 0").0, "optimize.values_per_sign");
        assert_eq!(out_of_range("mask_epochs = 0").0, "optimize.mask_epochs");
        assert_eq!(
            out_of_range("grouping = \"agreement\"\ngrouping_epochs = 0").0,
            "optimize.grouping_epochs"
        );
        assert_eq!(out_of_range("mask = { budget = 5, start = \"run\" }").0, "optimize.mask.start");
        assert_eq!(out_of_range("mask = { budget = 5, batch = 1 }").1, "batch = 1");
    }
}
