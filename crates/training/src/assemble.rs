//! From a spec to a network that can be trained.
//!
//! The one traversal of the spec gives the steps; each step with weights declares its parameters under its own name,
//! the key `network` and its files know them by. The forward pass then follows the same steps:
//!
//! ```text
//! walk ─> plan (which parameters a step reads) ─> forward: images ─> logits
//!             └> parameters: one row of numbers for the optimizer
//! ```
//!
//! A ReLU site is a plain ReLU, the identity, a fixed mask, or, while SNL searches, `x + c (relu(x) - x)` with a
//! learned keep score `c` per pixel or channel (SNL section 3, equation 2). Where channels share signs, the same holds for
//! every sign.

mod activation;
mod auxiliary;
mod exchange;
mod forward;
mod frozen;
mod initialize;
mod parameters;
mod plan;
mod signs;

use network::cost::{Cost, Counts};
use network::mask::{ActivationMask, MaskMismatch};
use network::shape::Shape;
use network::spec::NetworkSpec;
use network::weights::WeightsError;
use recipes::method::Granularity;
use recipes::recipe::{Initialization, Precision};

use crate::tensor::{Device, Kind, Tensor};

use activation::Activation;
use auxiliary::AuxiliaryHead;
use plan::Plan;

pub use forward::{Mode, Output};
pub use parameters::{Parameters, Role, Segment};

pub(crate) use frozen::FrozenNetwork;
pub(crate) use initialize::Fan;
pub(crate) use parameters::{Declared, Start};
pub(crate) use plan::{Norm, Statistics, linear, norm};

/// The kinds of numbers that a precision means. Statistics and losses are as wide as parameters.
pub(crate) trait NumberKinds {
    /// Of the parameters.
    fn master_kind(self) -> Kind;
    /// Of the activations.
    fn compute_kind(self) -> Kind;
}

impl NumberKinds for Precision {
    fn master_kind(self) -> Kind {
        match self {
            Self::F32 | Self::Bf16 => Kind::Float,
            Self::F64 => Kind::Double,
        }
    }

    fn compute_kind(self) -> Kind {
        match self {
            Self::F32 => Kind::Float,
            Self::Bf16 => Kind::BFloat16,
            Self::F64 => Kind::Double,
        }
    }
}

/// How a network is made trainable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssembleOptions {
    /// How the first weights are drawn.
    pub initialization: Initialization,
    /// From which seed.
    pub seed: u64,
    /// In which numbers it computes.
    pub precision: Precision,
    /// Whether a second classifier stands after two thirds of the blocks while training (Sphynx, as in DARTS).
    pub auxiliary_head: bool,
}

/// Where and how tensors are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) device: Device,
    pub(crate) precision: Precision,
    /// Whether channels run fastest in memory, as convolutions in bf16 and those of GPUs want them.
    pub(crate) innermost_channels: bool,
}

/// A network with parameters, on a device.
pub struct TrainableNetwork {
    spec: NetworkSpec,
    options: AssembleOptions,
    setting: Setting,
    parameters: Parameters,
    plan: Plan,
    activations: Vec<Activation>,
    mask: ActivationMask,
    auxiliary: Option<AuxiliaryHead>,
}

impl TrainableNetwork {
    /// A network with fresh weights.
    ///
    /// # Errors
    /// When the device has no room for it, or an auxiliary head does not fit.
    pub fn new(spec: &NetworkSpec, options: &AssembleOptions, device: Device) -> Result<Self, AssembleError> {
        // Few channels in f32 are faster in planes on a processor: resnet10 with m=4 by a factor of two.
        let innermost_channels = device == Device::Cuda || options.precision == Precision::Bf16;
        Self::laid_out(spec, options, device, innermost_channels)
    }

    fn laid_out(
        spec: &NetworkSpec,
        options: &AssembleOptions,
        device: Device,
        innermost_channels: bool,
    ) -> Result<Self, AssembleError> {
        let setting = Setting { device, precision: options.precision, innermost_channels };
        let mut declared = plan::declare(spec, options.initialization);
        if options.auxiliary_head {
            declared.extend(auxiliary::declare(spec, options.initialization)?);
        }
        let assemble = || {
            let parameters = Parameters::new(declared, options.seed, setting);
            let plan = Plan::new(spec, &parameters, setting);
            let auxiliary =
                options.auxiliary_head.then(|| AuxiliaryHead::new(spec, &parameters, &plan, setting));
            Self {
                spec: spec.clone(),
                options: options.clone(),
                setting,
                plan,
                activations: spec.walk().sites().iter().map(|_| Activation::Relu).collect(),
                mask: ActivationMask::keep_all(spec),
                auxiliary: auxiliary.flatten(),
                parameters,
            }
        };
        Ok(crate::tensor::guarded(assemble)?)
    }

    /// What it is.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// How it was made.
    pub fn options(&self) -> &AssembleOptions {
        &self.options
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        self.setting.device
    }

    /// What is learned.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The same, to be changed.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// How many numbers are learned; the auxiliary head counts while it is there.
    pub fn parameter_count(&self) -> u64 {
        self.parameters.count()
    }

    /// How many ReLUs one image meets; comparisons, where channels share signs.
    pub fn relu_count(&self) -> u64 {
        self.mask.relu_count()
    }

    /// What one image meets: ReLUs, or comparisons and gated values. A masked sign takes its values with it.
    pub fn counts(&self) -> Counts {
        Cost::masked(&self.spec, &self.mask).counts()
    }

    /// The image it takes.
    pub fn input_shape(&self) -> Shape {
        self.spec.draft().input
    }

    /// How many classes it tells apart.
    pub fn classes(&self) -> usize {
        self.spec.draft().classes
    }

    /// The statistics of all batch norms as one row; they change in training, beside the parameters.
    pub(crate) fn statistics(&self) -> &Tensor {
        self.plan.statistics()
    }

    /// How many edges drop-path may silence.
    pub(crate) fn drop_path_edges(&self) -> usize {
        self.plan.drop_path_edges()
    }
}

/// A network that cannot be assembled, or numbers that are not its.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// No block stands where the auxiliary head belongs.
    #[error("{network} has {blocks} blocks; an auxiliary head stands after two thirds of at least 2")]
    NoAuxiliary {
        /// The network.
        network: String,
        /// Its blocks.
        blocks: usize,
    },
    /// A name that is missing.
    #[error("{network} needs numbers for {name}, which are not there; are they another network's?")]
    Missing {
        /// The network.
        network: String,
        /// The parameter or statistic.
        name: String,
    },
    /// A name that is unknown.
    #[error("there are numbers for {name:?}, which {network} does not have; are they another network's?")]
    Unknown {
        /// The network.
        network: String,
        /// The name.
        name: String,
    },
    /// Numbers of another shape.
    #[error("{name} has the shape {came:?}, the network needs {expected:?} of f32")]
    Shape {
        /// The parameter or statistic.
        name: String,
        /// What the network needs.
        expected: Vec<i64>,
        /// What came.
        came: Vec<usize>,
    },
    /// A mask of another network.
    #[error(transparent)]
    Mask(#[from] MaskMismatch),
    /// Weights of another network.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The tensor library refused.
    #[error(transparent)]
    Tensor(#[from] crate::tensor::TensorError),
}

#[cfg(test)]
mod tests;
