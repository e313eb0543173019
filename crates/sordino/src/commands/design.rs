//! `sordino design`: networks for a ReLU budget by the papers' rules, without training.

mod capacity;
mod deepreduce;
mod hybrenet;
mod sphynx;

use std::io::Write;

use clap::{Args, Subcommand};

use super::Answer;
use super::budget::relu_count;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    method: Method,
}

#[derive(Debug, Subcommand)]
enum Method {
    /// Growth factors that put the ReLUs of all stages in criticality order (DeepReShape, Algorithm 1).
    Hybrenet(hybrenet::Arguments),
    /// The 5(D-1) culled, thinned and reshaped networks of DeepReDuce's pipeline.
    Deepreduce(deepreduce::Arguments),
    /// Channels and cells of a Sphynx network for a budget.
    Sphynx(sphynx::Arguments),
    /// Which of two layers should keep its ReLUs, by how many linear pieces are left (SNL, section 5).
    Capacity(capacity::Arguments),
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    match &arguments.method {
        Method::Hybrenet(arguments) => arguments.run(out),
        Method::Deepreduce(arguments) => arguments.run(out),
        Method::Sphynx(arguments) => arguments.run(out),
        Method::Capacity(arguments) => arguments.run(out),
    }
}
