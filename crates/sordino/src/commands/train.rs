//! `sordino train RECIPE`: a network learns; its run is a folder with checkpoints and a log. Several recipes with the same
//! data and teacher are trained side by side.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Answer, trainer};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A TOML file that names data, network, teacher, schedule and seed, such as recipes/quickstart.toml; several are
    /// trained side by side, with one teacher for all.
    #[arg(required = true, value_name = "RECIPE")]
    pub(super) recipes: Vec<PathBuf>,
    /// The folder of the images [default: the one that the recipe names].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// What to compute on [default: cuda where there is one].
    #[arg(long, value_enum)]
    pub(super) device: Option<DeviceChoice>,
    /// Go on after the last checkpoint of the run.
    #[arg(long)]
    pub(super) resume: bool,
    /// The folder of the run, or of the folders of several [default: runs/ and the recipe's name].
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// The largest file of a checkpoint, in MiB.
    #[arg(long, value_name = "SIZE", default_value_t = recipes::checkpoint::DEFAULT_SHARD_MIB)]
    pub(super) shard_mib: u64,
    /// CPU threads; the same number gives the same bits [default: all cores].
    #[arg(long, value_name = "COUNT", value_parser = super::threads)]
    pub(super) threads: Option<usize>,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What to compute on.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum DeviceChoice {
    /// The processor.
    Cpu,
    /// One NVIDIA GPU.
    Cuda,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    trainer::train(arguments, out)
}
