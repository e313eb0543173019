//! The first weights, as the papers' code draws them.

use recipes::recipe::Initialization;

use super::parameters::Start;

/// How many numbers meet at a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan {
    /// Inputs of one output.
    pub(crate) inputs: usize,
    /// Outputs of one input.
    pub(crate) outputs: usize,
    pub(crate) is_convolution: bool,
}

/// From the word of a recipe to numbers.
pub(crate) trait FirstWeights {
    /// Of a convolution or fully connected layer.
    fn weights(self, fan: Fan) -> Start;
    /// Of its constants.
    fn biases(self, fan: Fan) -> Start;
}

impl FirstWeights for Initialization {
    fn weights(self, fan: Fan) -> Start {
        let normal = |fan: usize| Start::Normal { deviation: (2.0 / fan as f64).sqrt() };
        match self {
            Self::KaimingFanIn => normal(fan.inputs),
            Self::KaimingFanOut if fan.is_convolution => normal(fan.outputs),
            Self::KaimingFanOut | Self::Uniform => uniform(fan),
        }
    }

    fn biases(self, fan: Fan) -> Start {
        uniform(fan)
    }
}

fn uniform(fan: Fan) -> Start {
    Start::Uniform { bound: (fan.inputs as f32).sqrt().recip() }
}
