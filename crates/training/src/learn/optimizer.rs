//! The optimizers, on the one row of all parameters.
//!
//! On a GPU a step is one kernel per stretch of equal weight decay; elsewhere, and as the oracle of that kernel, the
//! same formula in plain tensor operations. The learning rate is a tensor, so that a recorded step can follow a
//! schedule.

use crate::assemble::{Parameters, Role};
use crate::tensor::{Kind, Tensor, fused_adam, fused_sgd};

/// How weights move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Optimizer {
    /// Stochastic gradient descent with momentum.
    Sgd {
        /// How much of the last movement stays.
        momentum: f32,
        /// Whether the gradient is followed from where the momentum leads.
        nesterov: bool,
    },
    /// Adam (Kingma and Ba), with weight decay as part of the gradient.
    Adam {
        /// Memory of the mean.
        beta1: f32,
        /// Memory of the square.
        beta2: f32,
        /// Keeps the quotient finite.
        epsilon: f32,
    },
}

/// An optimizer with its memory, laid out as the parameters are.
pub(crate) struct Memory {
    optimizer: Optimizer,
    /// Velocity, or mean and square.
    rows: Vec<Tensor>,
    /// How many steps were made.
    steps: Tensor,
    /// Where each weight decay holds: start, length, decay.
    stretches: Vec<(i64, i64, f64)>,
}

impl Memory {
    pub(crate) fn new(
        optimizer: Optimizer,
        parameters: &Parameters,
        weight_decay: f32,
        decays_norms_and_biases: bool,
    ) -> Self {
        let mut stretches: Vec<(i64, i64, f64)> = Vec::new();
        for segment in parameters.segments() {
            let decays = match segment.role {
                Role::Weight => true,
                Role::Bias | Role::Norm => decays_norms_and_biases,
                // A decayed score would make a kept ReLU leaky.
                Role::Keep => false,
            };
            let decay = if decays { f64::from(weight_decay) } else { 0.0 };
            match stretches.last_mut().filter(|last| last.2 == decay) {
                Some(last) => last.1 += segment.length,
                None => stretches.push((segment.start, segment.length, decay)),
            }
        }
        let rows = match optimizer {
            Optimizer::Sgd { .. } => 1,
            Optimizer::Adam { .. } => 2,
        };
        let row = || parameters.masters().zeros_like();
        let steps = Tensor::zeros([1], (Kind::Float, row().device()));
        Self { optimizer, rows: (0..rows).map(|_| row()).collect(), steps, stretches }
    }

    /// The rows, with their names.
    pub(crate) fn named_rows(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let names: &[&str] = match self.optimizer {
            Optimizer::Sgd { .. } => &["velocity"],
            Optimizer::Adam { .. } => &["mean", "square"],
        };
        names.iter().copied().zip(&self.rows)
    }

    /// The number of steps made, on the device.
    pub(crate) fn steps(&self) -> &Tensor {
        &self.steps
    }

    /// Moves the weights; to be called without recording gradients.
    pub(crate) fn step(&mut self, weights: &Tensor, gradient: &Tensor, rate: &Tensor) {
        let _ = self.steps.g_add_scalar_(1.0);
        for &(start, length, decay) in &self.stretches {
            let piece = |row: &Tensor| row.narrow(0, start, length);
            let (weights, gradient) = (piece(weights), piece(gradient));
            match self.optimizer {
                Optimizer::Sgd { momentum, nesterov } => {
                    let velocity = piece(&self.rows[0]);
                    let tensors = [&weights, &gradient, &velocity, rate];
                    if !fused_sgd(tensors, decay, momentum.into(), nesterov) {
                        sgd(weights, &gradient, velocity, rate, decay, momentum.into(), nesterov);
                    }
                }
                Optimizer::Adam { beta1, beta2, epsilon } => {
                    let constants = [beta1, beta2, epsilon].map(f64::from);
                    let (mean, square) = (piece(&self.rows[0]), piece(&self.rows[1]));
                    let tensors = [&weights, &gradient, &mean, &square, &self.steps, rate];
                    if !fused_adam(tensors, decay, constants) {
                        adam(weights, &gradient, [mean, square], &self.steps, rate, decay, constants);
                    }
                }
            }
        }
    }
}

fn sgd(
    mut weights: Tensor,
    gradient: &Tensor,
    mut velocity: Tensor,
    rate: &Tensor,
    decay: f64,
    momentum: f64,
    nesterov: bool,
) {
    let gradient = gradient + &weights * decay;
    let _ = velocity.g_mul_scalar_(momentum);
    let _ = velocity.g_add_(&gradient);
    let movement = if nesterov { gradient + &velocity * momentum } else { velocity };
    let _ = weights.g_sub_(&(movement * rate));
}

fn adam(
    mut weights: Tensor,
    gradient: &Tensor,
    [mut mean, mut square]: [Tensor; 2],
    steps: &Tensor,
    rate: &Tensor,
    decay: f64,
    [beta1, beta2, epsilon]: [f64; 3],
) {
    let gradient = gradient + &weights * decay;
    let _ = mean.lerp_(&gradient, 1.0 - beta1);
    let _ = square.lerp_(&gradient.square(), 1.0 - beta2);
    // 1 - beta^steps, without a look at the number of steps.
    let unbias = |beta: f64| -> Tensor { 1.0 - (steps * beta.ln()).exp() };
    let deviation = (&square / unbias(beta2)).sqrt() + epsilon;
    let _ = weights.g_sub_(&(&mean / unbias(beta1) * rate / deviation));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::{AssembleOptions, TrainableNetwork};
    use crate::tensor::{Device, no_grad, to_floats};
    use network::zoo;
    use recipes::method::Granularity;

    fn network() -> TrainableNetwork {
        let spec = zoo::build("resnet10:m=2", 8, 3).unwrap();
        let mut network = TrainableNetwork::new(&spec, &AssembleOptions::default(), Device::Cpu).unwrap();
        network.enable_keep_scores(Granularity::Channel).unwrap();
        network
    }

    /// Runs some steps with the gradient 0.5 everywhere and gives one weight, norm and score each.
    fn run(optimizer: Optimizer, decays_norms: bool, steps: usize) -> [(f32, f32); 3] {
        let network = network();
        let parameters = network.parameters();
        let mut memory = Memory::new(optimizer, parameters, 0.1, decays_norms);
        let gradient = parameters.masters().full_like(0.5);
        let rate = Device::Cpu.floats(&[0.2], &[1]);
        let pick = || {
            let first = |name: &str| {
                let value = parameters.named().find(|(known, _)| *known == name).unwrap().1;
                to_floats(&value)[0]
            };
            [first("stem.conv1.weight"), first("stem.norm1.weight"), first("stem.relu1.keep")]
        };
        let before = pick();
        (0..steps).for_each(|_| no_grad(|| memory.step(parameters.masters(), &gradient, &rate)));
        let after = pick();
        [0, 1, 2].map(|index| (before[index], after[index]))
    }

    fn assert_close(came: f64, expected: f64) {
        assert!((came - expected).abs() < 1e-5, "{came} instead of {expected}");
    }

    #[test]
    fn sgd_follows_its_formula_and_spares_scores_from_decay() {
        for (nesterov, decays_norms) in [(true, true), (false, false)] {
            let values = run(Optimizer::Sgd { momentum: 0.9, nesterov }, decays_norms, 3);
            for (index, (before, after)) in values.into_iter().enumerate() {
                let decay = [0.1, if decays_norms { 0.1 } else { 0.0 }, 0.0][index];
                let (mut weight, mut velocity) = (f64::from(before), 0.0);
                for _ in 0..3 {
                    let gradient = 0.5 + decay * weight;
                    velocity = 0.9 * velocity + gradient;
                    weight -= 0.2 * if nesterov { gradient + 0.9 * velocity } else { velocity };
                }
                assert_close(after.into(), weight);
            }
        }
    }

    #[test]
    fn adam_follows_its_formula() {
        let values = run(Optimizer::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }, true, 4);
        for (index, (before, after)) in values.into_iter().enumerate() {
            let decay = [0.1, 0.1, 0.0][index];
            let (mut weight, mut mean, mut square) = (f64::from(before), 0.0, 0.0);
            for step in 1..=4 {
                let gradient = 0.5 + decay * weight;
                mean = 0.9 * mean + 0.1 * gradient;
                square = 0.999 * square + 0.001 * gradient * gradient;
                let (mean, square) =
                    (mean / (1.0 - 0.9_f64.powi(step)), square / (1.0 - 0.999_f64.powi(step)));
                weight -= 0.2 * mean / (square.sqrt() + 1e-8);
            }
            assert!((f64::from(after) - weight).abs() < 1e-4, "{after} instead of {weight}");
        }
    }
}
