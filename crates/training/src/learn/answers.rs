//! What the teacher said of fixed views of all images, kept instead of asked again.
//!
//! A view is one crop, flip and change of every image, drawn once. Epoch `e` learns from view `e` modulo their number; the teacher
//! looks at a view when its first epoch begins, and from then on its answers are read. They are kept with 16 bits.

use super::evaluate::batches;
use super::{LearnError, Learner, TRIAL_BATCH};
use crate::augment::{Draws, View};
use crate::tensor::{Device, Kind, Tensor, guarded, no_grad};

/// The answers of a teacher.
pub(super) struct Answers {
    /// (images, classes) for each view that was looked at.
    of_views: Vec<Option<Tensor>>,
    /// Those of the present epoch, always in the same place, as a recorded step needs it.
    present: Tensor,
}

impl Answers {
    pub(super) fn new(views: u32, (images, classes): (usize, usize), device: Device) -> Self {
        Self {
            of_views: (0..views).map(|_| None).collect(),
            present: device.zeros(&[images as i64, classes as i64], Kind::Half),
        }
    }

    /// Those about some images.
    pub(super) fn about(&self, order: &Tensor) -> Tensor {
        self.present.index_select(0, order).to_kind(Kind::Float)
    }
}

impl Learner {
    /// The random numbers of an epoch.
    pub(super) fn draws(&self, epoch: u64) -> Draws {
        let (augmentation, shape) = (&self.options.augmentation, self.images.pixels.shape());
        let size = (self.images.len(), self.options.batch);
        match self.view(epoch) {
            None => Draws::new(augmentation, shape, size, (self.options.seed, epoch)),
            Some(view) => {
                let view = View::new(augmentation, shape, size.0, (self.options.seed, view));
                Draws::of_view(&view, size, (self.options.seed, epoch))
            }
        }
    }

    /// The view of an epoch, where views come again.
    fn view(&self, epoch: u64) -> Option<u64> {
        self.options.views.map(|views| epoch % u64::from(views.get()))
    }

    /// Makes the answers of an epoch's view those that steps read.
    ///
    /// # Errors
    /// When the device runs out of memory.
    pub(super) fn recall(&mut self, epoch: u64) -> Result<(), LearnError> {
        let Some((view, mut answers)) = self.view(epoch).zip(self.answers.take()) else { return Ok(()) };
        let outcome = self.remember(view, &mut answers);
        self.answers = Some(answers);
        outcome
    }

    fn remember(&self, view: u64, answers: &mut Answers) -> Result<(), LearnError> {
        let Answers { of_views, present } = answers;
        let of_view = match &mut of_views[view as usize] {
            Some(of_view) => of_view,
            absent => absent.insert(guarded(|| no_grad(|| self.ask(view, present)))?),
        };
        Ok(guarded(|| no_grad(|| present.copy_(of_view)))?)
    }

    /// What the teacher says of a view of all images.
    fn ask(&self, view: u64, like: &Tensor) -> Tensor {
        let (augmentation, pixels) = (&self.options.augmentation, &self.images.pixels);
        let view = View::new(augmentation, pixels.shape(), self.images.len(), (self.options.seed, view));
        let teacher = self.teacher.as_ref().expect("answers are those of a teacher");
        let said = like.zeros_like();
        for (start, count) in batches(self.images.len(), TRIAL_BATCH) {
            let places = start as usize..(start + count) as usize;
            let images = pixels.batch(augmentation, &view.step(places, pixels.device()));
            let logits = teacher.look(&images, super::inside::Wanted::default()).output.logits;
            said.narrow(0, start, count).copy_(&logits);
        }
        said
    }
}
