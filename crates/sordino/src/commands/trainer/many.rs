//! The runs of a sweep, several at once where that is asked for.
//!
//! Each run is a thread with its own queue on the GPU. They share nothing but the list of what is left to do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use network::text::with_causes;
use recipes::method::SweepRun;
use results::{ParetoFront, ResultRecord};
use training::optimize::{OptimizeOptions, optimize};

use super::optimize_watch::Terminal;

/// What all runs came to.
pub(super) struct Outcome {
    /// How many results there are.
    pub(super) results: usize,
    /// Those that no other beats.
    pub(super) front: Vec<ResultRecord>,
    /// The runs that failed, each of which said why.
    pub(super) failed: Vec<String>,
}

/// Makes all runs. One that fails does not keep the others from being made; only a disk or a device that cannot be used
/// ends them all.
pub(super) fn run_all(
    runs: &[SweepRun],
    whole: &OptimizeOptions,
    parallel: usize,
) -> anyhow::Result<Outcome> {
    let sweep =
        Many { runs, whole, is_alone: parallel == 1, next: AtomicUsize::new(0), kept: Mutex::default() };
    if sweep.is_alone {
        sweep.work()?;
    } else {
        let outcomes = thread::scope(|scope| {
            let workers = (0..parallel.min(runs.len())).map(|_| {
                scope.spawn(|| {
                    let outcome =
                        whole.device.work_beside_others().map_err(Into::into).and_then(|()| sweep.work());
                    if outcome.is_err() {
                        sweep.next.store(runs.len(), Ordering::Relaxed);
                    }
                    outcome
                })
            });
            let workers: Vec<_> = workers.collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.collect::<Vec<_>>()
        });
        for outcome in outcomes {
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
    }
    let kept = sweep.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Outcome { results: kept.results, front: kept.front(), failed: kept.failed })
}

struct Many<'a> {
    runs: &'a [SweepRun],
    whole: &'a OptimizeOptions,
    is_alone: bool,
    next: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    results: usize,
    front: ParetoFront<ResultRecord>,
    failed: Vec<String>,
}

impl Kept {
    fn front(&self) -> Vec<ResultRecord> {
        self.front.points().iter().map(|(_, _, record)| record.clone()).collect()
    }
}

impl Many<'_> {
    /// Makes one run after the other until none is left.
    fn work(&self) -> anyhow::Result<()> {
        while let Some(run) = self.runs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let folder = if self.runs.len() == 1 {
                self.whole.folder.clone()
            } else {
                self.whole.folder.join(&run.name)
            };
            let options = OptimizeOptions { folder, ..self.whole.clone() };
            let mut watch = if self.is_alone { Terminal::new() } else { Terminal::of_run(&run.name) };
            match optimize(&run.recipe, &options, &mut watch) {
                Ok(found) => self.keep(found.records)?,
                Err(error) => {
                    watch.fail(&format!("failed: {}", with_causes(&error)));
                    self.kept.lock().unwrap_or_else(PoisonError::into_inner).failed.push(run.name.clone());
                }
            }
        }
        Ok(())
    }

    /// Written after every run, so that the front is there whenever the sweep stops.
    fn keep(&self, records: Vec<ResultRecord>) -> anyhow::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            kept.results += 1;
            kept.front.insert(record.comparisons(), record.float_accuracy, record);
        }
        let text = serde_json::to_string_pretty(&kept.front())?;
        let path = self.whole.folder.join("front.json");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
