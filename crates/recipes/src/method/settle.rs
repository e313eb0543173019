//! From keep scores to an exact 0/1 mask.
//!
//! A score above the threshold keeps its ReLU (SNL section 3; 0.01 in the authors' code). The search itself goes down
//! to the budget; what is left is a small difference, moved by rank: the lowest kept scores go, or the highest
//! dropped ones come back. A large difference must not be moved so, for rank among kept scores says little: cutting
//! 93K to 50K by rank left 4% accuracy.

use network::cost::Cost;
use network::mask::{ActivationMask, Bits, MaskMismatch, SiteMask};
use network::shape::Shape;
use network::spec::NetworkSpec;
use serde::{Deserialize, Serialize};

/// Above it a score keeps its ReLU.
pub const THRESHOLD: f32 = 0.01;
/// The largest part of the budget that may be moved by rank.
pub const MAX_MOVED: f64 = 0.02;

/// What a keep score decides about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// One scalar of a ReLU layer.
    #[default]
    Pixel,
    /// A whole channel.
    Channel,
}

/// The scores of all sites of a network, in the order of its walk.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepScores {
    granularity: Granularity,
    sites: Vec<(Shape, Vec<f32>)>,
}

/// A mask and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Which ReLUs stay.
    pub mask: ActivationMask,
    /// How many ReLUs the scores alone would have kept.
    pub by_threshold: u64,
    /// How many were moved by rank.
    pub moved: u64,
}

impl KeepScores {
    /// One list per site: a number for each scalar, or for each channel.
    ///
    /// # Errors
    /// When there are not as many as the network's sites need.
    pub fn new(
        spec: &NetworkSpec,
        granularity: Granularity,
        scores: Vec<Vec<f32>>,
    ) -> Result<Self, MaskMismatch> {
        let sites = spec.walk().sites();
        if sites.len() != scores.len() {
            return Err(MaskMismatch::Sites { expected: sites.len(), came: scores.len() });
        }
        let length = |shape: Shape| match granularity {
            Granularity::Pixel => shape.scalars() as usize,
            Granularity::Channel => shape.channels,
        };
        for (site, scores) in sites.iter().zip(&scores) {
            let (expected, came) = (length(site.shape), scores.len());
            if expected != came {
                return Err(MaskMismatch::Bits { site: site.name.clone(), expected, came });
            }
        }
        Ok(Self { granularity, sites: sites.iter().map(|site| site.shape).zip(scores).collect() })
    }

    /// ReLUs that one score of a site stands for.
    fn weight(&self, shape: Shape) -> u64 {
        match self.granularity {
            Granularity::Pixel => 1,
            Granularity::Channel => shape.pixels(),
        }
    }

    /// How many ReLUs the scores above the threshold keep.
    pub fn kept(&self, threshold: f32) -> u64 {
        let site = |(shape, scores): &(Shape, Vec<f32>)| {
            self.weight(*shape) * scores.iter().filter(|score| **score > threshold).count() as u64
        };
        self.sites.iter().map(site).sum()
    }

    /// How many ReLUs of each site the scores above the threshold keep.
    pub fn kept_by_site(&self, threshold: f32) -> Vec<u64> {
        let kept = |scores: &Vec<f32>| scores.iter().filter(|score| **score > threshold).count() as u64;
        self.sites.iter().map(|(shape, scores)| self.weight(*shape) * kept(scores)).collect()
    }

    /// The mask that keeps exactly `budget` ReLUs; with scores per channel the most that whole channels allow.
    ///
    /// # Errors
    /// When more than `max_moved` of the budget would have to be moved by rank.
    ///
    /// # Panics
    /// If the scores are another network's.
    pub fn settle(&self, spec: &NetworkSpec, budget: u64, max_moved: f64) -> Result<Settled, SettleError> {
        let by_threshold = self.kept(THRESHOLD);
        let moved = by_threshold.abs_diff(budget);
        let allowed = (budget as f64 * max_moved).floor() as u64;
        if moved > allowed {
            let noun = Cost::of(spec).counts().noun();
            return Err(SettleError::TooFar { kept: by_threshold, noun, budget, allowed });
        }
        let mask = self.best(spec, budget);
        Ok(Settled { moved: by_threshold.abs_diff(mask.relu_count()), mask, by_threshold })
    }

    fn best(&self, spec: &NetworkSpec, budget: u64) -> ActivationMask {
        self.to_mask(spec, self.best_bits(budget))
    }

    /// The highest scores, as many as fit the budget. Of equals the earlier one stays.
    pub(super) fn best_bits(&self, budget: u64) -> Vec<Vec<bool>> {
        let mut ranked: Vec<(f32, u32, u32)> = Vec::new();
        for (site, (_, scores)) in (0..).zip(&self.sites) {
            ranked.extend((0..).zip(scores).map(|(index, score)| (*score, site, index)));
        }
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut keeps: Vec<Vec<bool>> =
            self.sites.iter().map(|(_, scores)| vec![false; scores.len()]).collect();
        let mut left = budget;
        for (_, site, index) in ranked {
            let weight = self.weight(self.sites[site as usize].0);
            if weight <= left {
                keeps[site as usize][index as usize] = true;
                left -= weight;
            } else if left == 0 {
                break;
            }
        }
        keeps
    }

    /// The mask of the scores above a threshold.
    ///
    /// # Panics
    /// If the scores are another network's.
    pub fn mask_above(&self, spec: &NetworkSpec, threshold: f32) -> ActivationMask {
        let keeps = |scores: &Vec<f32>| scores.iter().map(|score| *score > threshold).collect();
        self.to_mask(spec, self.sites.iter().map(|(_, scores)| keeps(scores)).collect())
    }

    fn to_mask(&self, spec: &NetworkSpec, keeps: Vec<Vec<bool>>) -> ActivationMask {
        let site_mask =
            |keeps: Vec<bool>| match (keeps.iter().all(|keep| *keep), keeps.iter().any(|keep| *keep)) {
                (true, _) => SiteMask::KeepAll,
                (_, false) => SiteMask::DropAll,
                _ if self.granularity == Granularity::Channel => SiteMask::Channels(Bits::collect(keeps)),
                _ => SiteMask::Pixels(Bits::collect(keeps)),
            };
        ActivationMask::new(spec, keeps.into_iter().map(site_mask).collect())
            .expect("there is one bit for each score, and the scores fit the network")
    }
}

/// Scores that do not lead to the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// Too many would have to be moved by rank.
    #[error(
        "the scores keep {kept} {noun} for a budget of {budget}; at most {allowed} may be moved by rank. Search longer, \
         or with a smaller penalty"
    )]
    TooFar {
        /// What the scores keep.
        kept: u64,
        /// What those are called.
        noun: &'static str,
        /// What was asked for.
        budget: u64,
        /// What may be moved.
        allowed: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::walk::SiteIndex;
    use network::zoo;
    use proptest::prelude::*;

    /// ReLUs of the sites: stem, two blocks of two each.
    fn network() -> NetworkSpec {
        zoo::build("resnet18:m=1,depths=1+1+1+1", 8, 10).unwrap()
    }

    fn scores(granularity: Granularity, value: impl Fn(usize) -> f32) -> KeepScores {
        let spec = network();
        let mut next = 0..;
        let mut list = |site: &network::walk::ReluSite| {
            let count = match granularity {
                Granularity::Pixel => site.shape.scalars() as usize,
                Granularity::Channel => site.shape.channels,
            };
            next.by_ref().take(count).map(&value).collect::<Vec<f32>>()
        };
        let lists = spec.walk().sites().iter().map(&mut list).collect();
        KeepScores::new(&spec, granularity, lists).unwrap()
    }

    #[test]
    fn only_scores_above_the_threshold_count() {
        let all = network::mask::ActivationMask::keep_all(&network()).relu_count();
        assert_eq!(scores(Granularity::Pixel, |_| 0.5).kept(THRESHOLD), all);
        assert_eq!(scores(Granularity::Channel, |_| 0.5).kept(THRESHOLD), all);
        assert_eq!(scores(Granularity::Pixel, |_| THRESHOLD).kept(THRESHOLD), 0);
        // Scores may leave the unit interval: below zero they drop, above one they keep.
        assert_eq!(scores(Granularity::Pixel, |index| if index < 7 { 1.2 } else { -0.3 }).kept(THRESHOLD), 7);
    }

    #[test]
    fn the_budget_is_hit_exactly_from_both_sides() {
        for kept in [98, 100, 102] {
            let scores =
                scores(Granularity::Pixel, |index| if index < kept { 1.0 - index as f32 / 1e3 } else { 0.0 });
            let settled = scores.settle(&network(), 100, MAX_MOVED).unwrap();
            assert_eq!((settled.mask.relu_count(), settled.by_threshold), (100, kept as u64));
            assert_eq!(settled.moved, 100_u64.abs_diff(kept as u64));
        }
    }

    #[test]
    fn the_lowest_scores_go_first() {
        // The stem's 64 scores are the lowest of those kept.
        let scores = scores(Granularity::Pixel, |index| if index < 64 { 0.02 } else { 0.5 });
        let all = scores.kept(THRESHOLD);
        let settled = scores.settle(&network(), all - 2, MAX_MOVED).unwrap();
        assert_eq!(settled.mask.relu_count_at(SiteIndex(0)), 62);
        assert_eq!(settled.mask.relu_count(), all - 2);
    }

    #[test]
    fn more_than_two_percent_is_refused() {
        let scores = scores(Granularity::Pixel, |index| if index < 103 { 1.0 } else { 0.0 });
        let error = scores.settle(&network(), 100, MAX_MOVED).unwrap_err();
        assert_eq!(error, SettleError::TooFar { kept: 103, noun: "ReLUs", budget: 100, allowed: 2 });
    }

    #[test]
    fn whole_channels_never_exceed_the_budget() {
        let scores = scores(Granularity::Channel, |_| 1.0);
        let all = scores.kept(THRESHOLD);
        let settled = scores.settle(&network(), all - 1, 0.5).unwrap();
        assert!(settled.mask.relu_count() < all);
        assert!(all - settled.mask.relu_count() <= 64);
    }

    #[test]
    fn scores_of_another_network_are_refused() {
        let spec = network();
        assert!(KeepScores::new(&spec, Granularity::Pixel, vec![]).is_err());
        let lists = vec![vec![1.0]; spec.walk().sites().len()];
        assert!(KeepScores::new(&spec, Granularity::Pixel, lists).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_scores_near_the_budget_settle_on_it(values in prop::collection::vec(-0.2..1.2_f32, 1..97)) {
            let scores = scores(Granularity::Pixel, |index| values[index % values.len()]);
            let kept = scores.kept(THRESHOLD);
            if kept > 50 {
                let budget = kept - kept / 64;
                let settled = scores.settle(&network(), budget, MAX_MOVED).unwrap();
                prop_assert_eq!(settled.mask.relu_count(), budget);
            }
        }
    }
}
