//! How many ReLUs the scores keep, read from the device as one number, and when to look again.

use recipes::method::{Granularity, THRESHOLD};

use crate::assemble::TrainableNetwork;
use crate::tensor::{Kind, Tensor, no_grad, to_integers};

/// Adam moves a score by about its rate in a step, in bursts by more.
const LARGEST_MOVE: f32 = 2.0;

/// Counts scores on the device.
pub(super) struct Counter {
    /// For each scored site, the ReLUs that one of its scores stands for.
    weights: Vec<i64>,
}

impl Counter {
    pub(super) fn new(network: &TrainableNetwork, granularity: Granularity) -> Self {
        let sites = network.spec().walk().sites();
        let weight = |site: usize| match granularity {
            Granularity::Pixel => 1,
            Granularity::Channel => sites[site].shape.pixels() as i64,
        };
        Self { weights: network.keep_scores().iter().map(|(site, _)| weight(site.0)).collect() }
    }

    /// ReLUs whose score is above a threshold.
    pub(super) fn above(&self, network: &TrainableNetwork, threshold: f32) -> u64 {
        let count = |(score, weight): ((network::walk::SiteIndex, &Tensor), &i64)| {
            score.1.gt(f64::from(threshold)).sum(Kind::Int64) * *weight
        };
        no_grad(|| {
            let counts: Vec<Tensor> =
                network.keep_scores().into_iter().zip(&self.weights).map(count).collect();
            let total = Tensor::stack(&counts, 0).sum(Kind::Int64);
            u64::try_from(to_integers(&total)[0]).unwrap_or(0)
        })
    }
}

/// After how many steps to look again, at most `longest`, so that the count cannot fall past `stop` unseen: scores that
/// stand high enough above the threshold cannot cross it sooner.
pub(super) fn next_look(above: impl Fn(f32) -> u64, stop: u64, learning_rate: f32, longest: u64) -> u64 {
    let mut steps = longest;
    while steps > 1 && above(THRESHOLD + LARGEST_MOVE * learning_rate * steps as f32) < stop {
        steps /= 4;
    }
    steps.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_closer_as_scores_come_down() {
        // 100 scores at a height, the budget is 50.
        let looks =
            |height: f32| next_look(|threshold| if height > threshold { 100 } else { 0 }, 50, 1e-3, 64);
        assert_eq!(looks(1.0), 64);
        assert_eq!(looks(0.1), 16);
        assert_eq!(looks(0.02), 4);
        assert_eq!(looks(0.011), 1);
    }
}
