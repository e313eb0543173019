//! How far the runs of a sweep or a table are, from their folders alone: no scheduler is asked.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use recipes::checkpoint::{Checkpoint, Part};
use recipes::claim::{self, Claims, Life};
use recipes::log::{self, Event};
use recipes::method::Job;
use results::{RECORDS, RecordFile};
use serde::Serialize;

use crate::commands::{Answer, write_json};
use crate::report::Table;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Queued,
    /// Somebody works on it.
    Running,
    /// Begun, and nobody works on it now.
    Stopped,
    Done,
    Failed,
}

/// What a line says.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    name: String,
    state: State,
    /// The part that is being trained, such as `trained`.
    part: Option<String>,
    epoch: Option<u32>,
    epochs: Option<u32>,
    /// Until the end of this part, by its last epoch.
    seconds_left: Option<f64>,
    /// In percent, of the best result.
    accuracy: Option<f64>,
    /// Who works on it, or why it failed.
    note: String,
}

/// Shows the table again and again on a terminal, and elsewhere whenever it changes; with `--json` once. Says once that the
/// folder of all runs is not there.
pub(in crate::commands) fn run(
    jobs: &[Job],
    folder: &Path,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    let mut missing = (!folder.is_dir()).then_some(folder.display());
    let mut claims = Claims::default();
    let mut shown: Vec<Row> = Vec::new();
    let terminal = std::io::stdout().is_terminal();
    loop {
        let rows = jobs.iter().map(|job| look(job, &mut claims)).collect::<Result<Vec<_>, _>>()?;
        if !json && rows != shown {
            if terminal {
                write!(out, "\x1b[H\x1b[2J")?;
            }
            write_table(&rows, out)?;
            out.flush()?;
        }
        // After the table, which clears a terminal.
        if let Some(folder) = missing.take() {
            eprintln!(
                "note: the folder {folder} does not exist yet; if runs have begun, name theirs with --out"
            );
        }
        if json {
            return write_json(out, &rows);
        }
        let is_over = |row: &Row| matches!(row.state, State::Done | State::Failed);
        if rows.iter().all(is_over) {
            let failed = rows.iter().any(|row| row.state == State::Failed);
            return Ok(if failed { Answer::No } else { Answer::Yes });
        }
        shown = rows;
        std::thread::sleep(PAUSE);
    }
}

fn look(job: &Job, claims: &mut Claims) -> anyhow::Result<Row> {
    let mut row = Row {
        name: job.name.clone(),
        state: State::Queued,
        part: None,
        epoch: None,
        epochs: None,
        seconds_left: None,
        accuracy: None,
        note: String::new(),
    };
    if let Some(accuracy) = done(job) {
        (row.state, row.accuracy) = (State::Done, accuracy);
        return Ok(row);
    }
    let holder = claims.holder(&job.folder)?.filter(|(_, life)| *life != Life::Gone);
    if let Some((holder, _)) = holder {
        row.state = State::Running;
        row.note = holder.map_or_else(String::new, |holder| holder.to_string());
    } else if let Some(reason) = claim::failure(&job.folder) {
        (row.state, row.note) = (State::Failed, reason);
        return Ok(row);
    }
    if let Some((part, epoch, epochs, seconds)) = newest_log(&job.folder).as_deref().and_then(progress) {
        if row.state == State::Queued {
            row.state = State::Stopped;
        }
        let left = f64::from(epochs.saturating_sub(epoch));
        row.seconds_left = seconds.filter(|_| row.state == State::Running).map(|seconds| seconds * left);
        (row.part, row.epoch, row.epochs) = (Some(part), Some(epoch), Some(epochs));
    }
    Ok(row)
}

/// The best accuracy in percent of a job that is done; a network that is only trained has the one of its last epoch.
fn done(job: &Job) -> Option<Option<f64>> {
    if job.is_teacher || job.recipe.optimize.is_none() {
        let there = Checkpoint::load(&job.folder, Part::Description).ok()?;
        let is_done = there.state.epoch >= there.state.recipe.training.epochs;
        return is_done.then(|| there.state.accuracy.values().next().map(|part| 100.0 * part));
    }
    let records = RecordFile::open(&job.folder.join(RECORDS)).ok()?.records;
    Some(records.iter().map(|record| record.float_accuracy).reduce(f64::max))
}

/// The log that was written to last: a run's own, or one of its parts'.
fn newest_log(folder: &Path) -> Option<PathBuf> {
    let parts = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path().join(log::FILE));
    let logs = parts.chain([folder.join(log::FILE)]);
    let written = |path: &PathBuf| path.metadata().and_then(|about| about.modified()).ok();
    let dated: Vec<(SystemTime, PathBuf)> = logs.filter_map(|path| Some((written(&path)?, path))).collect();
    dated.into_iter().max().map(|(_, path)| path)
}

/// Part, epochs done, epochs in all, seconds of the last epoch where one has ended.
fn progress(path: &Path) -> Option<(String, u32, u32, Option<f64>)> {
    let part = path.parent()?.file_name()?.to_string_lossy().into_owned();
    let (mut epoch, mut epochs, mut seconds) = (0, None, None);
    for event in log::read(path).ok()? {
        match event {
            Event::Start(start) => (epoch, epochs) = (start.resumed_after, Some(start.epochs)),
            Event::Epoch(ended) => (epoch, seconds) = (ended.epoch, Some(ended.seconds)),
            Event::End(_) => {}
        }
    }
    Some((part, epoch, epochs?, seconds))
}

fn write_table(rows: &[Row], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["<run", "<state", "<part", "epoch", "left", "accuracy", "<note"]);
    for row in rows {
        let state = match row.state {
            State::Queued => "queued",
            State::Running => "running",
            State::Stopped => "stopped",
            State::Done => "done",
            State::Failed => "failed",
        };
        let epoch = row.epoch.zip(row.epochs).map_or_else(String::new, |(done, all)| format!("{done}/{all}"));
        table.row(vec![
            row.name.clone(),
            state.to_owned(),
            row.part.clone().unwrap_or_default(),
            epoch,
            row.seconds_left.map_or_else(String::new, |seconds| format!("{seconds:.0} s")),
            row.accuracy.map_or_else(String::new, |accuracy| format!("{accuracy:.2}%")),
            row.note.lines().next().unwrap_or("").to_owned(),
        ]);
    }
    table.write(out)?;
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    writeln!(
        out,
        "\n{} queued, {} running, {} stopped, {} done, {} failed",
        count(State::Queued),
        count(State::Running),
        count(State::Stopped),
        count(State::Done),
        count(State::Failed)
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_epoch_has_ended_nobody_knows_how_long_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(log::FILE);
        let start =
            r#"{"event":"start","title":"t","network":"n","relus":9,"parameters":9,"data":"d","images":8,
            "epochs":3,"seed":1,"device":"cpu","resumed_after":0,"deterministic":true}"#
                .replace('\n', "");
        std::fs::write(&path, format!("{start}\n")).unwrap();
        let (_, epoch, epochs, seconds) = progress(&path).unwrap();
        assert_eq!((epoch, epochs, seconds), (0, 3, None));
    }
}
