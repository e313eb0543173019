//! What changes from step to step, as tables on the device.
//!
//! The tables of an epoch are filled once; a step reads the row its counter points to and moves the counter. Their
//! memory stays the same from epoch to epoch, as a recorded step needs it.

use recipes::recipe::Augmentation;

use super::StepRates;
use crate::augment::{Change, Changes, Draws, PER_BATCH, PER_IMAGE, StepDraws};
use crate::tensor::{Device, Kind, Tensor};

/// The rates of one step, in the order of their table.
const RATES: usize = 4;

/// The tables of one epoch.
pub(crate) struct Tables {
    order: Tensor,
    images: Tensor,
    boxes: Tensor,
    shares: Tensor,
    rates: Tensor,
    /// Whether boxes and shares differ from step to step.
    has_mixtures: bool,
    /// (steps, 12, images): the changes of images.
    changes: Option<Tensor>,
    /// (steps, edges, images): uniform numbers that decide which edges of cells are silenced.
    drops: Option<Tensor>,
    /// The step within the epoch.
    position: Tensor,
}

/// What one step reads.
pub(crate) struct Row {
    pub(crate) draws: StepDraws,
    pub(crate) learning_rate: Tensor,
    pub(crate) distillation: Tensor,
    pub(crate) keep_penalty: Tensor,
    /// For each edge and image what to multiply it with.
    pub(crate) drop_path: Option<Tensor>,
}

impl Tables {
    pub(crate) fn new(
        (steps, batch): (usize, usize),
        edges: usize,
        augmentation: &Augmentation,
        device: Device,
    ) -> Self {
        let (steps, batch, edges) = (steps as i64, batch as i64, edges as i64);
        let integers = |shape: &[i64]| device.zeros(shape, Kind::Int64);
        let floats = |shape: &[i64]| device.zeros(shape, Kind::Float);
        Self {
            order: integers(&[steps, batch]),
            images: integers(&[steps, PER_IMAGE as i64, batch]),
            boxes: integers(&[steps, PER_BATCH as i64]),
            shares: floats(&[steps, 1]),
            rates: floats(&[steps, RATES as i64]),
            has_mixtures: augmentation.has_mixtures(),
            changes: (augmentation.trivial > 0.0).then(|| floats(&[steps, Change::NUMBERS as i64, batch])),
            drops: (edges > 0).then(|| floats(&[steps, edges, batch])),
            position: integers(&[1]),
        }
    }

    /// Fills the tables for an epoch and goes to its first step.
    pub(crate) fn fill(&mut self, draws: &Draws, rates: &[StepRates], drops: impl FnOnce(usize) -> Vec<f32>) {
        let integers = |table: &mut Tensor, values: &[i64]| {
            let shape = table.size();
            table.copy_(&Tensor::from_slice(values).view(shape.as_slice()));
        };
        let floats = |table: &mut Tensor, values: &[f32]| {
            let shape = table.size();
            table.copy_(&Tensor::from_slice(values).view(shape.as_slice()));
        };
        integers(&mut self.order, &draws.order);
        integers(&mut self.images, &draws.images);
        integers(&mut self.boxes, &draws.boxes);
        floats(&mut self.shares, &draws.shares);
        if let Some(table) = &mut self.changes {
            floats(table, &draws.changes);
        }
        let rates: Vec<f32> = rates.iter().flat_map(|rates| rates.row()).collect();
        floats(&mut self.rates, &rates);
        if let Some(table) = &mut self.drops {
            let count = table.numel();
            floats(table, &drops(count));
        }
        let _ = self.position.zero_();
    }

    /// The row of the present step.
    pub(crate) fn read(&self) -> Row {
        let row = |table: &Tensor| table.index_select(0, &self.position).squeeze_dim(0);
        // Without mixtures every row is the same, and nothing needs to be gathered.
        let mixture = |table: &Tensor| if self.has_mixtures { row(table) } else { table.get(0) };
        let rates = row(&self.rates);
        let rate = |index: i64| rates.narrow(0, index, 1);
        let drop_path = self.drops.as_ref().map(|drops| {
            // Kept with chance 1 - p, and then made larger, so that the mean stays.
            let stays = 1.0 - rate(2);
            row(drops).lt_tensor(&stays).to_kind(Kind::Float) / stays
        });
        Row {
            draws: StepDraws {
                order: row(&self.order),
                images: row(&self.images),
                boxes: mixture(&self.boxes),
                share: mixture(&self.shares),
                changes: self.changes.as_ref().map(|changes| Changes(row(changes))),
            },
            learning_rate: rate(0),
            distillation: rate(1),
            keep_penalty: rate(3),
            drop_path,
        }
    }

    /// Goes to the next step.
    pub(crate) fn advance(&mut self) {
        let _ = self.position.g_add_scalar_(1);
    }

    /// The number of the present step, on the device.
    pub(crate) fn position(&self) -> &Tensor {
        &self.position
    }

    /// Goes back to the first step.
    pub(crate) fn rewind(&mut self) {
        let _ = self.position.zero_();
    }
}
