//! From flags to a recipe: ours of the method, or that of a file, with what the flags change.

use std::path::Path;

use anyhow::{Context, bail};
use recipes::data::{DataKind, survey};
use recipes::method::{Granularity, OptimizeSection, PenaltySchedule, ReluBudget, SnlSection};
use recipes::recipe::{Augmentation, NetworkSection, Precision, Recipe, TeacherSection};

use super::{CommonArguments, Method};

/// The name of the set that is drawn on the spot.
pub(super) const SYNTHETIC: &str = "synthetic";

/// Our recipe of each method.
const DEEPREDUCE: &str = "deepreduce-28.7k";
const SNL: &str = "snl-resnet18-25k";
const SENET: &str = "senet-resnet18-50k";
const L1_PRUNING: &str = "l1-pruning-resnet18-400k";
const DEEPRESHAPE: &str = "hybrenet-163k-cifar100";
const SHARED_SIGNS: &str = "shared-signs-26k-cifar100";
const SPHYNX: &str = "sphynx-search-cifar100";

/// Epochs, batch and, except after a search, rate of a first try on the synthetic set.
const TRIAL_EPOCHS: u32 = 12;
const TRIAL_BATCH: usize = 50;
const TRIAL_RATE: f64 = 0.1;
/// The rate of SENet's search and training and of pruning's there, which begin with a trained network.
const TRIAL_FINE_RATE: f64 = 0.02;
/// The longest gradient of networks with shared signs there: with few images in a batch some fall over without.
const TRIAL_CLIP: f64 = 5.0;
/// What teaches them.
const TRIAL_TEACHER: &str = "resnet10:m=16";

/// Epochs in which Taylor scores come down to the budget, where nothing says otherwise.
const TAYLOR_EPOCHS: u32 = 45;
/// Epochs in which the rate rises, when one of our recipes trains another network than its own: with few ReLUs some
/// networks fall over at the full rate in their first epoch and never recover.
const WARM_UP_EPOCHS: f64 = 5.0;

/// The recipe that the flags mean.
pub(super) fn of(method: &Method) -> anyhow::Result<Recipe> {
    let common = method.common();
    let (mut recipe, is_ours) = base(method, common)?;
    if let Some(network) = &common.network {
        recipe.network = NetworkSection::named(network);
    }
    match &common.data {
        Some(data) => set_data(&mut recipe, data)?,
        None if is_ours => set_synthetic(&mut recipe),
        None => {}
    }
    if let Some(teacher) = &common.teacher {
        recipe.teacher = Some(TeacherSection::new(teacher));
    }
    recipe.seed = common.seed.unwrap_or(recipe.seed);
    if let Some(epochs) = common.epochs {
        recipe.training.set_epochs(epochs);
    }
    set_method(&mut recipe, method, common.budget)?;
    // Read back, so that flags are held to the same rules as files.
    Ok(Recipe::from_toml(&recipe.to_toml())?)
}

/// The file given, or our recipe of the method without its teacher; whether it is ours.
fn base(method: &Method, common: &CommonArguments) -> anyhow::Result<(Recipe, bool)> {
    let (ours, wanted) = match method {
        Method::Deepreduce(_) => (DEEPREDUCE, "deepreduce"),
        Method::Snl(_) => (SNL, "snl"),
        Method::Senet(_) => (SENET, "senet"),
        Method::L1Pruning(_) => (L1_PRUNING, "l1-pruning"),
        Method::Deepreshape(_) => (DEEPRESHAPE, "deepreshape"),
        Method::SharedSigns(_) => (SHARED_SIGNS, "shared-signs"),
        Method::Sphynx(_) => (SPHYNX, "sphynx"),
    };
    if let Some(path) = &common.recipe {
        let recipe = Recipe::from_file(path)?;
        return match recipe.optimize.as_ref().map(OptimizeSection::method) {
            Some(came) if came == wanted => Ok((recipe, false)),
            Some(came) => bail!("{} is a recipe of {came}, not of {wanted}", path.display()),
            None => bail!("{} has no [optimize] section; use `sordino train` with it", path.display()),
        };
    }
    if common.budget.is_none()
        && !matches!(method, Method::Deepreduce(arguments) if arguments.only_criticality)
    {
        bail!("give a budget, such as --budget 50K or --budget 25%, or a recipe with --recipe");
    }
    let mut recipe = Recipe::from_toml(recipes::ours::text(ours).expect("it comes with the product"))?;
    recipe.teacher = None;
    recipe.title = String::new();
    if !matches!(method, Method::Snl(_) | Method::Senet(_) | Method::L1Pruning(_) | Method::Sphynx(_)) {
        recipe.training.schedule.warm_up_epochs = WARM_UP_EPOCHS;
    }
    // The order of the recipe is that of ResNet-18 on CIFAR-100, its budget that of one table's row.
    if let Some(OptimizeSection::DeepReduce(section)) = &mut recipe.optimize {
        (section.order, section.budget) = (None, None);
    }
    // Its parts of layers are for that row, too.
    if let Some(OptimizeSection::Senet(section)) = &mut recipe.optimize {
        section.ratios = None;
    }
    if let Some(OptimizeSection::Sphynx(section)) = &mut recipe.optimize {
        section.further.clear();
    }
    Ok((recipe, true))
}

fn set_data(recipe: &mut Recipe, data: &Path) -> anyhow::Result<()> {
    if data.as_os_str() == SYNTHETIC {
        set_synthetic(recipe);
        return Ok(());
    }
    let found = survey(data, recipe.data.side).kind;
    let kind = found.with_context(|| {
        format!("{} holds no images; `sordino data check {}` says more", data.display(), data.display())
    })?;
    recipe.data.set = kind;
    recipe.data.synthetic = None;
    recipe.data.directory = Some(data.to_owned());
    Ok(())
}

/// Shapes in colors are learned in less time than photographs.
fn set_synthetic(recipe: &mut Recipe) {
    if recipe.data.set == DataKind::Synthetic {
        return;
    }
    recipe.data.set = DataKind::Synthetic;
    recipe.data.directory = None;
    recipe.training.batch = TRIAL_BATCH;
    recipe.training.precision = Precision::F32;
    recipe.training.augmentation = Augmentation::default();
    recipe.training.evaluate_every = 1;
    recipe.training.set_epochs(TRIAL_EPOCHS);
    match &mut recipe.optimize {
        Some(OptimizeSection::Snl(snl)) => set_trial_search(snl),
        Some(OptimizeSection::Senet(senet)) => {
            (senet.batch, senet.learning_rate, senet.epochs) = (TRIAL_BATCH, TRIAL_FINE_RATE, TRIAL_EPOCHS);
            recipe.training.schedule.learning_rate = TRIAL_FINE_RATE;
        }
        Some(OptimizeSection::L1Pruning(_)) => recipe.training.schedule.learning_rate = TRIAL_FINE_RATE,
        Some(OptimizeSection::SharedSigns(section)) => {
            recipe.training.schedule.learning_rate = TRIAL_RATE;
            recipe.training.clip = Some(TRIAL_CLIP);
            section.teacher_network = TRIAL_TEACHER.to_owned();
            section.mask_epochs = TRIAL_EPOCHS;
            section.mask.iter_mut().for_each(set_trial_search);
        }
        Some(OptimizeSection::Sphynx(section)) => {
            super::sphynx::shorten(section);
            recipe.training.schedule.learning_rate = super::sphynx::TRIAL_RATE;
            recipe.training.set_epochs(super::sphynx::TRIAL_EPOCHS);
        }
        _ => recipe.training.schedule.learning_rate = TRIAL_RATE,
    }
}

fn set_trial_search(snl: &mut SnlSection) {
    snl.batch = TRIAL_BATCH;
    snl.learning_rate = 5e-3;
    snl.penalty = PenaltySchedule::Paced { first: 4e-3, raise: 1.5, hold_epochs: 2, epochs: TRIAL_EPOCHS };
}

/// What the flags say about the method itself.
fn set_method(recipe: &mut Recipe, method: &Method, budget: Option<ReluBudget>) -> anyhow::Result<()> {
    match (&mut recipe.optimize, method) {
        (Some(OptimizeSection::Snl(section)), Method::Snl(arguments)) => {
            section.budget = budget.unwrap_or(section.budget);
            section.start = arguments.start.clone().or(section.start.take());
            if arguments.channels {
                section.granularity = Granularity::Channel;
            }
            if arguments.taylor {
                section.taylor_epochs.get_or_insert(TAYLOR_EPOCHS);
            }
            set_search_epochs(section, arguments.search_epochs);
        }
        (Some(OptimizeSection::Senet(section)), Method::Senet(arguments)) => {
            section.budget = budget.unwrap_or(section.budget);
            section.start = arguments.start.clone().or(section.start.take());
            section.epochs = arguments.search_epochs.unwrap_or(section.epochs);
        }
        (Some(OptimizeSection::L1Pruning(section)), Method::L1Pruning(arguments)) => {
            section.budget = budget.unwrap_or(section.budget);
            section.start = arguments.start.clone().or(section.start.take());
            section.ranking = arguments.ranking.unwrap_or(section.ranking);
            section.stream |= arguments.stream;
            section.distill &= !arguments.no_distillation;
        }
        (Some(OptimizeSection::DeepReduce(section)), Method::Deepreduce(arguments)) => {
            section.budget = budget.or(section.budget);
            section.order = arguments.criticality.clone().or(section.order.take());
            section.probe_epochs = arguments.probe_epochs.or(section.probe_epochs);
            section.only_criticality |= arguments.only_criticality;
            section.single_blocks |= arguments.single_blocks;
        }
        (Some(OptimizeSection::DeepReshape(section)), Method::Deepreshape(arguments)) => {
            section.budget = budget.unwrap_or(section.budget);
            section.keep_network |= arguments.keep_network;
            if let Some(order) = &arguments.criticality {
                section.order = order.clone();
            }
        }
        (Some(OptimizeSection::SharedSigns(section)), Method::SharedSigns(arguments)) => {
            section.budget = budget.unwrap_or(section.budget);
            section.values_per_sign = arguments.values_per_sign.or(section.values_per_sign);
            section.grouping = arguments.grouping.unwrap_or(section.grouping);
            if let Some(network) = &arguments.teacher_network {
                section.teacher_network.clone_from(network);
            }
            if let Some(budget) = arguments.mask_signs {
                let is_trial = section.mask.is_none() && recipe.data.set == DataKind::Synthetic;
                let mask = section.mask.get_or_insert_with(|| SnlSection::new(budget));
                mask.budget = budget;
                if is_trial {
                    set_trial_search(mask);
                }
                set_search_epochs(mask, arguments.search_epochs);
            }
            section.mask_epochs = arguments.mask_epochs.unwrap_or(section.mask_epochs);
        }
        (Some(OptimizeSection::Sphynx(section)), Method::Sphynx(arguments)) => {
            super::sphynx::set(section, arguments, budget);
        }
        _ => bail!("the recipe is one of another method"),
    }
    Ok(())
}

/// A search of so many epochs.
fn set_search_epochs(section: &mut SnlSection, epochs: Option<u32>) {
    let Some(epochs) = epochs else { return };
    if let Some(taylor) = &mut section.taylor_epochs {
        *taylor = epochs;
        return;
    }
    let (first, raise) = match section.penalty {
        PenaltySchedule::Patient { first, .. } => (first, 1.3),
        PenaltySchedule::Paced { first, raise, .. } => (first, raise),
    };
    let hold_epochs = (epochs / 8).min(5);
    section.penalty = PenaltySchedule::Paced { first, raise, hold_epochs, epochs };
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use recipes::method::l1_pruning::{L1PruningSection, Ranking};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        method: Method,
    }

    #[track_caller]
    fn recipe(line: &str) -> Recipe {
        of(&Line::parse_from(line.split(' ')).method).unwrap()
    }

    #[test]
    fn the_rate_rises_for_a_quarter_of_a_short_run_at_most() {
        let warm_up = |line: &str| recipe(line).training.schedule.warm_up_epochs;
        assert_eq!(warm_up("optimize deepreshape --budget 25%"), 3.0);
        assert_eq!(warm_up("optimize deepreshape --budget 25% --epochs 8"), 2.0);
        assert_eq!(warm_up("optimize deepreduce --budget 25% --epochs 200"), 3.0);
        assert_eq!(warm_up("optimize snl --budget 25%"), 0.0);
    }

    #[test]
    fn a_first_try_has_a_rate_for_its_batch() {
        let rate = |line: &str| recipe(line).training.schedule.learning_rate;
        assert_eq!(rate("optimize deepreshape --budget 25%"), 0.1);
        assert_eq!(rate("optimize deepreduce --budget 25%"), 0.1);
        assert_eq!(rate("optimize snl --budget 25%"), 0.03);
        assert_eq!(recipe("optimize deepreshape --budget 25%").training.batch, 50);
    }

    #[test]
    fn taylor_scores_and_senet_have_their_own_epochs() {
        let snl = |line: &str| match recipe(line).optimize {
            Some(OptimizeSection::Snl(section)) => section.taylor_epochs,
            other => panic!("{other:?}"),
        };
        assert_eq!(snl("optimize snl --budget 25%"), None);
        assert_eq!(snl("optimize snl --budget 25% --taylor"), Some(TAYLOR_EPOCHS));
        assert_eq!(snl("optimize snl --budget 25% --taylor --search-epochs 6"), Some(6));
        let Some(OptimizeSection::Senet(section)) =
            recipe("optimize senet --budget 25% --search-epochs 4").optimize
        else {
            panic!("SENet")
        };
        assert_eq!((section.epochs, section.ratios, section.batch), (4, None, TRIAL_BATCH));
    }

    #[test]
    fn pruning_takes_its_switches_from_the_line() {
        let section = |line: &str| match recipe(line).optimize {
            Some(OptimizeSection::L1Pruning(section)) => section,
            other => panic!("{other:?}"),
        };
        let plain = section("optimize l1-pruning --budget 70%");
        assert_eq!(plain, L1PruningSection::new(ReluBudget::FractionOfBaseline(0.7)));
        let line =
            "optimize l1-pruning --budget 50K --stream --ranking network --no-distillation --start run";
        let all = section(line);
        assert_eq!((all.stream, all.ranking, all.distill), (true, Ranking::Network, false));
        assert_eq!(all.start.as_deref(), Some(Path::new("run")));
        assert_eq!(recipe(line).training.schedule.learning_rate, TRIAL_FINE_RATE);
    }

    #[test]
    fn shared_signs_take_values_and_masks_from_the_line() {
        let section = |line: &str| match recipe(line).optimize {
            Some(OptimizeSection::SharedSigns(section)) => section,
            other => panic!("{other:?}"),
        };
        let plain = section("optimize shared-signs --budget 3.3K");
        assert_eq!((plain.values_per_sign, plain.mask.as_ref()), (None, None));
        assert_eq!(plain.teacher_network, TRIAL_TEACHER);
        let line = "optimize shared-signs --budget 3.3K --values-per-sign 8 --mask-signs 50% --search-epochs 4 --mask-epochs 3";
        let masked = section(line);
        assert_eq!((masked.values_per_sign, masked.mask_epochs), (Some(8), 3));
        let mask = masked.mask.unwrap();
        assert_eq!((mask.budget, mask.batch), (ReluBudget::FractionOfBaseline(0.5), TRIAL_BATCH));
        assert!(matches!(mask.penalty, PenaltySchedule::Paced { epochs: 4, .. }));
        assert_eq!(recipe("optimize shared-signs --budget 3.3K").network.name, "signet");
    }
}
