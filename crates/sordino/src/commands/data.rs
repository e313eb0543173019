//! `sordino data check DIR`: what a folder holds, what is wrong with it, where the official release comes from.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use recipes::data::{DataKind, Finding, survey};
use serde::Serialize;

use super::{Answer, write_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say what a folder holds and whether a run can use it.
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    /// CIFAR-10 or CIFAR-100 (binary or python release), Tiny ImageNet, or class folders with images.
    directory: PathBuf,
    /// Resize the images of class folders to this side [default: 32].
    #[arg(long, value_name = "PIXELS")]
    side: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    set: Option<DataKind>,
    usable: bool,
    found: Vec<String>,
    notes: Vec<String>,
    faults: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let Verb::Check(check) = &arguments.verb;
    let survey = survey(&check.directory, check.side);
    let answer = if survey.is_usable() { Answer::Yes } else { Answer::No };
    if check.json {
        let mut report = Report {
            set: survey.kind,
            usable: survey.is_usable(),
            found: vec![],
            notes: vec![],
            faults: vec![],
        };
        for finding in survey.findings {
            match finding {
                Finding::Good(text) => report.found.push(text),
                Finding::Odd(text) => report.notes.push(text),
                Finding::Wrong(text) => report.faults.push(text),
            }
        }
        write_json(out, &report)?;
        return Ok(answer);
    }
    writeln!(out, "{}", check.directory.display())?;
    for finding in &survey.findings {
        match finding {
            Finding::Good(text) => writeln!(out, "  found  {text}")?,
            Finding::Odd(text) => writeln!(out, "  note   {text}")?,
            Finding::Wrong(text) => writeln!(out, "  wrong  {text}")?,
        }
    }
    if let (Some(kind), Answer::Yes) = (survey.kind, answer) {
        let name = serde_json::to_value(kind)?;
        writeln!(out, "usable: a recipe says [data] set = {name}, and --data {}", check.directory.display())?;
    }
    Ok(answer)
}
