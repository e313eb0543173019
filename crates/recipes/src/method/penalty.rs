//! How strongly keep scores are pushed to zero, epoch by epoch (SNL section 3; the schedule is the authors' code's).
//!
//! A pure state machine: after each epoch it is told how many scores still stand above the threshold, and says what
//! the next epoch's penalty is, or that the budget is reached.

use serde::{Deserialize, Serialize};

/// How the penalty moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PenaltySchedule {
    /// The authors': it starts small, and is raised after an epoch whose count is not below the lowest seen before.
    Patient {
        /// The first penalty.
        #[serde(default = "first_patient")]
        first: f64,
        /// What it is multiplied by.
        #[serde(default = "raise")]
        raise: f64,
        /// The first epoch, counted from 0, after which it may be raised.
        #[serde(default = "five")]
        hold_epochs: u32,
    },
    /// Reaches the budget in about so many epochs: the count is led down a curve that falls by the same factor in
    /// every epoch; above the curve the penalty is raised, below it lowered.
    Paced {
        /// The first penalty.
        #[serde(default = "first_paced")]
        first: f64,
        /// What it is multiplied or divided by.
        #[serde(default = "pace_raise")]
        raise: f64,
        /// Epochs before the curve begins to fall: scores need some to come down from 1.
        #[serde(default = "five")]
        hold_epochs: u32,
        /// When the budget shall be reached.
        epochs: u32,
    },
}

fn first_patient() -> f64 {
    1e-5
}

fn raise() -> f64 {
    1.1
}

fn five() -> u32 {
    5
}

fn first_paced() -> f64 {
    2e-5
}

fn pace_raise() -> f64 {
    1.3
}

impl Default for PenaltySchedule {
    fn default() -> Self {
        Self::Patient { first: first_patient(), raise: raise(), hold_epochs: five() }
    }
}

/// The state of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Penalty {
    schedule: PenaltySchedule,
    budget: u64,
    start: u64,
    value: f64,
    lowest: u64,
    epochs_done: u32,
}

impl Penalty {
    /// A search from `start` ReLUs down to `budget`.
    pub fn new(schedule: PenaltySchedule, start: u64, budget: u64) -> Self {
        let value = match schedule {
            PenaltySchedule::Patient { first, .. } | PenaltySchedule::Paced { first, .. } => first,
        };
        Self { schedule, budget, start, value, lowest: start, epochs_done: 0 }
    }

    /// The weight of the sum of absolute keep scores in the next epoch.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// How many epochs were told.
    pub fn epochs_done(&self) -> u32 {
        self.epochs_done
    }

    /// Takes the count after an epoch; whether the budget is reached.
    pub fn observe(&mut self, count: u64) -> bool {
        let epoch = self.epochs_done;
        self.epochs_done += 1;
        if count <= self.budget {
            return true;
        }
        match self.schedule {
            PenaltySchedule::Patient { raise, hold_epochs, .. } => {
                if count >= self.lowest && epoch >= hold_epochs {
                    self.value *= raise;
                }
            }
            PenaltySchedule::Paced { raise, hold_epochs, epochs, .. } => {
                let falling = f64::from(self.epochs_done) - f64::from(hold_epochs);
                let span = f64::from(epochs.saturating_sub(hold_epochs).max(1));
                let wanted = self.wanted((falling / span).clamp(0.0, 1.0));
                if count as f64 > wanted && falling > 0.0 && !self.falls_enough(count, epochs) {
                    self.value *= raise;
                } else if (count as f64) < wanted {
                    self.value /= raise;
                }
            }
        }
        self.lowest = self.lowest.min(count);
        false
    }

    /// The count of the curve after a part of the search.
    fn wanted(&self, part: f64) -> f64 {
        let (start, budget) = (self.start as f64, self.budget as f64);
        start * (budget / start).powf(part)
    }

    /// Whether going on as in the last epoch would reach the budget in time; then no more pressure is needed.
    fn falls_enough(&self, count: u64, epochs: u32) -> bool {
        let left = f64::from(epochs.saturating_sub(self.epochs_done).max(1));
        let needed = (self.budget as f64 / count as f64).powf(1.0 / left);
        (count as f64) < self.lowest as f64 * needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The penalties of the epochs after each count.
    fn values(schedule: PenaltySchedule, counts: &[u64]) -> Vec<f64> {
        let mut penalty = Penalty::new(schedule, 1000, 100);
        counts
            .iter()
            .map(|&count| {
                assert!(!penalty.observe(count));
                penalty.value()
            })
            .collect()
    }

    #[test]
    fn the_first_five_epochs_never_raise_the_penalty() {
        let stuck = values(PenaltySchedule::default(), &[1000; 8]);
        assert_eq!(stuck[..5], [1e-5; 5]);
        assert_eq!(stuck[5], 1e-5 * 1.1);
        assert_eq!(stuck[7], 1e-5 * 1.1 * 1.1 * 1.1);
    }

    #[test]
    fn the_count_is_compared_with_the_lowest_seen() {
        // After 700 the count comes back to 900 and falls to 800: still no new lowest, so the penalty rises.
        let values = values(PenaltySchedule::default(), &[990, 980, 970, 960, 950, 700, 900, 800, 700, 699]);
        let raised: Vec<bool> = values.windows(2).map(|pair| pair[1] > pair[0]).collect();
        assert_eq!(raised, [false, false, false, false, false, true, true, true, false]);
    }

    #[test]
    fn the_budget_ends_the_search() {
        let mut penalty = Penalty::new(PenaltySchedule::default(), 1000, 100);
        assert!(!penalty.observe(101));
        assert!(penalty.observe(100));
        assert_eq!(penalty.epochs_done(), 2);
        assert!(Penalty::new(PenaltySchedule::default(), 1000, 100).observe(30));
    }

    #[test]
    fn a_paced_search_follows_its_curve() {
        let schedule = PenaltySchedule::Paced { first: 1.0, raise: 2.0, hold_epochs: 0, epochs: 10 };
        // The curve: 794, 631, 501, 398, ... Stuck at the top: up. Below the curve: down.
        assert_eq!(values(schedule, &[1000, 1000, 400]), [2.0, 4.0, 2.0]);
        // Above the curve but falling by more than the 10 epochs need: it stays.
        assert_eq!(values(schedule, &[1000, 650]), [2.0, 2.0]);
        // Nothing is raised before the curve falls.
        let late = PenaltySchedule::Paced { first: 1.0, raise: 2.0, hold_epochs: 3, epochs: 10 };
        assert_eq!(values(late, &[1000, 1000, 1000, 1000]), [1.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn the_state_survives_a_file() {
        let mut penalty = Penalty::new(PenaltySchedule::default(), 1000, 100);
        for _ in 0..9 {
            assert!(!penalty.observe(500));
        }
        let text = serde_json::to_string(&penalty).unwrap();
        assert_eq!(serde_json::from_str::<Penalty>(&text).unwrap(), penalty);
    }
}
