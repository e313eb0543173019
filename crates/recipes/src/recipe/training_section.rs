//! How a network learns: epochs, optimizer, schedule, losses, augmentation, precision.

use serde::{Deserialize, Serialize};

use super::RecipeError;
use crate::schedule::{Decay, LearningRate};

/// How a network learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSection {
    /// How often every image is seen.
    pub epochs: u32,
    /// Images of one step.
    pub batch: usize,
    /// What moves the weights.
    #[serde(default)]
    pub optimizer: OptimizerChoice,
    /// How fast.
    #[serde(default)]
    pub schedule: Schedule,
    /// Towards what.
    #[serde(default)]
    pub loss: Loss,
    /// What is done to images before they are shown.
    #[serde(default)]
    pub augmentation: Augmentation,
    /// Numbers of the forward and backward pass; weights, statistics and losses are always 32 bits.
    #[serde(default)]
    pub precision: Precision,
    /// How the first weights are drawn.
    #[serde(default, skip_serializing_if = "Initialization::is_usual")]
    pub initialization: Initialization,
    /// The longest gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Decay of the moving average of weights that is evaluated and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ema: Option<f64>,
    /// Probability, reached in a line at the last epoch, that a path of a cell is dropped (Sphynx).
    #[serde(default)]
    pub drop_path: f64,
    /// A second classifier that only learns along (Sphynx).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auxiliary_head: Option<AuxiliaryHead>,
    /// Epochs between two tries on held-out or test images; the last epoch is always tried.
    #[serde(default = "one")]
    pub evaluate_every: u32,
    /// Epochs between two checkpoints; the last epoch always has one.
    #[serde(default = "ten")]
    pub checkpoint_every: u32,
}

fn one() -> u32 {
    1
}

fn ten() -> u32 {
    10
}

/// What moves the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimizerChoice {
    /// Stochastic gradient descent.
    Sgd {
        /// Of the past gradients.
        #[serde(default = "momentum")]
        momentum: f64,
        /// Whether the gradient looks ahead.
        #[serde(default)]
        nesterov: bool,
        /// Pull towards zero.
        #[serde(default = "weight_decay")]
        weight_decay: f64,
        /// Which numbers it pulls.
        #[serde(default)]
        decay: DecayScope,
    },
    /// Adam.
    Adam {
        /// Of the past gradients.
        #[serde(default = "momentum")]
        beta1: f64,
        /// Of their squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Pull towards zero.
        #[serde(default)]
        weight_decay: f64,
        /// Which numbers it pulls.
        #[serde(default)]
        decay: DecayScope,
    },
}

fn momentum() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

fn weight_decay() -> f64 {
    5e-4
}

impl Default for OptimizerChoice {
    fn default() -> Self {
        Self::Sgd {
            momentum: momentum(),
            nesterov: false,
            weight_decay: weight_decay(),
            decay: DecayScope::All,
        }
    }
}

/// Which numbers weight decay pulls; masks never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecayScope {
    /// Every weight, as in the papers.
    #[default]
    All,
    /// Those of convolutions and fully connected layers; no biases, no batch norms.
    Filters,
}

/// How fast the weights move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// How the rate falls.
    pub kind: ScheduleKind,
    /// The largest rate.
    pub learning_rate: f64,
    /// Epochs in which it rises to that.
    pub warm_up_epochs: f64,
    /// The last rate of cosine and line.
    pub floor: f64,
    /// Epochs that begin with a smaller rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<u32>,
    /// What each of them multiplies by.
    pub factor: f64,
    /// How often the rate changes.
    pub update: UpdateEvery,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            kind: ScheduleKind::Cosine,
            learning_rate: 0.1,
            warm_up_epochs: 0.0,
            floor: 0.0,
            milestones: Vec::new(),
            factor: 0.1,
            update: UpdateEvery::Step,
        }
    }
}

/// How the rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Half a wave of a cosine.
    Cosine,
    /// A straight line.
    Linear,
    /// Times a factor at milestones.
    Step,
    /// Not at all.
    Constant,
}

/// How often the rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateEvery {
    /// With every batch.
    Step,
    /// At the beginning of an epoch, as the papers' code does.
    Epoch,
}

impl Schedule {
    /// The rate of every step of a run.
    pub fn rate(&self, epochs: u32, steps_per_epoch: u64) -> LearningRate {
        let decay = match self.kind {
            ScheduleKind::Cosine => Decay::Cosine { floor: self.floor },
            ScheduleKind::Linear => Decay::Linear { floor: self.floor },
            ScheduleKind::Step => Decay::Step { milestones: self.milestones.clone(), factor: self.factor },
            ScheduleKind::Constant => Decay::Constant,
        };
        LearningRate {
            peak: self.learning_rate,
            warm_up_epochs: self.warm_up_epochs,
            decay,
            update: self.update,
            epochs,
            steps_per_epoch,
        }
    }
}

/// Towards what the weights move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loss {
    /// How much of the truth is spread over all classes.
    pub label_smoothing: f64,
    /// What is learned from the teacher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distillation: Option<Distillation>,
    /// Weight of the distance of the student's maps from the teacher's at the ends of the stages (SENet's fine-tuning).
    #[serde(skip_serializing_if = "is_zero")]
    pub attention: f64,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Loss {
    pub(super) fn needs_teacher(&self) -> bool {
        self.distillation.is_some()
    }
}

/// What is learned from the teacher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Distillation {
    /// Hinton's: softened outputs.
    Kd {
        /// By which logits are divided.
        #[serde(default = "four")]
        temperature: f64,
        /// The papers' 0.9.
        #[serde(default = "nine_tenths")]
        weight: f64,
        /// What the weight weighs.
        #[serde(default)]
        reading: ReadingOfWeight,
    },
    /// Decoupled: the target class apart from the others.
    Dkd {
        /// By which logits are divided.
        #[serde(default = "four")]
        temperature: f64,
        /// Weight of the target class.
        #[serde(default = "unit")]
        alpha: f64,
        /// Weight of the other classes.
        #[serde(default = "unit")]
        beta: f64,
        /// Epochs in which both rise to their weights.
        #[serde(default = "twenty")]
        warm_up_epochs: f64,
    },
    /// The squared distance of the logits (Sphynx appendix G).
    LogitMse {
        /// Beside the cross-entropy.
        #[serde(default = "unit")]
        weight: f64,
    },
}

impl Distillation {
    /// Hinton's with a weight of the teacher's term; the true classes get the rest.
    pub const fn soft(temperature: f64, weight: f64) -> Self {
        Self::Kd { temperature, weight, reading: ReadingOfWeight::Soft }
    }
}

impl ReadingOfWeight {
    /// The weights of the true classes and of the teacher's term.
    pub fn hard_and_soft(self, weight: f64) -> (f64, f64) {
        match self {
            Self::Soft => (1.0 - weight, weight),
            Self::Hard => (weight, 1.0 - weight),
            Self::Added => (1.0, weight),
        }
    }
}

/// What the weight of Hinton's distillation weighs; the papers' sentence can be read in three ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingOfWeight {
    /// The teacher's term; the true classes get the rest.
    #[default]
    Soft,
    /// The true classes; the teacher's term gets the rest.
    Hard,
    /// The teacher's term; the true classes keep their whole weight (SNL's code).
    Added,
}

fn four() -> f64 {
    4.0
}

fn nine_tenths() -> f64 {
    0.9
}

fn unit() -> f64 {
    1.0
}

fn twenty() -> f64 {
    20.0
}

/// What is done to images before they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augmentation {
    /// Zeros around the image before a random part of its size is taken.
    pub crop_padding: usize,
    /// Whether every other image is mirrored.
    pub flip: bool,
    /// Side of a random square that is blanked; 0 for none.
    pub cutout: usize,
    /// What the ranges of TrivialAugment's one random change per image are multiplied with; 0 for no change.
    pub trivial: f64,
    /// Concentration of the weights of mixed pairs; 0 for none.
    pub mixup: f64,
    /// Concentration of the areas of pasted parts; 0 for none.
    pub cutmix: f64,
}

impl Augmentation {
    /// Whether images are mixed with one another.
    pub fn has_mixtures(&self) -> bool {
        self.mixup > 0.0 || self.cutmix > 0.0
    }
}

/// Numbers of the forward and backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with 8 of mantissa, on a GPU or a processor with instructions for them (AVX-512 BF16); others use 32.
    Bf16,
    /// 64 bits, for checking gradients: neither a recipe nor a flag can name it.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", value(skip))]
    F64,
}

/// How the first weights of convolutions and fully connected layers are drawn. Constants are drawn uniformly within
/// `1 / sqrt(inputs)` in all of them; batch norms begin with scale 1 and shift 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialization {
    /// Normal with variance `2 / inputs`, fully connected layers too (SNL's ResNets).
    KaimingFanIn,
    /// Convolutions normal with variance `2 / outputs`, fully connected layers uniform (WideResNets, and ResNets as
    /// they are usually trained).
    #[default]
    KaimingFanOut,
    /// Uniform within `1 / sqrt(inputs)` (Sphynx and DARTS, which leave it to the framework).
    Uniform,
}

impl Initialization {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A second classifier that only learns along.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuxiliaryHead {
    /// Its weight beside the main loss.
    pub weight: f64,
}

/// Refuses a value out of its range.
fn within(
    key: &'static str,
    value: f64,
    low: f64,
    high: f64,
    expected: &'static str,
) -> Result<(), RecipeError> {
    match value >= low && value <= high {
        true => Ok(()),
        false => Err(RecipeError::Value { key, value: value.to_string(), expected }),
    }
}

impl TrainingSection {
    /// Another number of epochs. Milestones and the teacher's warm-up move in proportion; the rate's warm-up takes a quarter at
    /// most.
    pub fn set_epochs(&mut self, epochs: u32) {
        let part = f64::from(epochs) / f64::from(self.epochs.max(1));
        self.epochs = epochs;
        self.schedule.warm_up_epochs = self.schedule.warm_up_epochs.min(f64::from(epochs) / 4.0);
        let moved = |milestone: &mut u32| *milestone = (f64::from(*milestone) * part).round() as u32;
        self.schedule.milestones.iter_mut().for_each(moved);
        if let Some(Distillation::Dkd { warm_up_epochs, .. }) = &mut self.loss.distillation {
            *warm_up_epochs *= part;
        }
    }

    /// Refuses values out of their ranges.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        within("training.epochs", self.epochs.into(), 1.0, 100_000.0, "1 to 100000")?;
        within("training.batch", self.batch as f64, 2.0, 65_536.0, "2 to 65536 images")?;
        within("training.evaluate_every", self.evaluate_every.into(), 1.0, 1e6, "1 or more epochs")?;
        within("training.checkpoint_every", self.checkpoint_every.into(), 1.0, 1e6, "1 or more epochs")?;
        within("training.clip", self.clip.unwrap_or(1.0), 1e-9, 1e9, "a length above 0")?;
        within("training.ema", self.ema.unwrap_or(0.9), 0.0, 0.999_999, "0 to 0.999999")?;
        within("training.drop_path", self.drop_path, 0.0, 0.9, "a probability from 0 to 0.9")?;
        let head = self.auxiliary_head.map_or(0.4, |head| head.weight);
        within("training.auxiliary_head.weight", head, 0.0, 10.0, "0 to 10")?;
        self.check_optimizer()?;
        self.check_schedule()?;
        within("training.loss.label_smoothing", self.loss.label_smoothing, 0.0, 0.9, "0 to 0.9")?;
        within("training.loss.attention", self.loss.attention, 0.0, 1e6, "0 to 1000000")?;
        if self.loss.attention > 0.0 && self.loss.distillation.is_none() {
            return Err(RecipeError::Together {
                reason: "training.loss.attention stands beside a distillation; add [training.loss.distillation] or remove it",
            });
        }
        let (mixup, cutmix) = (self.augmentation.mixup, self.augmentation.cutmix);
        within("training.augmentation.mixup", mixup, 0.0, 10.0, "0 to 10")?;
        within("training.augmentation.cutmix", cutmix, 0.0, 10.0, "0 to 10")?;
        within("training.augmentation.trivial", self.augmentation.trivial, 0.0, 3.0, "0 to 3")?;
        let (padding, cutout) = (self.augmentation.crop_padding, self.augmentation.cutout);
        within("training.augmentation.crop_padding", padding as f64, 0.0, 4096.0, "0 to 4096 pixels")?;
        within("training.augmentation.cutout", cutout as f64, 0.0, 4096.0, "0 to 4096 pixels")?;
        if mixup > 0.0 && cutmix > 0.0 {
            return Err(RecipeError::Together {
                reason: "mixup and cutmix exclude each other; set one of them to 0",
            });
        }
        self.check_distillation()
    }

    fn check_optimizer(&self) -> Result<(), RecipeError> {
        let past = |key, value| within(key, value, 0.0, 0.999_999, "0 to 0.999999");
        let weight_decay = match self.optimizer {
            OptimizerChoice::Sgd { momentum, weight_decay, .. } => {
                past("training.optimizer.momentum", momentum)?;
                weight_decay
            }
            OptimizerChoice::Adam { beta1, beta2, weight_decay, .. } => {
                past("training.optimizer.beta1", beta1)?;
                past("training.optimizer.beta2", beta2)?;
                weight_decay
            }
        };
        within("training.optimizer.weight_decay", weight_decay, 0.0, 1.0, "0 to 1")
    }

    fn check_schedule(&self) -> Result<(), RecipeError> {
        let Schedule { learning_rate, warm_up_epochs, factor, floor, milestones, kind, .. } = &self.schedule;
        let value =
            |key, value: f64, expected| Err(RecipeError::Value { key, value: value.to_string(), expected });
        if !(*learning_rate > 0.0 && *learning_rate <= 100.0) {
            return value("training.schedule.learning_rate", *learning_rate, "a rate above 0, at most 100");
        }
        if !(*warm_up_epochs >= 0.0 && *warm_up_epochs < f64::from(self.epochs)) {
            return value(
                "training.schedule.warm_up_epochs",
                *warm_up_epochs,
                "0 or more, fewer than the epochs",
            );
        }
        within("training.schedule.floor", *floor, 0.0, *learning_rate, "0 to the learning rate")?;
        if !(*factor > 0.0 && *factor <= 1.0) {
            return value("training.schedule.factor", *factor, "a factor above 0, at most 1");
        }
        let is_step = *kind == ScheduleKind::Step;
        if is_step == milestones.is_empty() || !milestones.is_sorted() {
            return Err(RecipeError::Together {
                reason: "training.schedule.milestones belongs to kind = \"step\", which needs it, in ascending order",
            });
        }
        Ok(())
    }

    fn check_distillation(&self) -> Result<(), RecipeError> {
        let value =
            |key, value: f64, expected| Err(RecipeError::Value { key, value: value.to_string(), expected });
        match self.loss.distillation {
            Some(Distillation::Kd { temperature, .. } | Distillation::Dkd { temperature, .. })
                if !(temperature > 0.0 && temperature <= 100.0) =>
            {
                value("training.loss.distillation.temperature", temperature, "above 0, at most 100")
            }
            Some(Distillation::Kd { weight, .. }) if !(0.0..=1000.0).contains(&weight) => {
                value("training.loss.distillation.weight", weight, "0 to 1000")
            }
            Some(Distillation::Kd { weight, reading, .. })
                if weight > 1.0 && reading != ReadingOfWeight::Added =>
            {
                value("training.loss.distillation.weight", weight, "0 to 1, or reading = \"added\"")
            }
            Some(Distillation::Dkd { alpha, beta, warm_up_epochs, .. }) => {
                within("training.loss.distillation.alpha", alpha, 0.0, 1000.0, "0 to 1000")?;
                within("training.loss.distillation.beta", beta, 0.0, 1000.0, "0 to 1000")?;
                let key = "training.loss.distillation.warm_up_epochs";
                within(key, warm_up_epochs, 0.0, 100_000.0, "0 to 100000")
            }
            Some(Distillation::LogitMse { weight }) => {
                within("training.loss.distillation.weight", weight, 0.0, 1000.0, "0 to 1000")
            }
            _ => Ok(()),
        }
    }
}
