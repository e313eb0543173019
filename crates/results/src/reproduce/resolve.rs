//! Rows become recipes: one of those in `recipes/`, with the row's network, data, teacher and budget.

use std::path::PathBuf;

use network::cost::Cost;
use network::design::CriticalityOrder;
use network::shape::Shape;
use network::spec::{Draft, NetworkSpec};
use network::zoo::genotype::Genotype;
use recipes::data::DataKind;
use recipes::method::l1_pruning::L1PruningSection;
use recipes::method::sphynx::{CellsSource, LocationSource, SphynxPlan, SphynxSection, Strategy, plan};
use recipes::method::{
    DeepReduceSection, OptimizeError, OptimizeSection, PlannedNetwork, ReluBudget, SnlSection, candidates,
    own_teacher, teacher_name,
};
use recipes::method::{Granularity, PenaltySchedule};
use recipes::recipe::{Distillation, NetworkSection, Recipe, TeacherSection, TrainOn};

use super::entry::Teacher;
use super::{Entry, ReproduceError, Row, RowTraining, Way, measured, predict};

/// What trains the teacher of a search whose own recipe only fine-tunes.
const PLAIN: &str = "deepreshape-hybrenet-cifar100";
/// Where teachers are kept, for all tables: those of one recipe have one folder.
const TEACHERS: &str = "runs";
/// What SNL begins with.
const SNL_BASELINE: &str = "snl-baseline-cifar100";

impl Entry {
    /// All trainings.
    ///
    /// # Errors
    /// When a row is no network or no recipe.
    pub fn runs(&self) -> Result<Vec<RowTraining<'_>>, ReproduceError> {
        let pairs = self.rows.iter().flat_map(|row| self.ways.iter().enumerate().map(move |way| (row, way)));
        pairs.map(|(row, (index, way))| self.run(row, index, *way)).collect()
    }

    fn run<'a>(&self, row: &'a Row, index: usize, way: Way) -> Result<RowTraining<'a>, ReproduceError> {
        let data = row.data.unwrap_or(self.data);
        let mut recipe = self.recipe(row, way)?;
        let spec = build(&recipe.network, data)?;
        let teacher = way.has_teacher().then(|| self.teacher(&recipe, data)).transpose()?;
        recipe.teacher = teacher.as_ref().map(|(folder, _)| TeacherSection::new(folder));
        let teacher_macs = match &teacher {
            Some((_, teacher)) => Some(Cost::of(&build(&teacher.network, data)?).macs),
            None => None,
        };
        let (networks, minutes) = price(&recipe, &spec, teacher_macs)?;
        let teacher_minutes = match (&teacher, teacher_macs) {
            (Some((_, teacher)), Some(macs)) => {
                training_minutes(teacher, macs, None, teacher.training.epochs)
            }
            _ => 0.0,
        };
        let cost = cost(&recipe, &spec)?;
        let ours = measured()
            .iter()
            .find(|ours| (&ours.entry, &ours.row, ours.way) == (&self.id, &row.row, way))
            .cloned();
        Ok(RowTraining {
            relus: row.budget.unwrap_or(cost.relus),
            macs: cost.macs,
            networks,
            minutes,
            teacher_minutes,
            printed_accuracy: row.accuracy.get(index).copied().filter(|accuracy| !accuracy.is_nan()),
            ours,
            row,
            way,
            recipe,
            teacher,
        })
    }

    /// The recipe of a row, without its teacher.
    fn recipe(&self, row: &Row, way: Way) -> Result<Recipe, ReproduceError> {
        let name = row.recipe.as_ref().unwrap_or(&self.recipe);
        let mut recipe = ours(name)?;
        recipe.title = format!("{}: {}, {}", self.id, row.row, way.title());
        recipe.data.set = row.data.unwrap_or(self.data);
        recipe.network = row.network.clone();
        self.set_length(&mut recipe, way);
        recipe.training.loss.distillation = distillation(way, recipe.training.loss.distillation);
        recipe.optimize = match way {
            Way::Pipeline => Some(OptimizeSection::DeepReduce(DeepReduceSection {
                order: row.order.clone(),
                single_blocks: true,
                ..DeepReduceSection::default()
            })),
            Way::Snl | Way::SnlChannels | Way::SnlPatient => Some(search(row, way, recipe.optimize.take())?),
            Way::L1Pruning => Some(pruning(row, recipe.optimize.take())?),
            Way::SphynxCells | Way::SphynxGrid => Some(sphynx(row, way, recipe.optimize.take())?),
            Way::None | Way::Kd | Way::Dkd => None,
        };
        recipe.teacher = None;
        Ok(recipe)
    }

    /// Epochs and schedule. Those for the warm-up of decoupled distillation belong to it alone.
    fn set_length(&self, recipe: &mut Recipe, way: Way) {
        let training = &mut recipe.training;
        if let (Some(Distillation::Dkd { warm_up_epochs, .. }), true) =
            (training.loss.distillation, way != Way::Dkd)
        {
            training.epochs -= warm_up_epochs as u32;
        }
        if let Some(kind) = self.schedule {
            training.schedule.kind = kind;
            training.schedule.milestones.clear();
        }
        training.epochs = self.epochs.unwrap_or(training.epochs);
        training.evaluate_every = training.epochs;
    }

    /// How the teacher of a recipe is trained, and where it is expected.
    fn teacher(&self, recipe: &Recipe, data: DataKind) -> Result<(PathBuf, Recipe), ReproduceError> {
        let mut teacher = match self.teacher {
            Teacher::Snl => ours(SNL_BASELINE)?,
            _ => {
                let plain =
                    Recipe { optimize: None, teacher: None, mask: None, start: None, ..recipe.clone() };
                match &recipe.optimize {
                    // What fine-tunes a network is too slow to train one.
                    Some(OptimizeSection::Snl(_) | OptimizeSection::L1Pruning(_)) => ours(PLAIN)?,
                    _ => plain,
                }
            }
        };
        if let Some(Distillation::Dkd { warm_up_epochs, .. }) = teacher.training.loss.distillation {
            teacher.training.epochs -= warm_up_epochs as u32;
        }
        if self.teacher == Teacher::Snl && data == DataKind::TinyImageNet {
            // SNL section 4: 100 epochs on Tiny ImageNet, decays at 50 and 75.
            teacher.training.epochs = 100;
            teacher.training.schedule.milestones = vec![50, 75];
        }
        teacher.training.evaluate_every = teacher.training.epochs;
        teacher.training.loss.distillation = None;
        teacher.teacher = None;
        teacher.data = recipe.data.clone();
        let mut network = match self.teacher {
            Teacher::ResNet18 => NetworkSection::named("resnet18"),
            Teacher::Same | Teacher::Snl => NetworkSection::named(&recipe.network.name),
            Teacher::Sphynx => NetworkSection::named(&format!("{},modules=relu", recipe.network.name)),
        };
        // A search begins with the weights of its own network, thinned where that is.
        if matches!(recipe.optimize, Some(OptimizeSection::Snl(_))) {
            network = recipe.network.clone();
        }
        teacher.network = network;
        teacher.title = format!("the teacher {} on {}", teacher.network.name, data.name());
        Ok((PathBuf::from(TEACHERS).join(teacher_name(&teacher)), teacher))
    }
}

fn ours(name: &str) -> Result<Recipe, ReproduceError> {
    let text = recipes::ours::text(name).ok_or_else(|| ReproduceError::NoRecipe { name: name.to_owned() })?;
    Ok(Recipe::from_toml(text)?)
}

/// The distillation of a way; the recipe's own where it is of that kind.
fn distillation(way: Way, own: Option<Distillation>) -> Option<Distillation> {
    match (way, own) {
        (Way::None | Way::L1Pruning | Way::SphynxCells | Way::SphynxGrid, _) => None,
        (Way::Dkd, _)
        | (Way::Snl | Way::SnlChannels | Way::SnlPatient, _)
        | (_, Some(Distillation::Kd { .. } | Distillation::LogitMse { .. })) => own,
        _ => Some(Distillation::soft(4.0, 0.9)),
    }
}

/// SNL's search for a row, by the recipe's own.
fn search(row: &Row, way: Way, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let mut section = match own {
        Some(OptimizeSection::Snl(section)) => section,
        _ => SnlSection::new(ReluBudget::Count(budget)),
    };
    section.budget = ReluBudget::Count(budget);
    if way == Way::SnlChannels {
        section.granularity = Granularity::Channel;
    }
    if way == Way::SnlPatient {
        section.penalty = PenaltySchedule::default();
    }
    if let (Some(rate), PenaltySchedule::Patient { first, .. } | PenaltySchedule::Paced { first, .. }) =
        (row.search.first, &mut section.penalty)
    {
        *first = rate;
    }
    section.learning_rate = row.search.learning_rate.unwrap_or(section.learning_rate);
    Ok(OptimizeSection::Snl(section))
}

/// Pruning for a row, by the recipe's own.
fn pruning(row: &Row, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let section = match own {
        Some(OptimizeSection::L1Pruning(section)) => section,
        _ => L1PruningSection::new(ReluBudget::Count(budget)),
    };
    let (budget, stream) = (ReluBudget::Count(budget), row.search.stream);
    Ok(OptimizeSection::L1Pruning(L1PruningSection { budget, stream, distill: false, ..section }))
}

/// Sphynx's search for a row, by the recipe's own.
fn sphynx(row: &Row, way: Way, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let mut section = match own {
        Some(OptimizeSection::Sphynx(section)) => *section,
        _ => SphynxSection::new(ReluBudget::Count(budget)),
    };
    section.budget = ReluBudget::Count(budget);
    section.further.clear();
    section.cell_search.nodes = row.search.nodes.unwrap_or(section.cell_search.nodes);
    (section.cells, section.locations) = match way {
        Way::SphynxGrid => (CellsSource::Published, LocationSource::Search),
        _ => (CellsSource::Search, LocationSource::Published),
    };
    if way == Way::SphynxGrid {
        section.location_search.grid_epochs = Some(GRID_EPOCHS);
    }
    Ok(OptimizeSection::Sphynx(Box::new(section)))
}

/// Epochs for which a candidate of a grid is trained; the paper takes 600.
const GRID_EPOCHS: u32 = 100;

/// What the result of a recipe costs, as far as it is known before: pruning makes another network, and so does a search, whose cells
/// are taken to cost what the published ones do.
fn cost(recipe: &Recipe, spec: &NetworkSpec) -> Result<Cost, ReproduceError> {
    let whole = Cost::of(spec);
    match &recipe.optimize {
        Some(OptimizeSection::L1Pruning(section)) => {
            let budget = section.budget.resolve(spec.name(), whole.counts()).map_err(OptimizeError::from)?;
            Ok(section.plan(recipe, spec, budget)?.map_or(whole, |plan| plan.cost))
        }
        Some(OptimizeSection::Sphynx(section)) => {
            let plans = sphynx_plans(recipe, section, spec)?;
            Ok(sphynx_network(plans.first().expect("a recipe asks for one network at least"))?.cost)
        }
        _ => Ok(whole),
    }
}

/// The networks that a search of Sphynx ends with.
fn sphynx_plans(
    recipe: &Recipe,
    section: &SphynxSection,
    spec: &NetworkSpec,
) -> Result<Vec<SphynxPlan>, ReproduceError> {
    let Draft { input, classes, .. } = spec.draft();
    Ok(plan(recipe, section, *input, *classes)?)
}

/// One of them; what a search has to find is taken to cost what the published one does.
fn sphynx_network(plan: &SphynxPlan) -> Result<PlannedNetwork, ReproduceError> {
    let cells = plan.known_cells()?.unwrap_or_else(Genotype::sphynx);
    let reduce = plan.known_locations()?.unwrap_or([0, 1]);
    Ok(plan.network(&cells, reduce)?)
}

/// Networks to train, and minutes for all of them.
fn price(recipe: &Recipe, spec: &NetworkSpec, teacher: Option<u64>) -> Result<(usize, f64), ReproduceError> {
    let epochs = recipe.training.epochs;
    let macs = Cost::of(spec).macs;
    match &recipe.optimize {
        None => Ok((1, training_minutes(recipe, macs, teacher, epochs))),
        Some(OptimizeSection::Snl(section)) => {
            let search = match (section.taylor_epochs, section.penalty) {
                (Some(epochs), _) | (None, PenaltySchedule::Paced { epochs, .. }) => epochs,
                // It has no length of its own; taken to be as long as our own schedule for small budgets.
                (None, PenaltySchedule::Patient { .. }) => PATIENT_EPOCHS,
            };
            Ok((1, training_minutes(recipe, macs, teacher, epochs + search)))
        }
        Some(OptimizeSection::Senet(section)) => {
            Ok((1, training_minutes(recipe, macs, teacher, epochs + section.epochs)))
        }
        Some(OptimizeSection::L1Pruning(section)) => {
            let (macs, teacher) = (cost(recipe, spec)?.macs, teacher.filter(|_| section.distill));
            Ok((1, training_minutes(recipe, macs, teacher, epochs)))
        }
        Some(OptimizeSection::DeepReduce(section)) => {
            let probes = if section.order.is_some() { 0 } else { spec.stage_count() };
            // Which candidates there are depends on the order; how many and how large does hardly.
            let any: Vec<String> = (1..=spec.stage_count()).rev().map(|stage| stage.to_string()).collect();
            let order = section.order.clone().unwrap_or_else(|| any.join(","));
            let order = CriticalityOrder::parse(&order).map_err(OptimizeError::from)?;
            let plans = candidates::pipeline(&recipe.network.name, spec, &order, section.single_blocks)?;
            let candidates =
                plans.iter().map(|plan| training_minutes(recipe, plan.cost.macs, teacher, epochs));
            let probing = probes as f64 * training_minutes(recipe, macs, teacher, epochs);
            Ok((plans.len() + probes, probing + candidates.sum::<f64>()))
        }
        Some(OptimizeSection::DeepReshape(_) | OptimizeSection::SharedSigns(_)) => {
            Ok((1, training_minutes(recipe, macs, teacher, epochs)))
        }
        Some(OptimizeSection::Sphynx(section)) => sphynx_price(recipe, section, spec, teacher),
    }
}

/// All parts of a search of Sphynx: cells, places for each network that asks for them, a teacher of its own, the networks.
fn sphynx_price(
    recipe: &Recipe,
    section: &SphynxSection,
    spec: &NetworkSpec,
    teacher: Option<u64>,
) -> Result<(usize, f64), ReproduceError> {
    let epochs = if section.only_search { 0 } else { recipe.training.epochs };
    let search = &section.cell_search;
    let cell_epochs = if section.searches_cells() { search.epochs } else { 0 };
    let steps = u64::from(cell_epochs) * (images(recipe) / 2 / search.batch().max(1) as u64);
    let forward_passes = if search.strategy == Strategy::DartsSecond { SECOND_ORDER } else { 1.0 };
    let step = SEARCH_STEP_MS * (search.depth as f64 / SEARCHED_DEPTH) * forward_passes;
    let mut minutes = steps as f64 * step / 60_000.0;
    let (mut trained, mut teacher) = (0, teacher);
    let needs_teacher = recipe.training.loss.distillation.is_some() && recipe.teacher.is_none();
    for plan in &sphynx_plans(recipe, section, spec)? {
        let network = sphynx_network(plan)?;
        // The first network's teacher serves all.
        if needs_teacher && teacher.is_none() {
            let taught = NetworkSection::named(&format!("{},modules=relu", network.network));
            let Draft { input, classes, .. } = spec.draft();
            let macs = Cost::of(&taught.build(*input, *classes)?).macs;
            minutes += training_minutes(recipe, macs, None, epochs);
            teacher = Some(macs);
        }
        minutes += training_minutes(recipe, network.cost.macs, teacher, epochs);
        trained += usize::from(!section.only_search);
        if plan.known_locations()?.is_none() {
            let search = &section.location_search;
            let steps = u64::from(search.epochs) * (images(recipe) / 2 / search.batch.max(1) as u64);
            let networks = 1.0 + f64::from(search.companions) / 2.0;
            minutes += steps as f64 * LOCATION_STEP_MS * networks / 60_000.0;
            if let Some(epochs) = search.grid_epochs {
                let candidates = plan.candidates(section).len();
                trained += candidates;
                let mut alone = recipe.clone();
                alone.data.train_on = TrainOn::Split;
                minutes += candidates as f64 * training_minutes(&alone, network.cost.macs, None, epochs);
            }
        }
    }
    Ok((trained, minutes))
}

/// A step of a search of eight cells, estimated: from one that was written in PyTorch, outside this code
/// (docs/src/results/search.md). It takes the time of its operations, not of its multiplications or images.
const SEARCH_STEP_MS: f64 = 76.6;
const SEARCHED_DEPTH: f64 = 8.0;
/// How much longer one of second order takes: two losses of the weights more, a guess.
const SECOND_ORDER: f64 = 2.0;
/// A step of a search of places, weights and scores: 390 of them took 3.2 s (docs/src/results/search.md). A companion is taken
/// for half a step more, a guess.
const LOCATION_STEP_MS: f64 = 8.2;
/// Epochs that a search by the authors' schedule is priced at.
const PATIENT_EPOCHS: u32 = 80;

/// Images that are learned from.
fn images(recipe: &Recipe) -> u64 {
    let all = match recipe.data.set {
        DataKind::TinyImageNet => 100_000,
        DataKind::Synthetic => recipe.data.request().synthetic.training,
        _ => 50_000,
    };
    (all - recipe.data.held_out_of(all)) as u64
}

fn training_minutes(recipe: &Recipe, macs: u64, teacher: Option<u64>, epochs: u32) -> f64 {
    predict::minutes(macs, teacher, epochs, images(recipe), recipe.training.batch)
}

/// Minutes on one H200 for all that a recipe trains, predicted; a teacher that it trains for itself counts, one that is given
/// does not.
///
/// # Errors
/// When a network cannot be built.
pub fn predicted_minutes(recipe: &Recipe, teacher: Option<&Recipe>) -> Result<f64, ReproduceError> {
    let own = own_teacher(recipe);
    let spec_of = |recipe: &Recipe| {
        let (side, classes) = dimensions(recipe);
        recipe.network.build(Shape::image(side), classes)
    };
    let teacher_macs = match own.as_ref().or(teacher) {
        Some(teacher) => Some(Cost::of(&spec_of(teacher)?).macs),
        None => None,
    };
    let (_, minutes) = price(recipe, &spec_of(recipe)?, teacher_macs)?;
    let first = own
        .zip(teacher_macs)
        .map_or(0.0, |(own, macs)| training_minutes(&own, macs, None, own.training.epochs));
    Ok(first + minutes)
}

/// Side of an image and number of classes, as far as a recipe tells.
fn dimensions(recipe: &Recipe) -> (usize, usize) {
    let request = recipe.data.request();
    match recipe.data.set {
        DataKind::Synthetic => (request.synthetic.side, SYNTHETIC_CLASSES),
        set => {
            let (side, classes) = set.dimensions().unwrap_or((32, 100));
            (request.side.unwrap_or(side), classes)
        }
    }
}

/// Classes of the synthetic set.
const SYNTHETIC_CLASSES: usize = 10;

fn build(section: &NetworkSection, data: DataKind) -> Result<NetworkSpec, ReproduceError> {
    let (side, classes) = data.dimensions().unwrap_or((32, 100));
    Ok(section.build(Shape::image(side), classes)?)
}
