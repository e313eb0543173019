//! Numbers in and out: arrays for checkpoints, float weights for freezing.

use std::collections::BTreeMap;

use network::spec::public_slope;
use network::walk::{Operation, Step};
use network::weights::{FloatWeights, LayerWeights};
use recipes::array::Array;

use super::auxiliary::AuxiliaryHead;
use super::parameters::{Declared, Parameters};
use super::plan::{self, Plan};
use super::{AssembleError, TrainableNetwork};
use crate::tensor::{Tensor, fill_from_array, to_array, to_floats};

impl TrainableNetwork {
    /// All numbers that a checkpoint must hold: parameters and the statistics of batch norms.
    pub fn to_arrays(&self) -> BTreeMap<String, Array> {
        self.named_numbers().map(|(name, value)| (name.to_owned(), to_array(&value))).collect()
    }

    /// Takes the numbers of a checkpoint. An auxiliary head or keep scores may be missing, and are then left as they
    /// are; those the network does not have are passed over.
    ///
    /// # Errors
    /// When a number is missing, unknown or of another shape. Nothing is changed then.
    pub fn load_arrays(&mut self, arrays: &BTreeMap<String, Array>) -> Result<(), AssembleError> {
        let is_optional = |name: &str| name.starts_with("auxiliary.") || name.ends_with(".keep");
        let network = || self.spec.name().to_owned();
        let known: BTreeMap<&str, Tensor> = self.named_numbers().collect();
        for (name, value) in &known {
            match arrays.get(*name) {
                None if is_optional(name) => {}
                None => return Err(AssembleError::Missing { network: network(), name: (*name).to_owned() }),
                Some(array) => check_shape(name, value, array)?,
            }
        }
        if let Some(name) =
            arrays.keys().find(|name| !known.contains_key(name.as_str()) && !is_optional(name))
        {
            return Err(AssembleError::Unknown { network: network(), name: name.clone() });
        }
        for (name, value) in &known {
            if let Some(array) = arrays.get(*name) {
                fill_from_array(value, array);
            }
        }
        drop(known);
        self.parameters.refresh();
        Ok(())
    }

    /// The weights as `network` knows them, for freezing and for running in the clear.
    ///
    /// # Errors
    /// When a number is not finite.
    pub fn to_float_weights(&self) -> Result<FloatWeights, AssembleError> {
        let steps = self.spec.walk().steps().iter();
        let layers = steps.filter_map(|step| Some((step.name.clone(), self.layer(step)?))).collect();
        Ok(FloatWeights::new(&self.spec, layers)?)
    }

    fn layer(&self, step: &Step) -> Option<LayerWeights> {
        let channels = self.spec.walk().shape(step.output).channels;
        let learned = |part: &str, usual: f32| {
            self.parameters.numbers(&format!("{}.{part}", step.name)).unwrap_or_else(|| vec![usual; channels])
        };
        let statistic = |part: &str| {
            let value = self.plan.statistic(&format!("{}.{part}", step.name));
            value.map_or_else(Vec::new, |value| to_floats(&value))
        };
        match &step.operation {
            Operation::Conv(_) | Operation::FullyConnected { .. } => {
                Some(LayerWeights::Linear { weights: learned("weight", 0.0), biases: learned("bias", 0.0) })
            }
            Operation::BatchNorm { .. } => Some(LayerWeights::BatchNorm {
                scale: learned("weight", 1.0),
                shift: learned("bias", 0.0),
                mean: statistic("running_mean"),
                variance: statistic("running_var"),
            }),
            Operation::SharedSigns { signs, .. } if signs.slopes => {
                let slopes = learned("slope", 0.0).into_iter().map(public_slope).collect();
                Some(LayerWeights::Slopes { slopes })
            }
            _ => None,
        }
    }

    /// Takes weights as `network` knows them.
    ///
    /// # Errors
    /// When they are another network's.
    pub fn load_float_weights(&mut self, weights: &FloatWeights) -> Result<(), AssembleError> {
        weights.check(&self.spec)?;
        for (name, value) in self.named_numbers() {
            let Some((step, part)) = name.rsplit_once('.') else { continue };
            let numbers = match (weights.layer(step), part) {
                (Some(LayerWeights::Linear { weights, .. }), "weight") => weights,
                (Some(LayerWeights::Linear { biases, .. }), "bias") => biases,
                (Some(LayerWeights::BatchNorm { scale, .. }), "weight") => scale,
                (Some(LayerWeights::BatchNorm { shift, .. }), "bias") => shift,
                (Some(LayerWeights::BatchNorm { mean, .. }), "running_mean") => mean,
                (Some(LayerWeights::BatchNorm { variance, .. }), "running_var") => variance,
                (Some(LayerWeights::Slopes { slopes }), "slope") => slopes,
                _ => continue,
            };
            let shape: Vec<usize> = value.size().iter().map(|side| *side as usize).collect();
            fill_from_array(&value, &Array::from_floats(&shape, numbers));
        }
        self.parameters.refresh();
        Ok(())
    }

    /// Parameters and statistics by name, as views.
    pub(crate) fn named_numbers(&self) -> impl Iterator<Item = (&str, Tensor)> {
        self.parameters.named().chain(self.plan.named_statistics())
    }

    /// The same network with other parameters beside those of its steps; numbers both have are kept.
    pub(super) fn rebuild(&mut self, extra: Vec<Declared>) -> Result<(), AssembleError> {
        let kept: BTreeMap<String, Array> =
            self.to_arrays().into_iter().filter(|(name, _)| !name.ends_with(".keep")).collect();
        let mut declared = plan::declare(&self.spec, self.options.initialization);
        if self.options.auxiliary_head {
            declared.extend(super::auxiliary::declare(&self.spec, self.options.initialization)?);
        }
        declared.extend(extra);
        let (seed, setting) = (self.options.seed, self.setting);
        self.parameters = crate::tensor::guarded(|| Parameters::new(declared, seed, setting))?;
        self.plan = Plan::new(&self.spec, &self.parameters, setting);
        if self.auxiliary.is_some() {
            self.auxiliary = AuxiliaryHead::new(&self.spec, &self.parameters, &self.plan, setting);
        }
        self.load_arrays(&kept)
    }
}

fn check_shape(name: &str, value: &Tensor, array: &Array) -> Result<(), AssembleError> {
    let shape: Vec<i64> = array.shape.iter().map(|side| *side as i64).collect();
    if shape == value.size() && array.kind == recipes::array::ArrayKind::F32 {
        return Ok(());
    }
    Err(AssembleError::Shape { name: name.to_owned(), expected: value.size(), came: array.shape.clone() })
}
