//! What a recipe says about the two searches of Sphynx.
//!
//! Defaults are those of the paper's Tables 5 and 6, with one exception: locations are searched in 100 epochs, not in 600.

use serde::{Deserialize, Serialize};

use crate::recipe::Precision;

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
    pub(super) fn out_of_range(&self, key: &'static str) -> Option<(&'static str, String, &'static str)> {
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
    /// Epochs before scores move; 0, or 15 for PC-DARTS and a third of fewer than 45.
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
        // A short search that never moved a score would find nothing.
        self.frozen_epochs.unwrap_or(if self.is_partial() { 15.min(self.epochs / 3) } else { 0 })
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

/// How much networks that do not run in a step are taken to change the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// Not at all (Figure 3).
    #[default]
    Zero,
    /// As much as networks did on average: unlike with zeros, to be drawn often is then no advantage. Not with companions,
    /// which are seen.
    Mean,
}

impl Unseen {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_zero(&self) -> bool {
        *self == Self::Zero
    }
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
    /// What the others are taken to do.
    #[serde(skip_serializing_if = "Unseen::is_zero")]
    pub unseen: Unseen,
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
            unseen: Unseen::default(),
            order: UpdateOrder::default(),
            grid_epochs: None,
            checkpoint_every: 5,
        }
    }
}
