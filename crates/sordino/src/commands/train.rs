//! `sordino train RECIPE`: a network learns; its run is a folder with checkpoints and a log.

#[cfg(feature = "training")]
pub(super) mod watch;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Answer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A TOML file that names data, network, teacher, schedule and seed, such as recipes/quickstart.toml.
    recipe: PathBuf,
    /// The folder of the images [default: the one that the recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// What to compute on [default: cuda where there is one].
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// Go on after the last checkpoint of the run.
    #[arg(long)]
    resume: bool,
    /// The folder of the run [default: runs/ and the recipe's name].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The largest file of a checkpoint, in MiB.
    #[arg(long, value_name = "SIZE", default_value_t = recipes::checkpoint::DEFAULT_SHARD_MIB)]
    shard_mib: u64,
    /// CPU threads; the same number gives the same bits [default: all cores].
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// What to compute on.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum DeviceChoice {
    /// The processor.
    Cpu,
    /// One NVIDIA GPU.
    Cuda,
}

#[cfg(not(feature = "training"))]
pub(super) fn run(_: &Arguments, _: &mut dyn Write) -> anyhow::Result<Answer> {
    missing()
}

/// What to say where the trainer was left out.
#[cfg(not(feature = "training"))]
pub(super) fn missing() -> anyhow::Result<Answer> {
    anyhow::bail!(
        "this build has no trainer, so that it needs no libtorch; build one that has: scripts/libtorch && cargo build \
         --release -p sordino --features training"
    )
}

#[cfg(feature = "training")]
pub(super) use with_libtorch::{device, run};

#[cfg(feature = "training")]
mod with_libtorch {
    use std::path::Path;

    use anyhow::bail;
    use recipes::recipe::Recipe;
    use training::run::{RunOptions, train};
    use training::tensor::{self, Device};

    use super::super::write_json;
    use super::watch::Terminal;
    use super::{Answer, Arguments, DeviceChoice, Write};

    pub(in crate::commands) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let recipe = Recipe::from_file(&arguments.recipe)?;
        if recipe.optimize.is_some() {
            bail!("{} optimizes a network; use `sordino sweep` with it", arguments.recipe.display());
        }
        if arguments.shard_mib == 0 {
            bail!("--shard-mib is 0; a file of a checkpoint has at least 1 MiB");
        }
        let stem = arguments.recipe.file_stem().unwrap_or_default();
        let options = RunOptions {
            data: arguments.data.clone(),
            device: device(arguments.device)?,
            resume: arguments.resume,
            folder: arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(stem)),
            shard_bytes: arguments.shard_mib.saturating_mul(1 << 20),
            threads: arguments.threads,
        };
        let mut terminal = Terminal::new();
        let outcome = train(recipe, &options, &mut terminal)?;
        if arguments.json {
            return write_json(out, &outcome);
        }
        for tried in &outcome.results {
            writeln!(out, "{:.2}% of {} {} images", 100.0 * tried.accuracy, tried.images, tried.on)?;
        }
        let run = options.folder.display();
        writeln!(out, "checkpoint {}", outcome.checkpoint.display())?;
        writeln!(out, "next: sordino report {run}; sordino freeze {run} -o {run}/model.sordino")?;
        Ok(Answer::Yes)
    }

    /// The device asked for, or the best there is.
    pub(in crate::commands) fn device(choice: Option<DeviceChoice>) -> anyhow::Result<Device> {
        let name = match choice {
            Some(DeviceChoice::Cpu) => "cpu",
            Some(DeviceChoice::Cuda) => "cuda",
            None if tensor::cuda_is_available() => "cuda",
            None => "cpu",
        };
        Ok(Device::parse(name)?)
    }
}
