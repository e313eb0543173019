//! How far an optimization is, and its results as a table.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use recipes::log::{Epoch, Start};
use recipes::method::sphynx::{CellEpoch, LocationEpoch};
use results::ResultRecord;
use training::optimize::{OptimizeWatch, SearchEpoch};
use training::run::Watch;

use super::train_watch;
use crate::report::{Table, grouped, short};

/// Tells a person how far an optimization is.
pub(super) struct Terminal(train_watch::Terminal);

impl Terminal {
    pub(super) fn new() -> Self {
        Self(train_watch::Terminal::new())
    }

    pub(super) fn of_run(name: &str) -> Self {
        Self(train_watch::Terminal::of_run(name))
    }

    /// Has the work stop, with a checkpoint, when this becomes true.
    pub(super) fn stop_with(&mut self, sign: Arc<AtomicBool>) {
        self.0.stop_with(sign);
    }

    pub(super) fn say(&self, text: &str) {
        self.0.say(text);
    }
}

impl Watch for Terminal {
    fn start(&mut self, start: &Start) {
        self.0.start(start);
    }

    fn step(&mut self, done: u64, steps: u64) {
        self.0.step(done, steps);
    }

    fn epoch(&mut self, epoch: &Epoch) {
        self.0.epoch(epoch);
    }

    fn should_stop(&self) -> bool {
        self.0.should_stop()
    }
}

impl OptimizeWatch for Terminal {
    fn part(&mut self, title: &str) {
        self.0.begin_part(title);
    }

    fn search(&mut self, epoch: &SearchEpoch) {
        self.0.say(&format!(
            "search epoch {}: {}{}, loss {:.4}, learned {:.2}%, {} {:.2}%, {:.1} s",
            epoch.epoch,
            epoch.counts,
            epoch.penalty.map_or_else(String::new, |penalty| format!(", penalty {penalty:.2e}")),
            epoch.loss,
            100.0 * epoch.training_accuracy,
            epoch.tried_on,
            100.0 * epoch.accuracy,
            epoch.seconds
        ));
    }

    fn cells(&mut self, epoch: &CellEpoch) {
        self.0.say(&format!(
            "cells, epoch {}/{}: loss {:.4}, learned {:.2}%, {}, second half {:.2}%, {}\n  {}",
            epoch.epoch,
            epoch.epochs,
            epoch.loss,
            100.0 * epoch.training_accuracy,
            epoch.score_loss.map_or("scores rest".to_owned(), |loss| format!("score loss {loss:.4}")),
            100.0 * epoch.accuracy,
            left(epoch.seconds, epoch.epoch, epoch.epochs),
            epoch.cells
        ));
        if let (1, Some(reason)) = (epoch.epoch, &epoch.unrecorded) {
            self.0.say(&format!("  steps could not be recorded, so each takes longer: {reason}"));
        }
    }

    fn locations(&mut self, epoch: &LocationEpoch) {
        let mut ranked: Vec<_> = epoch.candidates.iter().zip(&epoch.distribution).collect();
        ranked.sort_by(|one, other| other.1.total_cmp(one.1));
        let best = ranked.iter().take(3);
        let best: Vec<String> =
            best.map(|(pair, chance)| format!("{}+{} {:.1}%", pair[0], pair[1], 100.0 * **chance)).collect();
        self.0.say(&format!(
            "locations, epoch {}/{}: temperature {:.1}, loss {:.4}, score loss {:.4}, {}, {}",
            epoch.epoch,
            epoch.epochs,
            epoch.temperature,
            epoch.loss,
            epoch.score_loss,
            best.join(", "),
            left(epoch.seconds, epoch.epoch, epoch.epochs)
        ));
    }
}

/// What is left of a search, from its last epoch.
fn left(seconds: f64, epoch: u32, epochs: u32) -> String {
    format!("{seconds:.1} s, about {:.0} s left", seconds * f64::from(epochs.saturating_sub(epoch)))
}

/// The results, one line each.
pub(super) fn write_records(records: &[ResultRecord], out: &mut dyn Write) -> anyhow::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let shares_signs = records.iter().any(|record| record.counts().shares_signs());
    let mut columns = vec!["<network", "<method", if shares_signs { "comparisons" } else { "ReLUs" }, "of"];
    columns.extend(shares_signs.then_some("gated values"));
    columns.extend(["multiply-adds", "accuracy", "<on", "%/1K"]);
    let mut table = Table::new(&columns);
    for record in records {
        let counts = record.counts();
        let mut cells = vec![
            record.title.clone(),
            record.method.clone(),
            grouped(counts.comparisons),
            grouped(record.compared.before),
        ];
        cells.extend(shares_signs.then(|| grouped(counts.gated_values)));
        cells.extend([
            short(record.macs),
            format!("{:.2}%", record.float_accuracy),
            record.measured_on.clone(),
            format!("{:.2}", record.compared.accuracy_per_thousand),
        ]);
        table.row(cells);
    }
    table.write(out)?;
    Ok(())
}
