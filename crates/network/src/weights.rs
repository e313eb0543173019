//! Float weights, keyed by the names of the walk's steps.
//!
//! They come from training, from a safetensors file (with a [`NamesMap`] where the tensors have other names), or at
//! random for benchmarks. A [`FloatWeights`] that exists fits its spec: every convolution, fully connected layer and
//! batch norm has numbers of the right count, all of them finite.

mod names;
mod random;
mod tensors;

use std::collections::BTreeMap;

use crate::spec::{MAX_SLOPE, public_slope};
use crate::walk::{Network, Operation, Step, Walk};

pub use names::{NamesMap, NamesMapError};
pub use tensors::{TensorFault, TensorFaults, UnusedTensors, WeightsFileError};

/// Added to variances before the root is taken, as trainers do.
pub const BATCH_NORM_EPSILON: f32 = 1e-5;

/// The weights of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerWeights {
    /// A convolution or fully connected layer.
    Linear {
        /// Output, input within the group, row, column.
        weights: Vec<f32>,
        /// One per output; zeros where the layer has none.
        biases: Vec<f32>,
    },
    /// A batch norm: `(x - mean) / sqrt(variance + epsilon) * scale + shift`, one of each per channel.
    BatchNorm {
        /// Learned; ones where it is not, but 0.9 in random weights.
        scale: Vec<f32>,
        /// Learned; zeros where it is not, but 0.5 in random weights.
        shift: Vec<f32>,
        /// Of the training data.
        mean: Vec<f32>,
        /// Of the training data.
        variance: Vec<f32>,
    },
    /// An activation's slopes, one per channel: multiples of 1/16, public in a frozen model.
    Slopes {
        /// Learned.
        slopes: Vec<f32>,
    },
}

/// All weights of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatWeights {
    layers: BTreeMap<String, LayerWeights>,
}

impl FloatWeights {
    /// Takes weights by step name and checks that they are the network's.
    ///
    /// # Errors
    /// When a step has none, a count is wrong, a number is not finite, or a name is no step's.
    pub fn new(network: &dyn Network, layers: BTreeMap<String, LayerWeights>) -> Result<Self, WeightsError> {
        let weights = Self { layers };
        weights.check(network)?;
        Ok(weights)
    }

    /// Checks that these are the weights of a network.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn check(&self, network: &dyn Network) -> Result<(), WeightsError> {
        let walk = network.walk();
        let mut known = 0;
        for step in walk.steps() {
            let Some(expected) = LayerSize::of(walk, step) else { continue };
            let layer = self.layers.get(&step.name);
            let layer = layer.ok_or_else(|| WeightsError::Missing { step: step.name.clone() })?;
            expected.check(&step.name, layer)?;
            known += 1;
        }
        if known == self.layers.len() {
            return Ok(());
        }
        let is_known = |name: &&String| walk.steps().iter().any(|step| step.name == **name);
        let name = self.layers.keys().find(|name| !is_known(name)).cloned().unwrap_or_default();
        Err(WeightsError::Unknown { name })
    }

    /// The weights of one step.
    pub fn layer(&self, step: &str) -> Option<&LayerWeights> {
        self.layers.get(step)
    }

    /// All of them, by step name.
    pub fn layers(&self) -> &BTreeMap<String, LayerWeights> {
        &self.layers
    }
}

/// How many numbers a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LayerSize {
    Linear { weights: usize, outputs: usize },
    BatchNorm { channels: usize },
    Slopes { channels: usize },
}

impl LayerSize {
    /// Nothing for steps without weights.
    fn of(walk: &Walk, step: &Step) -> Option<Self> {
        match &step.operation {
            Operation::Conv(conv) => {
                Some(Self::Linear { weights: conv.taps() * conv.outputs, outputs: conv.outputs })
            }
            Operation::FullyConnected { inputs, outputs } => {
                Some(Self::Linear { weights: inputs * outputs, outputs: *outputs })
            }
            Operation::BatchNorm { .. } => {
                Some(Self::BatchNorm { channels: walk.shape(step.output).channels })
            }
            Operation::SharedSigns { signs, .. } if signs.slopes => {
                Some(Self::Slopes { channels: walk.shape(step.output).channels })
            }
            _ => None,
        }
    }

    fn check(self, step: &str, layer: &LayerWeights) -> Result<(), WeightsError> {
        let parts: Vec<(&'static str, &[f32], usize)> = match (self, layer) {
            (Self::Linear { weights: count, outputs }, LayerWeights::Linear { weights, biases }) => {
                vec![("weights", weights, count), ("biases", biases, outputs)]
            }
            (Self::BatchNorm { channels }, LayerWeights::BatchNorm { scale, shift, mean, variance }) => vec![
                ("scales", scale, channels),
                ("shifts", shift, channels),
                ("means", mean, channels),
                ("variances", variance, channels),
            ],
            (Self::Slopes { channels }, LayerWeights::Slopes { slopes }) => {
                vec![("slopes", slopes, channels)]
            }
            _ => return Err(WeightsError::Kind { step: step.to_owned() }),
        };
        for (what, values, expected) in parts {
            if values.len() != expected {
                let came = values.len();
                return Err(WeightsError::Count { step: step.to_owned(), what, expected, came });
            }
            let is_wrong = |value: &&f32| !value.is_finite() || (what == "variances" && **value < 0.0);
            if let Some(value) = values.iter().find(is_wrong) {
                return Err(WeightsError::Number { step: step.to_owned(), what, value: *value });
            }
            let is_secret = |value: &&f32| what == "slopes" && public_slope(**value) != **value;
            if let Some(value) = values.iter().find(is_secret) {
                return Err(WeightsError::Slope { step: step.to_owned(), value: *value });
            }
        }
        Ok(())
    }
}

/// Weights that do not fit the network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// A step without weights.
    #[error("there are no weights for {step}")]
    Missing {
        /// The step.
        step: String,
    },
    /// Weights no step asked for.
    #[error("there are weights for {name:?}, which is no step of the network")]
    Unknown {
        /// Their name.
        name: String,
    },
    /// A batch norm's numbers for a convolution, or the other way around.
    #[error("the weights of {step} are of another kind of layer")]
    Kind {
        /// The step.
        step: String,
    },
    /// Another number of them.
    #[error("{step} has {came} {what}, the network needs {expected}")]
    Count {
        /// The step.
        step: String,
        /// Which numbers.
        what: &'static str,
        /// What the network needs.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// A number that cannot be used.
    #[error("{step} has {value} among its {what}; expected are finite numbers, variances not below 0")]
    Number {
        /// The step.
        step: String,
        /// Which numbers.
        what: &'static str,
        /// The number.
        value: f32,
    },
    /// A slope that no frozen model could publish.
    #[error("{step} has the slope {value}; expected are multiples of 1/16 from -{MAX_SLOPE} to {MAX_SLOPE}")]
    Slope {
        /// The step.
        step: String,
        /// The slope.
        value: f32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn weights_that_do_not_fit_are_refused_with_the_step() {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let good = FloatWeights::random(&spec, 1).layers;
        let refusal = |change: &dyn Fn(&mut BTreeMap<String, LayerWeights>)| {
            let mut layers = good.clone();
            change(&mut layers);
            FloatWeights::new(&spec, layers).unwrap_err().to_string()
        };
        assert_eq!(refusal(&|layers| drop(layers.remove("head.fc1"))), "there are no weights for head.fc1");
        let norm = good["stem.norm1"].clone();
        assert!(refusal(&|layers| drop(layers.insert("x".into(), norm.clone()))).contains("\"x\""));
        assert_eq!(
            refusal(&|layers| drop(layers.insert("stem.conv1".into(), norm.clone()))),
            "the weights of stem.conv1 are of another kind of layer"
        );
        let short = LayerWeights::Linear { weights: vec![0.0; 5], biases: vec![0.0; 2] };
        assert_eq!(
            refusal(&|layers| drop(layers.insert("stem.conv1".into(), short.clone()))),
            "stem.conv1 has 5 weights, the network needs 54"
        );
        let slopes = LayerWeights::Slopes { slopes: vec![0.0; 2] };
        assert!(refusal(&|layers| drop(layers.insert("stem.conv1".into(), slopes.clone()))).contains("kind"));
        let odd = LayerWeights::Linear { weights: vec![f32::NAN; 54], biases: vec![0.0; 2] };
        assert!(refusal(&|layers| drop(layers.insert("stem.conv1".into(), odd.clone()))).contains("NaN"));
    }

    #[test]
    fn slopes_are_multiples_of_a_sixteenth() {
        let spec = zoo::build("signet:signs=0+2,stream=4+4,depths=1+1", 8, 10).unwrap();
        let good = FloatWeights::random(&spec, 1).layers;
        let step = "stage2.block1.body.signs1";
        let refusal = |value: f32| {
            let mut layers = good.clone();
            let Some(LayerWeights::Slopes { slopes }) = layers.get_mut(step) else { panic!("{step}") };
            slopes[3] = value;
            FloatWeights::new(&spec, layers).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(refusal(-0.1875), Ok(()));
        let expected = "the slope 0.2; expected are multiples of 1/16 from -7.9375 to 7.9375";
        assert!(refusal(0.2).unwrap_err().contains(expected));
        assert!(refusal(8.0).unwrap_err().contains("the slope 8"));
        assert!(refusal(f32::NAN).unwrap_err().contains("finite"));
    }
}
