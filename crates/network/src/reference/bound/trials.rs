//! How far apart private and plain logits are where signs are shared: tried out.
//!
//! A value that follows another one's sign jumps where that sign changes, so first order says nothing of it. What is left is to
//! run the model again with other coins, as private runs would draw them, and errors of encryption as large as they may be.

use super::{ReluRounding, TrialShares, encryption_proxy, mixed};
use crate::inference_model::{InferenceModel, ModelOperation, ModelOutline};
use crate::reference::integer::{self, Coins, Trace};
use crate::walk::ValueId;

/// Runs of one image.
const TRIALS: u64 = 16;
/// The deviation of so few trials is uncertain by a fifth, and a few jumps have heavier tails than the normal law.
const ALLOWANCE: f64 = 2.0;

/// Whether values jump.
pub(super) fn has_gates(outline: &ModelOutline) -> bool {
    outline.steps.iter().any(|step| matches!(step.operation, ModelOperation::Gate(_)))
}

/// The deviation of every logit, with allowance.
pub(super) fn deviations(model: &InferenceModel, plain: &Trace, relus: ReluRounding) -> Vec<f64> {
    let outline = model.outline();
    let largest = largest_errors(outline);
    let mut squares = vec![0.0; outline.classes];
    for seed in 0..TRIALS {
        let coins = TrialErrors { shares: TrialShares { seed, relus }, largest: &largest };
        let trial = integer::trace_encoded(model, plain.values[ValueId::IMAGE.0].clone(), Some(&coins));
        for (sum, (one, other)) in squares.iter_mut().zip(trial.logits.iter().zip(&plain.logits)) {
            *sum += (one.abs_diff(*other) as f64).powi(2);
        }
    }
    squares.into_iter().map(|sum: f64| ALLOWANCE * (sum / TRIALS as f64).sqrt()).collect()
}

/// By value, how far off a layer's sums are at most, if errors are uniform with the deviation they may have.
fn largest_errors(outline: &ModelOutline) -> Vec<i64> {
    let mut largest = vec![0; outline.value_count()];
    for (step, tolerance) in outline.tolerances() {
        largest[step.output().0] = (3.0 * encryption_proxy(tolerance)).sqrt().ceil() as i64;
    }
    largest
}

struct TrialErrors<'a> {
    shares: TrialShares,
    largest: &'a [i64],
}

impl Coins for TrialErrors<'_> {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        self.shares.client_share(value, scalar)
    }

    fn linear_error(&self, value: ValueId, scalar: usize) -> i64 {
        let largest = self.largest[value.0];
        let word = mixed(!self.client_share(value, scalar));
        (word % (2 * largest as u64 + 1)) as i64 - largest
    }

    fn rounds_relus(&self) -> bool {
        self.shares.rounds_relus()
    }
}
