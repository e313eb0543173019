//! Runs as jobs of a Slurm cluster.
//!
//! ```text
//! OUT/slurm/1-teacher.sh   one job: a teacher, and the runs' arrays wait for it (afterok)
//! OUT/slurm/2-runs.sh      an array: one task for each run of that teacher
//! OUT/slurm/2-runs.txt     their names, one a line
//! OUT/slurm/*.log          what they said
//! ```
//!
//! A task is the same command with `--only NAME`. It claims its folder, so a task that Slurm starts twice trains nothing
//! twice. On SIGTERM, as before a preemption or the end of its time, it writes a checkpoint, asks Slurm to put it into the
//! queue again, and ends with 0.

mod script;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use recipes::file::write_shared;
use recipes::method::Job;
use serde::Serialize;

use super::optimize::RunArguments;
use super::train::DeviceChoice;
use super::{Answer, trainer, write_json};
use script::Script;

/// The largest array that Slurm takes as it is installed.
const LARGEST_ARRAY: usize = 1000;

/// What a cluster is told.
#[derive(Debug, Args)]
pub(super) struct SlurmArguments {
    /// Submit the runs to Slurm instead of making them here: teachers first, then an array of runs.
    #[arg(long)]
    pub(super) slurm: bool,
    /// Slurm's partition [default: the cluster's].
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// What each job needs, such as gpu:1.
    #[arg(long, value_name = "LIST")]
    gres: Option<String>,
    /// Tasks of an array that run at once [default: as many as there is room for].
    #[arg(long, value_name = "COUNT")]
    array_limit: Option<u32>,
    /// The longest time of a job, as Slurm writes it, such as 4:00:00; what is not done goes on in the next [default: the
    /// cluster's].
    #[arg(long, value_name = "TIME")]
    time_limit: Option<String>,
}

impl SlurmArguments {
    /// Refuses what means something with `--slurm` alone.
    pub(super) fn must_submit(&self) -> anyhow::Result<()> {
        let Self { slurm: _, partition, gres, array_limit, time_limit } = self;
        let given = [
            ("--partition", partition.is_some()),
            ("--gres", gres.is_some()),
            ("--array-limit", array_limit.is_some()),
            ("--time-limit", time_limit.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => bail!("{flag} is for Slurm; add --slurm to submit the runs there"),
            None => Ok(()),
        }
    }
}

/// The flags of a call that every worker of it gets, too.
pub(super) fn worker_flags(run: &RunArguments, folder: &Path, data: Option<&Path>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--out".into(), folder.into()];
    words.extend(["--shard-mib".into(), run.shard_mib.to_string().into()]);
    words.extend(data.into_iter().flat_map(|data| ["--data".into(), data.into()]));
    words.extend(run.threads.iter().flat_map(|count| ["--threads".into(), count.to_string().into()]));
    let device = run.device.map(|device| match device {
        DeviceChoice::Cpu => "cpu",
        DeviceChoice::Cuda => "cuda",
    });
    words.extend(device.into_iter().flat_map(|device| ["--device".into(), device.into()]));
    words
}

/// What is submitted.
pub(super) struct Submission<'a> {
    /// What jobs are called in the queue.
    pub(super) name: String,
    /// Where everything goes.
    pub(super) folder: &'a Path,
    /// The call that makes a run, but for `--only NAME`.
    pub(super) worker: Vec<OsString>,
    /// Whether to answer as JSON.
    pub(super) json: bool,
}

/// What `--json` says of a job or an array that was submitted.
#[derive(Debug, Serialize)]
struct Submitted {
    job: String,
    script: PathBuf,
    runs: Vec<String>,
    /// The job that it waits for.
    after: Option<String>,
}

impl Submission<'_> {
    /// Submits all jobs that are not done. Where Slurm refuses one, those before it are taken back.
    pub(super) fn submit(
        &self,
        jobs: &[Job],
        arguments: &SlurmArguments,
        out: &mut dyn Write,
    ) -> anyhow::Result<Answer> {
        trainer::must_be_there()?;
        must_have_slurm()?;
        let left: Vec<&Job> = jobs.iter().filter(|job| !trainer::is_done(job)).collect();
        let mut submitted: Vec<Submitted> = Vec::new();
        for group in groups(&left) {
            if let Err(error) = self.submit_group(&group, arguments, &mut submitted) {
                let ids: Vec<&str> = submitted.iter().map(|group| group.job.as_str()).collect();
                // Whoever cannot be cancelled is named below.
                let _ = Command::new("scancel").args(&ids).status();
                let taken_back = match ids.is_empty() {
                    true => "nothing was submitted".to_owned(),
                    false => format!("what was submitted before it was cancelled: {}", ids.join(" ")),
                };
                return Err(error.context(taken_back));
            }
        }
        if self.json {
            return write_json(out, &submitted);
        }
        for group in &submitted {
            let after = group.after.as_ref().map_or_else(String::new, |after| format!(", after {after}"));
            writeln!(
                out,
                "job {}: {} runs{after}, by {}",
                group.job,
                group.runs.len(),
                group.script.display()
            )?;
        }
        match submitted.is_empty() {
            true => writeln!(out, "all of it is done; nothing was submitted")?,
            false => writeln!(
                out,
                "next: the same command with --watch instead of --slurm shows how far they are"
            )?,
        }
        Ok(Answer::Yes)
    }

    fn submit_group(
        &self,
        group: &Group<'_>,
        arguments: &SlurmArguments,
        submitted: &mut Vec<Submitted>,
    ) -> anyhow::Result<()> {
        let after = match group.teacher {
            None => None,
            Some(teacher) => {
                let number = submitted.len() + 1;
                let teacher = self.submit_jobs(&format!("{number}-teacher"), &[teacher], None, arguments)?;
                submitted.push(teacher);
                submitted.last().map(|teacher| teacher.job.clone())
            }
        };
        for runs in group.runs.chunks(LARGEST_ARRAY) {
            let number = submitted.len() + 1;
            let runs = self.submit_jobs(&format!("{number}-runs"), runs, after.clone(), arguments)?;
            submitted.push(runs);
        }
        Ok(())
    }

    fn submit_jobs(
        &self,
        title: &str,
        jobs: &[&Job],
        after: Option<String>,
        arguments: &SlurmArguments,
    ) -> anyhow::Result<Submitted> {
        let place = std::path::absolute(self.folder.join("slurm"))?;
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let list = place.join(title).with_extension("txt");
        write_shared(&list, names.join("\n") + "\n").context(FULL)?;
        let script = Script {
            name: format!("sordino-{}", self.name),
            place: &place,
            list: &list,
            tasks: names.len(),
            program: std::env::current_exe().context("cannot find the program that jobs run")?,
            work_in: std::env::current_dir().context("cannot find the folder that jobs run in")?,
            worker: &self.worker,
            after: after.as_deref(),
        };
        let path = place.join(title).with_extension("sh");
        write_shared(&path, script.text(arguments)?).context(FULL)?;
        let answer = Command::new("sbatch")
            .args(["--parsable".as_ref(), path.as_os_str()])
            .output()
            .context("cannot start sbatch")?;
        if !answer.status.success() {
            bail!(
                "Slurm refused {}: {}; `sinfo` lists the partitions and what they have",
                path.display(),
                String::from_utf8_lossy(&answer.stderr).trim()
            );
        }
        let answer = String::from_utf8_lossy(&answer.stdout);
        // `ID`, or `ID;CLUSTER`.
        let job = answer.trim().split(';').next().unwrap_or_default().to_owned();
        Ok(Submitted { job, script: path, runs: names, after })
    }
}

/// What to do when a list or a script cannot be written.
const FULL: &str = "jobs are described in files beside the runs; make room there, and submit again";

/// A teacher and the runs that wait for it, or the runs that wait for nobody.
struct Group<'a> {
    teacher: Option<&'a Job>,
    runs: Vec<&'a Job>,
}

fn groups<'a>(jobs: &[&'a Job]) -> Vec<Group<'a>> {
    let (teachers, runs): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(|job| is_needed(job, jobs));
    let is_of = |run: &Job, teacher: &Job| run.needs.as_ref() == Some(&teacher.name);
    let mut groups: Vec<Group<'_>> = teachers
        .iter()
        .map(|teacher| Group {
            teacher: Some(teacher),
            runs: runs.iter().copied().filter(|run| is_of(run, teacher)).collect(),
        })
        .collect();
    let free = runs.iter().copied().filter(|run| !teachers.iter().any(|teacher| is_of(run, teacher)));
    let free: Vec<&Job> = free.collect();
    if !free.is_empty() {
        groups.push(Group { teacher: None, runs: free });
    }
    groups
}

fn is_needed(job: &Job, jobs: &[&Job]) -> bool {
    jobs.iter().any(|other| other.needs.as_ref() == Some(&job.name))
}

fn must_have_slurm() -> anyhow::Result<()> {
    match Command::new("sbatch").arg("--version").output() {
        Ok(answer) if answer.status.success() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no sbatch on this machine, so nothing can be submitted to Slurm; call this where Slurm's commands are, or \
             call it without --slurm on several machines with one file system: they share the runs (a sweep also by --parallel, \
             --devices and --shard)"
        ),
        Ok(answer) => bail!(
            "sbatch does not work here; call this on a machine of the cluster, or without --slurm: {}",
            String::from_utf8_lossy(&answer.stderr).trim()
        ),
        Err(error) => Err(error).context("cannot start sbatch"),
    }
}

/// Asks Slurm to run the calling job again; whether there is one and Slurm does.
#[cfg(feature = "training")]
pub(super) fn requeue() -> bool {
    let Ok(job) = std::env::var("SLURM_JOB_ID") else { return false };
    // One that was preempted is in the queue already.
    let is_queued = |said: &[u8]| String::from_utf8_lossy(said).contains("pending");
    let answer = Command::new("scontrol").args(["requeue", &job]).output();
    answer.is_ok_and(|answer| answer.status.success() || is_queued(&answer.stderr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::method::SweepRun;
    use recipes::recipe::Recipe;

    #[test]
    fn runs_wait_for_their_own_teacher_and_for_no_other() {
        let run = |budget: u64, seed: u64| {
            SweepRun {
            name: format!("a-{budget}-seed{seed}"),
            recipe: Recipe::from_toml(&format!(
                "seed = {seed}\n[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 3\n\
                 batch = 50\n[optimize]\nmethod = \"snl\"\nbudget = {budget}"
            ))
            .unwrap(),
        }
        };
        let runs = vec![run(100, 1), run(200, 1), run(100, 2), run(200, 2), run(100, 3)];
        let jobs = Job::of_sweep(runs, Path::new("out"));
        let all: Vec<&Job> = jobs.iter().collect();
        let found = groups(&all);
        assert_eq!(found.len(), 3);
        for group in &found[..2] {
            let teacher = group.teacher.unwrap();
            assert_eq!(group.runs.len(), 2);
            assert!(group.runs.iter().all(|run| run.recipe.seed == teacher.recipe.seed));
        }
        assert!(found[2].teacher.is_none() && found[2].runs[0].name == "a-100-seed3");
        // What is done is not submitted, and runs do not wait for it.
        let rest: Vec<&Job> = jobs.iter().filter(|job| !job.is_teacher).collect();
        let found = groups(&rest);
        assert!(found.len() == 1 && found[0].runs.len() == 5);
    }
}
