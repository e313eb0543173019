//! `sordino sweep FILE`: many recipes that optimize networks, as one job that can be interrupted; keeps the front.
//!
//! ```text
//! plan      what there is to do, teachers first
//! watch     how far it is, from the folders alone
//! devices   one worker for each GPU
//! ```
//!
//! Workers share the list by claims of folders: threads with `--parallel`, processes with `--devices`, machines with
//! `--shard`, jobs of a cluster with `--slurm`, or simply the same command twice.

mod devices;
mod plan;
pub(super) mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use network::zoo::ZooError;
use recipes::method::{Job, Shard, Sweep, select};

use super::optimize::RunArguments;
use super::slurm::{SlurmArguments, Submission, worker_flags};
use super::{Answer, trainer};
use devices::WorkerDevice;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A TOML file that lists recipes, budgets and seeds, or one recipe with an [optimize] section.
    pub(super) recipe: PathBuf,
    /// The folder of the images [default: the one that each recipe names].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Runs at once: a small network leaves most of a GPU idle.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(super) parallel: u8,
    /// List the runs with predicted minutes, what must be there before them first, and stop.
    #[arg(long)]
    plan: bool,
    /// Make this run alone, and the teacher it needs; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Make one of several parts of the runs, such as 1/3, for a worker on each of three machines.
    #[arg(long, value_name = "PART")]
    shard: Option<Shard>,
    /// One worker for each of these, such as cuda:0,cuda:1.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["device", "slurm"])]
    devices: Vec<WorkerDevice>,
    /// Show how far the runs are, from their folders alone, until all are done or failed.
    #[arg(long, conflicts_with_all = ["plan", "slurm", "devices"])]
    watch: bool,
    #[command(flatten)]
    slurm: SlurmArguments,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

impl Arguments {
    /// Where everything goes.
    pub(super) fn folder(&self) -> PathBuf {
        let name = || Path::new("runs").join(self.recipe.file_stem().unwrap_or_default());
        self.run.out.clone().unwrap_or_else(name)
    }

    /// The same call for a worker, without what chooses its part and its device.
    fn worker(&self) -> Vec<OsString> {
        let mut words = vec!["sweep".into(), self.recipe.clone().into_os_string()];
        words.extend(["--parallel".into(), self.parallel.to_string().into()]);
        words.extend(worker_flags(&self.run, &self.folder(), self.data.as_deref()));
        words
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if let Some(error) = ZooError::for_onnx(&arguments.recipe.to_string_lossy()) {
        return Err(error.into());
    }
    let folder = arguments.folder();
    let jobs = Job::of_sweep(Sweep::runs_of_file(&arguments.recipe)?, &folder);
    let selected = select(&jobs, &arguments.only, arguments.shard)?;
    if arguments.plan {
        return plan::write(&selected, arguments.run.json, out);
    }
    if arguments.watch {
        return watch::run(&selected, &folder, arguments.run.json, out);
    }
    if arguments.slurm.slurm {
        let name = arguments.recipe.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let submission =
            Submission { name, folder: &folder, worker: arguments.worker(), json: arguments.run.json };
        return submission.submit(&selected, &arguments.slurm, out);
    }
    arguments.slurm.must_submit()?;
    if !arguments.devices.is_empty() {
        trainer::must_be_there()?;
        let mut worker = arguments.worker();
        worker.extend(arguments.only.iter().flat_map(|name| ["--only".into(), name.into()]));
        worker.extend(arguments.shard.iter().flat_map(|part| ["--shard".into(), part.to_string().into()]));
        let is_stopped = devices::run(&worker, &arguments.devices)?;
        return trainer::sweep_of_workers(arguments, &jobs, &selected, is_stopped, out);
    }
    trainer::sweep(arguments, &jobs, &selected, out)
}
