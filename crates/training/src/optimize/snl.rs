//! SNL: learn for every ReLU whether it may become the identity, under a penalty that is raised until few are left.
//!
//! ```text
//! search      weights and keep scores together: Adam without decay, cross-entropy + distillation at T = 4 +
//!             penalty * sum of absolute scores (SNL section 3, equation 2); penalty by `recipes::method::Penalty`
//! settle      scores above 0.01 stay, the budget is hit exactly, the mask is 0/1 from here on (`KeepScores`)
//! fine-tune   the masked network with the same teacher: SGD, cosine (SNL section 4)
//! ```
//!
//! With `taylor_epochs` the search has no penalty: [`recipes::method::taylor`] says which ReLUs go after each epoch.
//!
//! The paper leaves out the distillation in the search, the optimizer and the penalty's schedule; they are those of
//! the authors' code. What differs from it: the count is looked at several times an epoch near the budget, so that
//! the search ends on it instead of somewhere below, and kept scores become exactly 1.

mod count;
mod search;

use std::path::{Path, PathBuf};

use network::cost::Cost;
use network::mask::ActivationMask;
use recipes::checkpoint::{Arrays, Checkpoint, Part, State};
use recipes::file::write_whole;
use recipes::method::SnlSection;
use recipes::recipe::{Distillation, MaskSection, ReadingOfWeight, StartSection};

use super::{Found, Job, OptimizeRunError, OptimizeWatch, listener, read_json, write_json};
use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::learn::DeviceImages;
use crate::run::{Images, assemble_options, image_set, learn_options, teacher};
use crate::tensor::Device;
use search::Search;

pub use search::{SearchEpoch, SearchFigures};

pub(super) use search::SEARCH_LOG;

/// What a settled folder has beside its checkpoint.
pub(super) const SETTLED: &str = "settled.json";
const MASK: &str = "mask.sordino-mask";
/// Training images that settling is tried on where none are held out; the test images are looked at once, at the end.
const TRIED_IMAGES: usize = 5000;

impl Job<'_> {
    pub(super) fn snl(
        &self,
        section: &SnlSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let budget = section.budget.resolve(self.spec.name(), self.whole())?;
        self.check_start(section.start.as_deref(), images)?;
        let teacher = self.teacher(watch)?;
        let settled = self.options.folder.join("settled");
        if !settled.join(SETTLED).is_file() {
            let before = Cost::of(&self.spec).counts();
            watch.part(&format!("search: {} from {before} to {budget} {}", self.spec.name(), before.noun()));
            self.search(section, budget, images, &teacher, &settled, watch)?;
        }
        let figures: SearchFigures = read_json(&settled.join(SETTLED))?;
        let short = if figures.counts.comparisons < budget {
            format!(", the most of {budget} that whole channels allow")
        } else {
            String::new()
        };
        watch.part(&format!(
            "fine-tuning: {}{short}; {:.2}% before settling, {:.2}% after, on {} images",
            figures.counts,
            100.0 * figures.accuracy_before_settling,
            100.0 * figures.accuracy_after_settling,
            figures.tried_on
        ));
        self.fine_tune(settled, &teacher, watch)
    }

    /// Refuses the start of another network, before a teacher is trained.
    pub(super) fn check_start(&self, start: Option<&Path>, images: &Images) -> Result<(), OptimizeRunError> {
        start.map_or(Ok(()), |path| self.beginning(path, false, images).map(drop))
    }

    /// The network with the weights of its start, or of the teacher where it has none.
    pub(super) fn started(
        &self,
        start: Option<&Path>,
        teacher: &Path,
        images: &Images,
    ) -> Result<TrainableNetwork, OptimizeRunError> {
        self.beginning(start.unwrap_or(teacher), start.is_none(), images)
    }

    /// The network with the weights of a checkpoint.
    fn beginning(
        &self,
        path: &Path,
        is_teacher: bool,
        images: &Images,
    ) -> Result<TrainableNetwork, OptimizeRunError> {
        let device = self.options.device;
        let start = Checkpoint::load(path, Part::Weights)?;
        images.must_match(&start.state, path)?;
        let options = AssembleOptions { auxiliary_head: false, ..assemble_options(self.recipe, device) };
        let mut network = TrainableNetwork::new(&self.spec, &options, device)?;
        network.load_arrays(&start.weights).map_err(|source| OptimizeRunError::OtherStart {
            network: self.spec.name().to_owned(),
            path: path.to_owned(),
            came: start.spec().map_or_else(|_| "no network".to_owned(), |spec| spec.name().to_owned()),
            is_teacher,
            source: Box::new(source),
        })?;
        Ok(network)
    }

    /// Searches, settles, and writes the masked network as a checkpoint to fine-tune from.
    fn search(
        &self,
        section: &SnlSection,
        budget: u64,
        images: &Images,
        teacher_path: &Path,
        settled_folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<(), OptimizeRunError> {
        let device = self.options.device;
        if let Some(threads) = self.options.threads {
            crate::tensor::set_threads(threads);
        }
        let teacher = teacher(teacher_path, images, &assemble_options(self.recipe, device), device)?;
        let network = self.started(section.start.as_deref(), teacher_path, images)?;
        let state = images.state(self.recipe, &self.spec);
        let folder = self.options.folder.join("search");
        let search = Search {
            section,
            budget,
            learning: learn_options(self.recipe),
            trial: trial_images(images, device)?,
            folder: &folder,
            shard_bytes: self.options.shard_bytes,
        };
        let set = DeviceImages::new(&image_set(&images.training), device)?;
        let mut listener = listener(watch, |watch, epoch| watch.search(epoch));
        let (network, settled, figures) = search.run(network, teacher, set, state.clone(), &mut listener)?;
        self.save_settled(&network, &settled.mask, state, settled_folder, &figures)
    }

    /// Writes a masked network as a checkpoint to fine-tune from.
    pub(super) fn save_settled(
        &self,
        network: &TrainableNetwork,
        mask: &ActivationMask,
        state: State,
        folder: &Path,
        figures: &SearchFigures,
    ) -> Result<(), OptimizeRunError> {
        let mask = mask.to_bytes();
        let checkpoint = Checkpoint {
            state: State { recipe: self.bare_recipe(), ..state },
            weights: network.to_arrays(),
            optimizer: Arrays::new(),
            mask: Some(mask.clone()),
        };
        checkpoint.save(folder, self.options.shard_bytes)?;
        write_whole(&folder.join(MASK), &mask)?;
        debug_assert!(ActivationMask::from_bytes(&mask, &self.spec).is_ok());
        // Written last: it says that the others are whole.
        write_json(&folder.join(SETTLED), figures)
    }

    /// Trains the masked network of a folder on, with the same teacher.
    pub(super) fn fine_tune(
        &self,
        settled: PathBuf,
        teacher: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let figures: SearchFigures = read_json(&settled.join(SETTLED))?;
        let mut recipe = self.distilled_recipe(teacher);
        if self.recipe.training.loss.distillation.is_none() {
            let distillation =
                Distillation::Kd { temperature: 4.0, weight: 1.0, reading: ReadingOfWeight::Added };
            recipe.training.loss.distillation = Some(distillation);
        }
        recipe.mask = Some(MaskSection { file: settled.join(MASK) });
        recipe.start = Some(StartSection { checkpoint: settled });
        recipe.title = format!("{} linearized to {}", self.spec.name(), figures.counts);
        let macs = Cost::of(&self.spec).macs;
        let title = recipe.title.clone();
        let record =
            self.train_recorded(recipe, &title, macs, &self.options.folder.join("trained"), watch)?;
        Ok(Found { records: vec![record], ..Found::default() })
    }
}

/// What a search is tried on: held-out images, or else some of those it learns from.
pub(super) fn trial_images(
    images: &Images,
    device: Device,
) -> Result<(&'static str, DeviceImages), OptimizeRunError> {
    Ok(match &images.held_out {
        Some(set) => ("held-out", DeviceImages::new(&image_set(set), device)?),
        None => ("training", DeviceImages::new(&image_set(&images.training.first(TRIED_IMAGES)), device)?),
    })
}
