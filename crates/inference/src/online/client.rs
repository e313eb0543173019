//! The client's online work: it blinds the image, evaluates what was prepared, and adds up the answer.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::ring::{RingVector, Share};
use crypto::secret::Secret;
use network::image::Image;

use super::messages::{ClientWords, ServerWords};
use crate::InferenceError;
use crate::client::{Answer, PreparedClient};
use crate::conversation::{Incoming, Outgoing, Party, WorkTimes};
use crate::nonlinear::{OnlineTools, Opened, PreparedClientPart};
use crate::plan::Plan;
use crate::workers::Workers;

/// The client while it classifies a batch of images.
pub(crate) struct ClassifyingClient<'a> {
    plan: Arc<Plan>,
    workers: &'a Workers,
    images: Vec<ClientImage>,
    times: WorkTimes,
    frame: Vec<u8>,
}

/// One image on its way.
struct ClientImage {
    /// The server sees only this difference; the blind was drawn offline and stays with the client.
    blinded: RingVector,
    parts: VecDeque<Box<dyn PreparedClientPart>>,
    replies: VecDeque<Vec<u8>>,
    /// The client's share of the logits.
    logits: Share,
    answer: Option<Answer>,
}

impl<'a> ClassifyingClient<'a> {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        workers: &'a Workers,
        batch: Vec<(PreparedClient, &Image)>,
    ) -> Result<Self, InferenceError> {
        for (_, image) in &batch {
            image.expect_shape(plan.outline().input)?;
        }
        let images = batch.into_iter().map(|(prepared, image)| ClientImage::new(plan, prepared, image));
        Ok(Self {
            plan: Arc::clone(plan),
            workers,
            images: images.collect::<Result<_, _>>()?,
            times: WorkTimes::default(),
            frame: Vec::new(),
        })
    }

    /// What is left when all messages have crossed.
    pub(crate) fn finish(self) -> (Vec<Answer>, WorkTimes) {
        let answers = self.images.into_iter().map(|image| image.answer.expect("the last message answers"));
        (answers.collect(), self.times)
    }
}

impl ClientImage {
    fn new(plan: &Plan, prepared: PreparedClient, image: &Image) -> Result<Self, InferenceError> {
        let pixels = Secret::new(plan.outline().image.encode(image));
        let mut blinded = RingVector::from_signed(plan.image_width(), pixels.expose());
        blinded.subtract(prepared.image_blind.expose())?;
        let (parts, replies) = (prepared.parts.into(), VecDeque::new());
        Ok(Self { blinded, parts, replies, logits: prepared.logits, answer: None })
    }

    fn add_up(&self, plan: &Plan, bytes: &[u8]) -> Result<Answer, InferenceError> {
        let outline = plan.outline();
        let mut values = RingVector::from_bytes(plan.answer_width(), outline.classes, bytes)?;
        let upper = Share::new(self.logits.expose().without_low_bits(outline.logit_drop)?);
        values.add(upper.expose())?;
        Ok(Answer::Logits(values.to_signed()))
    }
}

impl Party for ClassifyingClient<'_> {
    type Said = ClientWords;
    type Heard = ServerWords;

    fn say(
        &mut self,
        inference: usize,
        words: ClientWords,
        to: &mut dyn Outgoing,
    ) -> Result<(), InferenceError> {
        let image = &mut self.images[inference];
        match words {
            ClientWords::Image => to.piece(&image.blinded.to_bytes()),
            ClientWords::Reply(_) => to.piece(&image.replies.pop_front().expect("each opening made a reply")),
        }
    }

    fn hear(
        &mut self,
        inference: usize,
        words: ServerWords,
        bytes: usize,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError> {
        let Self { plan, workers, images, times, frame } = self;
        let image = &mut images[inference];
        match words {
            ServerWords::Opening(_) => {
                let part = image.parts.pop_front().expect("every part was prepared");
                match part.open(from, &mut OnlineTools { workers, times, frame })? {
                    Opened::Reply(reply) => image.replies.push_back(reply),
                    Opened::Class(class) => image.answer = Some(Answer::Class(class)),
                }
            }
            ServerWords::Logits => image.answer = Some(image.add_up(plan, &from.piece(bytes)?)?),
        }
        Ok(())
    }
}
