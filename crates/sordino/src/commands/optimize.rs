//! `sordino optimize METHOD`: a network, data and a budget become a trained network of few ReLUs or comparisons.

mod recipe;
mod sphynx;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use recipes::data::DataKind;
use recipes::method::l1_pruning::Ranking;
use recipes::method::sphynx::{CellsSource, LocationSource, Strategy};
use recipes::method::{GroupingRule, PlannedNetwork, Preview, ReluBudget, preview};
use results::reproduce::predicted_minutes;

use super::train::DeviceChoice;
use super::{Answer, trainer};
use crate::report::{Table, counted, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    method: Method,
}

#[derive(Debug, Subcommand)]
enum Method {
    /// Cull, thin and reshape stages by their criticality, which training finds out (DeepReDuce).
    Deepreduce(DeepReduceArguments),
    /// Learn for every single ReLU whether it may go (SNL).
    Snl(SnlArguments),
    /// Share the budget among layers by their sensitivity, and learn which ReLUs of each stay (SENet).
    Senet(SenetArguments),
    /// Remove the filters with the smallest norms, and their channels with them.
    L1Pruning(L1PruningArguments),
    /// Choose a HybReNet for the budget, with ReLU-reuse for the smallest (DeepReShape).
    Deepreshape(DeepReshapeArguments),
    /// Choose a signet for the budget, in which one comparison decides for several values.
    SharedSigns(SharedSignsArguments),
    /// Search cells and the places of reduce cells for the budget, and train what is found (Sphynx).
    Sphynx(SphynxArguments),
}

/// What every method takes.
#[derive(Debug, Args)]
pub(super) struct CommonArguments {
    /// Take everything that is not given here from this recipe [default: our recipe of the method].
    #[arg(long, value_name = "FILE")]
    pub(super) recipe: Option<PathBuf>,
    /// The network that is to lose ReLUs: a name, or a TOML file [default: resnet18; signet for shared
    /// signs; sphynx for Sphynx].
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// How many ReLUs or comparisons may stay: 50000, 50K, or a part of them, 25%; for Sphynx a count.
    #[arg(long, value_name = "COUNT")]
    budget: Option<ReluBudget>,
    /// A folder of images, or synthetic [default: the recipe's, or synthetic].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The run or checkpoint of a teacher, or a frozen model [default: the recipe's, or the full network is trained first; for
    /// shared signs --teacher-network; for Sphynx none].
    #[arg(long, value_name = "CHECKPOINT")]
    teacher: Option<PathBuf>,
    /// Epochs of the last training.
    #[arg(long, value_name = "COUNT")]
    epochs: Option<u32>,
    /// What everything is drawn from.
    #[arg(long)]
    seed: Option<u64>,
    /// Say what would be trained, and stop.
    #[arg(long, conflicts_with = "json")]
    plan: bool,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

/// Where and how to run.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// What to compute on [default: cuda where there is one].
    #[arg(long, value_enum)]
    pub(super) device: Option<DeviceChoice>,
    /// Where everything goes; a second call with the same folder goes on [default: runs/ and the name of the recipe,
    /// sweep or table, or else of the method].
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// The largest file of a checkpoint, in MiB.
    #[arg(long, value_name = "SIZE", default_value_t = recipes::checkpoint::DEFAULT_SHARD_MIB)]
    pub(super) shard_mib: u64,
    /// CPU threads; the same number gives the same bits [default: all cores].
    #[arg(long, value_name = "COUNT")]
    pub(super) threads: Option<usize>,
    /// Print the results as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
struct DeepReduceArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// All stages, most critical first [default: found by training].
    #[arg(long, value_name = "STAGES")]
    criticality: Option<String>,
    /// Epochs of the networks that find it.
    #[arg(long, value_name = "COUNT")]
    probe_epochs: Option<u32>,
    /// Find the criticality and stop.
    #[arg(long)]
    only_criticality: bool,
    /// Also consider networks with one block per surviving stage (`*` in the paper).
    #[arg(long)]
    single_blocks: bool,
}

#[derive(Debug, Args)]
struct SnlArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// A run of the network to start from [default: the teacher].
    #[arg(long, value_name = "CHECKPOINT")]
    start: Option<PathBuf>,
    /// Decide for whole channels.
    #[arg(long)]
    channels: bool,
    /// Reach the budget in about so many epochs [default: the recipe's schedule].
    #[arg(long, value_name = "COUNT")]
    search_epochs: Option<u32>,
    /// Drop after each epoch the ReLUs whose removal would change the loss least, instead of learning keep scores under a
    /// penalty.
    #[arg(long)]
    taylor: bool,
}

#[derive(Debug, Args)]
struct SenetArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// A run of the network to start from [default: the teacher].
    #[arg(long, value_name = "CHECKPOINT")]
    start: Option<PathBuf>,
    /// Epochs of the search of locations.
    #[arg(long, value_name = "COUNT")]
    search_epochs: Option<u32>,
}

#[derive(Debug, Args)]
struct L1PruningArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// A run of the network to start from [default: the teacher].
    #[arg(long, value_name = "CHECKPOINT")]
    start: Option<PathBuf>,
    /// Look for the smallest filters in each layer, or in the whole network [default: the recipe's, or layers].
    #[arg(long, value_enum)]
    ranking: Option<Ranking>,
    /// Remove channels of the residual stream, too.
    #[arg(long)]
    stream: bool,
    /// Fine-tune from labels alone, as the paper does.
    #[arg(long)]
    no_distillation: bool,
}

#[derive(Debug, Args)]
struct DeepReshapeArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// All stages, most critical first [default: 3,2,4,1].
    #[arg(long, value_name = "STAGES")]
    criticality: Option<String>,
    /// Reduce the network itself instead of choosing a HybReNet on its depths.
    #[arg(long)]
    keep_network: bool,
}

#[derive(Debug, Args)]
struct SharedSignsArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// Values that follow each sign, its own included [default: 2 to 16, by the budget].
    #[arg(long, value_name = "COUNT")]
    values_per_sign: Option<u64>,
    /// Which channels share a sign [default: the recipe's, or neighbors].
    #[arg(long, value_enum)]
    grouping: Option<GroupingRule>,
    /// What is trained first to teach, where there is no teacher [default: the recipe's; resnet10:m=16 on the synthetic
    /// set].
    #[arg(long, value_name = "NETWORK")]
    teacher_network: Option<String>,
    /// Afterwards keep only so many of its comparisons, chosen by SNL: 10K, or a part of them, 50%.
    #[arg(long, value_name = "COUNT")]
    mask_signs: Option<ReluBudget>,
    /// Reach that number in about so many epochs [default: the recipe's schedule].
    #[arg(long, value_name = "COUNT", requires = "mask_signs")]
    search_epochs: Option<u32>,
    /// Epochs of the training after that search.
    #[arg(long, value_name = "COUNT", requires = "mask_signs")]
    mask_epochs: Option<u32>,
}

#[derive(Debug, Args)]
struct SphynxArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// Where cells come from: published, search, or a TOML file of cells [default: the recipe's, or search].
    #[arg(long, value_name = "CELLS")]
    cells: Option<CellsSource>,
    /// Where reduce cells stand [default: the recipe's, or search].
    #[arg(long, value_enum)]
    locations: Option<LocationSource>,
    /// How cells are searched [default: the recipe's, or darts].
    #[arg(long, value_enum)]
    strategy: Option<Strategy>,
    /// Nodes of a searched cell beside its two inputs: 4, or 2 for smaller cells.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// Epochs of the search of cells.
    #[arg(long, value_name = "COUNT")]
    cell_epochs: Option<u32>,
    /// Epochs of the search of locations.
    #[arg(long, value_name = "COUNT")]
    location_epochs: Option<u32>,
    /// Also train every pair of reduce cells for so many epochs, to compare with the search.
    #[arg(long, value_name = "COUNT")]
    grid_epochs: Option<u32>,
    /// Train this network alone, whatever further ones the recipe names.
    #[arg(long)]
    alone: bool,
    /// Search and stop.
    #[arg(long)]
    only_search: bool,
}

impl Method {
    fn common(&self) -> &CommonArguments {
        match self {
            Self::Deepreduce(arguments) => &arguments.common,
            Self::Snl(arguments) => &arguments.common,
            Self::Senet(arguments) => &arguments.common,
            Self::L1Pruning(arguments) => &arguments.common,
            Self::Deepreshape(arguments) => &arguments.common,
            Self::SharedSigns(arguments) => &arguments.common,
            Self::Sphynx(arguments) => &arguments.common,
        }
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let recipe = recipe::of(&arguments.method)?;
    let common = arguments.method.common();
    let data = common.data.as_deref().filter(|data| data.as_os_str() != recipe::SYNTHETIC);
    if common.plan {
        let directory = data.or(recipe.data.directory.as_deref());
        let set = recipes::data::open(&recipe.data.request(), directory)?.training;
        let (name, classes) = (recipe.data.set.name(), set.classes.len());
        let plan = preview(&recipe, set.shape, classes)?;
        writeln!(
            out,
            "{name}: images of {}x{} pixels, {classes} classes",
            set.shape.height, set.shape.width
        )?;
        match &plan {
            Preview::Sphynx(plans) => {
                sphynx::write_plans(&recipe, plans, set.len(), out)?;
            }
            plan => write_preview(plan, out)?,
        }
        // Steps on images of a folder, or of a few pixels, were not measured.
        if matches!(recipe.data.set, DataKind::Cifar10 | DataKind::Cifar100 | DataKind::TinyImageNet)
            && let Ok(minutes) = predicted_minutes(&recipe, None)
        {
            let minutes = counted(minutes.ceil() as u64, "minute");
            writeln!(out, "\nabout {minutes} on one H200, a teacher of its own included")?;
        }
        return Ok(Answer::Yes);
    }
    trainer::optimize(&recipe, data, common, out)
}

fn write_preview(preview: &Preview, out: &mut dyn Write) -> anyhow::Result<()> {
    match preview {
        Preview::Search { network, before, budget } => {
            writeln!(out, "{network}: a search from {} to {}", before.counts(), grouped(*budget))?;
        }
        Preview::Ranked { network, before, budget } => writeln!(
            out,
            "{network}: the smallest filters of all layers go, from {} to {} or a little fewer; the weights decide where",
            before.counts(),
            grouped(*budget)
        )?,
        Preview::Probes(plans) => {
            writeln!(out, "networks that find the criticality of the stages; candidates follow from it:\n")?;
            write_plans(plans, out)?;
        }
        Preview::Networks(plans) => write_plans(plans, out)?,
        Preview::Masked { plan, budget } => {
            write_plans(std::slice::from_ref(plan), out)?;
            writeln!(out, "\nthen a search for the {} of its comparisons that stay", grouped(*budget))?;
        }
        Preview::Sphynx(_) => unreachable!("it is written with its searches"),
    }
    Ok(())
}

fn write_plans(plans: &[PlannedNetwork], out: &mut dyn Write) -> anyhow::Result<()> {
    let shares_signs = plans.iter().any(|plan| plan.cost.shares_signs());
    let mut columns = vec!["<network", if shares_signs { "comparisons" } else { "ReLUs" }];
    columns.extend(shares_signs.then_some("gated values"));
    columns.extend(["multiply-adds", "parameters"]);
    let mut table = Table::new(&columns);
    for plan in plans {
        let cost = plan.cost;
        let mut cells = vec![plan.title.clone(), grouped(cost.relus)];
        cells.extend(shares_signs.then(|| grouped(cost.gated_values)));
        cells.extend([short(cost.macs), grouped(cost.parameters)]);
        table.row(cells);
    }
    table.write(out)?;
    Ok(())
}
