//! How many channels and cells a Sphynx network gets for a budget (Sphynx section 4.2, appendix F.1).
//!
//! ReLU balancing makes the count H0 * W0 * C * D exactly. The paper takes C and D of at least 5 whose count comes
//! close to the budget, from either side, and finds that it matters little which.

use crate::zoo::SPHYNX_PUBLISHED;

/// The smallest channels and depth the paper uses.
const SMALLEST: u64 = 5;
/// How far a count may lie from the budget to be listed.
const TOLERANCE: f64 = 0.03;

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

/// The choices within three percent of the budget, or the single nearest one below it, in order of channels.
pub fn sphynx_choices(budget: u64, side: u64) -> Vec<SphynxChoice> {
    let pixels = side.saturating_mul(side).max(1);
    let cells = budget / pixels + 1;
    let choice = |channels: u64, depth: u64| {
        let relus = pixels.saturating_mul(channels).saturating_mul(depth);
        let deviation = (relus as f64 - budget as f64) / budget as f64;
        let published = SPHYNX_PUBLISHED.iter().find(|row| (row.0 as u64, row.1 as u64) == (channels, depth));
        SphynxChoice { channels, depth, relus, deviation, published_reduce: published.map(|row| row.2) }
    };
    let largest = (cells / SMALLEST + 1).min(1000);
    let mut choices = Vec::new();
    for channels in SMALLEST..=largest {
        let exact = budget as f64 / (pixels * channels) as f64;
        let nearest = (exact.round() as u64).max(1);
        let candidate = choice(channels, nearest);
        if nearest >= SMALLEST && candidate.deviation.abs() <= TOLERANCE {
            choices.push(candidate);
        }
    }
    if choices.is_empty() {
        let below = (1..=cells.min(1000))
            .filter_map(|channels| {
                let depth = budget / (pixels * channels);
                (depth >= 3).then(|| choice(channels, depth))
            })
            .max_by(|a, b| a.deviation.total_cmp(&b.deviation).then(a.channels.cmp(&b.channels)));
        choices.extend(below);
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_thousand_relus_give_the_five_networks_of_table_9() {
        let choices: Vec<_> = sphynx_choices(50_000, 32)
            .iter()
            .map(|choice| (choice.channels, choice.depth, choice.relus))
            .collect();
        assert_eq!(
            choices,
            [(5, 10, 51_200), (6, 8, 49_152), (7, 7, 50_176), (8, 6, 49_152), (10, 5, 51_200)]
        );
    }

    #[test]
    fn published_networks_know_their_reduce_cells() {
        let choices = sphynx_choices(25_600, 32);
        assert_eq!(choices[0].published_reduce, Some([0, 1]));
    }

    #[test]
    fn a_tiny_budget_gives_the_nearest_network_below_it_or_none() {
        let choices = sphynx_choices(10_000, 32);
        assert_eq!(choices.len(), 1);
        assert!(choices[0].relus <= 10_000 && choices[0].relus >= 9_000);
        assert!(sphynx_choices(100, 32).is_empty());
        assert!(sphynx_choices(0, 32).is_empty());
        assert!(sphynx_choices(u64::MAX, 4096).len() <= 1000);
    }
}
