//! Jobs that several workers share: threads of this process, and other processes that were given the same folder.
//!
//! Each job is claimed before it is touched. What somebody else holds is left to them, but for a teacher, which is waited
//! for. Threads have a queue of their own on the GPU.

use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use network::text::with_causes;
use recipes::checkpoint::{Checkpoint, Part};
use recipes::claim::{self, Attempt, Claim, Claims, Holder, Life};
use recipes::method::Job;
use recipes::recipe::Recipe;
use training::optimize::{OptimizeOptions, OptimizeRunError, optimize};
use training::run::{RunOptions, train};

use super::optimize_watch::Terminal;
use super::stop;

/// Between two looks at what others hold.
const PAUSE: Duration = Duration::from_secs(1);

/// What all jobs came to.
pub(super) struct Outcome {
    /// The jobs that failed, each of which said why.
    pub(super) failed: Vec<String>,
    /// The jobs that others are at.
    pub(super) others: Vec<(String, Option<Holder>)>,
}

/// Does all jobs, and calls `after_each` after every one. One that fails does not keep the others from being done; only a disk
/// or a device that cannot be used ends them all. Ends early when it is asked to stop.
pub(super) fn run_all(
    jobs: &[Job],
    whole: &OptimizeOptions,
    parallel: usize,
    after_each: &(dyn Fn() -> anyhow::Result<()> + Sync),
) -> anyhow::Result<Outcome> {
    let many = Many {
        jobs,
        whole,
        is_alone: parallel == 1,
        old_failures: jobs.iter().map(|job| claim::failure(&job.folder)).collect(),
        ends: Mutex::new(vec![None; jobs.len()]),
        after_each,
    };
    if many.is_alone {
        many.work()?;
    } else {
        let outcomes = thread::scope(|scope| {
            let workers = (0..parallel.min(jobs.len())).map(|_| {
                scope.spawn(|| {
                    let outcome =
                        whole.device.work_beside_others().map_err(Into::into).and_then(|()| many.work());
                    if outcome.is_err() {
                        many.give_up();
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
    many.outcome()
}

/// Whether a job is done: a teacher has all its epochs, whatever its recipe was; a run has its records.
pub(super) fn is_done(job: &Job) -> bool {
    if job.recipe.optimize.is_some() {
        return training::optimize::is_done(&job.recipe, &job.folder);
    }
    let Ok(there) = Checkpoint::load(&job.folder, Part::Description) else { return false };
    let recipe = &there.state.recipe;
    let is_its = |recipe: &Recipe| {
        (recipe.seed, &recipe.network, &recipe.training)
            == (job.recipe.seed, &job.recipe.network, &job.recipe.training)
    };
    there.state.epoch >= recipe.training.epochs && (job.is_teacher || is_its(recipe))
}

/// How a job ended, as far as this process knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    /// Not tried, because something ended all jobs.
    GivenUp,
}

/// What came of looking at a job.
enum Step {
    /// There is nothing to do for it here, now or later.
    Nothing,
    /// Something was done for it.
    Worked,
    /// It must be looked at again.
    Wait,
}

struct Many<'a> {
    jobs: &'a [Job],
    whole: &'a OptimizeOptions,
    is_alone: bool,
    /// What earlier calls left; those jobs are tried once more.
    old_failures: Vec<Option<String>>,
    ends: Mutex<Vec<Option<End>>>,
    after_each: &'a (dyn Fn() -> anyhow::Result<()> + Sync),
}

impl Many<'_> {
    /// Does one job after the other until there is nothing to do here.
    fn work(&self) -> anyhow::Result<()> {
        let mut claims = Claims::default();
        loop {
            let (mut has_worked, mut must_wait) = (false, false);
            for index in 0..self.jobs.len() {
                if stop::is_asked() {
                    return Ok(());
                }
                match self.step(index, &mut claims)? {
                    Step::Nothing => {}
                    Step::Worked => has_worked = true,
                    Step::Wait => must_wait = true,
                }
            }
            if !has_worked && !must_wait {
                return Ok(());
            }
            if !has_worked {
                thread::sleep(PAUSE);
            }
        }
    }

    fn step(&self, index: usize, claims: &mut Claims) -> anyhow::Result<Step> {
        let job = &self.jobs[index];
        if self.end_of(index).is_some() {
            return Ok(Step::Nothing);
        }
        if is_done(job) {
            self.note(index, End::Done);
            return Ok(Step::Nothing);
        }
        let failure = claim::failure(&job.folder);
        if failure.is_some() && failure != self.old_failures[index] {
            self.note(index, End::Failed);
            return Ok(Step::Nothing);
        }
        let teacher = job.needs.as_ref().and_then(|name| self.jobs.iter().position(|it| it.name == *name));
        match teacher.map(|teacher| self.end_of(teacher)) {
            None | Some(Some(End::Done)) => {}
            Some(None) => return Ok(Step::Wait),
            Some(Some(_)) => {
                self.note(index, End::Failed);
                return Ok(Step::Nothing);
            }
        }
        match claims.take(&job.folder)? {
            Attempt::Held { life: Life::Unknown, .. } => Ok(Step::Wait),
            Attempt::Held { .. } => Ok(Step::Nothing),
            Attempt::Taken(_) if is_done(job) => Ok(Step::Worked),
            Attempt::Taken(claim) => self.make(index, &claim),
        }
    }

    fn make(&self, index: usize, claim: &Claim) -> anyhow::Result<Step> {
        let job = &self.jobs[index];
        claim::clear_failure(&job.folder)?;
        let mut watch = if self.is_alone { Terminal::new() } else { Terminal::of_run(&job.name) };
        watch.stop_with(claim.loss());
        match train_job(job, self.whole, &mut watch) {
            Ok(()) => {
                self.note(index, End::Done);
                (self.after_each)()?;
            }
            Err(_) if claim.is_lost() => {
                watch
                    .say(&format!("{}: another worker took this one for dead and goes on with it", job.name));
            }
            Err(error) if error.is_stop() => watch.say(&error.to_string()),
            Err(error) if is_full(&error) => {
                return Err(error).context("make room on that disk; the same command goes on");
            }
            Err(error) => {
                let reason = with_causes(&error);
                watch.say(&format!("failed: {reason}"));
                self.note(index, End::Failed);
                claim::mark_failed(&job.folder, &reason)?;
            }
        }
        Ok(Step::Worked)
    }

    fn end_of(&self, index: usize) -> Option<End> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)[index]
    }

    fn note(&self, index: usize, end: End) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(end);
    }

    /// Has all workers end after what they are at.
    fn give_up(&self) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter_mut().for_each(|end| *end = end.or(Some(End::GivenUp)));
    }

    fn outcome(&self) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome { failed: Vec::new(), others: Vec::new() };
        let mut claims = Claims::default();
        for (index, job) in self.jobs.iter().enumerate() {
            match self.end_of(index) {
                Some(End::Failed) => outcome.failed.push(job.name.clone()),
                None if !is_done(job) && !stop::is_asked() => {
                    let holder = claims.holder(&job.folder)?.and_then(|(holder, _)| holder);
                    outcome.others.push((job.name.clone(), holder));
                }
                _ => {}
            }
        }
        Ok(outcome)
    }
}

/// Trains by any recipe, or goes on.
fn train_job(job: &Job, whole: &OptimizeOptions, watch: &mut Terminal) -> Result<(), OptimizeRunError> {
    let OptimizeOptions { data, device, shard_bytes, threads, .. } = whole.clone();
    let folder = job.folder.clone();
    if job.recipe.optimize.is_some() {
        let options = OptimizeOptions { folder, ..whole.clone() };
        return optimize(&job.recipe, &options, watch).map(|_| ());
    }
    let options = RunOptions { data, device, resume: true, folder, shard_bytes, threads };
    train(job.recipe.clone(), &options, watch)?;
    Ok(())
}

/// Whether a disk has no room left: no job could go on there.
fn is_full(error: &OptimizeRunError) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        let system = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(system, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    false
}
