//! `sordino data check DIR`: what a folder holds, what is wrong with it, where the official release comes from; and
//! `sordino data pack DIR`: a folder of images in a few large files.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use recipes::data::{DataKind, Finding, PackOptions, find, pack, survey};
use serde::Serialize;

use super::{Answer, write_json};
use crate::report::{counted, path_text, printable};

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
    /// The folder of the packed set. One that holds a packed set is not touched without --force.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace the packed set that is there.
    #[arg(long)]
    force: bool,
    /// Leave out files that are no usable images, and say so, with exit code 1.
    #[arg(long)]
    skip_bad: bool,
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
    let options = PackOptions {
        slice_bytes: arguments.slice_mib << 20,
        skips_bad: arguments.skip_bad,
        replaces: arguments.force,
    };
    let found = find(&arguments.directory)?;
    let packed = pack(&found, &arguments.output, options)?;
    let answer = if packed.left_out == 0 { Answer::Yes } else { Answer::No };
    if arguments.json {
        write_json(out, &packed)?;
        return Ok(answer);
    }
    writeln!(out, "{found}")?;
    writeln!(
        out,
        "{}: {} and {} in {}, {:.1} MB",
        path_text(&arguments.output),
        counted(packed.training as u64, "training image"),
        counted(packed.test as u64, "test image"),
        counted(packed.slices as u64, "file"),
        packed.bytes as f64 / 1e6
    )?;
    if packed.left_out > 0 {
        writeln!(out, "{} left out:", counted(packed.left_out as u64, "file"))?;
        packed.bad.iter().try_for_each(|line| writeln!(out, "  {}", printable(line)))?;
    }
    Ok(answer)
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
