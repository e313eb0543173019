//! What a recipe would train, without training it; refuses what cannot be done.

use std::path::Path;

use network::cost::Cost;
use network::design::CriticalityOrder;
use network::shape::Shape;
use network::spec::NetworkSpec;
use network::transform::Reduction;
use network::walk::StageIndex;

use super::sphynx::{self, SphynxPlan};
use super::{
    DeepReduceSection, DeepReshapeSection, OptimizeError, OptimizeSection, PlannedNetwork, ReluBudget,
    SharedSignsSection, candidates, hybrenet, shared_signs,
};
use crate::checkpoint;
use crate::recipe::{NetworkSection, Recipe};

/// What a recipe would train.
#[derive(Clone, Debug, PartialEq)]
pub enum Preview {
    /// SNL and SENet: one network loses ReLUs one by one.
    Search {
        /// The network.
        network: String,
        /// What it costs before.
        before: Cost,
        /// How many ReLUs stay.
        budget: u64,
    },
    /// Pruning with a rank over all layers: how many channels each keeps depends on the weights.
    Ranked {
        /// The network.
        network: String,
        /// What it costs before.
        before: Cost,
        /// How many ReLUs may stay.
        budget: u64,
    },
    /// DeepReDuce without a given order: these find it; what follows depends on them.
    Probes(Vec<PlannedNetwork>),
    /// These networks.
    Networks(Vec<PlannedNetwork>),
    /// Shared signs: this network, and then SNL's search for the signs that stay.
    Masked {
        /// The network.
        plan: Box<PlannedNetwork>,
        /// How many comparisons stay.
        budget: u64,
    },
    /// Sphynx: these networks, after searches for what is not known of them.
    Sphynx(Vec<SphynxPlan>),
}

/// Says what a recipe would train on images of a shape and a number of classes.
///
/// # Errors
/// When the budget cannot be met, the network cannot be reduced so, or a teacher or a start is not where it should be.
pub fn preview(recipe: &Recipe, shape: Shape, classes: usize) -> Result<Preview, OptimizeError> {
    let section = recipe.optimize.as_ref().ok_or(OptimizeError::NoMethod)?;
    must_have_teacher(recipe, section)?;
    let whole = || Whole::new(recipe, shape, classes);
    match section {
        OptimizeSection::SharedSigns(section) => shared(recipe, section, shape, classes),
        OptimizeSection::Sphynx(section) => {
            // It has no network that loses ReLUs: the budget makes one.
            must_be_plain(recipe)?;
            Ok(Preview::Sphynx(sphynx::plan(recipe, section, shape, classes)?))
        }
        OptimizeSection::Snl(snl) => {
            let whole = whole()?;
            let budget = whole.budget(snl.budget)?;
            must_have_start(snl.start.as_deref())?;
            Ok(Preview::Search { network: whole.spec.name().to_owned(), before: whole.cost, budget })
        }
        OptimizeSection::Senet(senet) => {
            let whole = whole()?;
            let budget = whole.budget(senet.budget)?;
            must_have_start(senet.start.as_deref())?;
            senet.check_ratios(&whole.spec)?;
            let network = whole.spec.name().to_owned();
            if whole.cost.shares_signs() {
                return Err(OptimizeError::SharesSigns { method: section.method(), network });
            }
            Ok(Preview::Search { network, before: whole.cost, budget })
        }
        OptimizeSection::L1Pruning(pruning) => {
            let whole = whole()?;
            let budget = whole.budget(pruning.budget)?;
            must_have_start(pruning.start.as_deref())?;
            Ok(match pruning.plan(recipe, &whole.spec, budget)? {
                Some(plan) => Preview::Networks(vec![plan]),
                None => Preview::Ranked { network: whole.spec.name().to_owned(), before: whole.cost, budget },
            })
        }
        OptimizeSection::DeepReduce(deepreduce) => {
            must_be_plain(recipe)?;
            deepreduced(deepreduce, &whole()?)
        }
        OptimizeSection::DeepReshape(deepreshape) => {
            Ok(Preview::Networks(vec![deepreshape.plan(recipe, &whole()?.spec)?]))
        }
    }
}

/// The network that is to lose ReLUs, with all it has.
struct Whole<'a> {
    name: &'a str,
    spec: NetworkSpec,
    cost: Cost,
}

impl<'a> Whole<'a> {
    fn new(recipe: &'a Recipe, shape: Shape, classes: usize) -> Result<Self, OptimizeError> {
        let spec = recipe.network.build(shape, classes)?;
        Ok(Self { name: &recipe.network.name, cost: Cost::of(&spec), spec })
    }

    /// What a budget leaves of it.
    fn budget(&self, budget: ReluBudget) -> Result<u64, OptimizeError> {
        Ok(budget.resolve(self.spec.name(), self.cost.counts())?)
    }
}

fn deepreduced(section: &DeepReduceSection, whole: &Whole<'_>) -> Result<Preview, OptimizeError> {
    let budget = section.budget.map(|budget| whole.budget(budget)).transpose()?;
    let Some(order) = &section.order else {
        if let Some(budget) = budget {
            some_order_meets(budget, whole.name, &whole.spec, section.single_blocks)?;
        }
        return Ok(Preview::Probes(candidates::probes(whole.name, &whole.spec)?));
    };
    let order = CriticalityOrder::parse(order)?;
    let plans = candidates::pipeline(whole.name, &whole.spec, &order, section.single_blocks)?;
    Ok(Preview::Networks(match budget {
        Some(budget) => vec![candidates::choose(&plans, budget)?.clone()],
        None => plans,
    }))
}

fn must_have_start(start: Option<&Path>) -> Result<(), OptimizeError> {
    match start.filter(|path| checkpoint::find(path).is_err()) {
        Some(path) => Err(OptimizeError::NoStart { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// The signet of a budget, and what a mask leaves of its signs.
fn shared(
    recipe: &Recipe,
    section: &SharedSignsSection,
    shape: Shape,
    classes: usize,
) -> Result<Preview, OptimizeError> {
    let plan = section.plan(recipe, shape, classes)?;
    if recipe.teacher.is_none() {
        NetworkSection::named(&section.teacher_network).build(shape, classes)?;
    }
    let Some(mask) = &section.mask else { return Ok(Preview::Networks(vec![plan])) };
    let budget = mask.budget.resolve(&plan.network, plan.cost.counts())?;
    Ok(Preview::Masked { plan: Box::new(plan), budget })
}

impl DeepReshapeSection {
    /// The network of the budget, made from the recipe's own as built.
    ///
    /// # Errors
    /// When the recipe's network is reduced already, or has no size within the budget.
    pub fn plan(&self, recipe: &Recipe, spec: &NetworkSpec) -> Result<PlannedNetwork, OptimizeError> {
        must_be_plain(recipe)?;
        let budget = self.budget.resolve(spec.name(), Cost::of(spec).counts())?;
        let order = CriticalityOrder::parse(&self.order)?;
        hybrenet::plan_for(&recipe.network.name, spec, &order, budget, self.keep_network)
    }
}

impl SharedSignsSection {
    /// The network of the budget.
    ///
    /// # Errors
    /// When the recipe's network is reduced already, or has no size within the budget.
    pub fn plan(
        &self,
        recipe: &Recipe,
        shape: Shape,
        classes: usize,
    ) -> Result<PlannedNetwork, OptimizeError> {
        must_be_plain(recipe)?;
        shared_signs::plan_for(&recipe.network.name, shape, classes, self.budget, self.values_per_sign)
    }
}

fn must_have_teacher(recipe: &Recipe, section: &OptimizeSection) -> Result<(), OptimizeError> {
    let Some(path) = recipe.teacher.as_ref().map(|teacher| teacher.checkpoint.clone()) else { return Ok(()) };
    if !path.is_file() {
        return checkpoint::find(&path).map(drop).map_err(|_| OptimizeError::NoTeacher { path });
    }
    // A file is a frozen model, which has no weights to begin with.
    let (needs_run, help) = match section {
        OptimizeSection::Snl(section) => (section.start.is_none(), BEGINNING),
        OptimizeSection::L1Pruning(section) => (section.start.is_none(), BEGINNING),
        OptimizeSection::Senet(_) => (true, "give the run that it was frozen from"),
        _ => (false, ""),
    };
    match needs_run {
        true => Err(OptimizeError::FrozenTeacher { path, method: section.method(), help }),
        false => Ok(()),
    }
}

/// What to do where the teacher's weights are missing to begin with.
const BEGINNING: &str =
    "give a run to begin with by --start (optimize.start in a recipe), or a run as the teacher";

fn must_be_plain(recipe: &Recipe) -> Result<(), OptimizeError> {
    let method = recipe.optimize.as_ref().map_or("this method", OptimizeSection::method);
    match recipe.network.reduction() == Reduction::default() {
        true => Ok(()),
        false => Err(OptimizeError::AlreadyReduced { method }),
    }
}

/// Refuses a budget below the smallest network of every order: before probes are trained, not after. The smallest
/// network keeps the most critical stage alone, so one order for each stage says it.
fn some_order_meets(
    budget: u64,
    name: &str,
    spec: &NetworkSpec,
    single_blocks: bool,
) -> Result<(), OptimizeError> {
    let stages: Vec<StageIndex> = (1..=spec.stage_count()).map(StageIndex).collect();
    let mut plans = Vec::new();
    for first in &stages {
        let others = stages.iter().filter(|stage| *stage != first);
        let order = CriticalityOrder::new(std::iter::once(first).chain(others).copied().collect())?;
        plans.extend(candidates::pipeline(name, spec, &order, single_blocks)?);
    }
    candidates::choose(&plans, budget).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(optimize: &str, rest: &str) -> String {
        let text = format!(
            "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n{rest}\n[training]\nepochs = 3\nbatch = 8\n\
             [optimize]\n{optimize}\n"
        );
        let recipe = Recipe::from_toml(&text).unwrap();
        preview(&recipe, Shape::image(32), 100).unwrap_err().to_string()
    }

    #[test]
    fn senseless_settings_are_refused() {
        let text = "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n\
                    [optimize]\nmethod = \"snl\"\nbudget = 5\nlearning_rate = 0.0\n";
        let error = Recipe::from_toml(text).unwrap_err().to_string();
        assert_eq!(error, "optimize.learning_rate is 0; expected a rate above 0");
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_anything_is_trained() {
        let text = refusal("method = \"snl\"\nbudget = 600000", "");
        assert!(text.contains("557056 ReLUs") && text.contains("smaller budget"), "{text}");
        let text = refusal("method = \"deepreshape\"\nbudget = 3000", "");
        assert!(text.contains("3264"), "{text}");
        let text = refusal("method = \"deepreduce\"\norder = \"3,2,4,1\"\nbudget = 100", "");
        assert!(text.contains("no fewer"), "{text}");
        let text = refusal("method = \"deepreduce\"\nbudget = 100", "");
        assert!(text.contains("no fewer"), "{text}");
        let text = refusal("method = \"snl\"\nbudget = 5000", "[teacher]\ncheckpoint = \"/nowhere\"");
        assert!(text.contains("/nowhere") && text.contains("sordino train"), "{text}");
        let text = refusal("method = \"snl\"\nbudget = 5000\nstart = \"/nowhere\"", "");
        assert!(text.contains("start from at /nowhere"), "{text}");
        let text = refusal("method = \"senet\"\nbudget = 5000\nratios = [0.5]", "");
        assert!(text.contains("17 layers"), "{text}");
        let text = refusal("method = \"l1-pruning\"\nbudget = 300000", "");
        assert!(text.contains("at least 314016 ReLUs") && text.contains("--stream"), "{text}");
        let text = refusal("method = \"l1-pruning\"\nbudget = 5000\nstart = \"/nowhere\"", "");
        assert!(text.contains("start from at /nowhere"), "{text}");
        let text = refusal("method = \"deepreshape\"\nbudget = 30000", "thin = [1]");
        assert!(text.contains("remove cull, thin"), "{text}");
        let text = refusal("method = \"shared-signs\"\nbudget = 30000", "");
        assert!(text.contains("resnet18 cannot share signs"), "{text}");
    }

    #[test]
    fn a_frozen_teacher_is_refused_where_its_answers_are_not_enough() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("teacher.sordino");
        std::fs::write(&file, "whatever").unwrap();
        let teacher = format!("[teacher]\ncheckpoint = {:?}", file.display().to_string());
        for method in ["snl", "l1-pruning"] {
            let text = refusal(&format!("method = \"{method}\"\nbudget = 400000"), &teacher);
            assert!(text.contains("is a frozen model") && text.contains("--start"), "{text}");
            let started = format!("method = \"{method}\"\nbudget = 400000\nstart = \"/nowhere\"");
            assert!(
                refusal(&started, &teacher).contains("start from at /nowhere"),
                "only the start is missing"
            );
        }
        let text = refusal("method = \"senet\"\nbudget = 5000", &teacher);
        assert!(
            text.contains("is a frozen model") && text.contains("the run that it was frozen from"),
            "{text}"
        );
        // For others it is as good as a run, so they come to what is wrong with the budget.
        assert!(refusal("method = \"deepreshape\"\nbudget = 3000", &teacher).contains("3264"));
    }

    #[test]
    fn shared_signs_are_planned_with_what_a_mask_leaves() {
        let planned = |optimize: &str, rest: &str| {
            let text = format!(
                "[data]\nset = \"cifar100\"\n[network]\nname = \"signet\"\n{rest}\n[training]\nepochs = 3\nbatch = 8\n\
                 [optimize]\nmethod = \"shared-signs\"\nbudget = \"13.1K\"\n{optimize}\n"
            );
            preview(&Recipe::from_toml(&text).unwrap(), Shape::image(32), 100)
                .map_err(|error| error.to_string())
        };
        let Ok(Preview::Networks(plans)) = planned("", "") else { panic!("a network") };
        assert_eq!((plans.len(), plans[0].cost.relus), (1, 13_056));
        let Ok(Preview::Masked { budget, .. }) = planned("mask = { budget = \"25%\" }", "") else {
            panic!("a mask")
        };
        assert_eq!(budget, 3_264);
        assert!(planned("mask = { budget = 20000 }", "").unwrap_err().contains("smaller budget"));
        assert!(planned("", "thin = [1]").unwrap_err().contains("remove cull, thin"));
        assert!(planned("teacher_network = \"resnet19\"", "").unwrap_err().contains("resnet19"));
    }
}
