//! `sordino sweep FILE`: many recipes that optimize networks, as one job that can be interrupted; keeps the front.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use recipes::method::Sweep;

use super::optimize::RunArguments;
use super::{Answer, trainer};

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
    /// List the runs, and stop.
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    pub(super) run: RunArguments,
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
    trainer::sweep(arguments, &runs, out)
}
