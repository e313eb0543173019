//! The server's online work: linear steps on its shares, labels for what is not linear.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::garble::garbler::{PreparedGarbler, WaitingGarbler};
use crypto::garble::messages::Reply;
use crypto::garble::truncate::{TruncationReply, WaitingTruncation};
use crypto::ring::{CHANNEL_BLOCK, PackedWeights, RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::ModelOperation;
use network::walk::ValueId;

use super::{PreparedPart, PreparedServer, ServedModel, Server};
use crate::InferenceError;
use crate::local;
use crate::plan::{GarbledPart, NonlinearJob, Part};
use crate::transcript::{Kind, Work};
use crate::workers::{Workers, pieces};

pub(super) fn run<S: Read + Write>(
    server: &mut Server<S>,
    batch: Vec<PreparedServer>,
) -> Result<(), InferenceError> {
    let model = Arc::clone(&server.model);
    let outline = model.plan.outline();
    let width = RingWidth::new(outline.image_ring_bits)?;
    let count = outline.input.scalars() as usize;
    let mut shares = ServerShares::new(&model);
    let mut material: Vec<_> = model.plan.rounds().iter().map(|_| Vec::with_capacity(batch.len())).collect();
    let mut argmaxes = Vec::with_capacity(batch.len());
    for prepared in batch {
        let bytes = server.connection.receive(Kind::Values, width.packed_bytes(count).unwrap_or(0))?;
        shares.push(prepared.masks, RingVector::from_bytes(width, count, &bytes)?);
        material.iter_mut().zip(prepared.rounds).for_each(|(round, own)| round.push(own));
        argmaxes.push(prepared.argmax);
    }
    let start = Instant::now();
    shares.run_linear_steps(&server.workers)?;
    server.connection.spent(Work::Linear, start);
    for (jobs, material) in model.plan.rounds().iter().zip(material) {
        let mut waiting = Vec::with_capacity(material.len());
        for (own, images) in material.into_iter().zip(&shares.images) {
            waiting.push(send_labels(server, jobs, own, images)?);
        }
        server.connection.flush()?;
        for (own, images) in waiting.into_iter().zip(&mut shares.images) {
            receive_replies(server, jobs, own, images)?;
        }
        let start = Instant::now();
        shares.run_linear_steps(&server.workers)?;
        server.connection.spent(Work::Linear, start);
    }
    for (image, argmax) in shares.images.iter().zip(argmaxes) {
        send_answer(server, image.of(outline.output()), argmax)?;
    }
    Ok(server.connection.flush()?)
}

fn send_answer<S: Read + Write>(
    server: &mut Server<S>,
    logits: &RingVector,
    argmax: Option<PreparedGarbler>,
) -> Result<(), InferenceError> {
    let model = Arc::clone(&server.model);
    match (model.plan.argmax(), argmax) {
        (Some(part), Some(garbler)) => {
            let logits = Secret::new(logits.to_unsigned());
            let inputs = Secret::new(part.server_inputs(logits.expose()));
            let (labels, _) = server
                .workers
                .with_workspace(|space| garbler.encode(&server.offset, inputs.expose(), space))?;
            server.connection.send(Kind::Garbled, labels.as_bytes())?;
        }
        _ => {
            // Only the upper bits: what the client gets is rounded by its own share, at no cost.
            let upper = logits.without_low_bits(model.plan.outline().logit_drop)?;
            server.connection.send(Kind::Values, &upper.to_bytes())?;
        }
    }
    Ok(())
}

/// The server's shares of every image of a batch.
struct ServerShares<'a> {
    model: &'a ServedModel,
    images: Vec<ImageShares>,
}

/// The server's share of every value of one image, as far as it is known.
struct ImageShares {
    /// Spent as the linear steps are reached.
    masks: Vec<Option<Share>>,
    values: Vec<Option<Share>>,
}

impl ImageShares {
    fn of(&self, value: ValueId) -> &RingVector {
        let share = self.values[value.0].as_ref();
        share.expect("the plan asks for shares in the order they become known").expose()
    }
}

impl<'a> ServerShares<'a> {
    fn new(model: &'a ServedModel) -> Self {
        Self { model, images: Vec::new() }
    }

    fn push(&mut self, masks: Vec<Share>, image: RingVector) {
        let mut values: Vec<_> = self.model.plan.outline().steps.iter().map(|_| None).collect();
        values.insert(0, Some(Share::new(image)));
        self.images.push(ImageShares { masks: masks.into_iter().map(Some).collect(), values });
    }

    /// Follows every linear step whose inputs are known; all images are as far as the first.
    fn run_linear_steps(&mut self, workers: &Workers) -> Result<(), InferenceError> {
        let outline = Arc::clone(self.model.plan.outline());
        let Some(first) = self.images.first() else { return Ok(()) };
        let mut known: Vec<bool> = first.values.iter().map(Option::is_some).collect();
        let mut layer = 0;
        for (index, step) in outline.steps.iter().enumerate() {
            let is_linear = matches!(step.operation, ModelOperation::Linear { .. });
            let number = layer;
            layer += usize::from(is_linear);
            let has_inputs = step.inputs.iter().all(|input| known[input.0]);
            if known[index + 1] || !has_inputs || !(is_linear || local::is_local(&step.operation)) {
                continue;
            }
            known[index + 1] = true;
            if is_linear {
                self.linear(workers, index, number)?;
                continue;
            }
            for image in &mut self.images {
                let inputs: Vec<&RingVector> = step.inputs.iter().map(|input| image.of(*input)).collect();
                image.values[index + 1] = Some(Share::new(local::apply(&outline, step, &inputs)?));
            }
        }
        Ok(())
    }

    /// W (x - b) + s, at the scale of the output, plus the bias; one pass over the weights for all images of
    /// a thread.
    fn linear(&mut self, workers: &Workers, index: usize, layer: usize) -> Result<(), InferenceError> {
        let step = &self.model.plan.outline().steps[index];
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("the caller found a linear step")
        };
        let served = &self.model.layers[layer];
        let width = RingWidth::new(step.ring_bits)?;
        let inputs: Vec<RingVector> = self
            .images
            .iter()
            .map(|image| image.of(step.inputs[0]).narrowed(width))
            .collect::<Result<_, _>>()?;
        let outputs = match inputs.as_slice() {
            [input] => vec![convolve(workers, &served.packed, input)?],
            many => {
                let groups = many.chunks(many.len().div_ceil(workers.threads()).max(1)).collect();
                let outputs = workers.map(groups, |group: &[RingVector]| {
                    let joined = Share::new(RingVector::concatenate(width, group)?);
                    let outputs = Share::new(served.packed.convolve(joined.expose())?);
                    Ok::<_, InferenceError>(split(&outputs, group.len()))
                })?;
                outputs.into_iter().flatten().collect()
            }
        };
        inputs.into_iter().for_each(|input| drop(Share::new(input)));
        let plane = step.shape.height * step.shape.width;
        let biases: Vec<i64> =
            served.biases.iter().flat_map(|bias| std::iter::repeat_n(*bias, plane)).collect();
        let biases = RingVector::from_signed(width, &biases);
        for (image, mut value) in self.images.iter_mut().zip(outputs) {
            value.add(image.masks[layer].take().expect("each linear step is followed once").expose())?;
            let mut value = local::shift_channels(value, channel_shifts, step.shape)?;
            value.add(&biases)?;
            image.values[index + 1] = Some(Share::new(value));
        }
        Ok(())
    }
}

/// One image through a layer, its output channels divided among the threads.
fn convolve(
    workers: &Workers,
    packed: &PackedWeights,
    input: &RingVector,
) -> Result<RingVector, InferenceError> {
    let geometry = packed.geometry();
    let channels = geometry.shape().out_channels;
    let step = channels.div_ceil(workers.threads()).next_multiple_of(CHANNEL_BLOCK);
    if step >= channels {
        return Ok(packed.convolve(input)?);
    }
    let cut = packed.pack_input(input)?;
    let ranges = (0..channels).step_by(step).map(|start| start..channels.min(start + step)).collect();
    let parts = workers.map(ranges, |range| packed.convolve_channels(&cut, range))?;
    Ok(RingVector::concatenate(input.width(), &parts)?)
}

/// Cuts a vector into equal parts.
fn split(values: &Share, parts: usize) -> Vec<RingVector> {
    let all = Secret::new(values.expose().to_unsigned());
    all.expose()
        .chunks(values.len() / parts)
        .map(|part| RingVector::from_unsigned(values.width(), part))
        .collect()
}

enum WaitingPart {
    Garbled(Vec<WaitingGarbler>),
    Truncated(WaitingTruncation),
}

fn send_labels<S: Read + Write>(
    server: &mut Server<S>,
    jobs: &[NonlinearJob],
    material: Vec<PreparedPart>,
    shares: &ImageShares,
) -> Result<Vec<WaitingPart>, InferenceError> {
    let mut waiting = Vec::with_capacity(material.len());
    let mut frame = Vec::new();
    let mut material = material.into_iter();
    for job in jobs {
        let share = Secret::new(shares.of(job.input).to_unsigned());
        for (part, material) in job.parts.iter().zip(material.by_ref()) {
            waiting.push(match (part, material) {
                (Part::Garbled(part), PreparedPart::Garbled(chunks)) => {
                    WaitingPart::Garbled(encode(server, part, chunks, share.expose(), &mut frame)?)
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
    Ok(waiting)
}

/// Sends labels for the server's shares, chunks of circuits divided among the threads.
fn encode<S: Read + Write>(
    server: &mut Server<S>,
    part: &GarbledPart,
    chunks: Vec<PreparedGarbler>,
    shares: &[u64],
    frame: &mut Vec<u8>,
) -> Result<Vec<WaitingGarbler>, InferenceError> {
    let Server { connection, workers, offset, .. } = server;
    let inputs = Secret::new(part.server_inputs(shares));
    let (arity, circuit) = (part.arity(), part.layer.circuit());
    let mut waiting = Vec::with_capacity(chunks.len());
    let mut chunks = part.layer.chunks().zip(chunks);
    loop {
        let start = Instant::now();
        let group: Vec<_> = chunks.by_ref().take(workers.chunks_at_once()).collect();
        if group.is_empty() {
            return Ok(waiting);
        }
        let lengths = group.iter().map(|(range, _)| circuit.label_bytes(range.len()));
        let labels = pieces(frame, lengths);
        let items = group.into_iter().zip(labels).collect();
        waiting.extend(workers.map(items, |((range, chunk), labels)| {
            let values = &inputs.expose()[range.start * arity..range.end * arity];
            workers.with_workspace(|space| chunk.encode_into(offset, values, labels, space))
        })?);
        connection.spent(Work::Garbling, start);
        connection.send(Kind::Garbled, frame)?;
    }
}

fn receive_replies<S: Read + Write>(
    server: &mut Server<S>,
    jobs: &[NonlinearJob],
    waiting: Vec<WaitingPart>,
    shares: &mut ImageShares,
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
