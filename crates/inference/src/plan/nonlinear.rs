//! The steps with messages: which circuit or truncation stands at which position.

use std::sync::Arc;

use crypto::garble::argmax::ArgmaxShape;
use crypto::garble::clip::ClipShape;
use crypto::garble::layer::Layer;
use crypto::garble::maximum::MaximumShape;
use crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use crypto::garble::truncate::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::mask::SiteMask;
use network::shape::Shape;
use network::spec::Pool;
use network::walk::ValueId;

use super::depths;
use crate::InferenceError;

/// One step with messages.
#[derive(Debug)]
pub(crate) struct NonlinearJob {
    /// Its step in the outline.
    pub(crate) step: usize,
    /// The value it reads.
    pub(crate) input: ValueId,
    /// What happens where.
    pub(crate) parts: Vec<Part>,
}

/// Positions of a step that are treated alike.
#[derive(Debug)]
pub(crate) enum Part {
    /// By garbled circuits.
    Garbled(GarbledPart),
    /// By known-MSB truncation.
    Truncated(TruncatedPart),
}

/// Instances of one circuit.
#[derive(Debug)]
pub(crate) struct GarbledPart {
    pub(crate) layer: Layer,
    encoding: Encoding,
    /// For each instance, the input values it reads, in a row.
    pub(crate) inputs: Vec<u32>,
    /// For each instance, the output value it makes.
    pub(crate) outputs: Vec<u32>,
}

/// How a share becomes a circuit's input.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Relu(ReluShape),
    Clip(ClipShape),
    /// Reduced to so many bits.
    Reduced(u32),
}

/// Positions without ReLU.
#[derive(Debug)]
pub(crate) struct TruncatedPart {
    pub(crate) shape: TruncationShape,
    pub(crate) positions: Vec<u32>,
}

pub(super) fn plan(outline: &ModelOutline) -> Result<Vec<Vec<NonlinearJob>>, InferenceError> {
    let depths = depths(outline);
    let mut rounds: Vec<Vec<NonlinearJob>> = Vec::new();
    for (index, step) in outline.steps.iter().enumerate() {
        let parts = match &step.operation {
            ModelOperation::Activate { width, shift, ceiling, mask } => {
                activation(step, *width, *shift, *ceiling, mask)?
            }
            ModelOperation::Maximum { pool, width } => {
                maxima(outline.shape(step.inputs[0]), step, pool, *width)?
            }
            _ => continue,
        };
        let round = depths[index + 1] - 1;
        while rounds.len() <= round {
            rounds.push(Vec::new());
        }
        rounds[round].push(NonlinearJob { step: index, input: step.inputs[0], parts });
    }
    Ok(rounds)
}

fn activation(
    step: &ModelStep,
    width: u32,
    shift: u32,
    ceiling: Option<u64>,
    mask: &SiteMask,
) -> Result<Vec<Part>, InferenceError> {
    let (kept, dropped) = positions(step.shape, mask);
    let mut parts = Vec::new();
    if !kept.is_empty() {
        let rounding = if shift == 0 { Rounding::Floor } else { Rounding::Nearest };
        let (circuit, encoding) = match ceiling {
            None => {
                let shape = ReluShape::new(width, shift, step.ring_bits, rounding, ReluForm::Projection)?;
                (shape.circuit(), Encoding::Relu(shape))
            }
            Some(ceiling) => {
                let shape = ClipShape::new(width, shift, step.ring_bits, rounding, ceiling)?;
                (shape.circuit(), Encoding::Clip(shape))
            }
        };
        let layer = Layer::new(Arc::new(circuit), kept.len());
        parts.push(Part::Garbled(GarbledPart { layer, encoding, inputs: kept.clone(), outputs: kept }));
    }
    if !dropped.is_empty() {
        // One bit more than the width makes the most significant bit known; an output ring that would make the wrap
        // vanish is widened, and the result narrowed, which is free.
        let ring = width + 1;
        let output = step.ring_bits.max(ring - shift + 1);
        let shape = TruncationShape::new(ring, shift, output)?;
        parts.push(Part::Truncated(TruncatedPart { shape, positions: dropped }));
    }
    Ok(parts)
}

/// Positions that keep their ReLU and positions that do not.
fn positions(shape: Shape, mask: &SiteMask) -> (Vec<u32>, Vec<u32>) {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    let mut position = 0;
    for channel in 0..shape.channels {
        for row in 0..shape.height {
            for column in 0..shape.width {
                let list = if mask.keeps(shape, channel, row, column) { &mut kept } else { &mut dropped };
                list.push(position);
                position += 1;
            }
        }
    }
    (kept, dropped)
}

/// Windows at the border are smaller, so there is one part per size of window.
fn maxima(input: Shape, step: &ModelStep, pool: &Pool, width: u32) -> Result<Vec<Part>, InferenceError> {
    let mut sizes: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default(); pool.window * pool.window + 1];
    let mut position = 0;
    for channel in 0..step.shape.channels {
        for row in 0..step.shape.height {
            for column in 0..step.shape.width {
                let window = window(input, pool, channel, row, column);
                let (inputs, outputs) = &mut sizes[window.len()];
                inputs.extend(window);
                outputs.push(position);
                position += 1;
            }
        }
    }
    let mut parts = Vec::new();
    for (size, (inputs, outputs)) in sizes.into_iter().enumerate() {
        if outputs.is_empty() {
            continue;
        }
        let shape = MaximumShape::new(size as u32, width, 0, step.ring_bits, false)?;
        let layer = Layer::new(Arc::new(shape.circuit()), outputs.len());
        parts.push(Part::Garbled(GarbledPart { layer, encoding: Encoding::Reduced(width), inputs, outputs }));
    }
    Ok(parts)
}

fn window(input: Shape, pool: &Pool, channel: usize, row: usize, column: usize) -> Vec<u32> {
    let side = |position: usize, length: usize| {
        let start = position * pool.stride;
        (start..start + pool.window)
            .filter_map(move |place| place.checked_sub(pool.padding).filter(|at| *at < length))
    };
    let mut values = Vec::new();
    for y in side(row, input.height) {
        for x in side(column, input.width) {
            values.push(((channel * input.height + y) * input.width + x) as u32);
        }
    }
    values
}

impl GarbledPart {
    /// The circuit that finds the class.
    pub(super) fn argmax(outline: &ModelOutline) -> Result<Self, InferenceError> {
        let width = outline.ring_bits(outline.output());
        let shape = ArgmaxShape::new(outline.classes as u32, width)?;
        Ok(Self {
            layer: Layer::new(Arc::new(shape.circuit()), 1),
            encoding: Encoding::Reduced(width),
            inputs: (0..outline.classes as u32).collect(),
            outputs: vec![0],
        })
    }

    /// Inputs of each instance.
    pub(crate) fn arity(&self) -> usize {
        self.inputs.len() / self.outputs.len()
    }

    /// The server's inputs, from its shares of the whole value.
    pub(crate) fn server_inputs(&self, shares: &[u64]) -> Vec<u64> {
        self.encode(shares, |shape, share| shape.server_input(share))
    }

    /// The client's inputs, from its shares of the whole value.
    pub(crate) fn client_inputs(&self, shares: &[u64]) -> Vec<u64> {
        self.encode(shares, |shape, share| shape.client_input(share))
    }

    fn encode(&self, shares: &[u64], relu: impl Fn(&ReluShape, u64) -> u64) -> Vec<u64> {
        let encode = |position: &u32| {
            let share = shares[*position as usize];
            match &self.encoding {
                Encoding::Relu(shape) => relu(shape, share),
                Encoding::Clip(shape) => relu(shape.relu(), share),
                Encoding::Reduced(bits) => share & low_bits(*bits),
            }
        };
        self.inputs.iter().map(encode).collect()
    }

    /// Oblivious transfers, each chunk padded to whole bytes.
    pub(crate) fn transfer_count(&self) -> usize {
        let wires = self.layer.circuit().client_wires();
        self.layer.chunks().map(|chunk| (chunk.len() * wires).next_multiple_of(8)).sum()
    }
}

impl TruncatedPart {
    pub(crate) fn count(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn transfer_count(&self) -> usize {
        self.count().next_multiple_of(8)
    }

    pub(crate) fn hash_count(&self) -> u64 {
        TruncationShape::hash_count(self.count())
    }

    pub(crate) fn offer_bytes(&self) -> usize {
        TruncationOffer::length(&self.shape, self.count())
    }

    pub(crate) fn opening_bytes(&self) -> usize {
        TruncationOpening::length(&self.shape, self.count())
    }

    pub(crate) fn reply_bytes(&self) -> usize {
        TruncationReply::length(&self.shape, self.count(), false)
    }

    /// One party's shares of its positions, in the truncation's ring.
    pub(crate) fn gather(&self, shares: &[u64]) -> Vec<u64> {
        let mask = low_bits(self.shape.width());
        self.positions.iter().map(|position| shares[*position as usize] & mask).collect()
    }
}

impl Part {
    pub(crate) fn transfer_count(&self) -> usize {
        match self {
            Self::Garbled(part) => part.transfer_count(),
            Self::Truncated(part) => part.transfer_count(),
        }
    }
}

pub(crate) fn low_bits(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
