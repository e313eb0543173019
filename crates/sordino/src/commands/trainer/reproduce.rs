//! The trainings of one table or figure, and their results beside what the paper prints.

use std::io::Write;
use std::path::Path;

use recipes::checkpoint::{Checkpoint, Part};
use recipes::recipe::Recipe;
use results::percent;
use results::reproduce::{Entry, RowTraining, Way};
use serde::Serialize;
use training::optimize::{OptimizeOptions, optimize};
use training::run::{Outcome, RunOptions};

use super::{optimize_watch, options, train_watch};
use crate::commands::reproduce::{Arguments, run_name};
use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped};

/// What `--json` says after training.
#[derive(Serialize)]
struct Trained<'a> {
    row: &'a str,
    way: Way,
    relus: u64,
    paper_accuracy: Option<f64>,
    /// In percent, last epoch.
    accuracy: f64,
}

pub(in crate::commands) fn reproduce(
    arguments: &Arguments,
    entry: &Entry,
    runs: &[RowTraining<'_>],
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    let whole = options(&arguments.run, arguments.data.as_deref(), &entry.id)?;
    let mut results = Vec::new();
    for run in runs {
        let mut recipe = run.recipe.clone();
        if let (Some(section), Some((folder, teacher))) = (&mut recipe.teacher, &run.teacher) {
            match &arguments.teacher {
                Some(given) => section.checkpoint.clone_from(given),
                None => train_teacher(teacher, folder, &whole)?,
            }
        }
        let folder = whole.folder.join(run_name(run));
        for (relus, accuracy) in train_row(recipe, &folder, &whole)? {
            let (row, way, paper_accuracy) = (run.row.row.as_str(), run.way, run.printed_accuracy);
            results.push(Trained { row, way, relus, paper_accuracy, accuracy });
        }
    }
    if arguments.run.json {
        return write_json(out, &results);
    }
    let mut table = Table::new(&["<row", "<training", "ReLUs", "paper", "accuracy"]);
    for Trained { row, way, relus, paper_accuracy, accuracy } in &results {
        let printed = paper_accuracy.map_or_else(String::new, |printed| format!("{printed:.2}%"));
        let cells = [(*row).to_owned(), way.title().to_owned(), grouped(*relus), printed];
        table.row(cells.into_iter().chain([format!("{accuracy:.2}%")]).collect());
    }
    table.write(out)?;
    writeln!(out, "\nnext: sordino pareto {} -o pareto.html", whole.folder.display())?;
    Ok(Answer::Yes)
}

/// Trains a teacher; one that is there is taken as it is, whatever its recipe was.
fn train_teacher(recipe: &Recipe, folder: &Path, options: &OptimizeOptions) -> anyhow::Result<()> {
    let is_done = |there: Checkpoint| there.state.epoch >= there.state.recipe.training.epochs;
    if Checkpoint::load(folder, Part::Description).is_ok_and(is_done) {
        return Ok(());
    }
    train_plain(recipe.clone(), folder, options).map(|_| ())
}

/// Trains by a plain recipe, or goes on.
fn train_plain(recipe: Recipe, folder: &Path, options: &OptimizeOptions) -> anyhow::Result<Outcome> {
    let options = RunOptions {
        data: options.data.clone(),
        device: options.device,
        resume: true,
        folder: folder.to_owned(),
        shard_bytes: options.shard_bytes,
        threads: options.threads,
    };
    let mut terminal = train_watch::Terminal::new();
    Ok(training::run::train(recipe, &options, &mut terminal)?)
}

/// Trains by any recipe; ReLUs and accuracy in percent of each result.
fn train_row(recipe: Recipe, folder: &Path, options: &OptimizeOptions) -> anyhow::Result<Vec<(u64, f64)>> {
    if recipe.optimize.is_none() {
        let outcome = train_plain(recipe, folder, options)?;
        let accuracy = outcome.results.last().map_or(0.0, |tried| percent(tried.accuracy));
        return Ok(vec![(outcome.counts.comparisons, accuracy)]);
    }
    let options = OptimizeOptions { folder: folder.to_owned(), ..options.clone() };
    let found = optimize(&recipe, &options, &mut optimize_watch::Terminal::new())?;
    Ok(found.records.iter().map(|record| (record.comparisons(), record.accuracy().0)).collect())
}
