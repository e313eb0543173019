//! `sordino bench search`: how long a step of Sphynx's search of cells takes.

use std::collections::BTreeMap;
use std::io::Write;

use clap::builder::TypedValueParser as _;
use clap::{Args, ValueEnum};
use recipes::method::sphynx::Strategy;
use recipes::recipe::Precision;
use serde::Serialize;

use crate::commands::{Answer, trainer, write_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// How cells are searched.
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::commands) strategy: Strategy,
    /// Nodes of a cell: 4 for N=7, 2 for N=5.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8).map(usize::from))]
    pub(in crate::commands) nodes: usize,
    /// Channels of the first cell's nodes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000).map(usize::from))]
    pub(in crate::commands) channels: usize,
    /// Cells of the network under search.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(3..=100).map(usize::from))]
    pub(in crate::commands) cells: usize,
    /// How the second convolutions of a node's edges are computed [default: grouped on a processor, dense on a GPU].
    #[arg(long, value_enum)]
    pub(in crate::commands) filters: Option<Filters>,
    /// Images per step; 64, or 256 for pc-darts, if not given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..).map(usize::from))]
    pub(in crate::commands) batch: Option<usize>,
    /// Numbers of maps and filters on a GPU; second order and processors compute in f32 [default: bf16, as our recipe].
    #[arg(long, value_enum)]
    pub(in crate::commands) precision: Option<Precision>,
    /// cuda or cpu.
    #[arg(long, default_value = "cpu")]
    pub(in crate::commands) device: String,
    /// How many steps are timed, in ten stretches of which the median counts.
    #[arg(long, default_value_t = 20)]
    pub(in crate::commands) steps: usize,
    /// Side of the images.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(8..=1024).map(usize::from))]
    pub(in crate::commands) side: usize,
    /// Number of classes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(2..).map(usize::from))]
    pub(in crate::commands) classes: usize,
    /// Processor threads; all, if not given.
    #[arg(long)]
    pub(in crate::commands) threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::commands) json: bool,
}

/// How the second convolutions of all edges of a node are one.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::commands) enum Filters {
    /// Channels in groups, one for each edge.
    Grouped,
    /// All channels with all, and zeros between edges.
    Dense,
    /// Dense where an edge has fewer than 32 channels, grouped elsewhere.
    BySize,
}

#[derive(Serialize)]
pub(in crate::commands) struct StepReport {
    pub(in crate::commands) batch: usize,
    pub(in crate::commands) device: String,
    pub(in crate::commands) precision: String,
    pub(in crate::commands) ms_per_step: f64,
    /// Operations of a step: what a GPU launches at least one kernel for.
    pub(in crate::commands) operations: u64,
    /// The same by their names in libtorch.
    pub(in crate::commands) by_name: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) not_recorded: Option<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let report = trainer::measure_search_step(arguments)?;
    if arguments.json {
        return write_json(out, &report);
    }
    let StepReport { batch, device, precision, ms_per_step, operations, .. } = &report;
    writeln!(
        out,
        "search of cells, batch {batch}, {precision} on {device}: {ms_per_step:.1} ms per step, {operations} operations"
    )?;
    if let Some(reason) = &report.not_recorded {
        writeln!(out, "each operation was launched by itself: {reason}")?;
    }
    Ok(Answer::Yes)
}
