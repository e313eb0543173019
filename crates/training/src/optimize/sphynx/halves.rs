//! The two halves of the training images: one that weights learn from, one that scores learn from (Algorithm 1, line 1).
//!
//! Both are divided by the seed, class by class, and have the same number of batches. What a step reads of them lies in
//! tables on the device, as for any training.

use network::shape::Shape;
use recipes::data::{Dataset, held_out_split};
use recipes::recipe::Augmentation;

use crate::augment::Draws;
use crate::distill::Targets;
use crate::learn::{DeviceImages, LearnError, Row, StepRates, Tables};
use crate::run::image_set;
use crate::tensor::{Device, Kind, Tensor, guarded};

/// One half, with the order in which an epoch shows it.
pub(super) struct Half {
    images: DeviceImages,
    tables: Tables,
    augmentation: Augmentation,
    batch: usize,
    seed: u64,
}

impl Half {
    /// The half for weights and the half for scores.
    ///
    /// # Errors
    /// When a half has fewer images than a batch, or the device has no room.
    pub(super) fn both(
        set: &Dataset,
        (batch, augmentation): (usize, Augmentation),
        seed: u64,
        device: Device,
    ) -> Result<[Self; 2], LearnError> {
        let (mut weights, scores) = held_out_split(&set.labels, set.len() / 2, seed);
        weights.truncate(scores.len());
        // The second half has another order.
        let half = |rows: &[u32], seed| Self::new(&set.subset(rows), batch, augmentation, seed, device);
        Ok([half(&weights, seed)?, half(&scores, seed ^ (1 << 63))?])
    }

    fn new(
        set: &Dataset,
        batch: usize,
        augmentation: Augmentation,
        seed: u64,
        device: Device,
    ) -> Result<Self, LearnError> {
        if set.len() < batch {
            return Err(LearnError::Batch { batch, images: set.len() });
        }
        let images = DeviceImages::new(&image_set(set), device)?;
        let tables = guarded(|| Tables::new((set.len() / batch, batch), 0, &augmentation, device))?;
        Ok(Self { images, tables, augmentation, batch, seed })
    }

    /// Whole batches in an epoch.
    pub(super) fn steps(&self) -> u64 {
        (self.images.len() / self.batch) as u64
    }

    pub(super) fn images(&self) -> &DeviceImages {
        &self.images
    }

    pub(super) fn shape(&self) -> Shape {
        self.images.pixels.shape()
    }

    /// Fills the tables of an epoch, in which the rate is the same for all steps.
    pub(super) fn begin_epoch(&mut self, epoch: u64, rate: f64) {
        let draws =
            Draws::new(&self.augmentation, self.shape(), (self.images.len(), self.batch), (self.seed, epoch));
        let rates = StepRates { learning_rate: rate as f32, ..StepRates::default() };
        let steps = self.steps() as usize;
        self.tables.fill(&draws, &vec![rates; steps], |_| Vec::new());
    }

    /// The row of the present step.
    pub(super) fn read(&self) -> Row {
        self.tables.read()
    }

    /// The images of a row and their labels.
    pub(super) fn batch(&self, row: &Row, kind: Kind) -> (Tensor, Targets) {
        let images = self.images.pixels.batch(&self.augmentation, &row.draws);
        let labels = self.images.labels.index_select(0, &row.draws.order);
        (images, Targets::plain(&labels, self.images.classes, 0.0, kind))
    }

    pub(super) fn advance(&mut self) {
        self.tables.advance();
    }

    /// The number of the present step, on the device.
    pub(super) fn position(&self) -> Tensor {
        self.tables.position().shallow_clone()
    }
}

/// What searches do to images: crops and mirror images as the paper says, nothing that mixes them.
pub(super) fn augmentation(recipe: &Augmentation) -> Augmentation {
    Augmentation { crop_padding: recipe.crop_padding, flip: recipe.flip, ..Augmentation::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::data::{SyntheticSize, synthetic};

    #[test]
    fn halves_are_disjoint_of_one_size_and_fixed_by_the_seed() {
        let set = synthetic(&SyntheticSize { side: 8, training: 61, test: 1, seed: 1 }).training;
        let halves = |seed| Half::both(&set, (8, Augmentation::default()), seed, Device::Cpu).unwrap();
        let [weights, scores] = halves(3);
        assert_eq!((weights.images.len(), scores.images.len(), weights.steps()), (30, 30, 3));
        let pixels = |half: &Half| crate::tensor::to_floats(&half.images.pixels.range(0, 30));
        assert_ne!(pixels(&weights), pixels(&scores));
        assert_eq!(pixels(&weights), pixels(&halves(3)[0]));
        assert_ne!(pixels(&weights), pixels(&halves(4)[0]));
        assert!(Half::both(&set, (31, Augmentation::default()), 3, Device::Cpu).is_err());
    }
}
