//! `sordino sweep FILE`: many recipes that optimize networks, as one job that can be interrupted; keeps the front.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use training::optimize::{Sweep, SweepRun};

use super::Answer;
use super::optimize::RunArguments;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A TOML file that lists recipes, budgets and seeds, or one recipe with an [optimize] section.
    recipe: PathBuf,
    /// The folder of the images [default: the one that each recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
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
    let _ = (&arguments.data, &arguments.run);
    super::train::missing()
}

#[cfg(feature = "training")]
fn sweep(arguments: &Arguments, runs: &[SweepRun], out: &mut dyn Write) -> anyhow::Result<Answer> {
    use anyhow::Context;
    use training::optimize::ParetoFront;
    use training::optimize::run::optimize;

    let stem = arguments.recipe.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = arguments.run.options(arguments.data.as_deref(), &stem)?;
    let mut front = ParetoFront::default();
    let mut records = Vec::new();
    for run in runs {
        let folder = if runs.len() == 1 { whole.folder.clone() } else { whole.folder.join(&run.name) };
        let options = training::optimize::run::OptimizeOptions { folder, ..whole.clone() };
        let found = optimize(&run.recipe, &options, &mut super::optimize::watch::Terminal::new())
            .with_context(|| format!("{} stopped; what was done before is kept", run.name))?;
        for record in found.records {
            front.insert(record.relus, record.float_accuracy, record.clone());
            records.push(record);
        }
        // Written after every run, so that it is there whenever the sweep stops.
        let kept: Vec<_> = front.points().iter().map(|(_, _, record)| record).collect();
        let text = serde_json::to_string_pretty(&kept)?;
        let path = whole.folder.join("front.json");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let kept: Vec<_> = front.points().iter().map(|(_, _, record)| record.clone()).collect();
    if arguments.run.json {
        return super::write_json(out, &kept);
    }
    writeln!(out, "{} results, {} of them on the front:\n", records.len(), kept.len())?;
    super::optimize::watch::write_records(&kept, out)?;
    Ok(Answer::Yes)
}
