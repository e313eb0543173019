//! From the words of a recipe to those of the trainer.

use recipes::recipe::{DecayScope, Distillation, OptimizerChoice, Recipe, TrainingSection};
use recipes::schedule::{LearningRate, Ramp};

use crate::distill::Losses;
use crate::learn::{GraphUse, LearnOptions, Optimizer, StepRates};

/// What changes from step to step.
#[derive(Clone)]
pub(super) struct Rates {
    pub(super) rate: LearningRate,
    distillation: Ramp,
    drop_path: Ramp,
}

impl Rates {
    pub(super) fn new(training: &TrainingSection, steps_per_epoch: u64) -> Self {
        let warm_up = match training.loss.distillation {
            Some(Distillation::Dkd { warm_up_epochs, .. }) => warm_up_epochs,
            _ => 0.0,
        };
        Self {
            rate: training.schedule.rate(training.epochs, steps_per_epoch),
            distillation: Ramp { from: 0.0, to: 1.0, epochs: warm_up },
            drop_path: Ramp { from: 0.0, to: training.drop_path, epochs: f64::from(training.epochs) },
        }
    }

    /// The teacher's term and drop-path change with the epoch, as in their papers' code; the first epoch of a warm-up
    /// already has its share.
    pub(super) fn at(&self, step: u64) -> StepRates {
        let epoch = (step / self.rate.steps_per_epoch.max(1)) as f64;
        StepRates {
            learning_rate: self.rate.at(step) as f32,
            distillation: self.distillation.at(epoch + 1.0) as f32,
            drop_path: self.drop_path.at(epoch) as f32,
            ..StepRates::default()
        }
    }
}

/// What does not change.
pub(crate) fn learn_options(recipe: &Recipe) -> LearnOptions {
    let training = &recipe.training;
    let (optimizer, weight_decay, decay) = match training.optimizer {
        OptimizerChoice::Sgd { momentum, nesterov, weight_decay, decay } => {
            (Optimizer::Sgd { momentum: momentum as f32, nesterov }, weight_decay, decay)
        }
        OptimizerChoice::Adam { beta1, beta2, weight_decay, decay } => {
            let adam = Optimizer::Adam { beta1: beta1 as f32, beta2: beta2 as f32, epsilon: 1e-8 };
            (adam, weight_decay, decay)
        }
    };
    LearnOptions {
        seed: recipe.seed,
        batch: training.batch,
        optimizer,
        weight_decay: weight_decay as f32,
        decay_norms_and_biases: decay == DecayScope::All,
        clip: training.clip.map(|clip| clip as f32),
        ema: training.ema.map(|ema| ema as f32),
        losses: losses(training),
        augmentation: training.augmentation,
        views: recipe.teacher.as_ref().and_then(|teacher| teacher.views),
        graph: GraphUse::Auto,
    }
}

fn losses(training: &TrainingSection) -> Losses {
    Losses {
        label_smoothing: training.loss.label_smoothing as f32,
        distillation: training.loss.distillation,
        attention: training.loss.attention as f32,
        auxiliary_weight: training.auxiliary_head.map_or(0.0, |head| head.weight as f32),
    }
}
