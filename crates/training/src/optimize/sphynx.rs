//! Sphynx (Cho et al. 2022): a search for cells, a size for the budget, a search for the places of reduce cells, training.
//!
//! ```text
//! OUT/cells         the search of cells: checkpoints, `cells.jsonl`, and `cells.toml`, which the zoo builds networks of
//! OUT/locations     the search of locations: checkpoints, `locations.jsonl`, `locations.json`; `grid.json`
//! OUT/teacher       the network with a ReLU before every convolution, where there is distillation and no teacher
//! OUT/trained       the network, and `trained-2` and so on for further ones, which learn side by side
//! ```
//!
//! ```text
//! network       the network under search; `cell`, `weights` and `maps` are parts of it
//! cells         its search (section 4.2, appendix A); `second_order`
//! locations     the search of Algorithm 1; `branches` are its networks
//! halves        the two halves of the images
//! recorded      steps as CUDA graphs
//! bench         how long a step of the search of cells takes
//! grid          every candidate trained for itself (Figure 5)
//! ```

mod bench;
mod branches;
mod cell;
mod cells;
mod grid;
mod halves;
mod locations;
mod maps;
mod network;
mod recorded;
mod second_order;
mod state;
#[cfg(test)]
mod tests;
mod weights;

use std::path::{Path, PathBuf};

use ::network::spec::NetworkSpec;
use ::network::zoo::ZooError;
use ::network::zoo::genotype::Genotype;
use recipes::checkpoint::{Checkpoint, Part};
use recipes::log::{Epoch, Start};
use recipes::method::sphynx::{CELLS_FILE, LocationEpoch, SphynxPlan, SphynxSection, plan};
use recipes::method::{OptimizeError, PlannedNetwork};
use recipes::recipe::{Distillation, NetworkSection, Recipe};
use results::{RECORD, ResultRecord};

use super::{Found, Job, OptimizeRunError, OptimizeWatch, listener, read_json, write_json};
use crate::assemble::AssembleOptions;
use crate::run::{Images, Member, RunOptions, Watch, assemble_options, train_together};
pub use bench::{SearchBenchOptions, SearchStepTime, measure_search_step};
pub use cell::EdgeFilters;
use cells::CellSearcher;
use locations::LocationSearcher;

/// What a search of locations came to, beside its log.
const LOCATIONS_FILE: &str = "locations.json";

impl Job<'_> {
    pub(super) fn sphynx(
        &self,
        section: &SphynxSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        if let Some(threads) = self.options.threads {
            crate::tensor::set_threads(threads);
        }
        let set = &images.training;
        let plans = plan(self.recipe, section, set.shape, set.classes.len())?;
        let found =
            section.searches_cells().then(|| self.search_cells(section, images, watch)).transpose()?;
        let mut networks = Vec::with_capacity(plans.len());
        for (index, plan) in plans.iter().enumerate() {
            let cells = plan.known_cells()?.or_else(|| found.clone());
            let cells = cells.expect("cells that are not known were searched");
            let reduce = match plan.known_locations()? {
                Some(reduce) => reduce,
                None => self.search_locations(section, (index, plan), &cells, images, watch)?,
            };
            networks.push(plan.network(&cells, reduce)?);
        }
        let records = match section.only_search {
            true => Vec::new(),
            false => self.train_networks(&networks, watch)?,
        };
        Ok(Found { records, cells: found.map(|cells| cells.to_word()), ..Found::default() })
    }

    /// The cells of a search, or those that an earlier call found.
    fn search_cells(
        &self,
        section: &SphynxSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Genotype, OptimizeRunError> {
        let folder = self.options.folder.join("cells");
        let file = folder.join(CELLS_FILE);
        if file.is_file() {
            return Ok(
                Genotype::from_file(&file).map_err(|error| OptimizeError::from(ZooError::from(error)))?
            );
        }
        let search = &section.cell_search;
        let state = images.state(self.recipe, &self.spec);
        let augmentation = halves::augmentation(&self.recipe.training.augmentation);
        let searcher =
            CellSearcher::new(search, &images.training, augmentation, state, &folder, self.options.device)?;
        let title = format!(
            "search of cells: {} nodes, {} channels, {} cells, {} epochs",
            search.nodes, search.channels, search.depth, search.epochs
        );
        watch.part(&going_on(title, searcher.epochs_done()));
        let mut listener = listener(watch, |watch, epoch| watch.cells(epoch));
        searcher.run(&folder, self.options.shard_bytes, &mut listener)
    }

    /// The reduce cells of a search, or those that an earlier call found.
    fn search_locations(
        &self,
        section: &SphynxSection,
        (index, plan): (usize, &SphynxPlan),
        cells: &Genotype,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<[usize; 2], OptimizeRunError> {
        let folder = self.options.folder.join(numbered("locations", index));
        let file = folder.join(LOCATIONS_FILE);
        let candidates = plan.candidates(section);
        if !file.is_file() {
            let search = &section.location_search;
            let title = format!(
                "search of locations: {} candidates for {} cells, {} epochs",
                candidates.len(),
                plan.depth,
                search.epochs
            );
            let networks = candidates
                .iter()
                .map(|reduce| Ok((*reduce, self.build(&plan.network(cells, *reduce)?, images)?)))
                .collect::<Result<Vec<_>, OptimizeRunError>>()?;
            let device = self.options.device;
            // Evaluation-form cells without drop-path and auxiliary head, as in the authors' code.
            let options = AssembleOptions { auxiliary_head: false, ..assemble_options(self.recipe, device) };
            let augmentation = halves::augmentation(&self.recipe.training.augmentation);
            let searcher = LocationSearcher::new(
                search,
                networks,
                (&images.training, augmentation),
                &options,
                images.state(self.recipe, &self.spec),
                (&folder, device),
            )?;
            watch.part(&going_on(title, searcher.epochs_done()));
            let mut listener = listener(watch, |watch, epoch| watch.locations(epoch));
            let last = searcher.run(&folder, self.options.shard_bytes, &mut listener)?;
            write_json(&file, &last)?;
        }
        let last: LocationEpoch = read_json(&file)?;
        if let Some(epochs) = section.location_search.grid_epochs {
            let networks = candidates.iter().map(|reduce| Ok((*reduce, plan.network(cells, *reduce)?)));
            let networks = networks.collect::<Result<Vec<_>, OptimizeError>>()?;
            self.grid(&networks, &last, epochs, &folder, watch)?;
        }
        let best = (1..last.distribution.len()).fold(0, |best, next| {
            if last.distribution[next] > last.distribution[best] { next } else { best }
        });
        last.candidates.get(best).copied().ok_or_else(|| OptimizeRunError::Damaged {
            path: file,
            reason: "it names no candidates".to_owned(),
        })
    }

    fn build(&self, planned: &PlannedNetwork, images: &Images) -> Result<NetworkSpec, OptimizeRunError> {
        let set = &images.training;
        let spec = planned.section().build(set.shape, set.classes.len());
        Ok(spec.map_err(OptimizeError::from)?)
    }

    /// Trains all networks, side by side where that can be.
    fn train_networks(
        &self,
        networks: &[PlannedNetwork],
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Vec<ResultRecord>, OptimizeRunError> {
        let teacher = self.sphynx_teacher(&networks[0], watch)?;
        for network in networks {
            watch.part(&format!("training {}: {}", network.title, network.cost.counts()));
        }
        let jobs: Vec<(PathBuf, Recipe)> = networks
            .iter()
            .enumerate()
            .map(|(index, network)| {
                let mut recipe = self.bare_recipe();
                recipe.network = network.section();
                recipe.title = format!("{}, {}", network.title, network.cost.counts());
                recipe.teacher = teacher.as_deref().map(|teacher| self.teacher_section(teacher));
                if teacher.is_some() {
                    // Appendix G.1, where the recipe says nothing else.
                    recipe.training.loss.distillation.get_or_insert(Distillation::LogitMse { weight: 1.0 });
                }
                (self.options.folder.join(numbered("trained", index)), recipe)
            })
            .collect();
        self.train_side_by_side(networks, jobs, watch)
    }

    /// Trains networks that are not done yet, and gives the records of all.
    pub(super) fn train_side_by_side(
        &self,
        networks: &[PlannedNetwork],
        jobs: Vec<(PathBuf, Recipe)>,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Vec<ResultRecord>, OptimizeRunError> {
        let epoch = |folder: &Path| {
            Checkpoint::load(folder, Part::Description).map_or(0, |checkpoint| checkpoint.state.epoch)
        };
        let left: Vec<&(PathBuf, Recipe)> =
            jobs.iter().filter(|(folder, _)| !folder.join(RECORD).is_file()).collect();
        // Those that were interrupted at different times go on one by one.
        let is_even = left.windows(2).all(|pair| epoch(&pair[0].0) == epoch(&pair[1].0));
        for group in left.chunks(if is_even { left.len().max(1) } else { 1 }) {
            let mut quiet: Vec<Quiet> = group.iter().skip(1).map(|_| Quiet).collect();
            let watches = std::iter::once(&mut *watch as &mut dyn Watch)
                .chain(quiet.iter_mut().map(|quiet| quiet as &mut dyn Watch));
            let members = group.iter().zip(watches).map(|((folder, recipe), watch)| Member {
                recipe: recipe.clone(),
                folder: folder.clone(),
                watch,
            });
            let options = RunOptions {
                data: self.options.data.clone(),
                device: self.options.device,
                resume: true,
                folder: group[0].0.clone(),
                shard_bytes: self.options.shard_bytes,
                threads: self.options.threads,
            };
            let outcomes = train_together(members.collect(), &options)?;
            for ((folder, recipe), outcome) in group.iter().zip(outcomes) {
                let outcome = outcome?;
                let of_folder = |(job, _): &(&(PathBuf, Recipe), &PlannedNetwork)| job.0 == *folder;
                let planned = jobs.iter().zip(networks).find(of_folder).expect("it is one of the jobs").1;
                let mut record = self.record(recipe.clone(), &planned.title, planned.cost.macs, &outcome);
                // Nothing was taken from it: the budget made the network.
                record.compared.before = planned.cost.relus;
                write_json(&folder.join(RECORD), &record)?;
            }
        }
        jobs.iter().map(|(folder, _)| read_json(&folder.join(RECORD))).collect()
    }

    /// The teacher given, or where there is distillation the same cells with a ReLU before every convolution
    /// (appendix G), trained first.
    fn sphynx_teacher(
        &self,
        network: &PlannedNetwork,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Option<PathBuf>, OptimizeRunError> {
        if let Some(teacher) = &self.recipe.teacher {
            return Ok(Some(teacher.checkpoint.clone()));
        }
        if self.recipe.training.loss.distillation.is_none() {
            return Ok(None);
        }
        let mut recipe = self.bare_recipe();
        recipe.network = NetworkSection::named(&format!("{},modules=relu", network.network));
        recipe.training.loss.distillation = None;
        recipe.title = format!("the teacher of {}", network.title);
        watch.part(&recipe.title);
        let folder = self.options.folder.join("teacher");
        self.train(recipe, &folder, watch)?;
        Ok(Some(folder))
    }
}

/// A title that says where an interrupted part goes on.
fn going_on(title: String, epochs_done: u32) -> String {
    if epochs_done == 0 { title } else { format!("{title}; goes on after epoch {epochs_done}") }
}

/// `trained`, `trained-2`, `trained-3`.
fn numbered(name: &str, index: usize) -> String {
    if index == 0 { name.to_owned() } else { format!("{name}-{}", index + 1) }
}

/// Of several runs side by side the first tells how far they are.
struct Quiet;

impl Watch for Quiet {
    fn start(&mut self, _: &Start) {}
    fn step(&mut self, _: u64, _: u64) {}
    fn epoch(&mut self, _: &Epoch) {}
}
