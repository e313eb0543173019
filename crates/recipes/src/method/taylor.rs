//! Taylor scores with a progressive budget: SNL's search without a penalty.
//!
//! A keep score `c` of 1 is a ReLU, of 0 the identity. To first order the loss changes by `dL/dc` when the ReLU goes, so the
//! magnitude of that derivative, summed over the steps of an epoch, says how much the ReLU is worth. Weights learn, scores stay 0 or
//! 1. After each epoch the ReLUs worth least go, as many as a curve to the budget says, and the weights have an epoch to adapt.
//!
//! ReLUPruner (AAAI 2026) has the score and budgets that shrink step by step. Its rule for the budget of each layer is not used
//! here: derivatives of one loss are compared over all layers. The curve is geometric.

use network::spec::NetworkSpec;

use super::{Granularity, KeepScores};

/// How many ReLUs stay after an epoch, counted from 1: the same part goes in each, and the last one ends on the budget.
pub fn kept_after(start: u64, budget: u64, epoch: u32, epochs: u32) -> u64 {
    if epoch >= epochs || start <= budget {
        return budget.min(start);
    }
    let done = f64::from(epoch) / f64::from(epochs);
    let kept = start as f64 * (budget as f64 / start as f64).powf(done);
    (kept.round() as u64).clamp(budget, start)
}

/// The keep scores, 0 or 1, that are left when the least important go. Lists are one for each site: what each score is worth, and
/// what it was before. What went before does not come back.
///
/// # Panics
/// If the lists are another network's.
pub fn prune(
    spec: &NetworkSpec,
    granularity: Granularity,
    worth: Vec<Vec<f32>>,
    before: &[Vec<f32>],
    budget: u64,
) -> Vec<Vec<f32>> {
    let is_kept = |score: f32| score > super::THRESHOLD;
    let ranked = worth.into_iter().zip(before).zip(spec.walk().sites()).map(|((worth, before), site)| {
        // A whole channel pays for all its pixels.
        let price = match granularity {
            Granularity::Pixel => 1.0,
            Granularity::Channel => site.shape.pixels() as f32,
        };
        let rank = |(worth, before): (f32, &f32)| if is_kept(*before) { worth / price } else { -1.0 };
        worth.into_iter().zip(before).map(rank).collect()
    });
    let ranked: Vec<Vec<f32>> = ranked.collect();
    let scores = KeepScores::new(spec, granularity, ranked).expect("there is a number for each score");
    let keeps = scores.best_bits(budget);
    let left = |keeps: Vec<bool>, before: &Vec<f32>| -> Vec<f32> {
        let stays = keeps.into_iter().zip(before).map(|(keep, before)| keep && is_kept(*before));
        stays.map(|stays| f32::from(u8::from(stays))).collect()
    };
    keeps.into_iter().zip(before).map(|(keeps, before)| left(keeps, before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::zoo;

    #[test]
    fn the_count_falls_by_the_same_part_to_the_budget() {
        let counts: Vec<u64> = (0..=6).map(|epoch| kept_after(1600, 100, epoch, 4)).collect();
        assert_eq!(counts, [1600, 800, 400, 200, 100, 100, 100]);
        assert_eq!(kept_after(50, 100, 1, 4), 50);
    }

    #[test]
    fn the_least_worth_go_and_do_not_come_back() {
        let spec = zoo::build("resnet18:m=1,depths=1+1+1+1", 8, 10).unwrap();
        let lists = |value: &dyn Fn(usize, usize) -> f32| -> Vec<Vec<f32>> {
            let site = |(site, it): (usize, &network::walk::ReluSite)| {
                (0..it.shape.scalars() as usize).map(|index| value(site, index)).collect()
            };
            spec.walk().sites().iter().enumerate().map(site).collect()
        };
        // The first site is gone, and would be worth most.
        let before = lists(&|site, _| if site == 0 { 0.0 } else { 1.0 });
        let worth = lists(&|site, index| if site == 0 { 9.0 } else { (index % 5) as f32 });
        let after = prune(&spec, Granularity::Pixel, worth.clone(), &before, 60);
        let kept: f32 = after.iter().flatten().sum();
        assert_eq!(kept, 60.0);
        assert!(after[0].iter().all(|score| *score == 0.0));
        let lowest = |keep: f32| {
            let all = after.iter().zip(&worth).skip(1).flat_map(|(after, worth)| after.iter().zip(worth));
            all.filter(|(after, _)| **after == keep).map(|(_, worth)| *worth).collect::<Vec<f32>>()
        };
        let (kept, gone) = (lowest(1.0), lowest(0.0));
        let least = kept.iter().copied().fold(f32::INFINITY, f32::min);
        assert!(gone.iter().all(|worth| *worth <= least));
    }

    #[test]
    fn a_channel_is_weighed_by_its_pixels() {
        let spec = zoo::build("resnet18:m=2,depths=1+1+1+1", 8, 10).unwrap();
        let lists = |value: f32| -> Vec<Vec<f32>> {
            spec.walk().sites().iter().map(|site| vec![value; site.shape.channels]).collect()
        };
        let before = lists(1.0);
        let all: u64 = spec.walk().sites().iter().map(|site| site.shape.scalars()).sum();
        // All are worth the same, so the largest maps go first.
        let after = prune(&spec, Granularity::Channel, lists(1.0), &before, all - 64);
        assert_eq!(after.iter().flatten().sum::<f32>() + 1.0, before.iter().flatten().sum::<f32>());
        assert_eq!(after.last(), before.last());
    }
}
