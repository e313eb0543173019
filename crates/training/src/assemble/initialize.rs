//! The first weights, as the papers' code draws them.

use super::parameters::Start;

/// How the first weights of convolutions and fully connected layers are drawn. Constants are drawn uniformly within
/// `1 / sqrt(inputs)` in all of them; batch norms begin with scale 1 and shift 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initialization {
    /// Normal with variance `2 / inputs`, fully connected layers too (SNL's ResNets).
    KaimingFanIn,
    /// Convolutions normal with variance `2 / outputs`, fully connected layers uniform (WideResNets, and ResNets as
    /// they are usually trained).
    #[default]
    KaimingFanOut,
    /// Uniform within `1 / sqrt(inputs)` (Sphynx and DARTS, which leave it to the framework).
    Uniform,
}

/// How many numbers meet at a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fan {
    /// Inputs of one output.
    pub(super) inputs: usize,
    /// Outputs of one input.
    pub(super) outputs: usize,
    pub(super) is_convolution: bool,
}

impl Initialization {
    pub(super) fn weights(self, fan: Fan) -> Start {
        let normal = |fan: usize| Start::Normal { deviation: (2.0 / fan as f64).sqrt() };
        match self {
            Self::KaimingFanIn => normal(fan.inputs),
            Self::KaimingFanOut if fan.is_convolution => normal(fan.outputs),
            Self::KaimingFanOut | Self::Uniform => uniform(fan),
        }
    }

    pub(super) fn biases(self, fan: Fan) -> Start {
        uniform(fan)
    }
}

fn uniform(fan: Fan) -> Start {
    Start::Uniform { bound: (fan.inputs as f32).sqrt().recip() }
}
