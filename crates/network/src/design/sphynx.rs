//! How many channels and cells a Sphynx network gets for a budget (Sphynx section 4.2, appendix F.1).
//!
//! ReLU balancing makes the count H0 * W0 * C * D exactly. The paper takes C and D of at least 5 whose count comes
//! close to the budget, from either side, and finds that it matters little which.

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

/// The twelve nearest choices within three percent of the budget, or the single nearest one below it, in order of
/// channels. The zoo has every one of them.
///
/// # Errors
/// When there is no Sphynx network for images of this side.
pub fn sphynx_choices(budget: u64, side: usize) -> Result<Vec<SphynxChoice>, ZooError> {
    zoo::build(&format!("sphynx:c={SMALLEST},d={SMALLEST}"), side, 100)?;
    let question = Question { budget, side, pixels: side as u64 * side as u64 };
    let mut choices = question.near();
    if choices.is_empty() {
        choices.extend(question.below());
    }
    choices.sort_by_key(|choice| choice.channels);
    Ok(choices)
}

/// The network that a search trains for a budget: the most ReLUs within it; where several have as many, a published one,
/// then the deepest. None where no network of three or more cells has so few.
///
/// # Errors
/// As for [`sphynx_choices`].
pub fn sphynx_choice(budget: u64, side: usize) -> Result<Option<SphynxChoice>, ZooError> {
    zoo::build(&format!("sphynx:c={SMALLEST},d={SMALLEST}"), side, 100)?;
    let question = Question { budget, side, pixels: side as u64 * side as u64 };
    Ok(question.within().or_else(|| question.below()))
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

    /// Of channels and depths as the paper has them, the largest that the budget allows.
    fn within(&self) -> Option<SphynxChoice> {
        let deepest = |channels: u64| {
            let depth = (self.budget / (self.pixels * channels)).min(MAX_DEPTH);
            (depth >= SMALLEST).then(|| self.choice(channels, depth))
        };
        let mut choices: Vec<_> = (SMALLEST..=MAX_CHANNELS).filter_map(deepest).collect();
        let unpublished = |choice: &SphynxChoice| choice.published_reduce.is_none();
        choices.sort_by_key(|choice| (std::cmp::Reverse(choice.relus), unpublished(choice), choice.channels));
        choices.into_iter().find(|choice| self.has_network(choice))
    }

    fn below(&self) -> Option<SphynxChoice> {
        let mut choices: Vec<_> = (1..=MAX_CHANNELS)
            .filter_map(|channels| {
                let depth = (self.budget / (self.pixels * channels)).min(MAX_DEPTH);
                (depth >= 3).then(|| self.choice(channels, depth))
            })
            .collect();
        choices.sort_by(|a, b| b.deviation.total_cmp(&a.deviation).then(b.channels.cmp(&a.channels)));
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
    fn a_search_takes_the_most_that_the_budget_allows() {
        let chosen = |budget| {
            let choice = sphynx_choice(budget, 32).unwrap().unwrap();
            (choice.channels, choice.depth, choice.relus)
        };
        assert_eq!(chosen(25_600), (5, 5, 25_600));
        // (10, 5) has as many and is not published.
        assert_eq!(chosen(51_200), (5, 10, 51_200));
        assert_eq!(chosen(50_000), (6, 8, 49_152));
        assert!(chosen(10_000).2 <= 10_000);
        assert_eq!(sphynx_choice(3_000, 32).unwrap(), None);
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
