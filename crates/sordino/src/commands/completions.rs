//! `sordino completions SHELL`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Answer, CommandLine};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell to complete for.
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), "sordino", &mut script);
    out.write_all(&script)?;
    Ok(Answer::Yes)
}
