//! `sordino sweep FILE`: many recipes that optimize networks, as one job that can be interrupted; keeps the front.

#[cfg(feature = "training")]
mod many;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use recipes::method::{Sweep, SweepRun};

use super::Answer;
use super::optimize::RunArguments;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A TOML file that lists recipes, budgets and seeds, or one recipe with an [optimize] section.
    recipe: PathBuf,
    /// The folder of the images [default: the one that each recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Runs at once: a small network leaves most of a GPU idle.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    parallel: u8,
    /// List the runs, and stop.
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    run: RunArguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let runs = Sweep::runs_of_file(&arguments.recipe)?;
    if arguments.plan {
        for run in &runs {
            let section = run.recipe.optimize.as_ref();
            let budget =
                section.and_then(|section| section.budget()).map_or("all".to_owned(), |it| it.to_string());
            let method = section.map_or("", |section| section.method());
            writeln!(out, "{}: {method}, budget {budget}, seed {}", run.name, run.recipe.seed)?;
        }
        return Ok(Answer::Yes);
    }
    sweep(arguments, &runs, out)
}

#[cfg(not(feature = "training"))]
fn sweep(arguments: &Arguments, _: &[SweepRun], _: &mut dyn Write) -> anyhow::Result<Answer> {
    let _ = (&arguments.data, &arguments.run, arguments.parallel);
    super::train::missing()
}

#[cfg(feature = "training")]
fn sweep(arguments: &Arguments, runs: &[SweepRun], out: &mut dyn Write) -> anyhow::Result<Answer> {
    let stem = arguments.recipe.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let options = arguments.run.options(arguments.data.as_deref(), &stem)?;
    let many::Outcome { results, front, failed } = many::run_all(runs, &options, arguments.parallel.into())?;
    if arguments.run.json {
        super::write_json(out, &front)?;
    } else {
        writeln!(out, "{results} results, {} of them on the front:\n", front.len())?;
        super::optimize::watch::write_records(&front, out)?;
    }
    if !failed.is_empty() {
        anyhow::bail!(
            "{} of {} runs failed: {}; mend them, and the same command makes what is missing",
            failed.len(),
            runs.len(),
            failed.join(", ")
        );
    }
    Ok(Answer::Yes)
}
