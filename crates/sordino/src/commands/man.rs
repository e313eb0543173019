//! `sordino man`: the manual pages.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use super::{Answer, CommandLine};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Write one page per verb into this folder instead of printing the main page.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    match &arguments.dir {
        None => Man::new(CommandLine::command()).render(out)?,
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(CommandLine::command(), dir))
                .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
        }
    }
    Ok(Answer::Yes)
}
