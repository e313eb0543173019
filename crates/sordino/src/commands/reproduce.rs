//! `sordino reproduce --list`: the papers' tables and figures that train, with what they print, what we measured, and what
//! they would cost. `sordino reproduce ID` trains one of them. `sordino reproduce --check` tries the models that ship.

mod check;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use recipes::data::DataKind;
use recipes::method::{Job, select};
use results::reproduce::{self, Entry, Measured, Paper, PublishedPoint, RowTraining, Way};
use serde::Serialize;

use super::optimize::RunArguments;
use super::slurm::{SlurmArguments, Submission, worker_flags};
use super::sweep::watch;
use super::{Answer, trainer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The table or figure, as --list names it.
    #[arg(conflicts_with = "list")]
    id: Option<String>,
    /// List all tables and figures; so does `sordino reproduce` alone.
    #[arg(long)]
    list: bool,
    /// Try every frozen model again and compare with what stands beside it; needs --data.
    #[arg(
        long,
        conflicts_with_all = [
            "id", "list", "row", "dry_run", "recipes", "teacher", "only", "watch", "slurm", "device", "out", "shard_mib"
        ]
    )]
    check: bool,
    /// For --check: the folder of the frozen models.
    #[arg(long, value_name = "DIR", default_value = "models", requires = "check")]
    models: PathBuf,
    /// For --check: records of results; those that name one of the models must say what it does [default: results beside
    /// the models, where that is].
    #[arg(long, value_name = "DIR", requires = "check")]
    records: Option<PathBuf>,
    /// For --check: so many test images, evenly over all of them [default: all].
    #[arg(long, value_name = "COUNT", requires = "check")]
    accuracy_images: Option<usize>,
    /// Only rows whose name contains this.
    #[arg(long, value_name = "TEXT")]
    row: Option<String>,
    /// Say what would be trained, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Write the recipes into this folder, and stop.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    recipes: Option<PathBuf>,
    /// The folder of the images.
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// The run or checkpoint of a teacher, or a frozen model [default: trained first, and kept in runs/].
    #[arg(long, value_name = "CHECKPOINT")]
    pub(super) teacher: Option<PathBuf>,
    /// Make this run or teacher alone, by the name of its folder; may be given several times.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dry_run", "recipes"])]
    only: Vec<String>,
    /// Show how far the runs are, from their folders alone, until all are done or failed.
    #[arg(long, conflicts_with_all = ["dry_run", "recipes", "slurm"])]
    watch: bool,
    #[command(flatten)]
    slurm: SlurmArguments,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

impl Arguments {
    /// Refuses what means something for one table alone.
    fn must_only_list(&self) -> anyhow::Result<()> {
        let Self {
            id: _,
            list: _,
            check: _,
            models: _,
            records: _,
            accuracy_images: _,
            row,
            dry_run,
            recipes,
            data,
            teacher,
            only,
            watch,
            slurm,
            run,
        } = self;
        slurm.must_submit()?;
        let is_given = [
            ("--row", row.is_some()),
            ("--dry-run", *dry_run),
            ("--recipes", recipes.is_some()),
            ("--data", data.is_some()),
            ("--teacher", teacher.is_some()),
            ("--only", !only.is_empty()),
            ("--watch", *watch),
            ("--slurm", slurm.slurm),
            ("--device", run.device.is_some()),
            ("--out", run.out.is_some()),
            ("--threads", run.threads.is_some()),
        ];
        match is_given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                bail!("{flag} needs a table or figure; `sordino reproduce --list` names them")
            }
            None => Ok(()),
        }
    }

    /// The same call for the jobs of a cluster.
    fn submission<'a>(&self, id: &str, folder: &'a Path) -> Submission<'a> {
        let mut worker: Vec<OsString> = vec!["reproduce".into(), id.into()];
        worker.extend(worker_flags(&self.run, folder, self.data.as_deref()));
        worker.extend(
            self.teacher.iter().flat_map(|teacher| ["--teacher".into(), teacher.clone().into_os_string()]),
        );
        Submission { name: id.to_owned(), folder, worker, json: self.run.json }
    }
}

/// What `--list --json` says.
#[derive(Serialize)]
struct ListReport<'a> {
    /// The tables and figures of the four papers.
    tables: Vec<EntryReport<'a>>,
    /// What other methods print.
    rivals: Vec<RivalReport>,
}

#[derive(Serialize)]
struct RivalReport {
    data: &'static str,
    #[serde(flatten)]
    point: PublishedPoint,
}

/// What `--json` says of a table or figure.
#[derive(Serialize)]
struct EntryReport<'a> {
    id: &'a str,
    paper: &'a str,
    place: &'a str,
    title: &'a str,
    data: &'static str,
    note: &'a str,
    /// Networks to train.
    networks: usize,
    /// Predicted, on one H200, without teachers.
    gpu_minutes: f64,
    /// Predicted for all its teachers.
    teacher_gpu_minutes: f64,
    /// Their names, each once.
    teachers: Vec<String>,
    runs: Vec<RunReport<'a>>,
}

#[derive(Serialize)]
struct RunReport<'a> {
    /// What `--only` calls it.
    run: String,
    row: &'a str,
    way: Way,
    network: &'a str,
    relus: u64,
    /// As the paper prints them.
    paper_relus: Option<&'a str>,
    macs: u64,
    /// In percent, as the paper prints it.
    paper_accuracy: Option<f64>,
    /// Seconds, as the paper prints them.
    paper_latency: Option<f64>,
    /// Of that, homomorphic encryption and garbled circuits, where they are printed apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_he_gc: Option<[f64; 2]>,
    /// Nothing where it was not run yet.
    ours: Option<Measured>,
    gpu_minutes: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if arguments.check {
        arguments.slurm.must_submit()?;
        let check = check::Check {
            models: &arguments.models,
            records: arguments.records.as_deref(),
            data: arguments.data.as_deref(),
            images: arguments.accuracy_images,
            threads: arguments.run.threads,
            json: arguments.run.json,
        };
        return check.run(out);
    }
    let Some(id) = &arguments.id else {
        arguments.must_only_list()?;
        return list(arguments.run.json, out);
    };
    let (paper, entry) = reproduce::find(id)?;
    let mut runs = entry.runs()?;
    if let Some(text) = &arguments.row {
        runs.retain(|run| run.row.row.contains(text));
    }
    if runs.is_empty() {
        bail!(
            "no row of {id} has {:?} in its name; --dry-run lists them",
            arguments.row.as_deref().unwrap_or("")
        );
    }
    if let Some(folder) = &arguments.recipes {
        return write_recipes(&runs, folder, out);
    }
    if arguments.dry_run {
        let report = report(paper, entry, &runs);
        return if arguments.run.json { write_json(out, &report) } else { write_rows(&report, out) };
    }
    let folder = arguments.run.out.clone().unwrap_or_else(|| Path::new("runs").join(&entry.id));
    let jobs = jobs(arguments, &runs, &folder);
    let selected = select(&jobs, &arguments.only, None)?;
    if arguments.watch {
        return watch::run(&selected, &folder, arguments.run.json, out);
    }
    if arguments.slurm.slurm {
        let submission = arguments.submission(&entry.id, &folder);
        return submission.submit(&selected, &arguments.slurm, out);
    }
    arguments.slurm.must_submit()?;
    trainer::reproduce(arguments, entry, &runs, &selected, out)
}

/// The trainings, each teacher once and before those whom it teaches.
fn jobs(arguments: &Arguments, runs: &[RowTraining<'_>], folder: &Path) -> Vec<Job> {
    let mut teachers: Vec<Job> = Vec::new();
    let mut rows = Vec::with_capacity(runs.len());
    for run in runs {
        let name = run_name(run);
        let mut job = Job {
            folder: folder.join(&name),
            name,
            recipe: run.recipe.clone(),
            needs: None,
            is_teacher: false,
        };
        if let (Some(section), Some((folder, teacher))) = (&mut job.recipe.teacher, &run.teacher) {
            if let Some(given) = &arguments.teacher {
                section.checkpoint.clone_from(given);
            } else {
                let name = teacher_name(folder);
                job.needs = Some(name.clone());
                if !teachers.iter().any(|known| known.name == name) {
                    teachers.push(Job {
                        name,
                        folder: folder.clone(),
                        recipe: teacher.clone(),
                        needs: None,
                        is_teacher: true,
                    });
                }
            }
        }
        rows.push(job);
    }
    teachers.into_iter().chain(rows).collect()
}

fn list(json: bool, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let mut reports = Vec::new();
    for (paper, entry) in reproduce::entries() {
        reports.push(report(paper, entry, &entry.runs()?));
    }
    if json {
        let rivals = rivals().map(|(data, point)| RivalReport { data: data.name(), point }).collect();
        return write_json(out, &ListReport { tables: reports, rivals });
    }
    let mut table = Table::new(&[
        "<table or figure",
        "<where",
        "<what",
        "<data",
        "networks",
        "GPU minutes",
        "<paper's best",
        "<ours",
    ]);
    for report in &reports {
        table.row(vec![
            report.id.to_owned(),
            format!("{}, {}", report.paper, report.place),
            report.title.to_owned(),
            report.data.to_owned(),
            report.networks.to_string(),
            format!("{:.0}", report.gpu_minutes.ceil()),
            best_printed(report),
            ours(report),
        ]);
    }
    table.write(out)?;
    let total: f64 = reports.iter().map(|report| report.gpu_minutes).sum();
    writeln!(
        out,
        "\nmethods beside the four papers', as printed; they stand on the fronts of `sordino pareto`:"
    )?;
    let mut table = Table::new(&[
        "<method",
        "<printed in",
        "<network",
        "<data",
        "<ReLUs",
        "accuracy",
        "<dropped ReLUs are",
    ]);
    for (data, point) in rivals() {
        table.row(vec![
            point.paper,
            point.place,
            point.row,
            data.name().to_owned(),
            point.printed_relus,
            format!("{}%", point.accuracy),
            point.instead.words().to_owned(),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "SAFENet prints 67.5% and no ReLUs (SNL section 4), ReLUPruner's abstract differences alone; both have no point"
    )?;
    writeln!(out, "\n{}", PREDICTION)?;
    writeln!(
        out,
        "all of it: {:.0} hours on one H200; `sordino reproduce ID --dry-run` shows the rows",
        total / 60.0
    )?;
    Ok(Answer::Yes)
}

/// The points of other methods, with their data.
fn rivals() -> impl Iterator<Item = (DataKind, PublishedPoint)> {
    let sets = [DataKind::Cifar10, DataKind::Cifar100, DataKind::TinyImageNet];
    sets.into_iter().flat_map(|data| reproduce::rivals(data).map(move |point| (data, point)))
}

/// How minutes are predicted.
const PREDICTION: &str = "GPU minutes are predicted for one H200 in bf16 from two measured step times: 1.78 ms and, for 128 images, \
1.94 ms per\n10^9 multiply-adds of the student and a third of the teacher's; without teachers, which are trained once";

fn report<'a>(paper: &'a Paper, entry: &'a Entry, runs: &[RowTraining<'a>]) -> EntryReport<'a> {
    let mut teachers: Vec<(&Path, f64)> = Vec::new();
    for run in runs {
        if let Some((folder, _)) = &run.teacher
            && !teachers.iter().any(|(known, _)| known == folder)
        {
            teachers.push((folder, run.teacher_minutes));
        }
    }
    EntryReport {
        id: &entry.id,
        paper: &paper.paper,
        place: &entry.place,
        title: &entry.title,
        data: entry.data.name(),
        note: &entry.note,
        networks: runs.iter().map(|run| run.networks).sum(),
        gpu_minutes: runs.iter().map(|run| run.minutes).sum(),
        // The sum of nothing is -0.
        teacher_gpu_minutes: teachers.iter().fold(0.0, |sum, (_, minutes)| sum + minutes),
        teachers: teachers.iter().map(|(folder, _)| teacher_name(folder)).collect(),
        runs: runs
            .iter()
            .map(|run| RunReport {
                run: run_name(run),
                row: &run.row.row,
                way: run.way,
                network: &run.row.network.name,
                relus: run.relus,
                paper_relus: run.row.relus.as_ref().map(|printed| printed.text()),
                macs: run.macs,
                paper_accuracy: run.printed_accuracy,
                paper_latency: run.row.latency,
                paper_he_gc: run.row.he_gc,
                ours: run.ours.clone(),
                gpu_minutes: run.minutes,
            })
            .collect(),
    }
}

fn best_printed(report: &EntryReport<'_>) -> String {
    let printed = report.runs.iter().filter_map(|run| Some((run.paper_accuracy?, run.paper_relus)));
    match printed.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((accuracy, Some(relus))) => format!("{accuracy}% at {relus}"),
        Some((accuracy, None)) => format!("{accuracy}%"),
        None => "no printed value".to_owned(),
    }
}

fn ours(report: &EntryReport<'_>) -> String {
    let measured: Vec<_> = report.runs.iter().filter_map(|run| Some((run, run.ours.as_ref()?))).collect();
    let Some((run, ours)) = measured.iter().max_by(|a, b| a.1.accuracy.total_cmp(&b.1.accuracy)) else {
        return "not yet run".to_owned();
    };
    let printed =
        run.paper_accuracy.map_or_else(String::new, |printed| format!(" for the paper's {printed}%"));
    let (done, all) = (measured.len(), report.runs.len());
    format!("{}%{}{printed}, {done} of {all} runs", ours.accuracy, differs(ours))
}

fn differs(ours: &Measured) -> String {
    ours.differs.as_ref().map_or_else(String::new, |what| format!(" ({what})"))
}

fn write_rows(report: &EntryReport<'_>, out: &mut dyn Write) -> anyhow::Result<Answer> {
    writeln!(out, "{}, {}: {} ({})", report.paper, report.place, report.title, report.data)?;
    if !report.note.is_empty() {
        writeln!(out, "{}", report.note)?;
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        "<row",
        "<training",
        "ReLUs",
        "printed",
        "multiply-adds",
        "paper",
        "<ours",
        "GPU minutes",
        "<run",
    ]);
    for run in &report.runs {
        let percent = |accuracy: f64| format!("{accuracy:.2}%");
        let ours = run.ours.as_ref();
        table.row(vec![
            run.row.to_owned(),
            run.way.title().to_owned(),
            grouped(run.relus),
            run.paper_relus.unwrap_or("").to_owned(),
            short(run.macs),
            run.paper_accuracy.map_or_else(String::new, percent),
            ours.map_or("not yet run".to_owned(), |ours| {
                let relus = ours.relus.map_or_else(String::new, |it| format!(" with {} ReLUs", grouped(it)));
                format!("{}{relus}{} by {}", percent(ours.accuracy), differs(ours), ours.recipe)
            }),
            format!("{:.1}", run.gpu_minutes),
            run.run.clone(),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "\n{} networks, {:.0} GPU minutes, and {:.0} for teachers where they are not there yet",
        report.networks, report.gpu_minutes, report.teacher_gpu_minutes
    )?;
    if !report.teachers.is_empty() {
        writeln!(out, "teachers: {}", report.teachers.join(", "))?;
    }
    writeln!(out, "--only takes the names of runs and teachers")?;
    Ok(Answer::Yes)
}

/// Writes each recipe once and names all files, also those that are there already; one that holds something else is refused
/// before anything is written.
fn write_recipes(runs: &[RowTraining<'_>], folder: &Path, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for run in runs {
        let teacher =
            run.teacher.iter().filter_map(|(at, recipe)| Some((folder.join(at.file_name()?), recipe)));
        for (path, recipe) in teacher.chain([(folder.join(run_name(run)), &run.recipe)]) {
            let file = (path.with_extension("toml"), recipe.to_toml());
            if !files.contains(&file) {
                must_be_free(&file.0, &file.1)?;
                files.push(file);
            }
        }
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (path, text) in files {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(Answer::Yes)
}

/// Refuses a file that is there and holds something else than what is to be written.
fn must_be_free(path: &Path, text: &str) -> anyhow::Result<()> {
    match std::fs::read(path) {
        Ok(there) if there != text.as_bytes() => bail!(
            "{} is there already and holds another recipe; expected a folder without it, or with the same recipe in it",
            path.display()
        ),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot read {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The name of a teacher: that of its folder.
fn teacher_name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a run's folder and file: letters, digits and dashes.
pub(super) fn run_name(run: &RowTraining<'_>) -> String {
    let text = format!("{} {}", run.row.row, run.way.title());
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let dashed: String = text.chars().map(plain).collect();
    let words: Vec<_> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_run_of_a_table_has_a_folder_for_itself() {
        for (_, entry) in reproduce::entries() {
            let mut names = BTreeSet::new();
            for run in entry.runs().unwrap() {
                let name = run_name(&run);
                assert!(names.insert(name.clone()), "{}: {name} twice", entry.id);
            }
        }
    }
}
