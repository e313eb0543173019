//! Memorization capacity of linearized networks (SNL section 5): why early ReLUs can go first.
//!
//! For a network of two hidden layers of d1 and d2 neurons, the bounds count linear pieces: Theorem 1 for all ReLUs
//! kept, Corollary 1 when fractions a1 and a2 stay and the rest becomes the identity, Corollary 2 when the rest is
//! pruned away. Theorem 2 gives the fractions that make the first bound largest for a budget.

/// The sizes of the two hidden layers and the pieces of the activation (2 for ReLU).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Neurons of the first hidden layer.
    pub first: f64,
    /// Neurons of the second hidden layer.
    pub second: f64,
    /// Linear pieces of the activation.
    pub pieces: f64,
}

impl Capacity {
    /// A ReLU network.
    pub fn relu(first: u64, second: u64) -> Self {
        Self { first: first as f64, second: second as f64, pieces: 2.0 }
    }

    /// The bound with every activation kept (Theorem 1).
    pub fn full(&self) -> f64 {
        linearized_capacity(self, Retention { first: 1.0, second: 1.0 })
    }
}

/// The fractions of activations that stay in the two hidden layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retention {
    /// Of the first layer.
    pub first: f64,
    /// Of the second layer.
    pub second: f64,
}

/// The bound when the other activations become the identity (Corollary 1).
pub fn linearized_capacity(network: &Capacity, kept: Retention) -> f64 {
    let extra = kept.first * (1.0 - kept.second) * network.first * network.second * (network.pieces - 1.0);
    pruned_capacity(network, kept) + extra
}

/// The bound when the other neurons are removed (Corollary 2).
pub fn pruned_capacity(network: &Capacity, kept: Retention) -> f64 {
    let Capacity { first, second, pieces } = *network;
    kept.first * kept.second * first * second * pieces * (pieces - 1.0)
        + kept.second * second * (pieces - 1.0)
        + 2.0
}

/// The fractions that maximize the bound of Corollary 1 for a number of ReLUs (Theorem 2).
///
/// Theorem 2 states the interior optimum; where it lies outside [0, 1] the nearest edge is the answer.
pub fn optimal_retention(first: u64, second: u64, budget: u64) -> Retention {
    if budget >= first.saturating_add(second) {
        return Retention { first: 1.0, second: 1.0 };
    }
    let (first, second, budget) = (first as f64, second as f64, budget as f64);
    let interior = (budget - second + 1.0) / 2.0;
    // The second layer keeps at most all of its own, at least what the first cannot hold, and never less than none.
    let lowest = (budget - first).max(0.0);
    let highest = second.min(budget);
    let kept_second = interior.max(lowest).min(highest);
    Retention { first: (budget - kept_second) / first, second: kept_second / second }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_paper() {
        let kept = optimal_retention(50_000, 5_000, 10_000);
        assert!((kept.first - 0.14999).abs() < 1e-9);
        assert!((kept.second - 0.5001).abs() < 1e-9);
    }

    #[test]
    fn bounds_for_relus_are_the_simplified_ones() {
        let network = Capacity::relu(300, 20);
        assert_eq!(network.full(), 2.0 * 300.0 * 20.0 + 20.0 + 2.0);
        let kept = Retention { first: 0.5, second: 0.25 };
        assert_eq!(linearized_capacity(&network, kept), 0.5 * 1.25 * 6000.0 + 0.25 * 20.0 + 2.0);
        assert_eq!(pruned_capacity(&network, kept), 2.0 * 0.125 * 6000.0 + 0.25 * 20.0 + 2.0);
    }

    proptest! {
        #[test]
        fn no_other_split_of_the_budget_is_better(
            first in 1_u64..400, second in 1_u64..400, share in 0.0..1.0_f64, other in 0.0..1.0_f64,
        ) {
            let network = Capacity::relu(first, second);
            let budget = ((first + second) as f64 * share) as u64;
            let best = optimal_retention(first, second, budget);
            prop_assert!((0.0..=1.0).contains(&best.first) && (0.0..=1.0).contains(&best.second));
            let used = best.first * first as f64 + best.second * second as f64;
            prop_assert!((used - budget as f64).abs() < 1e-6);
            let lowest = (budget as f64 - first as f64).max(0.0);
            let highest = (second as f64).min(budget as f64);
            let kept_second = lowest + other * (highest - lowest);
            let candidate = Retention {
                first: (budget as f64 - kept_second) / first as f64,
                second: kept_second / second as f64,
            };
            prop_assert!(linearized_capacity(&network, best) >= linearized_capacity(&network, candidate) - 1e-6);
        }
    }
}
