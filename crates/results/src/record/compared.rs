//! What a result compares and gates, before and after, and its accuracy for each thousand comparisons.

use network::cost::Counts;
use serde::{Deserialize, Serialize};

/// The counts of a result.
///
/// Its keys say `relus`, or `comparisons` beside `gated_values` where signs are shared. Records that were written with
/// `relus` beside `gated_values` can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Compared {
    /// What is left.
    pub counts: Counts,
    /// Comparisons of the network that it was made from.
    pub before: u64,
    /// Percent of accuracy per thousand comparisons (the papers' Acc./ReLU).
    pub accuracy_per_thousand: f64,
}

impl Compared {
    /// With an accuracy in percent.
    pub fn new(counts: Counts, before: u64, accuracy: f64) -> Self {
        Self { counts, before, accuracy_per_thousand: per_thousand(accuracy, counts.comparisons) }
    }
}

/// Percent of accuracy per thousand comparisons.
pub(crate) fn per_thousand(accuracy: f64, comparisons: u64) -> f64 {
    accuracy / (comparisons.max(1) as f64 / 1000.0)
}

/// The form of files.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    counts: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relus_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comparisons_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accuracy_per_kilorelu: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accuracy_per_thousand_comparisons: Option<f64>,
}

impl TryFrom<Written> for Compared {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let before = written.relus_before.or(written.comparisons_before);
        let accuracy = written.accuracy_per_kilorelu.or(written.accuracy_per_thousand_comparisons);
        Ok(Self {
            counts: written.counts,
            before: before.ok_or("missing `relus_before`, or `comparisons_before` where signs are shared")?,
            accuracy_per_thousand: accuracy.ok_or(
                "missing `accuracy_per_kilorelu`, or `accuracy_per_thousand_comparisons` where signs are shared",
            )?,
        })
    }
}

impl From<Compared> for Written {
    fn from(compared: Compared) -> Self {
        let Compared { counts, before, accuracy_per_thousand } = compared;
        let is_shared = counts.shares_signs();
        Self {
            counts,
            relus_before: (!is_shared).then_some(before),
            comparisons_before: is_shared.then_some(before),
            accuracy_per_kilorelu: (!is_shared).then_some(accuracy_per_thousand),
            accuracy_per_thousand_comparisons: is_shared.then_some(accuracy_per_thousand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_per_thousand_comparisons_is_that_of_the_tables() {
        // DeepReShape Table 5: 52.2K ReLUs, 77.14%.
        assert!((per_thousand(77.14, 52_224) - 1.48).abs() < 0.005);
    }

    #[test]
    fn a_record_with_shared_signs_has_nothing_called_relus() {
        let shared = Compared::new(Counts { comparisons: 1000, gated_values: 3000 }, 4000, 70.0);
        let text = serde_json::to_string(&shared).unwrap();
        assert!(!text.contains("relu") && text.contains("\"comparisons_before\":4000"), "{text}");
        assert_eq!(serde_json::from_str::<Compared>(&text).unwrap(), shared);
        let before = r#"{"relus":1000,"relus_before":4000,"gated_values":3000,"accuracy_per_kilorelu":70.0}"#;
        assert_eq!(serde_json::from_str::<Compared>(before).unwrap(), shared);
        let plain = Compared::new(Counts { comparisons: 1000, gated_values: 0 }, 4000, 70.0);
        let text = serde_json::to_string(&plain).unwrap();
        assert_eq!(text, r#"{"relus":1000,"relus_before":4000,"accuracy_per_kilorelu":70.0}"#);
        let half = serde_json::from_str::<Compared>(r#"{"relus":1000,"relus_before":4000}"#).unwrap_err();
        assert!(half.to_string().contains("accuracy_per_kilorelu"), "{half}");
    }
}
