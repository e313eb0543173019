//! `sordino inspect NETWORK`: what a network costs, before or after ReLUs are dropped.

mod report;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use network::cost::Cost;

use super::load::NetworkArguments;
use super::model::load_mask;
use super::reduce::ReductionArguments;
use super::{Answer, write_json};
use report::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    reduction: ReductionArguments,
    /// Count only the ReLUs that this mask file keeps.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// How finely to list.
    #[arg(long, value_enum, default_value_t = Detail::Stage)]
    by: Detail,
    /// Write the resulting network as TOML that can be edited and inspected again.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// Stem, stages, head.
    Stage,
    /// Every block.
    Block,
    /// Every operation.
    Layer,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let baseline = arguments.network.load()?;
    let spec = arguments.reduction.reduction().apply(&baseline)?;
    if let Some(path) = &arguments.export {
        std::fs::write(path, spec.to_toml()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mask = arguments.mask.as_deref().map(|path| load_mask(path, &spec)).transpose()?;
    let report = Report::new(&spec, mask.as_ref(), arguments.by);
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out, Cost::of(&baseline).relus)?;
    Ok(Answer::Yes)
}
