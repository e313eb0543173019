//! Mean and deviation over seeds.

use recipes::recipe::Recipe;
use serde::Serialize;

use super::Group;

/// Results of one recipe that differ in their seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeedsLine {
    /// Their network.
    pub network: String,
    /// In order.
    pub seeds: Vec<u64>,
    /// Of their accuracies, in percent.
    pub mean: f64,
    /// The sample's standard deviation.
    pub deviation: f64,
}

impl SeedsLine {
    /// `1, 2, 3`.
    pub(super) fn seeds_text(&self) -> String {
        self.seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn mean_text(&self) -> String {
        format!("{:.2}", self.mean)
    }

    pub(super) fn deviation_text(&self) -> String {
        format!("{:.2}", self.deviation)
    }
}

impl Group {
    /// One line for each recipe with several seeds. Who taught may differ: a teacher is trained with a seed too.
    pub fn seeds(&self) -> Vec<SeedsLine> {
        let key =
            |recipe: &Recipe| (recipe.network.clone(), recipe.training.clone(), recipe.optimize.clone());
        let mut lines = Vec::new();
        let mut seen = Vec::new();
        for point in &self.points {
            let own = key(&point.record.recipe);
            if seen.contains(&own) {
                continue;
            }
            let alike = self.points.iter().filter(|other| {
                key(&other.record.recipe) == own && other.record.counts() == point.record.counts()
            });
            let mut runs: Vec<(u64, f64)> =
                alike.map(|other| (other.record.seed, other.record.accuracy().0)).collect();
            runs.sort_by_key(|(seed, _)| *seed);
            runs.dedup_by_key(|(seed, _)| *seed);
            seen.push(own);
            if runs.len() > 1 {
                let (mean, deviation) = mean_and_deviation(&runs);
                let seeds = runs.iter().map(|(seed, _)| *seed).collect();
                lines.push(SeedsLine { network: point.record.network.clone(), seeds, mean, deviation });
            }
        }
        lines
    }
}

fn mean_and_deviation(runs: &[(u64, f64)]) -> (f64, f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().map(|(_, accuracy)| accuracy).sum::<f64>() / count;
    let squares: f64 = runs.iter().map(|(_, accuracy)| (accuracy - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use crate::RunRecord;
    use crate::pareto::groups;
    use crate::record::tests::example;

    #[test]
    fn seeds_of_one_recipe_have_a_mean_and_a_deviation() {
        let run = |seed: u64, accuracy: f64, epochs: u32| {
            let mut record = example("a network", 26_112, accuracy);
            (record.seed, record.recipe.seed, record.recipe.training.epochs) = (seed, seed, epochs);
            RunRecord { record, checkpoint: None, mask: None }
        };
        // The figures of the 26,112-ReLU network; another schedule is another recipe.
        let runs = vec![run(3, 72.79, 220), run(1, 72.54, 220), run(2, 72.46, 220), run(4, 60.0, 100)];
        let lines = groups(runs).unwrap()[0].seeds();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].seeds, [1, 2, 3]);
        assert!((lines[0].mean - 72.5967).abs() < 1e-3 && (lines[0].deviation - 0.1721).abs() < 1e-3);
    }
}
