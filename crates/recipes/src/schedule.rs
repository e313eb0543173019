//! Learning rates and warm-ups as pure functions of the step, so that a resumed run needs no state of theirs.
//!
//! The papers' schedules: step decay (DeepReDuce 4, SNL 4), cosine (DeepReShape 5, Sphynx appendix D), cosine after a
//! linear warm-up (usual for large batches).

use crate::recipe::UpdateEvery;

/// How the learning rate falls after its warm-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Decay {
    /// Not at all.
    Constant,
    /// Half a wave of a cosine, from the peak to the floor.
    Cosine {
        /// The last value.
        floor: f64,
    },
    /// A straight line from the peak to the floor.
    Linear {
        /// The last value.
        floor: f64,
    },
    /// Times a factor at each of some epochs.
    Step {
        /// Epochs that begin with a smaller rate, ascending.
        milestones: Vec<u32>,
        /// What each of them multiplies by.
        factor: f64,
    },
}

/// The learning rate of every step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningRate {
    /// The largest rate.
    pub peak: f64,
    /// Epochs in which it rises from almost nothing to the peak.
    pub warm_up_epochs: f64,
    /// How it falls afterwards.
    pub decay: Decay,
    /// How often it changes.
    pub update: UpdateEvery,
    /// Epochs of the whole run.
    pub epochs: u32,
    /// Batches of an epoch.
    pub steps_per_epoch: u64,
}

impl LearningRate {
    /// The rate of a step, counted from 0 over the whole run.
    pub fn at(&self, step: u64) -> f64 {
        let steps = self.steps_per_epoch.max(1);
        let epoch = step as f64 / steps as f64;
        if epoch < self.warm_up_epochs {
            // The first step already moves.
            return self.peak * ((step + 1) as f64 / (self.warm_up_epochs * steps as f64)).min(1.0);
        }
        let epoch = match self.update {
            UpdateEvery::Step => epoch,
            UpdateEvery::Epoch => epoch.floor(),
        };
        let span = f64::from(self.epochs) - self.warm_up_epochs;
        let progress = if span > 0.0 { ((epoch - self.warm_up_epochs) / span).clamp(0.0, 1.0) } else { 1.0 };
        match &self.decay {
            Decay::Constant => self.peak,
            Decay::Cosine { floor } => {
                floor + (self.peak - floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
            Decay::Linear { floor } => floor + (self.peak - floor) * (1.0 - progress),
            Decay::Step { milestones, factor } => {
                let passed = milestones.iter().filter(|milestone| epoch >= f64::from(**milestone)).count();
                self.peak * factor.powi(passed as i32)
            }
        }
    }

    /// The rates of one epoch, counted from 0.
    pub fn of_epoch(&self, epoch: u32) -> Vec<f64> {
        let first = u64::from(epoch) * self.steps_per_epoch;
        (first..first + self.steps_per_epoch).map(|step| self.at(step)).collect()
    }
}

/// A number that goes in a straight line from one value to another and stays there.
///
/// Decoupled distillation's warm-up, Sphynx's drop-path probability and Gumbel temperatures are such numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// After so many epochs.
    pub epochs: f64,
}

impl Ramp {
    /// Always the same number.
    pub const fn constant(value: f64) -> Self {
        Self { from: value, to: value, epochs: 0.0 }
    }

    /// After some epochs, which may be a fraction.
    pub fn at(&self, epoch: f64) -> f64 {
        if epoch >= self.epochs {
            self.to
        } else {
            self.from + (self.to - self.from) * (epoch / self.epochs).max(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(decay: Decay, warm_up_epochs: f64, update: UpdateEvery, epochs: u32) -> LearningRate {
        LearningRate { peak: 0.1, warm_up_epochs, decay, update, epochs, steps_per_epoch: 10 }
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value} instead of {expected}");
    }

    #[test]
    fn deepreduce_divides_by_ten_every_thirty_epochs() {
        let decay = Decay::Step { milestones: vec![30, 60, 90], factor: 0.1 };
        let rate = rate(decay, 0.0, UpdateEvery::Epoch, 120);
        for (epoch, expected) in
            [(0, 0.1), (29, 0.1), (30, 0.01), (59, 0.01), (60, 0.001), (90, 1e-4), (119, 1e-4)]
        {
            assert_near(rate.at(epoch * 10), expected);
            assert_near(rate.at(epoch * 10 + 9), expected);
        }
    }

    #[test]
    fn snl_divides_by_ten_at_half_and_three_quarters() {
        let rate = rate(Decay::Step { milestones: vec![80, 120], factor: 0.1 }, 0.0, UpdateEvery::Epoch, 160);
        for (epoch, expected) in [(79, 0.1), (80, 0.01), (119, 0.01), (120, 0.001), (159, 0.001)] {
            assert_near(rate.at(epoch * 10), expected);
        }
    }

    #[test]
    fn a_cosine_by_epochs_has_the_values_of_its_formula() {
        let rate = rate(Decay::Cosine { floor: 0.0 }, 0.0, UpdateEvery::Epoch, 200);
        for (epoch, expected) in
            [(0, 0.1), (50, 0.085_355_339_059_327_38), (100, 0.05), (150, 0.014_644_660_940_672_627)]
        {
            assert_near(rate.at(epoch * 10), expected);
            assert_near(rate.at(epoch * 10 + 9), expected);
        }
        assert_near(rate.at(1990), 0.05 * (1.0 + (std::f64::consts::PI * 199.0 / 200.0).cos()));
    }

    #[test]
    fn a_cosine_by_steps_falls_with_every_step_to_its_floor() {
        let rate = rate(Decay::Cosine { floor: 0.001 }, 0.0, UpdateEvery::Step, 20);
        let rates: Vec<f64> = (0..=200).map(|step| rate.at(step)).collect();
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0]));
        assert_near(rates[0], 0.1);
        assert_near(rates[200], 0.001);
        assert_near(rate.at(1000), 0.001);
        assert_eq!(rate.of_epoch(3), rates[30..40]);
    }

    #[test]
    fn a_warm_up_rises_in_a_line_and_moves_from_the_first_step() {
        let rate = rate(Decay::Linear { floor: 0.0 }, 2.0, UpdateEvery::Step, 12);
        assert_near(rate.at(0), 0.005);
        assert_near(rate.at(19), 0.1);
        assert_near(rate.at(20), 0.1);
        assert_near(rate.at(70), 0.05);
        assert_near(rate.at(120), 0.0);
    }

    #[test]
    fn a_ramp_stays_at_its_end() {
        let ramp = Ramp { from: 0.0, to: 0.2, epochs: 600.0 };
        assert_near(ramp.at(0.0), 0.0);
        assert_near(ramp.at(300.0), 0.1);
        assert_near(ramp.at(700.0), 0.2);
        assert_near(Ramp::constant(4.0).at(0.0), 4.0);
    }
}
