//! Where the two reduce cells stand: the candidates, and scores that learn which of them is best (Algorithm 1).
//!
//! ```text
//! draw     argmax of Gumbel noise + log softmax(beta)            equation 4.1: one network is chosen
//! step     g~ = softmax((log softmax(beta) + noise) / tau)       equation 4.2, with log softmax(beta) where "log g"
//!          d loss / d beta_k = sum_i  s_i g~_i (1[i=k] - g~_k) / tau     is a misprint
//! best     argmax of beta                                        equation 4.4
//! ```
//!
//! `s_i` is how the loss changes with the weight of network `i`; those that did not run have none (Figure 3). There are
//! few candidates, so all of it is done here, in 64 bits, whatever computes the networks.
//!
//! # Networks that did not run
//! The shares `g~` sum to 1, so a number that is added to every `s_i` changes no gradient: `sum_i g~_i (1[i=k] - g~_k) = 0`.
//! With all networks only differences would count. Where one of them runs, its whole `s_i` counts against zeros instead,
//! and which one was drawn moves the scores far more than how good it is. [`MeanSlope`] takes the mean of what was seen
//! for the others. It is no better known than before how good they are, but the lottery is gone.

use serde::{Deserialize, Serialize};

use super::scores::softmax;
use super::{Candidates, Unseen};
use crate::random::Stream;

/// How far first scores lie from 0 (the authors' code).
const FIRST_DEVIATION: f64 = 1e-3;
/// Adam's memories in both searches (the authors' code).
const BETAS: [f64; 2] = [0.5, 0.999];
const EPSILON: f64 = 1e-8;

/// The pairs of cells that may reduce, of so many cells.
pub fn candidates(depth: usize, which: Candidates) -> Vec<[usize; 2]> {
    let last = match which {
        Candidates::All => depth.saturating_sub(1),
        Candidates::Authors => (2 * depth / 3).min(depth.saturating_sub(1)),
    };
    (1..=last).flat_map(|second| (0..second).map(move |first| [first, second])).collect()
}

/// One draw: the noise, and the candidate it chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    noise: Vec<f64>,
    /// The number of the candidate.
    pub chosen: usize,
}

/// Scores of all candidates, with the memory of the optimizer that moves them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocationScores {
    beta: Vec<f64>,
    mean: Vec<f64>,
    square: Vec<f64>,
    steps: i32,
}

impl LocationScores {
    /// First scores, almost equal.
    pub fn new(candidates: usize, seed: u64) -> Self {
        let mut stream = Stream::new("location scores", seed);
        let beta = (0..candidates).map(|_| FIRST_DEVIATION * normal(&mut stream)).collect();
        Self { beta, mean: vec![0.0; candidates], square: vec![0.0; candidates], steps: 0 }
    }

    /// How many candidates there are.
    pub fn len(&self) -> usize {
        self.beta.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.beta.is_empty()
    }

    /// The chance of each candidate.
    pub fn distribution(&self) -> Vec<f64> {
        let mut chances = self.beta.clone();
        softmax(&mut chances);
        chances
    }

    /// The best candidate.
    ///
    /// # Panics
    /// Without candidates.
    pub fn best(&self) -> usize {
        arg_max(&self.beta)
    }

    /// Chooses a candidate at random, each with its chance.
    ///
    /// # Panics
    /// Without candidates.
    pub fn draw(&self, stream: &mut Stream) -> Drawn {
        let noise: Vec<f64> = self.beta.iter().map(|_| gumbel(stream)).collect();
        let heights: Vec<f64> =
            self.distribution().iter().zip(&noise).map(|(chance, noise)| chance.ln() + noise).collect();
        Drawn { chosen: arg_max(&heights), noise }
    }

    /// The straight-through weights of all candidates at a temperature.
    pub fn relaxed(&self, drawn: &Drawn, temperature: f64) -> Vec<f64> {
        let mut weights: Vec<f64> = self
            .distribution()
            .iter()
            .zip(&drawn.noise)
            .map(|(chance, noise)| (chance.ln() + noise) / temperature)
            .collect();
        softmax(&mut weights);
        weights
    }

    /// How the loss changes with every score, from how it changes with the weights of the networks that ran.
    pub fn gradient(&self, drawn: &Drawn, temperature: f64, slopes: &[(usize, f64)]) -> Vec<f64> {
        let weights = self.relaxed(drawn, temperature);
        let share = |k: usize| {
            let term =
                |(i, slope): &(usize, f64)| slope * weights[*i] * (f64::from(u8::from(*i == k)) - weights[k]);
            slopes.iter().map(term).sum::<f64>() / temperature
        };
        (0..self.len()).map(share).collect()
    }

    /// Moves the scores (Adam, with weight decay as part of the gradient).
    pub fn step(&mut self, gradient: &[f64], rate: f64, decay: f64) {
        self.steps += 1;
        let unbias = BETAS.map(|beta| 1.0 - beta.powi(self.steps));
        for (index, beta) in self.beta.iter_mut().enumerate() {
            let gradient = gradient[index] + decay * *beta;
            let (mean, square) = (&mut self.mean[index], &mut self.square[index]);
            *mean += (1.0 - BETAS[0]) * (gradient - *mean);
            *square += (1.0 - BETAS[1]) * (gradient * gradient - *square);
            *beta -= rate * (*mean / unbias[0]) / ((*square / unbias[1]).sqrt() + EPSILON);
        }
    }
}

/// What networks change the loss by, on average over those that ran lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanSlope {
    mean: f64,
    seen: u32,
}

/// Slopes of which a mean is made: weights learn, so old ones do not count.
const MEMORY: u32 = 200;

impl MeanSlope {
    /// The slopes as they enter a gradient: what is above the others' is all that counts. The others' is known from
    /// earlier steps, so that a network that runs alone is compared, too.
    pub fn above_unseen(&mut self, slopes: &[(usize, f64)], unseen: Unseen) -> Vec<(usize, f64)> {
        if unseen == Unseen::Zero {
            return slopes.to_vec();
        }
        let (others, is_known) = (self.mean, self.seen > 0);
        let above = slopes
            .iter()
            .map(|(index, slope)| (*index, if is_known { slope - others } else { 0.0 }))
            .collect();
        for (_, slope) in slopes {
            self.seen = (self.seen + 1).min(MEMORY);
            self.mean += (slope - self.mean) / f64::from(self.seen);
        }
        above
    }
}

fn arg_max(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, next| if values[next] > values[best] { next } else { best })
}

/// A uniform number strictly between 0 and 1.
fn open_unit(stream: &mut Stream) -> f64 {
    ((stream.word() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// A number of the standard Gumbel distribution.
fn gumbel(stream: &mut Stream) -> f64 {
    -(-open_unit(stream).ln()).ln()
}

/// A standard normal number (Box and Muller).
fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * open_unit(stream).ln()).sqrt();
    radius * (std::f64::consts::TAU * open_unit(stream)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(beta: &[f64]) -> LocationScores {
        LocationScores { beta: beta.to_vec(), ..LocationScores::new(beta.len(), 1) }
    }

    #[test]
    fn the_authors_candidates_leave_room_for_the_auxiliary_head() {
        let counts = |which| [5, 6, 8, 10].map(|depth| candidates(depth, which).len());
        assert_eq!(counts(Candidates::Authors), [6, 10, 15, 21]);
        assert_eq!(counts(Candidates::All), [10, 15, 28, 45]);
        assert_eq!(candidates(3, Candidates::All), [[0, 1], [0, 2], [1, 2]]);
    }

    #[test]
    fn candidates_are_drawn_as_often_as_their_chances_say() {
        let scores = scores(&[0.0, 1.0, -0.5, 2.0]);
        let mut stream = Stream::new("draws", 5);
        let mut counts = [0_u32; 4];
        (0..40_000).for_each(|_| counts[scores.draw(&mut stream).chosen] += 1);
        for (count, chance) in counts.into_iter().zip(scores.distribution()) {
            let frequency = f64::from(count) / 40_000.0;
            // Four deviations of a binomial count.
            let tolerance = 4.0 * (chance * (1.0 - chance) / 40_000.0).sqrt();
            assert!((frequency - chance).abs() < tolerance, "{frequency} for {chance}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_relaxed_weights() {
        let beta = [0.3, -0.2, 0.9, 0.0, 0.4];
        let drawn = scores(&beta).draw(&mut Stream::new("one", 2));
        let slopes = [(drawn.chosen, 0.7), ((drawn.chosen + 1) % 5, -1.3), ((drawn.chosen + 3) % 5, 0.2)];
        for temperature in [0.5, 1.0, 10.0] {
            let value = |beta: &[f64]| -> f64 {
                let weights = scores(beta).relaxed(&drawn, temperature);
                slopes.iter().map(|(index, slope)| slope * weights[*index]).sum()
            };
            let gradient = scores(&beta).gradient(&drawn, temperature, &slopes);
            for (index, came) in gradient.into_iter().enumerate() {
                let shifted = |by: f64| {
                    let mut beta = beta;
                    beta[index] += by;
                    value(&beta)
                };
                let expected = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                assert!((came - expected).abs() < 1e-8, "{came} instead of {expected}");
            }
        }
    }

    #[test]
    fn scores_learn_which_network_is_best() {
        // The loss of network i is i + 1; the weight of a network adds its loss.
        let mut scores = LocationScores::new(4, 3);
        let mut stream = Stream::new("learning", 3);
        for _ in 0..3000 {
            let drawn = scores.draw(&mut stream);
            let slope = (drawn.chosen, drawn.chosen as f64 + 1.0);
            let gradient = scores.gradient(&drawn, 1.0, &[slope]);
            scores.step(&gradient, 3e-3, 0.0);
        }
        assert_eq!(scores.best(), 0);
        assert!(scores.distribution()[0] > 0.5, "{:?}", scores.distribution());
    }

    #[test]
    fn what_all_networks_have_in_common_moves_no_score() {
        let scores = scores(&[0.3, -0.2, 0.9, 0.0]);
        let drawn = scores.draw(&mut Stream::new("common", 2));
        let slopes = [0.7, -1.3, 0.2, 0.4];
        let by = |common: f64| {
            let slopes: Vec<_> = slopes.iter().map(|slope| slope + common).enumerate().collect();
            scores.gradient(&drawn, 2.0, &slopes)
        };
        for (plain, shifted) in by(0.0).into_iter().zip(by(-5.0)) {
            assert!((plain - shifted).abs() < 1e-12, "{plain} {shifted}");
        }
    }

    #[test]
    fn slopes_are_compared_with_what_was_seen() {
        let mut mean = MeanSlope::default();
        assert_eq!(
            mean.above_unseen(&[(2, -3.0)], Unseen::Mean),
            [(2, 0.0)],
            "nothing is known of the others"
        );
        assert_eq!(mean.above_unseen(&[(0, -5.0)], Unseen::Mean), [(0, -2.0)]);
        assert_eq!(mean.above_unseen(&[(1, -4.0), (3, -1.0)], Unseen::Mean), [(1, 0.0), (3, 3.0)]);
        assert_eq!(mean.above_unseen(&[(1, -4.0)], Unseen::Zero), [(1, -4.0)]);
        (0..2000).for_each(|_| drop(mean.above_unseen(&[(0, 7.0)], Unseen::Mean)));
        assert!((mean.mean - 7.0).abs() < 1e-3, "old slopes are forgotten");
    }

    /// How often the best of ten networks is found within 16,000 steps (40 epochs of 25,000 images), where it changes the
    /// loss by a fiftieth more than the others, and batches differ by a tenth.
    fn found(unseen: Unseen, temperature: f64) -> usize {
        let finds = |seed: u64| {
            let mut scores = LocationScores::new(10, seed);
            let (mut stream, mut mean) = (Stream::new("batches", seed), MeanSlope::default());
            let best = seed as usize % 10;
            for _ in 0..16_000 {
                let drawn = scores.draw(&mut stream);
                let good = if drawn.chosen == best { 1.02 } else { 1.0 };
                let slope = -good * (1.0 + 0.1 * normal(&mut stream));
                let slopes = mean.above_unseen(&[(drawn.chosen, slope)], unseen);
                let gradient = scores.gradient(&drawn, temperature, &slopes);
                scores.step(&gradient, 3e-4, 1e-3);
            }
            scores.best() == best
        };
        (0..20).filter(|seed| finds(*seed)).count()
    }

    /// The figures stand in docs/src/results/search.md.
    #[test]
    fn a_short_search_finds_the_best_network_if_the_others_count_as_the_mean() {
        let [zero, mean] = [Unseen::Zero, Unseen::Mean].map(|unseen| found(unseen, 10.0));
        assert!(mean >= 14 && zero + 5 <= mean, "zero {zero}, mean {mean}");
    }

    /// There the scores' own pull towards zero is stronger than what they learn.
    #[test]
    fn at_the_papers_first_temperature_a_short_search_draws_lots() {
        let found = [Unseen::Zero, Unseen::Mean].map(|unseen| found(unseen, 1000.0));
        assert!(found.into_iter().all(|found| found <= 8), "{found:?}");
    }
}
