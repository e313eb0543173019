//! `sordino pareto RUN…`: the results no other beats, and one page of all of them beside the papers'.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use results::pareto::{Group, groups, page};
use results::{RecordError, RunRecord, collect};

use super::{Answer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folders of runs or of sweeps, or files of records (records.json, record.json, front.json).
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write one HTML page, which needs nothing else.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let mut found: Vec<RunRecord> = Vec::new();
    for path in &arguments.runs {
        match collect(path) {
            Ok(records) => found.extend(records),
            // Of several folders, those without results are named and left out.
            Err(error @ RecordError::NoRuns { .. }) if arguments.runs.len() > 1 => {
                writeln!(std::io::stderr(), "left out: {error}")?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if found.is_empty() {
        anyhow::bail!("none of the {} folders holds a result", arguments.runs.len());
    }
    let groups = groups(found)?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, page(&groups)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        return write_json(out, &groups);
    }
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_group(group, out)?;
    }
    if let Some(path) = &arguments.output {
        writeln!(out, "\n{}", path.display())?;
    }
    Ok(Answer::Yes)
}

fn write_group(group: &Group, out: &mut dyn Write) -> anyhow::Result<()> {
    let on_front = group.points.iter().filter(|point| point.on_front).count();
    writeln!(out, "{}: {on_front} of {} on the front (*)\n", group.title(), group.points.len())?;
    let mut table = Table::new(&[
        "<",
        "<network",
        "ReLUs",
        "multiply-adds",
        "accuracy",
        "integers",
        "per 1000 ReLUs",
        "online",
        "offline",
        "<link",
    ]);
    let missing = || "not measured".to_owned();
    for point in &group.points {
        let record = &point.record;
        let timing = record.private.first();
        table.row(vec![
            if point.on_front { "*" } else { "" }.to_owned(),
            record.title.clone(),
            grouped(record.relus),
            short(record.macs),
            format!("{:.2}%", record.accuracy().0),
            record.integer_accuracy.map_or_else(missing, |accuracy| {
                let images = record
                    .integer_images
                    .map_or_else(String::new, |images| format!(" of {}", grouped(images)));
                format!("{accuracy:.2}%{images}")
            }),
            format!("{:.3}", record.accuracy_per_kilorelu),
            timing.map_or_else(missing, |timing| format!("{:.1} ms", 1e3 * timing.online_s)),
            timing.map_or_else(missing, |timing| format!("{:.2} s", timing.offline_s)),
            timing.map_or_else(String::new, |timing| timing.link.clone()),
        ]);
    }
    table.write(out)?;
    Ok(())
}
