//! SENet: ReLUs for each layer by its sensitivity, their places by what student and teacher differ in.
//!
//! ```text
//! allocate    the trained network is pruned by magnitude, on paper; the budget is shared by what that says of each layer
//! locate      masks of those sizes, by chance at first. The network learns with them (SGD, cross-entropy and distillation
//!             half and half). At the end of each epoch every layer keeps the positions at which values behind the
//!             activation were farthest from the teacher's, summed over the epoch
//! fine-tune   the mask stays: the recipe's training, with the maps at the ends of the stages in the loss
//! ```
//!
//! Decisions without tensors are in [`recipes::method::senet`], with the paper.

mod locate;

use network::cost::Cost;
use recipes::checkpoint::{Checkpoint, Part};
use recipes::method::OptimizeError;
use recipes::method::senet::{self, SenetSection};

use super::snl::{SETTLED, SearchFigures, trial_images};
use super::{Found, Job, OptimizeRunError, OptimizeWatch, listener, read_json};
use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::learn::DeviceImages;
use crate::run::{Images, assemble_options, image_set, learn_options, trained};
use crate::tensor::to_floats;
use locate::Locating;

impl Job<'_> {
    pub(super) fn senet(
        &self,
        section: &SenetSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let budget = section.budget.resolve(self.spec.name(), self.whole())?;
        self.check_start(section.start.as_deref(), images)?;
        let teacher = self.teacher(watch)?;
        let settled = self.options.folder.join("settled");
        if !settled.join(SETTLED).is_file() {
            let before = Cost::of(&self.spec).counts();
            watch.part(&format!("locations: {} from {before} to {budget}", self.spec.name()));
            self.locate(section, budget, images, &teacher, &settled, watch)?;
        }
        let figures: SearchFigures = read_json(&settled.join(SETTLED))?;
        watch.part(&format!(
            "fine-tuning: {}; {:.2}% after the search, on {} images",
            figures.counts,
            100.0 * figures.accuracy_after_settling,
            figures.tried_on
        ));
        self.fine_tune(settled, &teacher, watch)
    }

    /// Allocates, locates, and writes the masked network as a checkpoint to fine-tune from.
    fn locate(
        &self,
        section: &SenetSection,
        budget: u64,
        images: &Images,
        teacher_path: &std::path::Path,
        settled: &std::path::Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<(), OptimizeRunError> {
        let device = self.options.device;
        if let Some(threads) = self.options.threads {
            crate::tensor::set_threads(threads);
        }
        let checkpoint = Checkpoint::load(teacher_path, Part::Weights)?;
        images.must_match(&checkpoint.state, teacher_path)?;
        let options = AssembleOptions { auxiliary_head: false, ..assemble_options(self.recipe, device) };
        let teacher = trained(&checkpoint, &checkpoint.spec()?, options, device)?;
        let network = self.started(section.start.as_deref(), teacher_path, images)?;
        let sensitivities = senet::sensitivities(&filters(&network), section.density);
        let counts = section.allocation(&self.spec, budget, &sensitivities).map_err(OptimizeError::from)?;
        let state = images.state(self.recipe, &self.spec);
        let folder = self.options.folder.join("search");
        let locating = Locating {
            section,
            counts,
            learning: learn_options(self.recipe),
            trial: trial_images(images, device)?,
            folder: &folder,
            shard_bytes: self.options.shard_bytes,
        };
        let set = DeviceImages::new(&image_set(&images.training), device)?;
        let mut listener = listener(watch, |watch, epoch| watch.search(epoch));
        let (network, figures) = locating.run(network, teacher, set, state.clone(), &mut listener)?;
        self.save_settled(&network, network.mask(), state, settled, &figures)
    }
}

/// The weights of the filters before each site.
fn filters(network: &TrainableNetwork) -> Vec<Vec<f32>> {
    let weights = |step: &String| {
        let name = format!("{step}.weight");
        let found = network.parameters().named().find(|(known, _)| *known == name);
        found.map_or_else(Vec::new, |(_, values)| to_floats(&values))
    };
    let site = |steps: &Vec<String>| steps.iter().flat_map(weights).collect();
    senet::filters_before_sites(network.spec()).iter().map(site).collect()
}
