//! What a result was and how it came about: one JSON object that another person can check.

use serde::{Deserialize, Serialize};

use crate::recipe::Recipe;

/// One trained network of few ReLUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRecord {
    /// What to call it.
    pub title: String,
    /// Which method made it.
    pub method: String,
    /// The network as reduced.
    pub network: String,
    /// What everything was drawn from.
    pub seed: u64,
    /// Scalars that pass through a ReLU.
    pub relus: u64,
    /// What the network had before.
    pub relus_before: u64,
    /// Multiply-adds.
    pub macs: u64,
    /// Which images the accuracies are on: `test` or `held-out`.
    pub measured_on: String,
    /// In percent, last epoch.
    pub float_accuracy: f64,
    /// In percent, on the test images, last epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<f64>,
    /// In percent, of the frozen model; absent until it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer_accuracy: Option<f64>,
    /// Percent of accuracy per thousand ReLUs (the papers' Acc./ReLU).
    pub accuracy_per_kilorelu: f64,
    /// Where the checkpoint is.
    pub checkpoint: String,
    /// All that the last run needed.
    pub recipe: Recipe,
}

impl ResultRecord {
    /// Percent of accuracy per thousand ReLUs.
    pub fn per_kilorelu(accuracy: f64, relus: u64) -> f64 {
        accuracy / (relus.max(1) as f64 / 1000.0)
    }
}

/// A part of one in percent.
pub fn percent(part: f64) -> f64 {
    part * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_per_thousand_relus_is_that_of_the_tables() {
        // DeepReShape Table 5: 52.2K ReLUs, 77.14%.
        assert!((ResultRecord::per_kilorelu(77.14, 52_224) - 1.48).abs() < 0.005);
    }
}
