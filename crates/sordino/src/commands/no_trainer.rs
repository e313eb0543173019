//! In place of the trainer, where it was left out: its verbs say how to get it.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use recipes::checkpoint::Checkpoint;
use recipes::data::Dataset;
use recipes::method::{Job, preview};
use recipes::recipe::Recipe;
use results::reproduce::{Entry, RowTraining};

use super::bench::search as bench_search;
use super::bench::train as bench_train;
use super::optimize::CommonArguments;
use super::{Answer, evaluate, reproduce, sweep, train};

fn missing<T>() -> anyhow::Result<T> {
    Err(anyhow!(
        "this build has no trainer, so that it needs no libtorch; build one that has: scripts/libtorch && cargo install \
         --path crates/sordino --features training"
    ))
}

pub(super) fn train(arguments: &train::Arguments, _: &mut dyn Write) -> anyhow::Result<Answer> {
    // What cannot be done at all is said before what this build cannot do.
    arguments.recipes.iter().try_for_each(|path| Recipe::from_file(path).map(|_| ()))?;
    missing()
}

pub(super) fn evaluate(_: &evaluate::Arguments, _: &mut dyn Write) -> anyhow::Result<Answer> {
    missing()
}

pub(super) fn optimize(
    recipe: &Recipe,
    data: Option<&Path>,
    _: &CommonArguments,
    _: &mut dyn Write,
) -> anyhow::Result<Answer> {
    // What cannot be done at all is said before what this build cannot do.
    let set =
        recipes::data::open(&recipe.data.request(), data.or(recipe.data.directory.as_deref()))?.training;
    preview(recipe, set.shape, set.classes.len())?;
    missing()
}

pub(super) fn sweep(_: &sweep::Arguments, _: &[Job], _: &[Job], _: &mut dyn Write) -> anyhow::Result<Answer> {
    missing()
}

pub(super) fn sweep_of_workers(
    _: &sweep::Arguments,
    _: &[Job],
    _: &[Job],
    _: bool,
    _: &mut dyn Write,
) -> anyhow::Result<Answer> {
    missing()
}

pub(super) fn reproduce(
    _: &reproduce::Arguments,
    _: &Entry,
    _: &[RowTraining<'_>],
    _: &[Job],
    _: &mut dyn Write,
) -> anyhow::Result<Answer> {
    missing().context("--dry-run and --recipes DIR need no trainer")
}

pub(super) fn measure_step(_: &bench_train::Arguments) -> anyhow::Result<bench_train::StepReport> {
    missing()
}

pub(super) fn measure_search_step(_: &bench_search::Arguments) -> anyhow::Result<bench_search::StepReport> {
    missing()
}

/// The class that a trained network finds for each image; others must compute it here.
pub(super) fn answers(_: &Checkpoint, _: &Dataset, _: usize) -> anyhow::Result<Option<Vec<usize>>> {
    Ok(None)
}

/// Whether a job is done; asked where there is a trainer alone.
pub(super) fn is_done(_: &Job) -> bool {
    false
}

/// Says how to get the trainer.
pub(super) fn must_be_there() -> anyhow::Result<()> {
    missing()
}

/// Whether the trainer could use a GPU.
pub(super) fn has_gpu() -> Option<bool> {
    None
}
