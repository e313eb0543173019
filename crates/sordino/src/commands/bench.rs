//! `sordino bench`: both parties as two processes over TLS on loopback, every byte and second accounted for.

mod load;
mod party;
mod private;
mod relay;
pub(super) mod search;
pub(super) mod train;

use std::io::Write;

use clap::{Args, Subcommand};

use super::Answer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run private inferences and report where bytes and time go.
    Private(Box<private::Arguments>),
    /// Let many clients come at once to one server and report how long they wait and what it holds.
    Load(Box<load::Arguments>),
    /// Measure a training step: forward, backward and optimizer.
    Train(train::Arguments),
    /// Measure a step of Sphynx's search of cells, and count its operations.
    Search(search::Arguments),
    /// The server's process of `bench private`.
    #[command(hide = true)]
    Server(party::Arguments),
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    match &arguments.what {
        What::Private(arguments) => private::run(arguments, out),
        What::Load(arguments) => load::run(arguments, out),
        What::Train(arguments) => train::run(arguments, out),
        What::Search(arguments) => search::run(arguments, out),
        What::Server(arguments) => party::run(arguments, out),
    }
}
