//! Float weights become an inference model: integers, with scales, widths and rings chosen.
//!
//! ```text
//! spec + weights + mask -> graph (batch norms folded) -> merged -> calibrated on images
//!                       -> plan (scales forwards, rescalings chosen, rings backwards) -> rounded -> checked on the images
//! ```
//!
//! Weights get per-channel power-of-two scales, values per-layer ones. Widths come from the largest values on the
//! calibration images times a margin; values of those images that would overflow all the same are counted in the
//! [`FreezeReport`]. Merging of consecutive linear layers is that of DeepReDuce section 5.3, exact at the borders.

mod calibrate;
mod choose;
mod graph;
mod mantissa;
mod merge;
mod plan;
mod report;
mod scales;
mod thaw;

use crate::image::{Image, ImageError};
use crate::inference_model::{
    ImageFormat, InferenceModel, LinearWeights, ModelError, ModelOutline, ModelStep, WeightBits,
};
use crate::mask::ActivationMask;
use crate::walk::{Network, ValueId};
use crate::weights::{FloatWeights, WeightsError};

use graph::{FloatLinear, FloatOperation, Graph};
use plan::{PlannedStep, Problem, ScalePlan};
use scales::LayerScale;

pub use report::{FreezeReport, LayerReport, Overflow, Rescale, WidthReport, count_overflows};

/// How to freeze.
#[derive(Clone, Debug, PartialEq)]
pub struct FreezeOptions {
    /// How large weights may be.
    pub weight_bits: WeightBits,
    /// Bits of an activation's output, without sign.
    pub activation_bits: u32,
    /// How much larger than on the calibration images values may become.
    pub margin: f32,
    /// How pixels become numbers; what is usual for the number of channels when absent.
    pub image: Option<ImageFormat>,
    /// Bits of the logits the client gets.
    pub logit_bits: u32,
    /// Rings wider than this are narrowed where that costs no round trip.
    pub comfortable_ring_bits: u32,
    /// Rings wider than this are narrowed at any price, round trips included; what cannot be is refused.
    pub widest_ring_bits: u32,
    /// Whether consecutive linear layers are merged.
    pub merge: bool,
    /// What the classes are called; empty for no names.
    pub class_names: Vec<String>,
    /// How much the outline tells about weights and calibration images.
    pub outline: OutlineDetail,
}

impl Default for FreezeOptions {
    fn default() -> Self {
        Self {
            weight_bits: WeightBits::Eight,
            activation_bits: 10,
            margin: 2.0,
            image: None,
            logit_bits: 16,
            comfortable_ring_bits: 32,
            widest_ring_bits: 40,
            merge: true,
            class_names: Vec::new(),
            outline: OutlineDetail::Fine,
        }
    }
}

/// How much the outline, which the client sees, tells about weights and calibration images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutlineDetail {
    /// A scale per channel and widths as narrow as calibration allows: the cheapest.
    #[default]
    Fine,
    /// One scale per layer, and magnitudes known only to a factor of 16.
    Coarse,
}

/// Freezes a network; without a mask every ReLU is kept.
///
/// # Errors
/// When weights, mask or images are another network's, there are no images, or values fit no ring.
pub fn freeze(
    network: &dyn Network,
    weights: &FloatWeights,
    mask: Option<&ActivationMask>,
    images: &[Image],
    options: &FreezeOptions,
) -> Result<(InferenceModel, FreezeReport), FreezeError> {
    options.check()?;
    weights.check(network)?;
    if mask.is_some_and(|mask| !mask.fits(network)) {
        return Err(FreezeError::Mask);
    }
    let input = network.walk().shape(ValueId::IMAGE);
    let image = options.image.clone().unwrap_or_else(|| ImageFormat::usual(input.channels));
    if images.is_empty() || image.mean.len() != input.channels || image.deviation.len() != input.channels {
        return Err(FreezeError::Calibration { images: images.len(), channels: image.mean.len() });
    }
    images.iter().try_for_each(|image| image.expect_shape(input))?;

    let mut graph = Graph::new(network, weights, mask);
    let before = graph.convolutions();
    if options.merge {
        merge::merge(&mut graph);
    }
    mantissa::move_mantissas(&mut graph);
    let scales = layer_scales(&graph, options);
    let (name, classes) = (network.name(), network.walk().classes());
    let job = Job { name, classes, graph, scales, may_trim: true, before, image };
    job.freeze(images, options)
}

/// Freezes a frozen model anew, with other rings, widths or activations. Its weights stay what they are, bit for bit, and so
/// do image format and class names, whatever the options say; biases are rounded to their new scales.
///
/// # Errors
/// When images are of another size, there are none, values fit no ring, or a step is none that freezing makes.
pub fn refreeze(
    model: &InferenceModel,
    images: &[Image],
    options: &FreezeOptions,
) -> Result<(InferenceModel, FreezeReport), FreezeError> {
    let outline = model.outline();
    let class_names = outline.class_names.clone();
    let options = &FreezeOptions { weight_bits: outline.weight_bits, class_names, ..options.clone() };
    options.check()?;
    if images.is_empty() {
        return Err(FreezeError::Calibration { images: 0, channels: outline.input.channels });
    }
    images.iter().try_for_each(|image| image.expect_shape(outline.input))?;
    let (graph, scales) = thaw::thaw(model).map_err(|step| FreezeError::Thaw { step })?;
    let (before, image) = (graph.convolutions(), outline.image.clone());
    let (name, classes) = (&*outline.name, outline.classes);
    let job = Job { name, classes, graph, scales, may_trim: false, before, image };
    job.freeze(images, options)
}

/// What is left to do when the graph is settled.
struct Job<'a> {
    name: &'a str,
    classes: usize,
    graph: Graph,
    /// By node; only linear ones have any.
    scales: Vec<Option<LayerScale>>,
    /// Whether weights may go without bits.
    may_trim: bool,
    /// Convolutions and multiply-adds before merging.
    before: (usize, u64),
    image: ImageFormat,
}

impl Job<'_> {
    fn freeze(
        self,
        images: &[Image],
        options: &FreezeOptions,
    ) -> Result<(InferenceModel, FreezeReport), FreezeError> {
        let Self { graph, scales, image, may_trim, .. } = &self;
        let mut maxima = calibrate::maxima(graph, images.iter().map(|pixels| image.normalize(pixels)));
        if let Some(value) = maxima.iter().position(|maximum| !maximum.is_finite()) {
            return Err(FreezeError::Infinite { name: value_name(graph, ValueId(value)) });
        }
        if options.outline == OutlineDetail::Coarse {
            maxima.iter_mut().for_each(|maximum| *maximum = scales::coarse_magnitude(*maximum));
        }
        let (image_fraction, may_trim) = (image.fraction, *may_trim);
        let problem = Problem { graph, maxima: &maxima, options, image_fraction, scales, may_trim };
        let plan = choose::choose(&problem);
        if let Some((name, bits)) = plan.widest_ring().filter(|(_, bits)| *bits > options.widest_ring_bits) {
            return Err(FreezeError::WideRing { name, bits, limit: options.widest_ring_bits });
        }
        let linear = plan.steps.iter().filter(|step| step.scale.is_some());
        let trimmed_bits: Vec<u32> = linear.map(|step| step.trimmed_bits).collect();
        let model = self.round(plan, options)?;
        let model = model.with_class_names(options.class_names.clone()).map_err(FreezeError::Classes)?;
        let after = self.graph.convolutions();
        let report = FreezeReport::new(&model, self.before, after, &trimmed_bits, options.margin, images)?;
        Ok((model, report))
    }

    /// Rounds the weights to their scales and puts the model together.
    fn round(&self, plan: ScalePlan, options: &FreezeOptions) -> Result<InferenceModel, FreezeError> {
        let bound = f64::from(options.weight_bits.bound());
        let mut layers = Vec::new();
        for step in &plan.steps {
            let node = step.node.map(|node| &self.graph[node].operation);
            if let (Some(FloatOperation::Linear(linear)), Some(scale)) = (node, &step.scale) {
                layers.push(round_layer(linear, scale, step.fraction, bound));
            }
        }
        let outline = ModelOutline {
            name: self.name.to_owned(),
            input: self.graph.input,
            image: self.image.clone(),
            classes: self.classes,
            class_names: Vec::new(),
            weight_bits: options.weight_bits,
            logit_drop: plan.logit_width.saturating_sub(options.logit_bits),
            image_ring_bits: plan.image_ring_bits,
            steps: plan.steps.into_iter().map(model_step).collect(),
        };
        Ok(InferenceModel::new(outline, layers)?)
    }
}

impl FreezeOptions {
    fn check(&self) -> Result<(), FreezeError> {
        let refuse = |what, value| Err(FreezeError::Option { what, value });
        match self {
            Self { margin, .. } if !(1.0..=1e6).contains(margin) => refuse("margin", f64::from(*margin)),
            Self { activation_bits: bits @ (0..=1 | 25..), .. } => {
                refuse("activation bits", f64::from(*bits))
            }
            Self { widest_ring_bits: bits @ (0..=23 | 63..), .. } => refuse("widest ring", f64::from(*bits)),
            Self { logit_bits: bits @ (0..=1 | 33..), .. } => refuse("logit bits", f64::from(*bits)),
            _ => Ok(()),
        }
    }
}

fn value_name(graph: &Graph, value: ValueId) -> String {
    value.maker().map_or_else(|| "the image".to_owned(), |maker| graph[maker].name.clone())
}

fn layer_scales(graph: &Graph, options: &FreezeOptions) -> Vec<Option<LayerScale>> {
    let scale = |node: &graph::Node| match &node.operation {
        FloatOperation::Linear(linear) => {
            let scale = LayerScale::of(linear, options.weight_bits);
            Some(match options.outline {
                OutlineDetail::Fine => scale,
                OutlineDetail::Coarse => scale.evened(),
            })
        }
        _ => None,
    };
    graph.nodes.iter().map(scale).collect()
}

fn model_step(step: PlannedStep) -> ModelStep {
    let PlannedStep { name, place, operation, inputs, shape, fraction, ring_bits, .. } = step;
    ModelStep { name, place, operation, inputs, shape, fraction, ring_bits }
}

fn round_layer(linear: &FloatLinear, scale: &LayerScale, fraction: u32, bound: f64) -> LinearWeights {
    let taps = linear.geometry.taps();
    let mut weights = Vec::with_capacity(linear.weights.len());
    for (row, bits) in linear.weights.chunks_exact(taps).zip(&scale.channels) {
        let unit = scales::power(*bits);
        weights
            .extend(row.iter().map(|weight| (f64::from(*weight) * unit).round().clamp(-bound, bound) as i16));
    }
    let unit = scales::power(fraction as i32);
    let biases = linear.biases.iter().map(|bias| (f64::from(*bias) * unit).round() as i64).collect();
    LinearWeights { weights, biases }
}

/// A network that cannot be frozen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FreezeError {
    /// An option that cannot be used.
    #[error(
        "{what} of {value} cannot be used; margins go from 1, activations from 2 to 24 bits, logits from 2 \
         to 32, the widest ring from 24 to 62"
    )]
    Option {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A mask of another network.
    #[error("the mask was made for another network")]
    Mask,
    /// Weights of another network.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// An image of another size.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Nothing to calibrate on.
    #[error(
        "calibration needs at least one image and one mean and deviation per channel; {images} images and \
         {channels} means came"
    )]
    Calibration {
        /// How many images came.
        images: usize,
        /// How many means.
        channels: usize,
    },
    /// Values beyond all numbers.
    #[error("{name} is not finite on the calibration images")]
    Infinite {
        /// The value.
        name: String,
    },
    /// A ring wider than was asked for.
    #[error(
        "{name} needs a ring of {bits} bits, and at most {limit} were asked for; fewer bits of activations or \
         weights, or wider rings, would fit"
    )]
    WideRing {
        /// The value.
        name: String,
        /// The ring it needs.
        bits: u32,
        /// What was asked for.
        limit: u32,
    },
    /// A step of a frozen model that freezing does not make.
    #[error("{step} cannot be frozen anew: no network has such a step; freeze the network it came from")]
    Thaw {
        /// The step.
        step: String,
    },
    /// Names of classes that cannot be used.
    #[error("the class names cannot be used: {0}")]
    Classes(#[source] ModelError),
    /// Scales, widths or rings that fit nothing.
    #[error("the values of this network fit no ring: {0}")]
    Model(#[from] ModelError),
}

#[cfg(test)]
mod tests;
