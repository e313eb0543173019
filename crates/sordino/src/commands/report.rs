//! `sordino report RUN…`: the logs of runs as one page with curves; a search of Sphynx as one of its own.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use recipes::log;
use results::report::{LoggedRun, SearchReport, page};

use super::Answer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folders of runs, or their log.jsonl files; or one folder of `optimize sphynx`, whose search is shown.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the folder of the first run].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if let [folder] = &arguments.runs[..]
        && let Some(search) = SearchReport::read(folder, &name(folder))?
    {
        return write(arguments, &search.page(), out);
    }
    let load = |path: &PathBuf| anyhow::Ok(LoggedRun { name: name(path), events: log::read(path)? });
    let runs = arguments.runs.iter().map(load).collect::<anyhow::Result<Vec<_>>>()?;
    write(arguments, &page(&runs), out)
}

fn write(arguments: &Arguments, page: &str, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let path = arguments.output.clone().unwrap_or_else(|| folder(&arguments.runs[0]).join("report.html"));
    std::fs::write(&path, page)
        .with_context(|| format!("cannot write {}; choose another place with --output", path.display()))?;
    writeln!(out, "{}", path.display())?;
    Ok(Answer::Yes)
}

/// The folder of a run or of its log.
fn folder(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) }
}

fn name(path: &Path) -> String {
    let folder = folder(path).canonicalize().unwrap_or_else(|_| folder(path).into());
    folder.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
