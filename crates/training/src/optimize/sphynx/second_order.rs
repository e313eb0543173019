//! Scores by the weights that one step ahead would be there (DARTS section 2.3).
//!
//! ```text
//! w' = w - xi (momentum * velocity + dL_train(w) + decay * w)
//! gradient = dL_val(w') by scores - xi (dL_train(w+) - dL_train(w-)) / (2 epsilon),   w± = w ± epsilon dL_val(w') by weights
//! epsilon = 0.01 / |dL_val(w') by weights|
//! ```
//!
//! The authors' code multiplies by `2 epsilon` where DARTS divides, which nearly cancels the second term; here it divides.

use super::cells::Learning;
use crate::assemble::Parameters;
use crate::distill::Targets;
use crate::tensor::{Tensor, no_grad};

/// How far the finite difference reaches, times the length of the gradient.
const REACH: f64 = 0.01;
/// Keeps the quotient finite when a gradient vanishes.
const TINY: f64 = 1e-12;

impl Learning {
    /// The gradient of scores of second order. `rate` is that of the weights.
    pub(super) fn unrolled_gradient(
        &mut self,
        training: &(Tensor, Targets),
        validation: &(Tensor, Targets),
        rate: &Tensor,
    ) -> Tensor {
        self.gradient_ahead(training, validation, rate, REACH)
    }

    /// The same for a finite difference of another reach.
    pub(super) fn gradient_ahead(
        &mut self,
        training: &(Tensor, Targets),
        validation: &(Tensor, Targets),
        rate: &Tensor,
        reach: f64,
    ) -> Tensor {
        let gradient = self.weight_gradient(training).copy();
        let start = no_grad(|| self.network.weights().masters().copy());
        no_grad(|| {
            let velocity = self.weight_memory.named_rows().next().map(|(_, row)| row * self.updates.momentum);
            let pull = &start * self.updates.weight_decay;
            let step = velocity.map_or(gradient.shallow_clone(), |velocity| velocity + gradient) + pull;
            set(self.network.both_mut().0, &(&start - step * rate));
        });
        let [by_weights, by_scores] = self.both_gradients(validation);
        let reach = no_grad(|| reach / (by_weights.norm() + TINY));
        let beside = |this: &mut Self, sign: f64| {
            no_grad(|| set(this.network.both_mut().0, &(&start + &by_weights * (&reach * sign))));
            let (loss, _) = this.loss(training);
            let (_, scores) = this.network.both_mut();
            scores.gradient(&loss).copy()
        };
        let (above, below) = (beside(self, 1.0), beside(self, -1.0));
        no_grad(|| {
            set(self.network.both_mut().0, &start);
            by_scores - (above - below) / (reach * 2.0) * rate
        })
    }
}

fn set(weights: &mut Parameters, values: &Tensor) {
    weights.masters().shallow_clone().copy_(values);
    weights.refresh();
}
