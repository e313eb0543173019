//! Every candidate trained for itself, to be reported beside what the search says of it (Figure 5).

use std::path::Path;

use recipes::method::PlannedNetwork;
use recipes::method::sphynx::{GRID_FILE, GridRow, LocationEpoch};
use recipes::recipe::TrainOn;

use crate::optimize::{Job, OptimizeRunError, OptimizeWatch, read_json, write_json};

/// Networks that learn side by side.
const AT_ONCE: usize = 8;

impl Job<'_> {
    /// Trains all candidates for a few epochs on all but the held-out images, or finds that it was done.
    pub(super) fn grid(
        &self,
        networks: &[([usize; 2], PlannedNetwork)],
        search: &LocationEpoch,
        epochs: u32,
        folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Vec<GridRow>, OptimizeRunError> {
        let file = folder.join(GRID_FILE);
        if file.is_file() {
            return read_json(&file);
        }
        watch.part(&format!("grid: {} candidates, {epochs} epochs each", networks.len()));
        let mut rows = Vec::with_capacity(networks.len());
        for group in networks.chunks(AT_ONCE) {
            let planned: Vec<PlannedNetwork> = group.iter().map(|(_, planned)| planned.clone()).collect();
            let job = |(reduce, planned): &([usize; 2], PlannedNetwork)| {
                let mut recipe = self.bare_recipe();
                recipe.network = planned.section();
                // A choice is made on images that are not for the result.
                recipe.data.train_on = TrainOn::Split;
                recipe.teacher = None;
                recipe.training.loss.distillation = None;
                recipe.training.set_epochs(epochs);
                recipe.training.evaluate_every = epochs;
                (folder.join(format!("grid-{}+{}", reduce[0], reduce[1])), recipe)
            };
            let records = self.train_side_by_side(&planned, group.iter().map(job).collect(), watch)?;
            for ((reduce, _), record) in group.iter().zip(records) {
                let place = search.candidates.iter().position(|candidate| candidate == reduce);
                rows.push(GridRow {
                    reduce: *reduce,
                    accuracy: record.float_accuracy,
                    measured_on: record.measured_on,
                    chance: place.and_then(|place| search.distribution.get(place).copied()),
                });
            }
        }
        write_json(&file, &rows)?;
        Ok(rows)
    }
}
