//! The trainer behind the verbs that need it. Where it was left out, `no_trainer` stands in its place.

mod many;
mod optimize_watch;
mod reproduce;
mod step_time;
mod stop;
mod train_watch;

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use network::text::with_causes;
use recipes::checkpoint::Checkpoint;
use recipes::claim::Holder;
use recipes::data::Dataset;
use recipes::method::{Job, OptimizeSection};
use recipes::recipe::Recipe;
use results::{RECORDS, write_front};
use training::optimize::OptimizeOptions;
use training::run::{Outcome, RunError, RunOptions};
use training::tensor::{self, Device};

use self::stop::Again;
use super::optimize::{CommonArguments, RunArguments};
use super::train::DeviceChoice;
use super::{Answer, evaluate, sweep, train, write_json};
use crate::report::{Table, grouped};

pub(super) use reproduce::reproduce;
pub(super) use step_time::{measure_search_step, measure_step};

pub(super) fn train(arguments: &train::Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let is_alone = arguments.recipes.len() == 1;
    let mut runs = Vec::with_capacity(arguments.recipes.len());
    for path in &arguments.recipes {
        let recipe = Recipe::from_file(path)?;
        if let Some(section) = &recipe.optimize {
            let (path, method) = (path.display(), section.method());
            bail!("{path} optimizes a network; use `sordino optimize {method} --recipe {path}`");
        }
        let stem = path.file_stem().unwrap_or_default();
        let folder = match &arguments.out {
            Some(folder) if is_alone => folder.clone(),
            Some(folder) => folder.join(stem),
            None => Path::new("runs").join(stem),
        };
        if runs.iter().any(|(_, earlier, _)| *earlier == folder) {
            bail!("two recipes would write to {}; give them different names", folder.display());
        }
        let watch = match is_alone {
            true => train_watch::Terminal::new(),
            false => train_watch::Terminal::of_run(&stem.to_string_lossy()),
        };
        runs.push((recipe, folder, watch));
    }
    let options = RunOptions {
        data: arguments.data.clone(),
        shard_bytes: shard_bytes(arguments.shard_mib)?,
        device: device(arguments.device)?,
        resume: arguments.resume,
        folder: runs[0].1.clone(),
        threads: arguments.threads,
    };
    let members = runs.iter_mut().map(|(recipe, folder, watch)| training::run::Member {
        recipe: recipe.clone(),
        folder: folder.clone(),
        watch,
    });
    stop::listen()?;
    let outcomes = training::run::train_together(members.collect(), &options)?;
    if outcomes.iter().any(|outcome| matches!(outcome, Err(RunError::Stopped { .. }))) {
        return Ok(stop::answer(Again::WithResume));
    }
    let mut ended = Vec::with_capacity(runs.len());
    let mut failed = Vec::new();
    for ((_, folder, watch), outcome) in runs.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => ended.push((folder, outcome)),
            Err(error) if is_alone => return Err(error.into()),
            Err(error) => {
                watch.say(&format!("failed: {}", with_causes(&error)));
                failed.push(folder.display().to_string());
            }
        }
    }
    if arguments.json && is_alone {
        write_json(out, &ended[0].1)?;
    } else if arguments.json {
        write_json(out, &ended.iter().map(|(_, outcome)| outcome).collect::<Vec<_>>())?;
    } else {
        for (folder, outcome) in &ended {
            write_trained(folder, outcome, arguments.data.as_deref(), out)?;
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} runs failed: {}", failed.len(), runs.len(), failed.join(", "));
    }
    Ok(Answer::Yes)
}

fn write_trained(
    folder: &Path,
    outcome: &Outcome,
    data: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for tried in &outcome.results {
        writeln!(out, "{:.2}% of {} {} images", 100.0 * tried.accuracy, tried.images, tried.on)?;
    }
    let run = folder.display();
    writeln!(out, "checkpoint {}", outcome.checkpoint.display())?;
    let data = data_flag(data);
    writeln!(out, "next: sordino report {run}; sordino freeze {run}{data} -o {run}/model.sordino")?;
    Ok(())
}

/// What the next command has to be told about images that the recipe does not name.
fn data_flag(data: Option<&Path>) -> String {
    data.map_or_else(String::new, |folder| format!(" --data {}", folder.display()))
}

pub(super) fn evaluate(arguments: &evaluate::Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let device = device(arguments.device)?;
    let outcome =
        training::run::evaluate(&arguments.checkpoint, arguments.data.as_deref(), device, arguments.threads)?;
    if arguments.json {
        return write_json(out, &outcome);
    }
    writeln!(out, "{} after epoch {}, {}", outcome.network, outcome.epoch, outcome.counts)?;
    for tried in &outcome.results {
        writeln!(
            out,
            "{:.2}% of {} {} images, cross-entropy {:.4}",
            100.0 * tried.accuracy,
            tried.images,
            tried.on,
            tried.loss
        )?;
    }
    Ok(Answer::Yes)
}

pub(super) fn optimize(
    recipe: &Recipe,
    data: Option<&Path>,
    common: &CommonArguments,
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    let method = recipe.optimize.as_ref().map_or("optimize", |section| section.method());
    let name = common.recipe.as_deref().and_then(Path::file_stem);
    let options = options(&common.run, data, &name.map_or(method.into(), |name| name.to_string_lossy()))?;
    let records = || std::fs::read(options.folder.join(RECORDS)).ok();
    let earlier = records();
    stop::listen()?;
    let found = match training::optimize::optimize(recipe, &options, &mut optimize_watch::Terminal::new()) {
        Err(error) if error.is_stop() => return Ok(stop::answer(Again::Same)),
        found => found?,
    };
    if common.run.json {
        return write_json(out, &found);
    }
    if !found.criticality.is_empty() {
        let mut table = Table::new(&["<stage", "ReLUs", "accuracy alone", "criticality"]);
        for finding in &found.criticality {
            let name = format!("S{}", finding.stage);
            let accuracy = format!("{:.2}%", finding.accuracy);
            table.row(vec![name, grouped(finding.relus), accuracy, format!("{:.2}", finding.criticality)]);
        }
        table.write(out)?;
    }
    optimize_watch::write_records(&found.records, out)?;
    let folder = options.folder.display();
    if let Some(cells) = &found.cells {
        writeln!(out, "cells {cells}")?;
        writeln!(out, "also in {folder}/cells/cells.toml; `sordino report {folder}` draws them")?;
    }
    if earlier.is_some() && earlier == records() {
        writeln!(out, "this was done before with the same recipe; nothing was trained now")?;
    }
    writeln!(out, "all of it in {folder}, with the recipes in {folder}/{RECORDS}")?;
    // With masked signs the second one is what was asked for; elsewhere the first is the best, or the recipe's own.
    let result = match recipe.optimize {
        Some(OptimizeSection::SharedSigns(_)) => found.records.last(),
        _ => found.records.first(),
    };
    if let Some(record) = result {
        let data = data_flag(data);
        writeln!(out, "next: sordino freeze {}{data} -o {folder}/model.sordino", record.checkpoint)?;
    }
    Ok(Answer::Yes)
}

pub(super) fn sweep(
    arguments: &sweep::Arguments,
    all: &[Job],
    selected: &[Job],
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    let folder = arguments.folder();
    let options =
        OptimizeOptions { folder: folder.clone(), ..options(&arguments.run, arguments.data.as_deref(), "")? };
    stop::listen()?;
    let keep = || write_front(all, &folder).map(|_| ()).map_err(Into::into);
    let outcome = many::run_all(selected, &options, arguments.parallel.into(), &keep)?;
    // What others made counts, too.
    write_sweep(arguments, all, out)?;
    if stop::is_asked() {
        return Ok(stop::answer(Again::Same));
    }
    tell_of_others(&outcome.others, &mut std::io::stderr().lock())?;
    must_not_have_failed(&outcome.failed, selected.len())?;
    Ok(Answer::Yes)
}

/// What the workers of a sweep came to, each of which was a process of its own.
pub(super) fn sweep_of_workers(
    arguments: &sweep::Arguments,
    all: &[Job],
    selected: &[Job],
    is_stopped: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Answer> {
    write_sweep(arguments, all, out)?;
    if is_stopped {
        return Ok(stop::answer(Again::Same));
    }
    let left = selected.iter().filter(|job| !many::is_done(job));
    let left: Vec<String> = left.map(|job| job.name.clone()).collect();
    must_not_have_failed(&left, selected.len())?;
    Ok(Answer::Yes)
}

/// Writes the front, and says it.
fn write_sweep(arguments: &sweep::Arguments, all: &[Job], out: &mut dyn Write) -> anyhow::Result<()> {
    let (results, front) = write_front(all, &arguments.folder())?;
    if arguments.run.json {
        write_json(out, &front)?;
    } else {
        writeln!(out, "{results} results, {} of them on the front:\n", front.len())?;
        optimize_watch::write_records(&front, out)?;
    }
    Ok(())
}

/// Says who is at what was left alone.
fn tell_of_others(others: &[(String, Option<Holder>)], out: &mut dyn Write) -> anyhow::Result<()> {
    for (name, holder) in others {
        let holder = holder.as_ref().map_or_else(|| "another worker".to_owned(), ToString::to_string);
        writeln!(out, "{name} was left to {holder}")?;
    }
    Ok(())
}

fn must_not_have_failed(failed: &[String], jobs: usize) -> anyhow::Result<()> {
    match failed.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} of {jobs} runs failed: {}; mend them, and the same command makes what is missing",
            failed.len(),
            failed.join(", ")
        ),
    }
}

/// Whether a job is done.
pub(super) fn is_done(job: &Job) -> bool {
    many::is_done(job)
}

/// Where the trainer was left out, this says how to get it.
pub(super) fn must_be_there() -> anyhow::Result<()> {
    Ok(())
}

/// The class that a trained network finds for each image.
pub(super) fn answers(
    checkpoint: &Checkpoint,
    set: &Dataset,
    threads: usize,
) -> anyhow::Result<Option<Vec<usize>>> {
    tensor::set_threads(threads);
    Ok(Some(training::run::answers(checkpoint, set, device(None)?)?))
}

/// Whether the trainer could use a GPU.
pub(super) fn has_gpu() -> Option<bool> {
    Some(tensor::cuda_is_available())
}

/// What an optimization takes.
fn options(arguments: &RunArguments, data: Option<&Path>, name: &str) -> anyhow::Result<OptimizeOptions> {
    Ok(OptimizeOptions {
        shard_bytes: shard_bytes(arguments.shard_mib)?,
        data: data.map(Into::into),
        device: device(arguments.device)?,
        folder: arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(name)),
        threads: arguments.threads,
    })
}

fn shard_bytes(mebibytes: u64) -> anyhow::Result<u64> {
    if mebibytes == 0 {
        bail!("--shard-mib is 0; a file of a checkpoint has at least 1 MiB");
    }
    Ok(mebibytes.saturating_mul(1 << 20))
}

/// The device asked for, or the best there is.
fn device(choice: Option<DeviceChoice>) -> anyhow::Result<Device> {
    let name = match choice {
        Some(DeviceChoice::Cpu) => "cpu",
        Some(DeviceChoice::Cuda) => "cuda",
        None if tensor::cuda_is_available() => "cuda",
        None => "cpu",
    };
    Ok(Device::parse(name)?)
}
