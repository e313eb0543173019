//! A recipe with an `[optimize]` section becomes trained networks of few ReLUs.
//!
//! ```text
//! OUT/recipe.toml      whose folder it is: another recipe is refused
//! OUT/teacher          the full network, where no teacher was given; for shared signs the one that the recipe names
//! OUT/search           SNL, SENet: checkpoints and `search.jsonl`
//! OUT/settled          SNL, SENet: the masked network before fine-tuning, `mask.sordino-mask`, `settled.json`
//! OUT/pruned           l1 pruning: the network without the filters, before fine-tuning, `pruned.json`
//! OUT/cells            Sphynx: the search of cells, `cells.toml`; `locations`: that of reduce cells
//! OUT/probe-S1 ...     DeepReDuce: networks with ReLUs in one stage alone; `criticality.json`
//! OUT/trained ...      the results: runs like any other
//! OUT/masked           shared signs: SNL's search, settled network and fine-tuning, where signs are to be masked
//! OUT/records.json     what they are, how they came about
//! ```
//!
//! Each part is a run of its own and knows whether it is done, so an interrupted call goes on where it was.

mod deepreduce;
mod deepreshape;
mod error;
mod identity;
mod l1_pruning;
mod senet;
mod shared_signs;
mod snl;
mod sphynx;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use network::cost::{Cost, Counts};
use network::spec::NetworkSpec;
use recipes::file::{read_text, write_whole};
use recipes::method::candidates::StageFinding;
use recipes::method::sphynx::{CellEpoch, LocationEpoch};
use recipes::method::{OptimizeError, OptimizeSection, PlannedNetwork, own_teacher, preview};
use recipes::recipe::{Distillation, Recipe, TeacherSection};
use results::{Compared, RECORD, RECORDS, ResultRecord, percent};

use crate::run::{Images, Outcome, RunOptions, Watch, train};
use crate::tensor::Device;

pub use error::OptimizeRunError;
pub use snl::{SearchEpoch, SearchFigures};
pub use sphynx::{EdgeFilters, SearchBenchOptions, SearchStepTime, measure_search_step};

/// The longest file that an optimization writes for itself.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Where and how to run.
#[derive(Clone, Debug)]
pub struct OptimizeOptions {
    /// The folder of the images; the recipe's where absent.
    pub data: Option<PathBuf>,
    /// What to compute on.
    pub device: Device,
    /// Where everything goes.
    pub folder: PathBuf,
    /// The largest file of a checkpoint.
    pub shard_bytes: u64,
    /// CPU threads; all cores where absent.
    pub threads: Option<usize>,
}

/// Is told how far an optimization is, beside how far its runs are.
pub trait OptimizeWatch: Watch {
    /// A part begins.
    fn part(&mut self, title: &str);
    /// An epoch of SNL's or SENet's search is done.
    fn search(&mut self, epoch: &SearchEpoch);
    /// An epoch of Sphynx's search of cells is done.
    fn cells(&mut self, epoch: &CellEpoch);
    /// An epoch of its search of locations is done.
    fn locations(&mut self, epoch: &LocationEpoch);
}

/// What an optimization found.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// The trained networks.
    pub records: Vec<ResultRecord>,
    /// What DeepReDuce's probes found out; empty for other methods and for a given order.
    pub criticality: Vec<StageFinding>,
    /// The cells that Sphynx's search found, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<String>,
}

/// Optimizes a network by a recipe; goes on where an earlier call with the same recipe was interrupted.
///
/// # Errors
/// When the budget cannot be met, or data, network, teacher or an earlier part cannot be used.
pub fn optimize(
    recipe: &Recipe,
    options: &OptimizeOptions,
    watch: &mut dyn OptimizeWatch,
) -> Result<Found, OptimizeRunError> {
    let recipe = &recipe.with_cells_spelled().map_err(OptimizeError::from)?;
    let section = recipe.optimize.clone().ok_or(OptimizeError::NoMethod)?;
    let done = options.folder.join(RECORDS);
    // What is done may be another recipe's, or only the criticality that this one builds on.
    if done.is_file() {
        identity::claim(&options.folder, recipe)?;
    }
    if done.is_file() {
        return read_json(&done);
    }
    let images = Images::open(recipe, options.data.as_deref())?;
    let (shape, classes) = (images.training.shape, images.training.classes.len());
    preview(recipe, shape, classes)?;
    identity::claim(&options.folder, recipe)?;
    let spec = match &section {
        OptimizeSection::SharedSigns(signs) => signs.plan(recipe, shape, classes)?.section(),
        _ => recipe.network.clone(),
    };
    let spec = spec.build(shape, classes).map_err(OptimizeError::from)?;
    let job = Job { recipe, options, spec, section: &section };
    let found = match &section {
        OptimizeSection::Snl(snl) => job.snl(snl, &images, watch),
        OptimizeSection::DeepReduce(deepreduce) => job.deepreduce(deepreduce, watch),
        OptimizeSection::DeepReshape(deepreshape) => job.deepreshape(deepreshape, watch),
        OptimizeSection::SharedSigns(signs) => job.shared_signs(signs, &images, watch),
        OptimizeSection::Senet(senet) => job.senet(senet, &images, watch),
        OptimizeSection::L1Pruning(pruning) => job.l1_pruning(pruning, &images, watch),
        OptimizeSection::Sphynx(sphynx) => job.sphynx(sphynx, &images, watch),
    };
    let found = found.inspect_err(|_| identity::release(&options.folder))?;
    write_json(&done, &found)?;
    Ok(found)
}

/// Whether a folder holds all that a recipe asks for; what another recipe left there does not count.
pub fn is_done(recipe: &Recipe, folder: &Path) -> bool {
    let Ok(recipe) = recipe.with_cells_spelled() else { return false };
    folder.join(RECORDS).is_file() && identity::belongs(folder, &recipe)
}

/// One optimization.
struct Job<'a> {
    recipe: &'a Recipe,
    options: &'a OptimizeOptions,
    /// The network that is to lose ReLUs; with shared signs the one that was chosen.
    spec: NetworkSpec,
    section: &'a OptimizeSection,
}

impl Job<'_> {
    /// What the network compares and gates before anything is taken from it.
    fn whole(&self) -> Counts {
        Cost::of(&self.spec).counts()
    }

    /// The teacher given, or the full network, trained first.
    fn teacher(&self, watch: &mut dyn OptimizeWatch) -> Result<PathBuf, OptimizeRunError> {
        if let Some(teacher) = &self.recipe.teacher {
            return Ok(teacher.checkpoint.clone());
        }
        let recipe = own_teacher(self.recipe).expect("a method that asks for a teacher can train one");
        match self.section {
            OptimizeSection::SharedSigns(section) => {
                watch.part(&format!("teacher: {}", section.teacher_network))
            }
            _ => {
                let (network, noun) = (self.spec.name(), self.whole().noun());
                watch.part(&format!("teacher: {network} with all its {noun}"));
            }
        }
        let folder = self.options.folder.join("teacher");
        self.train(recipe, &folder, watch)?;
        Ok(folder)
    }

    /// The recipe as a plain training run takes it.
    fn bare_recipe(&self) -> Recipe {
        Recipe { optimize: None, start: None, mask: None, ..self.recipe.clone() }
    }

    /// A teacher, asked as the recipe's would be.
    fn teacher_section(&self, checkpoint: &Path) -> TeacherSection {
        let views = self.recipe.teacher.as_ref().and_then(|teacher| teacher.views);
        TeacherSection { checkpoint: checkpoint.to_owned(), views }
    }

    /// The same with a teacher, and a distillation loss if none is named.
    fn distilled_recipe(&self, teacher: &Path) -> Recipe {
        let mut recipe = self.bare_recipe();
        recipe.teacher = Some(self.teacher_section(teacher));
        recipe.training.loss.distillation.get_or_insert(Distillation::soft(4.0, 0.9));
        recipe
    }

    /// A run, or the rest of one.
    fn train(
        &self,
        recipe: Recipe,
        folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Outcome, OptimizeRunError> {
        let OptimizeOptions { data, device, shard_bytes, threads, .. } = self.options.clone();
        let options =
            RunOptions { data, device, resume: true, folder: folder.to_owned(), shard_bytes, threads };
        Ok(train(recipe, &options, watch)?)
    }

    /// Trains one planned network with a teacher.
    fn train_plan(
        &self,
        plan: &PlannedNetwork,
        teacher: &Path,
        folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<ResultRecord, OptimizeRunError> {
        watch.part(&format!("{}: {}", plan.title, plan.cost.counts()));
        let mut recipe = self.distilled_recipe(teacher);
        recipe.network = plan.section();
        recipe.title = format!("{}, {}", plan.title, plan.cost.counts());
        self.train_recorded(recipe, &plan.title, plan.cost.macs, folder, watch)
    }

    fn train_recorded(
        &self,
        recipe: Recipe,
        title: &str,
        macs: u64,
        folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<ResultRecord, OptimizeRunError> {
        let done = folder.join(RECORD);
        if done.is_file() {
            return read_json(&done);
        }
        let outcome = self.train(recipe.clone(), folder, watch)?;
        let record = self.record(recipe, title, macs, &outcome);
        write_json(&done, &record)?;
        Ok(record)
    }

    fn record(&self, recipe: Recipe, title: &str, macs: u64, outcome: &Outcome) -> ResultRecord {
        // Choices are made on held-out images wherever there are some.
        let tried = outcome.results.iter().find(|tried| tried.on == "held-out").or(outcome.results.last());
        let accuracy = tried.map_or(0.0, |tried| percent(tried.accuracy));
        let test = outcome.results.iter().find(|tried| tried.on == "test");
        ResultRecord {
            title: title.to_owned(),
            method: self.section.method().to_owned(),
            network: outcome.network.clone(),
            seed: recipe.seed,
            compared: Compared::new(outcome.counts, self.whole().comparisons, accuracy),
            macs,
            measured_on: tried.map_or_else(String::new, |tried| tried.on.clone()),
            float_accuracy: accuracy,
            test_accuracy: test.map(|tried| percent(tried.accuracy)),
            integer_accuracy: None,
            integer_images: None,
            model: None,
            private: Vec::new(),
            checkpoint: outcome.checkpoint.display().to_string(),
            recipe,
        }
    }
}

/// What a search tells while it runs.
enum Told<'a, E> {
    /// So many steps of an epoch are done. The answer does not matter.
    Step { done: u64, steps: u64 },
    /// An epoch is done; the answer is whether to go on.
    Epoch(&'a E),
}

/// Listens to a search.
type Listener<'a, E> = dyn FnMut(Told<'_, E>) -> ControlFlow<()> + 'a;

/// Passes on what a search tells.
fn listener<E>(
    watch: &mut dyn OptimizeWatch,
    tell: fn(&mut dyn OptimizeWatch, &E),
) -> impl FnMut(Told<'_, E>) -> ControlFlow<()> {
    move |told| match told {
        Told::Step { done, steps } => {
            watch.step(done, steps);
            ControlFlow::Continue(())
        }
        Told::Epoch(epoch) => {
            tell(watch, epoch);
            if watch.should_stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, OptimizeRunError> {
    serde_json::from_str(&read_text(path, MAX_FILE_BYTES)?)
        .map_err(|error| OptimizeRunError::Damaged { path: path.into(), reason: error.to_string() })
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), OptimizeRunError> {
    let text =
        serde_json::to_string_pretty(value).expect("results hold only names, numbers, lists and tables");
    Ok(write_whole(path, text)?)
}

#[cfg(test)]
mod tests;
