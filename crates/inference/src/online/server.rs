//! The server's online work: linear steps on its shares, openings for what is not linear.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::garble::label::Offset;
use crypto::ring::{CHANNEL_BLOCK, PackedWeights, Region, RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, OperationRole};
use network::walk::{StepId, ValueId};

use super::messages::{ClientWords, ServerWords};
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing, Party, WorkTimes};
use crate::nonlinear::{OnlineTools, PreparedServerPart, WaitingServerPart};
use crate::plan::{PartId, Plan};
use crate::server::{PreparedServer, ServedModel};
use crate::shares::Shares;
use crate::transcript::Work;
use crate::workers::Workers;

/// The server while it classifies a batch of images.
pub(crate) struct ClassifyingServer<'a> {
    model: Arc<ServedModel>,
    workers: &'a Workers,
    images: Vec<ServerImage>,
    /// Which round's local steps come next.
    round: usize,
    times: WorkTimes,
    frame: Vec<u8>,
}

/// One image on its way.
struct ServerImage {
    /// That of the session that prepared this inference.
    offset: Arc<Offset>,
    /// Spent as the linear steps are reached.
    masks: Vec<Option<Share>>,
    shares: Shares,
    parts: VecDeque<Box<dyn PreparedServerPart>>,
    waiting: VecDeque<Box<dyn WaitingServerPart>>,
    /// What the parts of a step have brought so far.
    values: Secret<Vec<u64>>,
}

impl<'a> ClassifyingServer<'a> {
    pub(crate) fn new(model: Arc<ServedModel>, workers: &'a Workers, batch: Vec<PreparedServer>) -> Self {
        let image = |prepared: PreparedServer| ServerImage {
            offset: prepared.offset,
            masks: prepared.masks.into_iter().map(Some).collect(),
            shares: Shares::of_outline(model.plan().outline()),
            parts: prepared.parts.into(),
            waiting: VecDeque::new(),
            values: Secret::new(Vec::new()),
        };
        let images = batch.into_iter().map(image).collect();
        Self { images, workers, round: 0, times: WorkTimes::default(), frame: Vec::new(), model }
    }

    pub(crate) fn finish(self) -> WorkTimes {
        self.times
    }

    /// Follows what became possible with the last messages, all images together.
    fn follow_local_steps(&mut self) -> Result<(), InferenceError> {
        let start = Instant::now();
        let plan = Arc::clone(self.model.plan());
        for &id in &plan.schedule().rounds[self.round].local {
            if plan.outline().step(id).operation.role() == OperationRole::Weighted {
                self.apply_weights(&plan, id)?;
            } else {
                for image in &mut self.images {
                    image.shares.follow(plan.outline(), id)?;
                }
            }
        }
        self.round += 1;
        self.times.spent(Work::Linear, start);
        Ok(())
    }

    /// W (x - b) + s, at the scale of the output, plus the bias; one pass over the weights for all images of
    /// a thread.
    fn apply_weights(&mut self, plan: &Plan, id: StepId) -> Result<(), InferenceError> {
        let (step, job) = (plan.outline().step(id), plan.job_at(id));
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("only such steps have weights")
        };
        let (packed, biases) = self.model.shared_weights(job);
        let width = RingWidth::new(step.ring_bits)?;
        let narrowed = |image: &ServerImage| Ok(Share::new(image.shares.of(step.inputs[0]).narrowed(width)?));
        let inputs = self.images.iter().map(narrowed).collect::<Result<Vec<_>, InferenceError>>()?;
        let outputs = convolve_all(self.workers, packed, &inputs, FEW_MULTIPLY_ADDS)?;
        let planes: Vec<_> =
            channel_shifts.iter().map(|shift| u32::from(*shift)).zip(biases.iter().copied()).collect();
        for (image, mut value) in self.images.iter_mut().zip(outputs) {
            value.add(image.masks[job.0].take().expect("each linear step is followed once").expose())?;
            value.shift_planes(&planes)?;
            image.shares.set(id.output(), value);
        }
        Ok(())
    }

    fn open(&mut self, inference: usize, id: PartId, to: &mut dyn Outgoing) -> Result<(), InferenceError> {
        let image = &mut self.images[inference];
        let part = image.parts.pop_front().expect("every part was prepared");
        let share = image.shares.of(self.model.plan().part(id).input);
        let mut tools = OnlineTools { workers: self.workers, times: &mut self.times, frame: &mut self.frame };
        image.waiting.push_back(part.open(share, &image.offset, &mut tools, to)?);
        Ok(())
    }

    fn take_reply(
        &mut self,
        inference: usize,
        id: PartId,
        reply: &mut dyn Incoming,
    ) -> Result<(), InferenceError> {
        let plan = self.model.plan();
        let planned = plan.part(id);
        let step_id = planned.step.expect("a part without a step has no reply");
        let step = plan.outline().step(step_id);
        let image = &mut self.images[inference];
        image.values.expose_mut().resize(step.shape.scalars() as usize, 0);
        let waiting = image.waiting.pop_front().expect("a reply follows an opening");
        let mut tools = OnlineTools { workers: self.workers, times: &mut self.times, frame: &mut self.frame };
        waiting.finish(reply, &mut tools, image.values.expose_mut())?;
        if planned.completes_step {
            let values = std::mem::replace(&mut image.values, Secret::new(Vec::new()));
            let width = RingWidth::new(step.ring_bits)?;
            image.shares.set(step_id.output(), RingVector::from_unsigned(width, values.expose()));
        }
        Ok(())
    }
}

/// Multiply-adds that one thread does sooner than others wake up to help.
const FEW_MULTIPLY_ADDS: u64 = 3_000_000;

/// Every image through a layer: one alone by channels or rows, several by groups, divided among the threads unless there are
/// fewer multiply-adds than `alone`.
fn convolve_all(
    workers: &Workers,
    packed: &PackedWeights,
    inputs: &[Share],
    alone: u64,
) -> Result<Vec<RingVector>, InferenceError> {
    let few = inputs.len() as u64 * packed.geometry().multiply_adds() < alone;
    let threads = if few { 1 } else { workers.threads() };
    if let [input] = inputs {
        return Ok(vec![convolve(workers, packed, input, threads)?]);
    }
    let groups = inputs.chunks(inputs.len().div_ceil(threads).max(1)).collect();
    let outputs = workers.divide(groups, |group: &[Share]| {
        let inputs: Vec<_> = group.iter().map(Share::expose).collect();
        let joined = Share::new(RingVector::concatenate(inputs[0].width(), &inputs)?);
        let outputs = Share::new(packed.convolve(joined.expose())?);
        Ok::<_, InferenceError>(split(&outputs, group.len()))
    })?;
    Ok(outputs.into_iter().flatten().collect())
}

/// One image through a layer, its output channels or rows divided among the threads, so that the largest part is small.
fn convolve(
    workers: &Workers,
    packed: &PackedWeights,
    input: &Share,
    threads: usize,
) -> Result<RingVector, InferenceError> {
    if threads == 1 {
        return Ok(packed.convolve(input.expose())?);
    }
    let cut = packed.pack_input(input.expose())?;
    let whole = Region::whole(packed.geometry());
    let (channels, rows) = (whole.channels.end, whole.rows.end);
    let channel_step = channels.div_ceil(threads).next_multiple_of(CHANNEL_BLOCK).min(channels);
    let row_step = rows.div_ceil(threads);
    let by_channels = channel_step * rows <= row_step * channels;
    let (end, step) = if by_channels { (channels, channel_step) } else { (rows, row_step) };
    let regions = (0..end).step_by(step).map(|start| {
        let part = start..end.min(start + step);
        match by_channels {
            true => Region { channels: part, ..whole.clone() },
            false => Region { rows: part, ..whole.clone() },
        }
    });
    let parts =
        workers.divide(regions.collect(), |region| packed.convolve_region(&cut, &region).map(Share::new))?;
    let parts: Vec<_> = parts.iter().map(Share::expose).collect();
    Ok(RingVector::interleave(input.width(), &parts, if by_channels { 1 } else { channels })?)
}

/// Cuts a vector into equal parts.
fn split(values: &Share, parts: usize) -> Vec<RingVector> {
    let all = Secret::new(values.expose().to_unsigned());
    all.expose()
        .chunks(values.len() / parts)
        .map(|part| RingVector::from_unsigned(values.width(), part))
        .collect()
}

impl Party for ClassifyingServer<'_> {
    type Said = ServerWords;
    type Heard = ClientWords;

    fn say(
        &mut self,
        inference: usize,
        words: ServerWords,
        to: &mut dyn Outgoing,
    ) -> Result<(), InferenceError> {
        match words {
            ServerWords::Opening(part) => self.open(inference, part, to),
            ServerWords::Logits => {
                // Only the upper bits: what the client gets is rounded by its own share, at no cost.
                let outline = self.model.plan().outline();
                let logits = self.images[inference].shares.of(outline.output());
                to.piece(&logits.without_low_bits(outline.logit_drop)?.to_bytes())
            }
        }
    }

    fn hear(
        &mut self,
        inference: usize,
        words: ClientWords,
        bytes: usize,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError> {
        match words {
            ClientWords::Image => {
                let plan = self.model.plan();
                let (width, count) = (plan.image_width(), plan.outline().input.scalars() as usize);
                let image = RingVector::from_bytes(width, count, &from.piece(bytes)?)?;
                self.images[inference].shares.set(ValueId::IMAGE, image);
                Ok(())
            }
            ClientWords::Reply(part) => self.take_reply(inference, part, from),
        }
    }

    /// The image, or the replies of a round.
    fn after_hearing(&mut self, _: ClientWords) -> Result<(), InferenceError> {
        self.follow_local_steps()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use crypto::random::Seed;
    use crypto::ring::Weights;
    use crypto::ring::geometry::{ConvGeometry, ConvShape};

    use super::*;

    /// Layers that are best divided by channels and by rows, evenly and not; without rows; with channels apart.
    fn layers() -> Vec<ConvGeometry> {
        let square = |inputs, outputs, side| ConvGeometry::square(inputs, outputs, side, 3, 1).unwrap();
        let apart = ConvShape { in_channels: 40, groups: 40, ..*square(1, 40, 7).shape() };
        vec![
            square(3, 2 * CHANNEL_BLOCK, 2),
            square(3, 40, 7),
            square(2, 3 * CHANNEL_BLOCK + 1, 5),
            ConvGeometry::fully_connected(50, 100).unwrap(),
            ConvGeometry::new(apart).unwrap(),
        ]
    }

    #[test]
    fn layers_divided_among_threads_are_the_same() {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        for geometry in layers() {
            let weights: Vec<i8> = (0..geometry.weight_len()).map(|_| generator.next_u64() as i8).collect();
            let packed = PackedWeights::new(geometry, Weights::Bytes(&weights)).unwrap();
            for (bits, images) in [(20, 1), (40, 1), (20, 2), (40, 5)] {
                let width = RingWidth::new(bits).unwrap();
                let inputs: Vec<_> =
                    (0..images).map(|_| Share::random(width, geometry.input_len(), &mut generator)).collect();
                let expected: Vec<_> =
                    inputs.iter().map(|input| packed.convolve(input.expose()).unwrap()).collect();
                for threads in [1, 2, 3, 5] {
                    let workers = Workers::new(NonZeroUsize::new(threads).unwrap()).unwrap();
                    for alone in [0, u64::MAX] {
                        let outputs = convolve_all(&workers, &packed, &inputs, alone).unwrap();
                        assert!(
                            outputs == expected,
                            "{geometry:?}, {bits} bits, {images} images, {threads} threads"
                        );
                    }
                }
            }
        }
    }
}
