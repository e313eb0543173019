//! The server's online work: linear steps on its shares, labels for what is not linear.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use crypto::garble::garbler::WaitingGarbler;
use crypto::garble::messages::Reply;
use crypto::garble::truncate::{TruncationReply, WaitingTruncation};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::ModelOperation;
use network::walk::ValueId;

use super::{PreparedPart, PreparedServer, ServedModel, Server};
use crate::InferenceError;
use crate::local;
use crate::plan::{NonlinearJob, Part};
use crate::transcript::{Kind, Work};

pub(super) fn run<S: Read + Write>(
    server: &mut Server<S>,
    prepared: PreparedServer,
) -> Result<(), InferenceError> {
    let model = Arc::clone(&server.model);
    let outline = model.plan.outline();
    let width = RingWidth::new(outline.image_ring_bits)?;
    let count = outline.input.scalars() as usize;
    let bytes = server.connection.receive(Kind::Values, width.packed_bytes(count).unwrap_or(0))?;
    let image = RingVector::from_bytes(width, count, &bytes)?;
    let mut shares = ServerShares::new(&model, prepared.masks, image);
    let mut workspace = Workspace::new(CpuFeatures::available());
    let start = Instant::now();
    shares.run_linear_steps()?;
    server.connection.spent(Work::Linear, start);
    for (jobs, material) in model.plan.rounds().iter().zip(prepared.rounds) {
        let waiting = send_labels(server, jobs, material, &shares, &mut workspace)?;
        receive_replies(server, jobs, waiting, &mut shares)?;
        let start = Instant::now();
        shares.run_linear_steps()?;
        server.connection.spent(Work::Linear, start);
    }
    let logits = shares.of(outline.output());
    match (model.plan.argmax(), prepared.argmax) {
        (Some(part), Some(garbler)) => {
            let logits = Secret::new(logits.to_unsigned());
            let inputs = Secret::new(part.server_inputs(logits.expose()));
            let (labels, _) = garbler.encode(&server.offset, inputs.expose(), &mut workspace)?;
            server.connection.send(Kind::Garbled, labels.as_bytes())?;
        }
        _ => {
            // Only the upper bits: what the client gets is rounded by its own share, at no cost.
            let upper = logits.without_low_bits(outline.logit_drop)?;
            server.connection.send(Kind::Values, &upper.to_bytes())?;
        }
    }
    Ok(server.connection.flush()?)
}

/// The server's share of every value, as far as it is known.
struct ServerShares<'a> {
    model: &'a ServedModel,
    /// Spent as the linear steps are reached.
    masks: Vec<Option<Share>>,
    values: Vec<Option<Share>>,
}

impl<'a> ServerShares<'a> {
    fn new(model: &'a ServedModel, masks: Vec<Share>, image: RingVector) -> Self {
        let mut values: Vec<_> = (0..=model.plan.outline().steps.len()).map(|_| None).collect();
        values[0] = Some(Share::new(image));
        Self { model, masks: masks.into_iter().map(Some).collect(), values }
    }

    fn of(&self, value: ValueId) -> &RingVector {
        let share = self.values[value.0].as_ref();
        share.expect("the plan asks for shares in the order they become known").expose()
    }

    /// Follows every linear step whose inputs are known.
    fn run_linear_steps(&mut self) -> Result<(), InferenceError> {
        let outline = self.model.plan.outline();
        let mut layer = 0;
        for (index, step) in outline.steps.iter().enumerate() {
            let is_linear = matches!(step.operation, ModelOperation::Linear { .. });
            let number = layer;
            layer += usize::from(is_linear);
            if self.values[index + 1].is_some() || !(is_linear || local::is_local(&step.operation)) {
                continue;
            }
            let inputs: Option<Vec<&RingVector>> =
                step.inputs.iter().map(|input| self.values[input.0].as_ref().map(Share::expose)).collect();
            let Some(inputs) = inputs else { continue };
            let value = match is_linear {
                true => {
                    let input = Share::new(inputs[0].narrowed(RingWidth::new(step.ring_bits)?)?);
                    self.linear(index, number, input.expose())?
                }
                false => local::apply(outline, step, &inputs)?,
            };
            self.values[index + 1] = Some(Share::new(value));
        }
        Ok(())
    }

    /// W (x - b) + s, at the scale of the output, plus the bias.
    fn linear(
        &mut self,
        index: usize,
        layer: usize,
        input: &RingVector,
    ) -> Result<RingVector, InferenceError> {
        let step = &self.model.plan.outline().steps[index];
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("the caller found a linear step")
        };
        let served = &self.model.layers[layer];
        let mut value = served.packed.convolve(input)?;
        value.add(self.masks[layer].take().expect("each linear step is followed once").expose())?;
        let mut value = local::shift_channels(value, channel_shifts, step.shape)?;
        // Also where all biases are zero: skipping them would show in the time.
        let plane = step.shape.height * step.shape.width;
        let biases: Vec<i64> =
            served.biases.iter().flat_map(|bias| std::iter::repeat_n(*bias, plane)).collect();
        value.add(&RingVector::from_signed(value.width(), &biases))?;
        Ok(value)
    }
}

enum WaitingPart {
    Garbled(Vec<WaitingGarbler>),
    Truncated(WaitingTruncation),
}

fn send_labels<S: Read + Write>(
    server: &mut Server<S>,
    jobs: &[NonlinearJob],
    material: Vec<PreparedPart>,
    shares: &ServerShares<'_>,
    workspace: &mut Workspace,
) -> Result<Vec<WaitingPart>, InferenceError> {
    let mut waiting = Vec::with_capacity(material.len());
    let mut frame = Vec::new();
    let mut material = material.into_iter();
    for job in jobs {
        let share = Secret::new(shares.of(job.input).to_unsigned());
        for (part, material) in job.parts.iter().zip(material.by_ref()) {
            waiting.push(match (part, material) {
                (Part::Garbled(part), PreparedPart::Garbled(chunks)) => {
                    let inputs = Secret::new(part.server_inputs(share.expose()));
                    let arity = part.arity();
                    let circuit = part.layer.circuit();
                    let mut replies = Vec::with_capacity(chunks.len());
                    for (range, chunk) in part.layer.chunks().zip(chunks) {
                        let start = Instant::now();
                        frame.resize(circuit.label_bytes(range.len()), 0);
                        let values = &inputs.expose()[range.start * arity..range.end * arity];
                        replies.push(chunk.encode_into(&server.offset, values, &mut frame, workspace)?);
                        server.connection.spent(Work::Garbling, start);
                        server.connection.send(Kind::Garbled, &frame)?;
                    }
                    WaitingPart::Garbled(replies)
                }
                (Part::Truncated(part), PreparedPart::Truncated(offered)) => {
                    let start = Instant::now();
                    let (opening, finishing) =
                        offered.open(Secret::new(part.gather(share.expose())).expose())?;
                    let bytes = opening.to_bytes(&part.shape);
                    server.connection.spent(Work::Truncation, start);
                    server.connection.send(Kind::Truncation, &bytes)?;
                    WaitingPart::Truncated(finishing)
                }
                _ => unreachable!("material is prepared part by part from the same plan"),
            });
        }
    }
    server.connection.flush()?;
    Ok(waiting)
}

fn receive_replies<S: Read + Write>(
    server: &mut Server<S>,
    jobs: &[NonlinearJob],
    waiting: Vec<WaitingPart>,
    shares: &mut ServerShares<'_>,
) -> Result<(), InferenceError> {
    let outline = server.model.plan.outline().clone();
    let mut waiting = waiting.into_iter();
    for job in jobs {
        let step = &outline.steps[job.step];
        let mut values = Secret::new(vec![0; step.shape.scalars() as usize]);
        for (part, waiting) in job.parts.iter().zip(waiting.by_ref()) {
            match (part, waiting) {
                (Part::Garbled(part), WaitingPart::Garbled(chunks)) => {
                    let circuit = part.layer.circuit();
                    for (range, chunk) in part.layer.chunks().zip(chunks) {
                        let bytes =
                            server.connection.receive(Kind::Garbled, circuit.reply_bytes(range.len()))?;
                        let reply = Reply::from_bytes(circuit, range.len(), bytes)?;
                        for (position, value) in part.outputs[range].iter().zip(chunk.finish(reply)?) {
                            values.expose_mut()[*position as usize] = value;
                        }
                    }
                }
                (Part::Truncated(part), WaitingPart::Truncated(finishing)) => {
                    let bytes = server.connection.receive(Kind::Truncation, part.reply_bytes())?;
                    let reply = TruncationReply::from_bytes(&part.shape, part.count(), false, &bytes)?;
                    for (position, value) in part.positions.iter().zip(finishing.finish(reply)?) {
                        values.expose_mut()[*position as usize] = value;
                    }
                }
                _ => unreachable!("material is prepared part by part from the same plan"),
            }
        }
        let width = RingWidth::new(step.ring_bits)?;
        shares.values[job.step + 1] = Some(Share::new(RingVector::from_unsigned(width, values.expose())));
    }
    Ok(())
}
