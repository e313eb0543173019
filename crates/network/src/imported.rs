//! Networks that were made elsewhere: a flat list of named operations with their weights, without stages or blocks.
//!
//! A [`NetworkSpec`](crate::spec::NetworkSpec) is described stage by stage; what another framework exports is a graph. An
//! [`ImportBuilder`] takes that graph operation by operation, with the same checks of shapes and limits as a spec, and gives
//! an [`ImportedNetwork`]: a [`Walk`] with its weights, which is counted, masked, run in floating point and frozen as any
//! other. It cannot be written as TOML and has no blocks to transform.
//!
//! Stages are found by resolution, as in DeepReDuce section 2.1: the stem reaches to the first ReLU and the pooling
//! behind it, every later step that leaves less than two thirds of a side begins a stage, and the head begins
//! where one pixel is left.

mod places;

use std::collections::{BTreeMap, HashSet};

use crate::shape::Shape;
use crate::spec::{Join, Layer, SpecFault};
use crate::walk::build::Builder;
use crate::walk::{Network, Operation, ReluSite, SiteIndex, Step, ValueId, Walk};
use crate::weights::{FloatWeights, LayerWeights, WeightsError};

/// Longer names are cut: a frozen model has to hold them, and suffixes.
const MAX_NAME_BYTES: usize = 200;

/// A network from elsewhere, with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedNetwork {
    name: String,
    walk: Walk,
    weights: FloatWeights,
}

impl ImportedNetwork {
    /// Its weights.
    pub fn weights(&self) -> &FloatWeights {
        &self.weights
    }

    /// The image it takes.
    pub fn input(&self) -> Shape {
        self.walk.shape(ValueId::IMAGE)
    }

    /// The ReLU layer of this name.
    pub fn site(&self, name: &str) -> Option<&ReluSite> {
        self.walk.sites().iter().find(|site| site.name == name)
    }
}

impl Network for ImportedNetwork {
    fn name(&self) -> &str {
        &self.name
    }

    fn walk(&self) -> &Walk {
        &self.walk
    }
}

/// Takes a network operation by operation.
pub struct ImportBuilder {
    name: String,
    builder: Builder,
    layers: BTreeMap<String, LayerWeights>,
    names: HashSet<String>,
}

impl ImportBuilder {
    /// A network of this name that takes such images.
    ///
    /// # Errors
    /// When the image has no size, or one beyond the limits.
    pub fn new(name: &str, input: Shape) -> Result<Self, SpecFault> {
        if !input.is_sane() {
            return Err(SpecFault::Size { shape: input });
        }
        let (layers, names) = (BTreeMap::new(), HashSet::new());
        Ok(Self { name: printable(name), builder: Builder::new(input, 1), layers, names })
    }

    /// The size of a value.
    ///
    /// # Panics
    /// If another builder made the value.
    pub fn shape(&self, value: ValueId) -> Shape {
        self.builder.shapes[value.0]
    }

    /// Adds a layer without weights: an activation or a pooling.
    ///
    /// # Errors
    /// When it does not fit its input.
    pub fn layer(&mut self, name: &str, layer: &Layer, input: ValueId) -> Result<ValueId, SpecFault> {
        self.name_next(name);
        self.builder.layer(layer, input)
    }

    /// Adds a layer with weights: a convolution, a fully connected layer or a batch norm.
    ///
    /// # Errors
    /// When it does not fit its input. Weights are checked at the end.
    pub fn weighted(
        &mut self,
        name: &str,
        layer: &Layer,
        weights: LayerWeights,
        input: ValueId,
    ) -> Result<ValueId, SpecFault> {
        let name = self.name_next(name);
        let value = self.builder.layer(layer, input)?;
        self.layers.insert(name, weights);
        Ok(value)
    }

    /// Adds each channel times its scale, plus its shift.
    ///
    /// # Errors
    /// When the network grows too long.
    pub fn affine(
        &mut self,
        name: &str,
        scale: Vec<f32>,
        shift: Vec<f32>,
        input: ValueId,
    ) -> Result<ValueId, SpecFault> {
        let channels = scale.len();
        // Together with the constant that every batch norm adds, a variance of one.
        let variance = vec![1.0 - crate::weights::BATCH_NORM_EPSILON; channels];
        let weights = LayerWeights::BatchNorm { scale, shift, mean: vec![0.0; channels], variance };
        self.weighted(name, &Layer::BatchNorm, weights, input)
    }

    /// Joins values: their sum, or their channels side by side.
    ///
    /// # Errors
    /// When they do not fit each other.
    pub fn join(&mut self, name: &str, join: Join, values: Vec<ValueId>) -> Result<ValueId, SpecFault> {
        if values.len() > 1 {
            self.name_next(name);
        }
        self.builder.join(join, values)
    }

    /// Takes a range of channels.
    ///
    /// # Errors
    /// When the value does not have them.
    pub fn slice(
        &mut self,
        name: &str,
        start: usize,
        channels: usize,
        input: ValueId,
    ) -> Result<ValueId, SpecFault> {
        let shape = self.shape(input);
        let is_inside = start.checked_add(channels).is_some_and(|end| end <= shape.channels);
        if channels == 0 || !is_inside {
            let last = shape.channels - 1;
            return Err(SpecFault::NoSuchChannel { channel: start.saturating_add(channels), last });
        }
        self.name_next(name);
        let slice = Operation::Slice { start, channels };
        self.builder.push(slice, vec![input], shape.with_channels(channels))
    }

    /// The network that ends with this value; what nobody reads is left out.
    ///
    /// # Errors
    /// When the value is no vector or the image itself, or weights are not finite or of another number.
    pub fn finish(self, output: ValueId) -> Result<ImportedNetwork, ImportFault> {
        let shape = self.shape(output);
        if shape.pixels() != 1 || output == ValueId::IMAGE {
            return Err(ImportFault::End { shape });
        }
        let is_read = read_values(&self.builder.steps, output);
        let mut kept = Kept::new(self.builder.shapes[0]);
        for step in self.builder.steps {
            let shape = self.builder.shapes[step.output.0];
            kept.take(step, shape, &is_read);
        }
        places::assign(&mut kept.steps, &kept.shapes);
        let sites = kept.sites(&self.builder.sites);
        let walk = Walk::from_parts(kept.steps, kept.shapes, sites);
        let names: HashSet<&str> = walk.steps().iter().map(|step| step.name.as_str()).collect();
        let layers = self.layers.into_iter().filter(|(name, _)| names.contains(name.as_str())).collect();
        let shell = Shell { name: &self.name, walk: &walk };
        let weights = FloatWeights::new(&shell, layers)?;
        Ok(ImportedNetwork { name: self.name, walk, weights })
    }

    /// Names the next step, uniquely and without anything that a terminal would obey.
    fn name_next(&mut self, name: &str) -> String {
        let plain = printable(name);
        let mut unique = plain.clone();
        let mut number = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{plain}.{number}");
            number += 1;
        }
        self.builder.name_next(unique.clone());
        unique
    }
}

/// A network before its weights were checked.
struct Shell<'a> {
    name: &'a str,
    walk: &'a Walk,
}

impl Network for Shell<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn walk(&self) -> &Walk {
        self.walk
    }
}

/// Which values the output depends on, itself included.
fn read_values(steps: &[Step], output: ValueId) -> Vec<bool> {
    let mut is_read = vec![false; steps.len() + 1];
    is_read[output.0] = true;
    for step in steps.iter().rev().filter(|step| step.output <= output) {
        if is_read[step.output.0] {
            step.inputs.iter().for_each(|input| is_read[input.0] = true);
        }
    }
    is_read
}

/// The steps that stay, numbered anew.
struct Kept {
    steps: Vec<Step>,
    shapes: Vec<Shape>,
    /// The new number of each old value.
    values: Vec<ValueId>,
    /// The old number of each ReLU layer that stays.
    sites: Vec<SiteIndex>,
}

impl Kept {
    fn new(input: Shape) -> Self {
        Self { steps: Vec::new(), shapes: vec![input], values: vec![ValueId::IMAGE], sites: Vec::new() }
    }

    fn take(&mut self, mut step: Step, shape: Shape, is_read: &[bool]) {
        if is_read[step.output.0] {
            step.inputs.iter_mut().for_each(|input| *input = self.values[input.0]);
            step.output = ValueId(self.steps.len() + 1);
            if let Operation::Relu { site, .. } | Operation::SharedSigns { site, .. } = &mut step.operation {
                self.sites.push(*site);
                *site = SiteIndex(self.sites.len() - 1);
            }
            self.steps.push(step);
            self.shapes.push(shape);
        }
        self.values.push(ValueId(self.steps.len()));
    }

    /// The ReLU layers that stay, at the places that their steps now have.
    fn sites(&self, all: &[ReluSite]) -> Vec<ReluSite> {
        let mut sites = Vec::with_capacity(self.sites.len());
        for (number, step) in self.steps.iter().enumerate() {
            if let Operation::Relu { site, .. } | Operation::SharedSigns { site, .. } = &step.operation {
                let shape = all[self.sites[site.0].0].shape;
                sites.push(ReluSite {
                    index: *site,
                    step: number,
                    name: step.name.clone(),
                    place: step.place,
                    shape,
                });
            }
        }
        sites
    }
}

/// A name as it may be printed and stored: no control characters, no slash in front, not too long.
fn printable(name: &str) -> String {
    let mut name: String = name.trim_start_matches('/').chars().filter(|c| !c.is_control()).collect();
    while name.len() > MAX_NAME_BYTES {
        name.pop();
    }
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// A network that cannot be imported although each of its operations fits.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImportFault {
    /// It ends with a map, or does nothing.
    #[error(
        "the network ends at {shape}; expected one number for each class, made by at least one operation"
    )]
    End {
        /// Where it ends.
        shape: Shape,
    },
    /// Its weights cannot be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

#[cfg(test)]
mod tests;
