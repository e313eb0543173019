//! The verbs of the command line, one per file.
//!
//! Results go to `out` (also as `--json`), progress and logs to stderr.

mod bench;
mod budget;
mod classify;
mod completions;
mod data;
mod demo;
mod design;
mod doctor;
mod evaluate;
mod freeze;
mod inspect;
mod interrupt;
mod link;
mod load;
mod man;
mod model;
mod optimize;
mod output;
mod pareto;
mod prepare;
mod prepared;
mod progress;
mod rates;
mod reach;
mod reduce;
mod report;
mod reproduce;
mod servant;
mod serve;
mod slurm;
mod sweep;
mod train;
#[cfg(feature = "training")]
mod trainer;
// The only door to libtorch: built without the trainer, its verbs say how to get it.
#[cfg(not(feature = "training"))]
#[path = "commands/no_trainer.rs"]
mod trainer;
mod trial;
mod verify;
mod web;
mod zoo;

use std::io::Write;
use std::num::NonZeroUsize;

use clap::{Parser, Subcommand};

/// Neural networks that are cheap to run in private, and the protocol that runs them.
#[derive(Debug, Parser)]
#[command(name = "sordino", version, about, max_term_width = 100, propagate_version = true)]
pub struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Classify photographs in private, with a server process and a client process on this machine.
    Demo(demo::Arguments),
    /// List the networks that have a name, with what they cost.
    Zoo(zoo::Arguments),
    /// Show what a network costs, before or after ReLUs are dropped.
    Inspect(inspect::Arguments),
    /// Find networks for a ReLU budget by the papers' rules, without training.
    Design(design::Arguments),
    /// Look at a folder of images to train on.
    Data(data::Arguments),
    /// Train a network by a recipe.
    Train(train::Arguments),
    /// Try a trained network on images that it did not learn from.
    Evaluate(evaluate::Arguments),
    /// Take ReLUs from a network by one of the papers' methods, and train what is left.
    Optimize(optimize::Arguments),
    /// Run many recipes that optimize networks, and keep the front of comparisons against accuracy.
    Sweep(sweep::Arguments),
    /// Show which results no other beats, and make one page of them beside the papers'.
    Pareto(pareto::Arguments),
    /// List or train what the papers' tables and figures show.
    Reproduce(reproduce::Arguments),
    /// Turn the logs of runs into one page with curves.
    Report(report::Arguments),
    /// Make a model file from a trained run, or from a network and its weights.
    Freeze(freeze::Arguments),
    /// Compare private inference with inference in the clear.
    Verify(verify::Arguments),
    /// Serve models to clients whose images it never sees.
    Serve(Box<serve::Arguments>),
    /// Write the page for browsers as files, for another host than the server.
    Web(web::Arguments),
    /// Do the offline work of images that do not exist yet, into a file.
    Prepare(Box<prepare::Arguments>),
    /// List or discard what was prepared.
    Prepared(prepared::Arguments),
    /// Ask a server about images it never sees.
    Classify(Box<classify::Arguments>),
    /// Measure private inference, both parties on this machine.
    Bench(bench::Arguments),
    /// Say what this machine has.
    Doctor(doctor::Arguments),
    /// Print shell completions.
    Completions(completions::Arguments),
    /// Print the manual page.
    Man(man::Arguments),
}

/// What a verb found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, or yes.
    Yes,
    /// The question has a negative answer.
    No,
}

impl CommandLine {
    /// Runs the verb.
    ///
    /// # Errors
    /// With everything the user needs to know to do better.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        match self.verb {
            Verb::Demo(arguments) => demo::run(&arguments, out),
            Verb::Zoo(arguments) => zoo::run(&arguments, out),
            Verb::Inspect(arguments) => inspect::run(&arguments, out),
            Verb::Design(arguments) => design::run(&arguments, out),
            Verb::Data(arguments) => data::run(&arguments, out),
            Verb::Train(arguments) => train::run(&arguments, out),
            Verb::Evaluate(arguments) => evaluate::run(&arguments, out),
            Verb::Optimize(arguments) => optimize::run(&arguments, out),
            Verb::Sweep(arguments) => sweep::run(&arguments, out),
            Verb::Pareto(arguments) => pareto::run(&arguments, out),
            Verb::Reproduce(arguments) => reproduce::run(&arguments, out),
            Verb::Report(arguments) => report::run(&arguments, out),
            Verb::Freeze(arguments) => freeze::run(&arguments, out),
            Verb::Verify(arguments) => verify::run(&arguments, out),
            Verb::Serve(arguments) => serve::run(&arguments, out),
            Verb::Web(arguments) => web::run(&arguments, out),
            Verb::Prepare(arguments) => prepare::run(&arguments, out),
            Verb::Prepared(arguments) => prepared::run(&arguments, out),
            Verb::Classify(arguments) => classify::run(&arguments, out),
            Verb::Bench(arguments) => bench::run(&arguments, out),
            Verb::Doctor(arguments) => doctor::run(&arguments, out),
            Verb::Completions(arguments) => completions::run(&arguments, out),
            Verb::Man(arguments) => man::run(&arguments, out),
        }
    }
}

/// A whole number from 1 on.
fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("expected a whole number from 1 on, came {text:?}"))
}

/// A number of threads, refused as everywhere.
fn threads(text: &str) -> Result<usize, String> {
    service::thread_count(text).map(NonZeroUsize::get)
}

/// Writes a value as JSON, one object, ended by a line break.
fn write_json(out: &mut dyn Write, value: &impl serde::Serialize) -> anyhow::Result<Answer> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(Answer::Yes)
}
