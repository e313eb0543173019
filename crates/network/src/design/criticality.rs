//! How much a stage's ReLUs are worth (DeepReDuce section 3.1, equation 1).

use crate::walk::StageIndex;

/// The exponent w of the ReLU count in equation 1.
pub const CRITICALITY_EXPONENT: f64 = 0.07;

/// C_k of each stage: how much more accurate a network with ReLUs in that stage alone is than with ReLUs in the
/// worst one, over its ReLUs (in thousands, as the papers' tables have it) to the power w.
///
/// # Panics
/// If there are not as many accuracies as counts.
pub fn stage_criticality(accuracies: &[f64], relus: &[u64]) -> Vec<f64> {
    assert_eq!(accuracies.len(), relus.len(), "one accuracy and one count per stage");
    let worst = accuracies.iter().copied().fold(f64::INFINITY, f64::min);
    let criticality = |(accuracy, count): (&f64, &u64)| {
        (accuracy - worst) / (*count as f64 / 1000.0).powf(CRITICALITY_EXPONENT)
    };
    accuracies.iter().zip(relus).map(criticality).collect()
}

/// All stages of a network, from the most to the least critical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalityOrder(Vec<StageIndex>);

impl CriticalityOrder {
    /// The most stages an order may name.
    pub const MAX_STAGES: usize = 16;

    /// An order that names each stage from 1 to D once.
    ///
    /// # Errors
    /// When one is missing, repeated or out of range, or there are fewer than two or more than
    /// [`Self::MAX_STAGES`].
    pub fn new(most_to_least: Vec<StageIndex>) -> Result<Self, OrderError> {
        let count = most_to_least.len();
        let is_named_once = |stage| most_to_least.iter().filter(|named| named.0 == stage).count() == 1;
        if !(2..=Self::MAX_STAGES).contains(&count) || !(1..=count).all(is_named_once) {
            let came = most_to_least.iter().map(|stage| stage.0.to_string()).collect::<Vec<_>>().join(",");
            return Err(OrderError { came });
        }
        Ok(Self(most_to_least))
    }

    /// Reads `3,2,4,1`.
    ///
    /// # Errors
    /// When the text is no such list.
    pub fn parse(text: &str) -> Result<Self, OrderError> {
        let stages: Option<Vec<_>> =
            text.split(',').map(|part| part.trim().parse().ok().map(StageIndex)).collect();
        Self::new(stages.ok_or_else(|| OrderError { came: text.to_owned() })?)
    }

    /// The order that criticalities imply; of equals the earlier stage counts as less critical.
    ///
    /// # Errors
    /// When there are fewer than two.
    pub fn from_criticality(criticality: &[f64]) -> Result<Self, OrderError> {
        let mut stages: Vec<_> = (1..=criticality.len()).map(StageIndex).collect();
        stages.sort_by(|a, b| criticality[b.0 - 1].total_cmp(&criticality[a.0 - 1]).then(b.cmp(a)));
        Self::new(stages)
    }

    /// The stages, most critical first.
    pub fn most_to_least(&self) -> &[StageIndex] {
        &self.0
    }
}

/// A list that is no order of stages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{came:?} is no criticality order; name every stage once, most critical first, such as 3,2,4,1 (at most {} stages)",
    CriticalityOrder::MAX_STAGES
)]
pub struct OrderError {
    came: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_stage_has_no_criticality() {
        // DeepReDuce Table 1, ResNet18 with distillation: the order is S3, S2, S4, S1.
        let criticality =
            stage_criticality(&[59.85, 68.79, 69.9, 63.16], &[262_144, 131_072, 65_536, 32_768]);
        assert_eq!(criticality[0], 0.0);
        let order = CriticalityOrder::from_criticality(&criticality).unwrap();
        assert_eq!(order, CriticalityOrder::parse("3,2,4,1").unwrap());
    }

    #[test]
    fn orders_name_every_stage_once() {
        for bad in ["", "1", "1,1", "0,1", "1,3", "3,2,4", "a,b", "1,2,"] {
            assert!(CriticalityOrder::parse(bad).is_err(), "{bad}");
        }
        let stages = |count: usize| CriticalityOrder::new((1..=count).map(StageIndex).collect());
        assert!(stages(CriticalityOrder::MAX_STAGES).is_ok());
        assert!(stages(CriticalityOrder::MAX_STAGES + 1).is_err() && stages(70).is_err());
    }
}
