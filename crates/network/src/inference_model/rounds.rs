//! Which steps share a round trip.
//!
//! The image has depth 0; a linear step is as deep as its deepest input; `Activate` and `Maximum` are one deeper.
//! All interactive steps of one depth need only values of lesser depth, so their messages travel together.

use super::ModelOutline;
use crate::walk::ValueId;

/// The depth of every value, and the steps of every round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    depths: Vec<usize>,
    interactive: Vec<Vec<usize>>,
    linear: Vec<Vec<usize>>,
}

impl ModelOutline {
    /// The round trips of one inference, the logits' last message left out.
    ///
    /// # Panics
    /// If the outline was not checked.
    pub fn rounds(&self) -> Rounds {
        let mut rounds = Rounds { depths: vec![0], interactive: vec![Vec::new()], linear: vec![Vec::new()] };
        for (index, step) in self.steps.iter().enumerate() {
            let inputs = step.inputs.iter().map(|value| rounds.depths[value.0]).max().unwrap_or(0);
            let depth = if step.is_linear() { inputs } else { inputs + 1 };
            rounds.depths.push(depth);
            if depth == rounds.interactive.len() {
                rounds.interactive.push(Vec::new());
                rounds.linear.push(Vec::new());
            }
            let steps = if step.is_linear() { &mut rounds.linear } else { &mut rounds.interactive };
            steps[depth].push(index);
        }
        rounds
    }
}

impl Rounds {
    /// How many round trips there are.
    pub fn count(&self) -> usize {
        self.interactive.len() - 1
    }

    /// How many round trips come before a value is there.
    ///
    /// # Panics
    /// If the value belongs to another outline.
    pub fn depth(&self, value: ValueId) -> usize {
        self.depths[value.0]
    }

    /// The `Activate` and `Maximum` steps of a round trip, numbered from 1.
    ///
    /// # Panics
    /// If there are fewer round trips.
    pub fn interactive(&self, round: usize) -> &[usize] {
        &self.interactive[round]
    }

    /// The linear steps that follow a round trip; those of 0 need only the image.
    ///
    /// # Panics
    /// If there are fewer round trips.
    pub fn linear(&self, round: usize) -> &[usize] {
        &self.linear[round]
    }
}

#[cfg(test)]
mod tests {
    use crate::freeze::{FreezeOptions, freeze};
    use crate::image::Image;
    use crate::inference_model::ModelOutline;
    use crate::walk::ValueId;
    use crate::weights::FloatWeights;
    use crate::zoo;

    fn outline(name: &str) -> ModelOutline {
        let spec = zoo::build(name, 16, 10).unwrap();
        let weights = FloatWeights::random(&spec, 1);
        let images = [Image::random(spec.draft().input, 1)];
        freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0.outline().clone()
    }

    #[test]
    fn a_resnet_needs_one_round_trip_per_relu_layer() {
        let rounds = outline("resnet18:m=2").rounds();
        assert_eq!(rounds.count(), 17);
        assert!((1..=17).all(|round| rounds.interactive(round).len() == 1));
        assert_eq!(rounds.interactive(0), [] as [usize; 0]);
        assert_eq!(rounds.linear(0), [0]);
    }

    #[test]
    fn relus_that_wait_for_nothing_new_share_a_round_trip() {
        let outline = outline("darts:c=2,d=3");
        let rounds = outline.rounds();
        let interactive = outline.steps.iter().filter(|step| !step.is_linear()).count();
        assert!(rounds.count() < interactive / 2, "{} of {interactive}", rounds.count());
    }

    #[test]
    fn every_step_comes_after_what_it_reads() {
        let outline = outline("pc-darts:c=2,d=3");
        let rounds = outline.rounds();
        let mut seen = 0;
        for round in 0..=rounds.count() {
            for &step in rounds.interactive(round) {
                assert!(outline.steps[step].inputs.iter().all(|value| rounds.depth(*value) < round));
                assert_eq!(rounds.depth(ValueId(step + 1)), round);
            }
            for &step in rounds.linear(round) {
                assert!(outline.steps[step].inputs.iter().all(|value| rounds.depth(*value) <= round));
            }
            seen += rounds.interactive(round).len() + rounds.linear(round).len();
        }
        assert_eq!(seen, outline.steps.len());
    }
}
