//! The trainings of one table or figure, and their results beside what the paper prints.

use std::io::Write;

use recipes::checkpoint::{Checkpoint, Part};
use recipes::method::Job;
use results::reproduce::{Entry, RowTraining, Way};
use results::{RECORDS, RecordFile, ResultRecord};
use serde::Serialize;

use super::{many, options, stop, tell_of_others};
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
    jobs: &[Job],
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    let whole = options(&arguments.run, arguments.data.as_deref(), &entry.id)?;
    stop::listen()?;
    let outcome = many::run_all(jobs, &whole, 1, &|| Ok(()))?;
    let mut results = Vec::new();
    for run in runs {
        let job = jobs.iter().find(|job| job.name == run_name(run));
        for (relus, accuracy) in job.map(results_of).transpose()?.unwrap_or_default() {
            let (row, way, paper_accuracy) = (run.row.row.as_str(), run.way, run.printed_accuracy);
            results.push(Trained { row, way, relus, paper_accuracy, accuracy });
        }
    }
    if arguments.run.json {
        write_json(out, &results)?;
    } else {
        write_table(&results, out)?;
        writeln!(out, "\nnext: sordino pareto {} -o pareto.html", whole.folder.display())?;
    }
    if stop::is_asked() {
        return Ok(stop::answer(stop::Again::Same));
    }
    tell_of_others(&outcome.others, out)?;
    super::must_not_have_failed(&outcome.failed, jobs.len())?;
    Ok(Answer::Yes)
}

fn write_table(results: &[Trained<'_>], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["<row", "<training", "ReLUs", "paper", "accuracy"]);
    for Trained { row, way, relus, paper_accuracy, accuracy } in results {
        let printed = paper_accuracy.map_or_else(String::new, |printed| format!("{printed:.2}%"));
        let cells = [(*row).to_owned(), way.title().to_owned(), grouped(*relus), printed];
        table.row(cells.into_iter().chain([format!("{accuracy:.2}%")]).collect());
    }
    Ok(table.write(out)?)
}

/// ReLUs and accuracy in percent of each result of a job; nothing where it is not done.
fn results_of(job: &Job) -> anyhow::Result<Vec<(u64, f64)>> {
    if !many::is_done(job) {
        return Ok(Vec::new());
    }
    let records = if job.recipe.optimize.is_some() {
        RecordFile::open(&job.folder.join(RECORDS))?.records
    } else {
        let checkpoint = Checkpoint::load(&job.folder, Part::Description)?;
        vec![ResultRecord::of_checkpoint(&checkpoint, &job.folder)?]
    };
    Ok(records.iter().map(|record| (record.comparisons(), record.accuracy().0)).collect())
}
