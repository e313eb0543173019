//! `sordino data check DIR`: what a folder holds, what is wrong with it, where the official release comes from; and
//! `sordino data pack DIR`: a folder of images in a few large files.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use recipes::data::{DataKind, Finding, kind_in_folders, pack, survey};
use serde::Serialize;

use super::{Answer, write_json};
use crate::report::grouped;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say what a folder holds and whether a run can use it.
    Check(Check),
    /// Write Tiny ImageNet or a folder of images into a few large files, which --data takes as it takes the folder.
    Pack(Pack),
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

#[derive(Debug, Args)]
struct Pack {
    /// Tiny ImageNet, or class folders with images.
    directory: PathBuf,
    /// The folder of the packed set.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The largest file, in MiB.
    #[arg(long, value_name = "SIZE", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=4096))]
    slice_mib: u64,
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
    match &arguments.verb {
        Verb::Check(check) => run_check(check, out),
        Verb::Pack(pack) => run_pack(pack, out),
    }
}

fn run_pack(arguments: &Pack, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let kind = kind_in_folders(&arguments.directory);
    let packed = pack(kind, &arguments.directory, &arguments.output, arguments.slice_mib << 20)?;
    if arguments.json {
        return write_json(out, &packed);
    }
    writeln!(
        out,
        "{}: {} training and {} test images in {} files, {:.1} MB",
        arguments.output.display(),
        grouped(packed.training as u64),
        grouped(packed.test as u64),
        packed.slices,
        packed.bytes as f64 / 1e6
    )?;
    Ok(Answer::Yes)
}

fn run_check(check: &Check, out: &mut dyn Write) -> anyhow::Result<Answer> {
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
