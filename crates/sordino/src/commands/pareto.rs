//! `sordino pareto RUN…`: the results no other beats, and one page of all of them beside the papers'.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use results::pareto::{Group, GroupReport, Point, groups, page};
use results::reproduce::PublishedPoint;
use results::{RecordError, ResultRecord, RunRecord, Setting, collect};

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
        let reports: Vec<_> = groups.iter().map(GroupReport::of).collect();
        return write_json(out, &reports);
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
    let (count, noun) = (group.points.len(), group.noun());
    let by_work = group.points.iter().filter(|point| point.on_multiply_adds_front).count();
    writeln!(
        out,
        "{}: {on_front} of {count} on the front (*) of accuracy against {noun}, {by_work} on that against multiply-adds (m)\n",
        group.title()
    )?;
    comparisons_table(group).write(out)?;
    for setting in group.settings() {
        writeln!(out, "\nmeasured with {setting}; on the front by online time (t), by bytes in all (b)\n")?;
        measured_table(group, &setting).write(out)?;
    }
    for line in group.seeds() {
        let (seeds, remarks) = (line.seeds.len(), line.remarks());
        let remarks = if remarks.is_empty() { remarks } else { format!("; {remarks}") };
        writeln!(
            out,
            "\n{}: {:.2}% on average over {seeds} seeds, deviation {:.2}{remarks}",
            line.title(),
            line.mean,
            line.deviation
        )?;
    }
    if let Some(versions) = group.versions_apart() {
        writeln!(out, "\nseveral versions of the protocol ({versions}): compare within one")?;
    }
    if group.unmeasured() > 0 {
        writeln!(
            out,
            "\n{} of {count} not measured in private (sordino bench private --record)",
            group.unmeasured()
        )?;
    }
    Ok(())
}

/// Accuracy against comparisons, ours beside the best that a paper prints for no more of them.
fn comparisons_table(group: &Group) -> Table {
    let (noun, papers) = (group.noun(), group.papers());
    let per_thousand = format!("per 1000 {noun}");
    let mut columns = vec!["<", "<network", noun];
    columns.extend(group.shares_signs().then_some("gated values"));
    columns.extend(["multiply-adds", "accuracy", "integers", &per_thousand]);
    columns.extend((!papers.is_empty()).then_some("<the papers' best for no more"));
    let mut table = Table::new(&columns);
    for point in &group.points {
        let (record, counts) = (&point.record, point.record.counts());
        let mut cells = vec![marks(point), record.title.clone(), grouped(counts.comparisons)];
        cells.extend(group.shares_signs().then(|| grouped(counts.gated_values)));
        cells.extend([
            short(record.macs),
            format!("{:.2}%", record.accuracy().0),
            integers(record),
            format!("{:.3}", record.compared.accuracy_per_thousand),
        ]);
        cells.extend((!papers.is_empty()).then(|| best_printed(&papers, counts.comparisons)));
        table.row(cells);
    }
    table
}

fn marks(point: &Point) -> String {
    let mark = |is_on: bool, mark: &str| if is_on { mark } else { " " }.to_owned();
    mark(point.on_front, "*") + &mark(point.on_multiply_adds_front, "m")
}

fn integers(record: &ResultRecord) -> String {
    let Some(accuracy) = record.integer_accuracy else { return "not measured".to_owned() };
    let images = record.integer_images.map_or_else(String::new, |images| format!(" of {}", grouped(images)));
    format!("{accuracy:.2}%{images}")
}

/// `72.65% (DeepReShape, 26.1K)`.
fn best_printed(papers: &[PublishedPoint], comparisons: u64) -> String {
    // Printed counts are rounded: 13.1K stands for 13,056.
    let fits =
        |point: &&PublishedPoint| point.instead.is_free() && point.relus <= comparisons + comparisons / 200;
    let fitting = papers.iter().filter(fits);
    let best = fitting.max_by(|one, other| one.accuracy.total_cmp(&other.accuracy));
    best.map_or_else(
        || "none".to_owned(),
        |best| format!("{}% ({}, {})", best.accuracy, best.paper, best.printed_relus),
    )
}

/// Accuracy against measured time and bytes, fastest first.
fn measured_table(group: &Group, setting: &Setting<'_>) -> Table {
    let mut measured: Vec<_> = group.measured(setting).collect();
    measured.sort_by(|one, other| one.1.online_s.total_cmp(&other.1.online_s));
    let mut table = Table::new(&["<", "<network", "accuracy", "online", "offline", "MB online", "MB in all"]);
    let megabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
    for (point, timing, front) in measured {
        let mark = |is_on: bool, letter: &str| if is_on { letter } else { " " }.to_owned();
        table.row(vec![
            mark(front.online_time, "t") + &mark(front.total_bytes, "b"),
            point.record.title.clone(),
            format!("{:.2}%", point.record.accuracy().0),
            format!("{:.1} ms", 1e3 * timing.online_s),
            format!("{:.2} s", timing.offline_s),
            megabytes(timing.online_bytes),
            megabytes(timing.total_bytes()),
        ]);
    }
    table
}
