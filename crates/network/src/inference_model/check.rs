//! Whether an outline makes sense: code behind this border need not doubt inputs, shapes, scales, widths or rings.
//!
//! An outline may come from the peer or from a file, so nothing is believed: every size is computed from the
//! operation and compared with what is stated, and every count has a limit.

mod fault;

use super::{Gate, LinearGeometry, MAX_RING_BITS, ModelError, ModelOperation, ModelOutline, ModelStep};
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::spec::{Pool, check_groups};
use crate::walk::{ConvGeometry, ValueId};

pub use fault::{OutlineFault, StepFault};

pub(super) const MAX_STEPS: usize = 40_000;
pub(super) const MAX_NAME_BYTES: usize = 512;
/// The longest name of a class.
pub(super) const MAX_CLASS_NAME_BYTES: usize = 128;
/// Scalars of one value, and of all values together.
const MAX_SCALARS: u64 = 1 << 26;
const MAX_ALL_SCALARS: u64 = 1 << 31;
const MAX_WEIGHTS: u64 = 1 << 30;
const MAX_INPUTS: usize = 4096;
const MAX_IMAGE_FRACTION: u32 = 16;
const MAX_FRACTION: u32 = 255;
/// Bits an `Activate` must leave above its shift: the parties compare shares of that many, a sign and one below it.
const MIN_COMPARED_BITS: u32 = 2;
/// Kernels, strides, dilations and paddings beyond this are no network.
const MAX_WINDOW: usize = 1 << 12;

type Outcome<T> = Result<T, StepFault>;

impl ModelOutline {
    /// Checks everything that can be checked without weights.
    ///
    /// # Errors
    /// With the first step that does not fit, and why.
    pub fn check(&self) -> Result<(), ModelError> {
        self.check_frame()?;
        let mut scalars = self.input.scalars();
        let mut weights = 0_u64;
        for (index, step) in self.steps.iter().enumerate() {
            let refuse = |fault| ModelError::Step { step: index, name: step.name.clone(), fault };
            self.check_step(index, step).map_err(refuse)?;
            scalars += step.shape.scalars();
            if let ModelOperation::Linear { geometry, .. } = &step.operation {
                weights = weights.saturating_add(geometry.taps() as u64 * geometry.outputs() as u64);
            }
            if scalars > MAX_ALL_SCALARS || weights > MAX_WEIGHTS {
                return Err(refuse(StepFault::TooLarge { scalars, weights }));
            }
        }
        self.check_end()?;
        Ok(())
    }

    fn check_frame(&self) -> Result<(), OutlineFault> {
        if !is_name(&self.name) {
            return Err(OutlineFault::Name { bytes: self.name.len() });
        }
        if self.steps.is_empty() || self.steps.len() > MAX_STEPS {
            return Err(OutlineFault::Steps { count: self.steps.len() });
        }
        if !self.input.is_sane() || self.input.scalars() > MAX_SCALARS {
            return Err(OutlineFault::Input { shape: self.input });
        }
        let image = &self.image;
        let channels = self.input.channels;
        if image.mean.len() != channels || image.deviation.len() != channels {
            let came = image.mean.len().min(image.deviation.len());
            return Err(OutlineFault::Normalization { expected: channels, came });
        }
        let is_usable = image.mean.iter().all(|mean| mean.is_finite())
            && image.deviation.iter().all(|deviation| deviation.is_normal() && *deviation > 0.0);
        if !is_usable || image.fraction > MAX_IMAGE_FRACTION {
            return Err(OutlineFault::ImageFormat { fraction: image.fraction });
        }
        if !ring_exists(self.image_ring_bits) {
            return Err(OutlineFault::ImageRing { bits: self.image_ring_bits });
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), OutlineFault> {
        let end = self.shape(self.output());
        if end != Shape::vector(self.classes) {
            return Err(OutlineFault::End { end, classes: self.classes });
        }
        self.check_class_names()?;
        let ring = self.ring_bits(self.output());
        if self.logit_drop >= ring {
            return Err(OutlineFault::LogitDrop { drop: self.logit_drop, ring });
        }
        Ok(())
    }

    /// Names come from the peer and end on a terminal, so that control characters are refused.
    fn check_class_names(&self) -> Result<(), OutlineFault> {
        let names = &self.class_names;
        if !names.is_empty() && names.len() != self.classes {
            return Err(OutlineFault::ClassNames { expected: self.classes, came: names.len() });
        }
        let is_name = |name: &String| {
            (1..=MAX_CLASS_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control)
        };
        match names.iter().position(|name| !is_name(name)) {
            Some(class) => Err(OutlineFault::ClassName { class, bytes: names[class].len() }),
            None => Ok(()),
        }
    }

    fn check_step(&self, index: usize, step: &ModelStep) -> Outcome<()> {
        if !is_name(&step.name) {
            return Err(StepFault::Name { bytes: step.name.len() });
        }
        if let Some(input) = step.inputs.iter().find(|input| input.0 > index) {
            return Err(StepFault::Input { value: input.0, before: index });
        }
        let takes_many = matches!(step.operation, ModelOperation::Add { .. } | ModelOperation::Concat { .. });
        let most = if takes_many { MAX_INPUTS } else { 1 };
        if step.inputs.is_empty() || step.inputs.len() > most {
            return Err(StepFault::InputCount { came: step.inputs.len() });
        }
        let expected = self.expected_shape(step)?;
        if expected != step.shape {
            return Err(StepFault::Shape { expected, stated: step.shape });
        }
        if !expected.is_sane() || expected.scalars() > MAX_SCALARS {
            return Err(StepFault::Size { shape: expected });
        }
        self.check_fraction(step)?;
        self.check_rings(step)
    }

    fn expected_shape(&self, step: &ModelStep) -> Outcome<Shape> {
        let input = self.shape(step.inputs[0]);
        match &step.operation {
            ModelOperation::Linear { geometry, channel_shifts } => {
                counted("channel shifts", geometry.outputs(), channel_shifts.len())?;
                linear_shape(geometry, input)
            }
            ModelOperation::Add { shifts } => {
                counted("shifts", step.inputs.len(), shifts.len())?;
                self.same_maps(&step.inputs, |shape| shape)?;
                Ok(input)
            }
            ModelOperation::Concat { shifts } => {
                counted("shifts", step.inputs.len(), shifts.len())?;
                self.same_maps(&step.inputs, |shape| shape.with_channels(1))?;
                let channels = step.inputs.iter().map(|value| self.shape(*value).channels).sum();
                Ok(input.with_channels(channels))
            }
            ModelOperation::Slice { start, channels } => match start.checked_add(*channels) {
                Some(end) if end <= input.channels => Ok(input.with_channels(*channels)),
                _ => Err(StepFault::Slice { start: *start, channels: *channels, input: input.channels }),
            },
            ModelOperation::DropFirstRowAndColumn => Ok(Shape {
                height: input.height.saturating_sub(1),
                width: input.width.saturating_sub(1),
                ..input
            }),
            ModelOperation::SumPool(pool) | ModelOperation::Maximum { pool, .. } => pool_shape(pool, input),
            ModelOperation::GlobalSum => Ok(Shape::vector(input.channels)),
            ModelOperation::ScalePixels { factors } => {
                counted("factors", input.pixels() as usize, factors.len())?;
                Ok(input)
            }
            ModelOperation::Activate { mask, .. } => {
                check_mask(mask, input)?;
                Ok(input)
            }
            ModelOperation::Gate(gate) => {
                check_gate(gate, input)?;
                Ok(input)
            }
        }
    }

    fn same_maps(&self, inputs: &[ValueId], view: impl Fn(Shape) -> Shape) -> Outcome<()> {
        let first = self.shape(inputs[0]);
        match inputs.iter().map(|value| self.shape(*value)).find(|other| view(*other) != view(first)) {
            None => Ok(()),
            Some(other) => Err(StepFault::Join { first, other }),
        }
    }

    fn check_fraction(&self, step: &ModelStep) -> Outcome<()> {
        let input = self.fraction(step.inputs[0]);
        let stated = step.fraction;
        let expect = |expected: u32| {
            if expected == stated { Ok(()) } else { Err(StepFault::Fraction { expected, stated }) }
        };
        match &step.operation {
            ModelOperation::Add { shifts } | ModelOperation::Concat { shifts } => {
                for (value, shift) in step.inputs.iter().zip(shifts) {
                    expect(self.fraction(*value) + u32::from(*shift))?;
                }
            }
            ModelOperation::Slice { .. }
            | ModelOperation::DropFirstRowAndColumn
            | ModelOperation::Maximum { .. } => expect(input)?,
            ModelOperation::SumPool(_) | ModelOperation::GlobalSum | ModelOperation::ScalePixels { .. } => {
                expect(stated.max(input))?;
            }
            ModelOperation::Activate { shift, .. } => expect(input.saturating_sub(*shift))?,
            ModelOperation::Gate(gate) => expect(input.saturating_sub(gate.shift) + gate.slope_bits)?,
            ModelOperation::Linear { .. } => {}
        }
        if stated > MAX_FRACTION { Err(StepFault::FractionLimit { stated }) } else { Ok(()) }
    }

    /// A value of this width exists, enough bits are left to compare, and none are dropped that there are not.
    fn check_shift(&self, step: &ModelStep, width: u32, shift: u32) -> Outcome<()> {
        if !ring_exists(width) {
            return Err(StepFault::ComparedBits { width });
        }
        if width.saturating_sub(shift) < MIN_COMPARED_BITS || self.fraction(step.inputs[0]) < shift {
            return Err(StepFault::Shift { shift, width });
        }
        Ok(())
    }

    /// A value's ring is at least as wide as everything that reads it needs; then wrapping agrees everywhere.
    fn check_rings(&self, step: &ModelStep) -> Outcome<()> {
        if !ring_exists(step.ring_bits) {
            return Err(StepFault::NoRing { bits: step.ring_bits });
        }
        let needed = match &step.operation {
            ModelOperation::Activate { width, shift, ceiling, mask } => {
                self.check_shift(step, *width, *shift)?;
                if let Some(ceiling) = ceiling.filter(|ceiling| ceiling >> (width - 1 - shift) != 0) {
                    return Err(StepFault::Ceiling { ceiling, bits: width - 1 - shift });
                }
                let has_dropped = mask.relu_count(step.shape) < step.shape.scalars();
                if has_dropped { ModelOperation::truncation_ring(*width) } else { *width }
            }
            ModelOperation::Gate(gate) => {
                self.check_shift(step, gate.width, gate.shift)?;
                gate.ring()
            }
            ModelOperation::Maximum { width, .. } => (*width).max(1),
            _ => step.ring_bits,
        };
        for value in &step.inputs {
            let ring = self.ring_bits(*value);
            if ring < needed {
                return Err(StepFault::NarrowRing { value: value.0, ring, needed });
            }
        }
        let shifts: &[u8] = match &step.operation {
            ModelOperation::Linear { channel_shifts, .. } => channel_shifts,
            ModelOperation::Add { shifts } | ModelOperation::Concat { shifts } => shifts,
            _ => &[],
        };
        match shifts.iter().find(|shift| u32::from(**shift) > MAX_RING_BITS) {
            Some(shift) => Err(StepFault::Shift { shift: u32::from(*shift), width: MAX_RING_BITS }),
            None => Ok(()),
        }
    }
}

fn ring_exists(bits: u32) -> bool {
    (1..=MAX_RING_BITS).contains(&bits)
}

/// Whether it can be stored and printed.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control)
}

fn counted(what: &'static str, expected: usize, came: usize) -> Outcome<()> {
    if expected == came { Ok(()) } else { Err(StepFault::Count { what, expected, came }) }
}

fn check_mask(mask: &SiteMask, shape: Shape) -> Outcome<()> {
    match mask {
        SiteMask::KeepAll | SiteMask::DropAll => Ok(()),
        SiteMask::Channels(bits) | SiteMask::Pixels(bits) => {
            counted("mask bits", mask.bit_length(shape).unwrap_or(usize::MAX), bits.len())
        }
    }
}

fn check_gate(gate: &Gate, values: Shape) -> Outcome<()> {
    check_groups(&gate.groups, values.channels).map_err(|fault| StepFault::Groups(Box::new(fault)))?;
    if !gate.slopes.is_empty() {
        counted("slopes", values.channels, gate.slopes.len())?;
    }
    if gate.slope_bits > if gate.slopes.is_empty() { 0 } else { Gate::MOST_SLOPE_BITS } {
        return Err(StepFault::SlopeBits { bits: gate.slope_bits });
    }
    check_mask(&gate.mask, gate.comparisons(values))
}

fn linear_shape(geometry: &LinearGeometry, input: Shape) -> Outcome<Shape> {
    match geometry {
        LinearGeometry::FullyConnected { inputs, outputs } => {
            if *inputs as u64 != input.scalars() {
                return Err(StepFault::Geometry { what: "inputs", value: *inputs, input });
            }
            Ok(Shape::vector(*outputs))
        }
        LinearGeometry::Conv(conv) => conv_shape(conv, input),
    }
}

fn conv_shape(conv: &ConvGeometry, input: Shape) -> Outcome<Shape> {
    let wrong = |what, value| Err(StepFault::Geometry { what, value, input });
    if conv.inputs != input.channels {
        return wrong("input channels", conv.inputs);
    }
    if conv.groups == 0
        || !conv.inputs.is_multiple_of(conv.groups)
        || !conv.outputs.is_multiple_of(conv.groups)
    {
        return wrong("groups", conv.groups);
    }
    if !input.with_channels(conv.outputs).is_sane() {
        return wrong("output channels", conv.outputs);
    }
    for (what, value) in [("filter", conv.filter), ("stride", conv.stride), ("dilation", conv.dilation)] {
        if value == 0 || value > MAX_WINDOW {
            return wrong(what, value);
        }
    }
    windowed(input, conv.dilation * (conv.filter - 1) + 1, conv.stride, conv.padding)
        .map(|shape| shape.with_channels(conv.outputs))
}

fn pool_shape(pool: &Pool, input: Shape) -> Outcome<Shape> {
    for (what, value) in [("window", pool.window), ("stride", pool.stride)] {
        if value == 0 || value > MAX_WINDOW {
            return Err(StepFault::Geometry { what, value, input });
        }
    }
    if pool.padding > pool.window / 2 {
        return Err(StepFault::Geometry { what: "padding", value: pool.padding, input });
    }
    windowed(input, pool.window, pool.stride, pool.padding)
}

fn windowed(input: Shape, span: usize, stride: usize, padding: usize) -> Outcome<Shape> {
    if padding > MAX_WINDOW {
        return Err(StepFault::Geometry { what: "padding", value: padding, input });
    }
    let side = |length: usize| Some((length + 2 * padding).checked_sub(span)? / stride + 1);
    match (side(input.height), side(input.width)) {
        (Some(height), Some(width)) => Ok(Shape { height, width, ..input }),
        _ => Err(StepFault::Geometry { what: "span", value: span, input }),
    }
}

#[cfg(test)]
mod tests;
