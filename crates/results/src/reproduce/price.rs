//! What a recipe costs before it is trained: networks, multiply-adds, minutes on a GPU.

use std::path::Path;

use network::cost::Cost;
use network::design::CriticalityOrder;
use network::inference_model::InferenceModel;
use network::shape::Shape;
use network::spec::{Draft, NetworkSpec};
use network::zoo::genotype::Genotype;
use recipes::checkpoint::{self, Checkpoint, Part};
use recipes::data::DataKind;
use recipes::method::sphynx::{CellSearch, SphynxPlan, SphynxSection, Strategy, edge_count, plan};
use recipes::method::{
    OptimizeError, OptimizeSection, PenaltySchedule, PlannedNetwork, SnlSection, candidates, own_teacher,
};
use recipes::recipe::{NetworkSection, Recipe, TrainOn};

use super::{ReproduceError, predict};

/// What the result of a recipe costs, as far as it is known before: pruning and budgets make other networks, and so does a
/// search, whose cells are taken to cost what the published ones do.
pub(super) fn cost(recipe: &Recipe, spec: &NetworkSpec) -> Result<Cost, ReproduceError> {
    let whole = Cost::of(spec);
    match &recipe.optimize {
        Some(OptimizeSection::L1Pruning(section)) => {
            let budget = section.budget.resolve(spec.name(), whole.counts()).map_err(OptimizeError::from)?;
            Ok(section.plan(recipe, spec, budget)?.map_or(whole, |plan| plan.cost))
        }
        Some(OptimizeSection::DeepReshape(section)) => Ok(section.plan(recipe, spec)?.cost),
        Some(OptimizeSection::SharedSigns(section)) => {
            let Draft { input, classes, .. } = spec.draft();
            Ok(section.plan(recipe, *input, *classes)?.cost)
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
pub(super) fn price(
    recipe: &Recipe,
    spec: &NetworkSpec,
    teacher: Option<u64>,
) -> Result<(usize, f64), ReproduceError> {
    let epochs = recipe.training.epochs;
    let macs = Cost::of(spec).macs;
    match &recipe.optimize {
        None => Ok((1, training_minutes(recipe, macs, teacher, epochs))),
        Some(OptimizeSection::Snl(section)) => {
            Ok((1, training_minutes(recipe, macs, teacher, epochs + search_epochs(section))))
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
            let mut plans = candidates::pipeline(&recipe.network.name, spec, &order, section.single_blocks)?;
            if let Some(budget) = section.budget {
                let budget =
                    budget.resolve(spec.name(), Cost::of(spec).counts()).map_err(OptimizeError::from)?;
                // Where the order is still to be found, what it leaves for the budget is not known, and much the same.
                plans = vec![candidates::choose(&plans, budget)?.clone()];
            }
            let candidates =
                plans.iter().map(|plan| training_minutes(recipe, plan.cost.macs, teacher, epochs));
            let probing = probes as f64 * training_minutes(recipe, macs, teacher, epochs);
            Ok((plans.len() + probes, probing + candidates.sum::<f64>()))
        }
        Some(OptimizeSection::DeepReshape(_)) => {
            Ok((1, training_minutes(recipe, cost(recipe, spec)?.macs, teacher, epochs)))
        }
        Some(OptimizeSection::SharedSigns(section)) => {
            let masking = section.mask.as_ref().map_or(0, |mask| search_epochs(mask) + section.mask_epochs);
            Ok((1, training_minutes(recipe, cost(recipe, spec)?.macs, teacher, epochs + masking)))
        }
        Some(OptimizeSection::Sphynx(section)) => sphynx_price(recipe, section, spec, teacher),
    }
}

/// Epochs of a search for the ReLUs that stay.
fn search_epochs(section: &SnlSection) -> u32 {
    match (section.taylor_epochs, section.penalty) {
        (Some(epochs), _) | (None, PenaltySchedule::Paced { epochs, .. }) => epochs,
        // It has no length of its own; taken to be as long as our own schedule for small budgets.
        (None, PenaltySchedule::Patient { .. }) => PATIENT_EPOCHS,
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
    let mut minutes =
        if section.searches_cells() { cell_search_minutes(recipe, &section.cell_search) } else { 0.0 };
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
            let step = LOCATION_STEP_MS * plan.depth as f64 / PLACED_DEPTH;
            minutes += steps as f64 * step * networks / 60_000.0;
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

fn cell_search_minutes(recipe: &Recipe, search: &CellSearch) -> f64 {
    let steps = u64::from(search.epochs) * (images(recipe) / 2 / search.batch().max(1) as u64);
    let strategy = match search.strategy {
        Strategy::Darts => 1.0,
        Strategy::DartsSecond => SECOND_ORDER,
        Strategy::PcDarts => PARTIAL_CHANNELS,
    };
    let size = search.depth as f64 / SEARCHED_DEPTH * edge_count(search.nodes) as f64 / SEARCHED_EDGES;
    let batch = (search.batch() as f64 / SEARCHED_BATCH).max(1.0);
    steps as f64 * SEARCH_STEP_MS * size * batch * strategy / 60_000.0
}

/// A step of a search of eight cells with four nodes, 64 images, estimated: from one that was written in PyTorch, outside
/// this code (docs/src/results/search.md). Its time is that of many small operations: as many as cells and edges. Fewer
/// images save nothing, more took longer.
const SEARCH_STEP_MS: f64 = 76.6;
const SEARCHED_DEPTH: f64 = 8.0;
const SEARCHED_EDGES: f64 = 14.0;
const SEARCHED_BATCH: f64 = 64.0;
/// How much longer one of second order takes: two losses of the weights more, a guess.
const SECOND_ORDER: f64 = 2.0;
/// What PC-DARTS takes of the time for as many images: on a processor 44 of 79 s, training left out (docs/src/results/search.md).
const PARTIAL_CHANNELS: f64 = 0.56;
/// A step of a search of places among five cells, weights and scores: 390 of them took 3.2 s (docs/src/results/search.md). A
/// companion is taken for half a step more, a guess.
const LOCATION_STEP_MS: f64 = 8.2;
const PLACED_DEPTH: f64 = 5.0;
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

pub(super) fn training_minutes(recipe: &Recipe, macs: u64, teacher: Option<u64>, epochs: u32) -> f64 {
    predict::minutes(macs, teacher, epochs, images(recipe), recipe.training.batch)
}

/// Minutes on one H200 for all that a recipe trains, predicted. Training a teacher counts where it has none yet; of one that
/// is given (`teacher`, or what the recipe names) its pass counts, as far as that can be read.
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
        None => recipe.teacher.as_ref().and_then(|teacher| macs_of_given(&teacher.checkpoint)),
    };
    let (_, minutes) = price(recipe, &spec_of(recipe)?, teacher_macs)?;
    let first = own
        .zip(teacher_macs)
        .map_or(0.0, |(own, macs)| training_minutes(&own, macs, None, own.training.epochs));
    Ok(first + minutes)
}

/// Multiply-adds of a teacher that is given, a run or a frozen model; nothing where neither is there.
fn macs_of_given(path: &Path) -> Option<u64> {
    if path.is_file() {
        let model = InferenceModel::load(path).ok()?;
        let outline = model.outline();
        let macs = outline
            .linear_steps()
            .map(|(id, geometry)| geometry.taps() as u64 * outline.step(id).shape.scalars());
        return Some(macs.sum());
    }
    let found = checkpoint::find(path).ok()?;
    let spec = Checkpoint::load(&found, Part::Description).ok()?.spec().ok()?;
    Some(Cost::of(&spec).macs)
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

#[cfg(test)]
mod tests {
    use recipes::checkpoint::{Arrays, State};
    use recipes::data::{SyntheticSize, synthetic};
    use recipes::method::ReluBudget;
    use recipes::method::sphynx::{CellsSource, LocationSource};
    use recipes::recipe::TeacherSection;

    use super::*;

    fn recipe(network: &str, section: &str) -> Recipe {
        let text = "[data]\nset = \"cifar100\"\n[training]\nepochs = 100\nbatch = 128\n";
        Recipe::from_toml(&format!("{text}[network]\nname = \"{network}\"\n{section}")).unwrap()
    }

    #[test]
    fn a_sweeps_run_is_priced_with_the_teacher_that_it_trains_and_without_one_that_is_given() {
        let recipe = |section: &str| {
            let text = "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 100\nbatch = 128\n";
            Recipe::from_toml(&format!("{text}{section}")).unwrap()
        };
        let plain = predicted_minutes(&recipe(""), None).unwrap();
        let own = recipe("[optimize]\nmethod = \"deepreshape\"\nbudget = 100000\n");
        let alone = predicted_minutes(&own, None).unwrap();
        let mut given = own.clone();
        given.teacher = Some(recipes::recipe::TeacherSection::new("runs/teacher"));
        let taught = predicted_minutes(&given, Some(&recipe(""))).unwrap();
        assert!((alone - taught - plain).abs() < 1e-9, "{alone} = {taught} + {plain}");
        assert!(taught > plain, "a teacher takes time: {taught} and {plain}");
    }

    #[test]
    fn a_method_that_makes_a_network_of_the_budget_is_priced_at_that_network() {
        let untaught = |mut recipe: Recipe| {
            // A teacher that cannot be found: neither its training counts nor its pass.
            recipe.teacher = Some(TeacherSection::new("runs/nowhere"));
            predicted_minutes(&recipe, None).unwrap()
        };
        let planned = untaught(recipe("resnet18", "[optimize]\nmethod = \"deepreshape\"\nbudget = 26112\n"));
        let same = untaught(recipe("hrn-2x5x3x:m=8", ""));
        assert!((planned - same).abs() < 1e-9, "{planned} for {same}");
        let signs = |budget: u64| {
            untaught(recipe("signet", &format!("[optimize]\nmethod = \"shared-signs\"\nbudget = {budget}\n")))
        };
        assert!(signs(3_264) < signs(26_112));
        let masked = recipe(
            "signet",
            "[optimize]\nmethod = \"shared-signs\"\nbudget = 26112\nmask_epochs = 50\n\
             [optimize.mask]\nbudget = 20000\npenalty = { kind = \"paced\", first = 2e-5, raise = 1.3, hold_epochs = 5, epochs = 50 }\n",
        );
        assert!((untaught(masked) / signs(26_112) - 2.0).abs() < 1e-9, "as many epochs again");
    }

    #[test]
    fn the_pass_of_a_teacher_that_is_given_counts() {
        let folder = tempfile::tempdir().unwrap();
        let teacher = recipe("resnet18", "");
        let spec = teacher.network.build(Shape::image(32), 100).unwrap();
        let set = synthetic(&SyntheticSize { training: 1, test: 1, ..SyntheticSize::default() }).training;
        let classes = (0..100).map(|class| class.to_string()).collect();
        let state = State::new(teacher.clone(), &spec, classes, set.normalization());
        let run = Checkpoint { state, weights: Arrays::new(), optimizer: Arrays::new(), mask: None };
        run.save(folder.path(), 1 << 20).unwrap();
        let mut student = recipe("resnet18", "[optimize]\nmethod = \"deepreshape\"\nbudget = 26112\n");
        student.teacher = Some(TeacherSection::new(folder.path()));
        let taught = predicted_minutes(&student, None).unwrap();
        assert!((taught - predicted_minutes(&student, Some(&teacher)).unwrap()).abs() < 1e-9);
        student.teacher = Some(TeacherSection::new("runs/nowhere"));
        let untaught = predicted_minutes(&student, None).unwrap();
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
        student.teacher = Some(TeacherSection::new(models.join("hybrenet-26k-cifar100.sordino")));
        let of_frozen = predicted_minutes(&student, None).unwrap();
        // ResNet-18 has 12.5 times the multiply-adds of that HybReNet.
        let ratio = (taught - untaught) / (of_frozen - untaught);
        assert!((ratio - 12.47).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn every_part_of_a_search_of_sphynx_has_its_price() {
        let recipe = |name: &str| Recipe::from_toml(recipes::ours::text(name).unwrap()).unwrap();
        let minutes = |recipe: &Recipe| predicted_minutes(recipe, None).unwrap();
        let changed = |recipe: &Recipe, change: &dyn Fn(&mut SphynxSection)| {
            let mut recipe = recipe.clone();
            let Some(OptimizeSection::Sphynx(section)) = &mut recipe.optimize else { unreachable!() };
            change(section);
            minutes(&recipe)
        };
        let search = recipe("sphynx-search-cifar100");
        let alone = changed(&search, &|section| section.further.clear());
        assert!(minutes(&search) > 2.0 * alone - 25.0, "three further networks, of which two are larger");
        let published = changed(&search, &|section| {
            section.further.clear();
            section.cells = CellsSource::Published;
        });
        // Fifty epochs of 390 steps.
        let searching = 50.0 * 390.0 * 76.6 / 60_000.0;
        assert!((alone - published - searching).abs() < 1e-6, "{alone} {published}");
        let given = changed(&search, &|section| {
            section.further.clear();
            section.locations = LocationSource::Published;
        });
        assert!(given < alone);
        let mut taught = recipe("sphynx-kd-cifar100");
        let with_its_teacher = minutes(&taught);
        taught.training.loss.distillation = None;
        assert!(with_its_teacher > 1.5 * minutes(&taught));
        // Its parts take the time of what they compute.
        let cells = |change: &dyn Fn(&mut SphynxSection)| {
            let with = changed(&search, &|section| {
                section.further.clear();
                change(section);
            });
            (with - published) / searching
        };
        assert!((cells(&|section| section.cell_search.nodes = 2) - 5.0 / 14.0).abs() < 1e-6);
        assert!((cells(&|section| section.cell_search.depth = 4) - 0.5).abs() < 1e-6);
        // Four times the images a step, so a quarter of the steps, the last of them cut.
        let partial = cells(&|section| section.cell_search.strategy = Strategy::PcDarts);
        assert!((partial - 0.56).abs() < 0.01, "{partial}");
        let placing = |budget: u64| {
            let with = |epochs: u32| {
                changed(&search, &|section| {
                    section.further.clear();
                    section.budget = ReluBudget::Count(budget);
                    section.location_search.epochs = epochs;
                })
            };
            with(200) - with(100)
        };
        assert!((placing(51_200) / placing(25_600) - 2.0).abs() < 1e-6, "ten cells instead of five");
    }
}
