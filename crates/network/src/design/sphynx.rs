//! How many channels and cells a Sphynx network gets for a budget (Sphynx section 4.2, appendix F.1).
//!
//! ReLU balancing makes the count H0 * W0 * C * D exactly. The paper takes C and D of at least 5 whose count comes
//! close to the budget, from either side, and finds that it matters little which.

use std::cmp::Reverse;

use crate::zoo::{self, SPHYNX_PUBLISHED, ZooError};

/// The smallest channels and depth the paper uses.
const SMALLEST: u64 = 5;
/// The most channels and the most cells that the zoo builds together.
const MAX_CHANNELS: u64 = 1000;
const MAX_DEPTH: u64 = 500;
/// How far a count may lie from the budget to be listed.
pub const SPHYNX_TOLERANCE: f64 = 0.03;
/// How many choices are worth looking at.
const MAX_CHOICES: usize = 12;
/// How much of what a budget allows a rounder network may leave: so much that it has no other shape than the paper's. Ten
/// times as many cells as channels would spend a percent more and search ten times as many places.
const LEFT_OVER: f64 = 0.04;
/// The same of budgets too small for five channels and five cells, where shapes lie further apart.
const LEFT_OVER_OF_FEW: f64 = 0.15;

/// One way to spend a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SphynxChoice {
    /// Initial channels.
    pub channels: u64,
    /// Cells.
    pub depth: u64,
    /// ReLUs it has.
    pub relus: u64,
    /// How far that is from the budget, as a fraction of it; positive above.
    pub deviation: f64,
    /// Where the paper put the reduce cells of this very network, if it has it.
    pub published_reduce: Option<[usize; 2]>,
}

/// The twelve nearest choices within three percent of the budget, or the one below it that a search would take, in order of
/// channels. The zoo has every one of them.
///
/// # Errors
/// When there is no Sphynx network for images of this side.
pub fn sphynx_choices(budget: u64, side: usize) -> Result<Vec<SphynxChoice>, ZooError> {
    zoo::build(&format!("sphynx:c={SMALLEST},d={SMALLEST}"), side, 100)?;
    let question = Question { budget, side, pixels: side as u64 * side as u64 };
    let mut choices = question.near();
    if choices.is_empty() {
        choices.extend(question.below(MAX_DEPTH));
    }
    choices.sort_by_key(|choice| choice.channels);
    Ok(choices)
}

/// The network that a search trains for a budget, with so many cells at most. Of those that spend nearly all of it, a
/// published one; then that whose channels and cells are most nearly as many, which "deviates minuscule" (appendix F.1) and
/// has few places to search. None where no network of three or more cells has so few ReLUs.
///
/// # Errors
/// As for [`sphynx_choices`].
pub fn sphynx_choice(budget: u64, side: usize, most_cells: u64) -> Result<Option<SphynxChoice>, ZooError> {
    zoo::build(&format!("sphynx:c={SMALLEST},d={SMALLEST}"), side, 100)?;
    let question = Question { budget, side, pixels: side as u64 * side as u64 };
    let most_cells = most_cells.min(MAX_DEPTH);
    Ok(question.within(most_cells).or_else(|| question.below(most_cells)))
}

struct Question {
    budget: u64,
    side: usize,
    pixels: u64,
}

impl Question {
    fn near(&self) -> Vec<SphynxChoice> {
        let nearest = |channels: u64| {
            let exact = self.budget as f64 / (self.pixels * channels) as f64;
            let depth = exact.round() as u64;
            (SMALLEST..=MAX_DEPTH).contains(&depth).then(|| self.choice(channels, depth))
        };
        let mut choices: Vec<_> = (SMALLEST..=MAX_CHANNELS)
            .filter_map(nearest)
            .filter(|choice| choice.deviation.abs() <= SPHYNX_TOLERANCE)
            .collect();
        choices.sort_by(|a, b| a.deviation.abs().total_cmp(&b.deviation.abs()));
        choices.into_iter().filter(|choice| self.has_network(choice)).take(MAX_CHOICES).collect()
    }

    /// Of channels and depths as the paper has them.
    fn within(&self, most_cells: u64) -> Option<SphynxChoice> {
        self.roundest((SMALLEST, SMALLEST), most_cells, LEFT_OVER)
    }

    fn below(&self, most_cells: u64) -> Option<SphynxChoice> {
        self.roundest((1, 3), most_cells, LEFT_OVER_OF_FEW)
    }

    /// Of all channels and depths from the smallest on whose count leaves hardly more of the budget than it must, a published
    /// one or the roundest; the deeper of two.
    fn roundest(
        &self,
        (channels, cells): (u64, u64),
        most_cells: u64,
        left_over: f64,
    ) -> Option<SphynxChoice> {
        let depths = |channels: u64| {
            let deepest = (self.budget / (self.pixels * channels)).min(most_cells);
            (cells..=deepest).map(move |depth| (channels, depth))
        };
        let sizes = || (channels..=MAX_CHANNELS).flat_map(depths);
        let most = sizes().map(|(channels, depth)| channels * depth).max()? as f64;
        let is_large = |(channels, depth): &(u64, u64)| (channels * depth) as f64 >= most * (1.0 - left_over);
        let mut choices: Vec<_> =
            sizes().filter(is_large).map(|(channels, depth)| self.choice(channels, depth)).collect();
        choices.sort_by_key(|choice| {
            let is_unpublished = choice.published_reduce.is_none();
            (is_unpublished, choice.channels.abs_diff(choice.depth), Reverse(choice.relus), choice.channels)
        });
        choices.into_iter().find(|choice| self.has_network(choice))
    }

    fn choice(&self, channels: u64, depth: u64) -> SphynxChoice {
        let relus = self.pixels * channels * depth;
        let deviation = (relus as f64 - self.budget as f64) / self.budget as f64;
        let published = SPHYNX_PUBLISHED.iter().find(|row| (row.0 as u64, row.1 as u64) == (channels, depth));
        SphynxChoice { channels, depth, relus, deviation, published_reduce: published.map(|row| row.2) }
    }

    fn has_network(&self, choice: &SphynxChoice) -> bool {
        zoo::build(&format!("sphynx:c={},d={}", choice.channels, choice.depth), self.side, 100).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_thousand_relus_give_the_five_networks_of_table_9() {
        let choices: Vec<_> = sphynx_choices(50_000, 32)
            .unwrap()
            .iter()
            .map(|choice| (choice.channels, choice.depth, choice.relus))
            .collect();
        assert_eq!(
            choices,
            [(5, 10, 51_200), (6, 8, 49_152), (7, 7, 50_176), (8, 6, 49_152), (10, 5, 51_200)]
        );
    }

    #[test]
    fn a_search_takes_a_round_network_that_spends_nearly_all() {
        let size = |budget, most_cells| {
            let choice = sphynx_choice(budget, 32, most_cells).unwrap().unwrap();
            assert!(choice.relus <= budget, "{choice:?}");
            (choice.channels, choice.depth)
        };
        let found = |budget| size(budget, 20);
        // The paper's own sizes, Table 3; 51,200 could also be (10, 5), and (7, 7) is nearly as large.
        let published = [
            (25_600, (5, 5)),
            (30_720, (5, 6)),
            (40_960, (5, 8)),
            (51_200, (5, 10)),
            (71_680, (7, 10)),
            (102_400, (10, 10)),
            (230_400, (15, 15)),
        ];
        for (budget, expected) in published {
            assert_eq!(found(budget), expected, "{budget}");
        }
        assert_eq!(found(50_000), (6, 8));
        let between = [(100_000, (8, 12)), (150_000, (12, 12)), (180_000, (13, 13)), (300_000, (17, 17))];
        for (budget, expected) in between {
            assert_eq!(found(budget), expected, "{budget}");
        }
        // Too small for the paper's smallest.
        for (budget, expected) in [(20_000, (3, 6)), (15_000, (3, 4)), (10_000, (3, 3)), (5_000, (1, 4))] {
            assert_eq!(found(budget), expected, "{budget}");
        }
        assert_eq!(sphynx_choice(3_000, 32, 20).unwrap(), None);
        // As many cells as may be.
        assert_eq!((size(600_000, 20), size(600_000, 500)), ((29, 20), (24, 24)));
    }

    #[test]
    fn published_networks_know_their_reduce_cells() {
        let choices = sphynx_choices(25_600, 32).unwrap();
        assert_eq!(choices[0].published_reduce, Some([0, 1]));
    }

    #[test]
    fn a_tiny_budget_gives_the_nearest_network_below_it_or_none() {
        let choices = sphynx_choices(10_000, 32).unwrap();
        assert_eq!(choices.len(), 1);
        assert!(choices[0].relus <= 10_000 && choices[0].relus >= 9_000);
        assert!(sphynx_choices(100, 32).unwrap().is_empty());
        assert!(sphynx_choices(0, 32).unwrap().is_empty());
    }

    #[test]
    fn every_choice_is_a_network_of_the_zoo_and_there_are_few() {
        assert!(zoo::build(&format!("sphynx:c={SMALLEST},d={MAX_DEPTH}"), 32, 100).is_ok());
        assert!(zoo::build(&format!("sphynx:c={MAX_CHANNELS},d={SMALLEST}"), 32, 100).is_ok());
        for budget in [1_000_000, 100_000_000, u64::MAX] {
            let choices = sphynx_choices(budget, 32).unwrap();
            assert!((1..=MAX_CHOICES).contains(&choices.len()), "{budget}: {choices:?}");
            for choice in choices {
                let name = format!("sphynx:c={},d={}", choice.channels, choice.depth);
                let spec = zoo::build(&name, 32, 100).unwrap();
                assert_eq!(crate::cost::Cost::of(&spec).relus, choice.relus, "{name}");
            }
        }
    }

    #[test]
    fn sides_without_a_network_are_refused() {
        for side in [0, 30, 4100, 1 << 31, usize::MAX] {
            assert!(matches!(sphynx_choices(u64::MAX, side), Err(ZooError::Shapes(_))), "{side}");
        }
    }
}
