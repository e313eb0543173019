//! What freezing did, and what would overflow.

use serde::Serialize;

use crate::image::{Image, ImageError};
use crate::inference_model::{InferenceModel, ModelOperation, ModelOutline, Round};
use crate::mask::SiteMask;
use crate::reference::{self, Trace};
use crate::walk::StepId;

/// What freezing did.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// How much larger than on those images values may become, as it was asked for.
    pub margin: f32,
    /// The widths that interactive steps and logits got, against the values of those images.
    pub widths: Vec<WidthReport>,
    /// The smallest room of all widths.
    pub least_room: f64,
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

/// A width and what it has to hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WidthReport {
    /// The step that reads values of this width; the number of steps stands for the logits.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// Bits, sign included.
    pub width: u32,
    /// The largest magnitude on the calibration images, in units of the last place.
    pub largest: u64,
    /// How many times that magnitude the width holds.
    pub room: f64,
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
        margin: f32,
        images: &[Image],
    ) -> Result<Self, ImageError> {
        let outline = model.outline();
        let (widths, overflows) = measure(model, images)?;
        let (rescales, rescaling_round_trips) = rescales(outline);
        let rings = outline.steps.iter().map(|step| step.ring_bits);
        Ok(Self {
            layers: layers(outline, trimmed_bits),
            convolutions_before: before.0,
            convolutions_after: after.0,
            multiply_adds_before: before.1,
            multiply_adds_after: after.1,
            rescales,
            round_trips: outline.schedule().round_trips(),
            rescaling_round_trips,
            widest_ring_bits: rings.chain([outline.image_ring_bits]).max().unwrap_or(0),
            calibration_images: images.len(),
            margin,
            least_room: widths.iter().map(|width| width.room).fold(f64::INFINITY, f64::min),
            widths,
            overflows,
        })
    }

    /// Values of the calibration images that would overflow.
    pub fn overflow_count(&self) -> u64 {
        self.overflows.iter().map(|overflow| overflow.values).sum()
    }
}

fn layers(outline: &ModelOutline, trimmed_bits: &[u32]) -> Vec<LayerReport> {
    let layer = |((step, _), trimmed_bits): ((StepId, _), &u32)| {
        let found = outline.step(step);
        LayerReport {
            step: step.0,
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
    let is_rescale = |step: &StepId| {
        matches!(&outline.step(*step).operation, ModelOperation::Activate { mask: SiteMask::DropAll, .. })
    };
    let mut found = Vec::new();
    let mut paid = 0;
    for Round { interactive, .. } in &outline.schedule().rounds[1..] {
        let costs_round_trip = interactive.iter().all(is_rescale);
        paid += usize::from(costs_round_trip);
        for step in interactive.iter().filter(|step| is_rescale(step)) {
            let (rescale, scalars) = (outline.step(*step), outline.step(*step).shape.scalars());
            found.push(Rescale { step: step.0, name: rescale.name.clone(), scalars, costs_round_trip });
        }
    }
    (found, paid)
}

/// Runs the model on the images: what its widths have to hold, and what they do not.
fn measure(
    model: &InferenceModel,
    images: &[Image],
) -> Result<(Vec<WidthReport>, Vec<Overflow>), ImageError> {
    let outline = model.outline();
    let mut read: Vec<_> =
        (0..=outline.steps.len()).filter_map(|step| WidthCheck::of(outline, step)).collect();
    for image in images {
        let trace = reference::trace(model, image, None)?;
        read.iter_mut().for_each(|check| check.count(&trace));
    }
    let name = |step: usize| outline.steps.get(step).map_or("logits", |step| &step.name).to_owned();
    let width = |check: &WidthCheck| {
        let WidthCheck { step, width, largest, .. } = *check;
        let room = check.limit() as f64 / largest.max(1) as f64;
        WidthReport { step, name: name(step), width, largest, room }
    };
    let overflow = |check: &WidthCheck| {
        let WidthCheck { step, overflows: values, .. } = *check;
        (values > 0).then(|| Overflow { step, name: name(step), values })
    };
    Ok((read.iter().map(width).collect(), read.iter().filter_map(overflow).collect()))
}

/// How many values of one image do not fit the widths of a model.
pub fn count_overflows(model: &InferenceModel, trace: &Trace) -> u64 {
    let outline = model.outline();
    let checks = (0..=outline.steps.len()).filter_map(|step| WidthCheck::of(outline, step));
    let counted = checks.map(|mut check| {
        check.count(trace);
        check.overflows
    });
    counted.sum()
}

/// The inputs of a step (or the logits) against their width.
struct WidthCheck {
    step: usize,
    value: usize,
    width: u32,
    /// What rounding may add, and take away.
    rounding: (i64, i64),
    largest: u64,
    overflows: u64,
}

impl WidthCheck {
    /// Nothing for steps that both parties do on their shares.
    fn of(outline: &ModelOutline, step: usize) -> Option<Self> {
        let (value, width, rounding) = match outline.steps.get(step) {
            // The lower end leaves room for the logits' borrow.
            None => {
                let output = outline.output();
                (output, outline.ring_bits(output), (1 << outline.logit_drop, 1))
            }
            Some(step) => match step.operation {
                ModelOperation::Activate { width, shift, .. } => {
                    (step.inputs[0], width, ((1_i64 << shift) - 1, 0))
                }
                ModelOperation::Gate(ref gate) => {
                    (step.inputs[0], gate.width, ((1_i64 << gate.shift) - 1, 0))
                }
                ModelOperation::Maximum { width, .. } => (step.inputs[0], width, (0, 0)),
                _ => return None,
            },
        };
        Some(Self { step, value: value.0, width, rounding, largest: 0, overflows: 0 })
    }

    fn limit(&self) -> i64 {
        1_i64 << (self.width - 1)
    }

    fn count(&mut self, trace: &Trace) {
        let limit = self.limit();
        let (up, down) = self.rounding;
        for value in &trace.values[self.value] {
            self.largest = self.largest.max(value.unsigned_abs());
            self.overflows += u64::from(value - down < -limit || value + up >= limit);
        }
    }
}
