//! The server's online work: linear steps on its shares, openings for what is not linear.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::garble::label::Offset;
use crypto::ring::{CHANNEL_BLOCK, PackedWeights, RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, OperationRole};
use network::walk::{StepId, ValueId};

use super::messages::{ClientWords, ServerWords};
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing, Party, WorkTimes};
use crate::local;
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
        let outputs = convolve_all(self.workers, packed, &inputs, width)?;
        let plane = step.shape.height * step.shape.width;
        let biases: Vec<i64> = biases.iter().flat_map(|bias| std::iter::repeat_n(*bias, plane)).collect();
        let biases = RingVector::from_signed(width, &biases);
        for (image, mut value) in self.images.iter_mut().zip(outputs) {
            value.add(image.masks[job.0].take().expect("each linear step is followed once").expose())?;
            let mut value = local::shift_channels(value, channel_shifts, step.shape)?;
            value.add(&biases)?;
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
        waiting.finish(reply, image.values.expose_mut())?;
        if planned.completes_step {
            let values = std::mem::replace(&mut image.values, Secret::new(Vec::new()));
            let width = RingWidth::new(step.ring_bits)?;
            image.shares.set(step_id.output(), RingVector::from_unsigned(width, values.expose()));
        }
        Ok(())
    }
}

/// Every image through a layer: one alone by output channels, several by groups, divided among the threads.
fn convolve_all(
    workers: &Workers,
    packed: &PackedWeights,
    inputs: &[Share],
    width: RingWidth,
) -> Result<Vec<RingVector>, InferenceError> {
    if let [input] = inputs {
        return Ok(vec![convolve(workers, packed, input.expose())?]);
    }
    let groups = inputs.chunks(inputs.len().div_ceil(workers.threads()).max(1)).collect();
    let outputs = workers.map(groups, |group: &[Share]| {
        let group: Vec<RingVector> = group.iter().map(|share| share.expose().clone()).collect();
        let joined = Share::new(RingVector::concatenate(width, &group)?);
        let count = group.len();
        group.into_iter().for_each(|input| drop(Share::new(input)));
        let outputs = Share::new(packed.convolve(joined.expose())?);
        Ok::<_, InferenceError>(split(&outputs, count))
    })?;
    Ok(outputs.into_iter().flatten().collect())
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
