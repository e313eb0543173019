//! What freezing did, and what would overflow.

use serde::Serialize;

use crate::image::{Image, ImageError};
use crate::inference_model::{InferenceModel, ModelOperation, ModelOutline};
use crate::mask::SiteMask;
use crate::reference::{self, Trace};

/// What freezing did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FreezeReport {
    /// Linear layers of the model, in order.
    pub layers: Vec<LayerReport>,
    /// Convolutions of the network, scalings of channels left out.
    pub convolutions_before: usize,
    /// And after merging.
    pub convolutions_after: usize,
    /// Multiply-adds of all linear layers.
    pub multiply_adds_before: u64,
    /// And after merging.
    pub multiply_adds_after: u64,
    /// Rescalings that no ReLU asked for.
    pub rescales: Vec<Rescale>,
    /// Round trips of one inference.
    pub round_trips: usize,
    /// Those among them that only rescale.
    pub rescaling_round_trips: usize,
    /// The widest ring of all.
    pub widest_ring_bits: u32,
    /// How many images were used.
    pub calibration_images: usize,
    /// Steps whose widths some value of those images does not fit.
    pub overflows: Vec<Overflow>,
}

/// One linear layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// Its step.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// The ring of its input: what its homomorphic product must hold.
    pub input_ring_bits: u32,
    /// The ring of its output.
    pub ring_bits: u32,
    /// Bits its weights go without, so that the linear run it belongs to fits a narrower ring.
    pub trimmed_bits: u32,
}

/// A rescaling that no ReLU asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rescale {
    /// Its step.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// How many scalars it truncates.
    pub scalars: u64,
    /// Whether its round trip has no ReLU or maximum in it.
    pub costs_round_trip: bool,
}

/// A step whose width is too small for some values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overflow {
    /// Its step; the number of steps stands for the logits.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// Values that do not fit, over all calibration images.
    pub values: u64,
}

impl FreezeReport {
    /// Describes a model, whose linear layers lost some bits, and runs it on the calibration images.
    pub(super) fn new(
        model: &InferenceModel,
        before: (usize, u64),
        after: (usize, u64),
        trimmed_bits: &[u32],
        images: &[Image],
    ) -> Result<Self, ImageError> {
        let outline = model.outline();
        let (rescales, rescaling_round_trips) = rescales(outline);
        let rings = outline.steps.iter().map(|step| step.ring_bits);
        Ok(Self {
            layers: layers(outline, trimmed_bits),
            convolutions_before: before.0,
            convolutions_after: after.0,
            multiply_adds_before: before.1,
            multiply_adds_after: after.1,
            rescales,
            round_trips: outline.rounds().count(),
            rescaling_round_trips,
            widest_ring_bits: rings.chain([outline.image_ring_bits]).max().unwrap_or(0),
            calibration_images: images.len(),
            overflows: overflows(model, images)?,
        })
    }

    /// Values of the calibration images that would overflow.
    pub fn overflow_count(&self) -> u64 {
        self.overflows.iter().map(|overflow| overflow.values).sum()
    }
}

fn layers(outline: &ModelOutline, trimmed_bits: &[u32]) -> Vec<LayerReport> {
    let layer = |((step, _), trimmed_bits): (_, &u32)| {
        let found = &outline.steps[step];
        LayerReport {
            step,
            name: found.name.clone(),
            input_ring_bits: outline.ring_bits(found.inputs[0]),
            ring_bits: found.ring_bits,
            trimmed_bits: *trimmed_bits,
        }
    };
    outline.linear_steps().zip(trimmed_bits).map(layer).collect()
}

/// The rescalings, and how many round trips consist of nothing else.
fn rescales(outline: &ModelOutline) -> (Vec<Rescale>, usize) {
    let rounds = outline.rounds();
    let is_rescale = |step: usize| {
        matches!(&outline.steps[step].operation, ModelOperation::Activate { mask: SiteMask::DropAll, .. })
    };
    let mut found = Vec::new();
    let mut paid = 0;
    for round in 1..=rounds.count() {
        let steps = rounds.interactive(round);
        let costs_round_trip = steps.iter().all(|step| is_rescale(*step));
        paid += usize::from(costs_round_trip);
        for &step in steps.iter().filter(|step| is_rescale(**step)) {
            let scalars = outline.steps[step].shape.scalars();
            found.push(Rescale { step, name: outline.steps[step].name.clone(), scalars, costs_round_trip });
        }
    }
    (found, paid)
}

fn overflows(model: &InferenceModel, images: &[Image]) -> Result<Vec<Overflow>, ImageError> {
    let outline = model.outline();
    let mut counts = vec![0; outline.steps.len() + 1];
    for image in images {
        let trace = reference::trace(model, image, None)?;
        for (step, count) in counts.iter_mut().enumerate() {
            *count += overflows_at(outline, step, &trace);
        }
    }
    let name = |step: usize| outline.steps.get(step).map_or("logits", |step| &step.name).to_owned();
    let found = counts.into_iter().enumerate().filter(|(_, values)| *values > 0);
    Ok(found.map(|(step, values)| Overflow { step, name: name(step), values }).collect())
}

/// How many inputs of a step (or logits) do not fit its width, rounding included.
fn overflows_at(outline: &ModelOutline, step: usize, trace: &Trace) -> u64 {
    let (values, width, rounding) = match outline.steps.get(step) {
        None => {
            let output = outline.output();
            (&trace.values[output.0], outline.ring_bits(output), 1 << outline.logit_drop)
        }
        Some(step) => match step.operation {
            ModelOperation::Activate { width, shift, .. } => {
                (&trace.values[step.inputs[0].0], width, (1_i64 << shift) - 1)
            }
            ModelOperation::Maximum { width, .. } => (&trace.values[step.inputs[0].0], width, 0),
            _ => return 0,
        },
    };
    let limit = 1_i64 << (width - 1);
    // The lower end leaves room for the logits' borrow, the upper one for rounding.
    let fits = |value: &&i64| {
        **value >= -limit + i64::from(step == outline.steps.len()) && **value + rounding < limit
    };
    values.iter().filter(|value| !fits(value)).count() as u64
}
