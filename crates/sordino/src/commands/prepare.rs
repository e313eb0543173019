//! `sordino prepare --server ADDRESS -n COUNT -o FILE`: does the offline work of images that do not exist yet.

mod key;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;
use inference::plan::Plan;
use inference::requests::Room;
use serde::Serialize;

use super::interrupt::Interrupt;
use super::link::Link;
use super::progress::OfflineProgress;
use super::reach::ServerArguments;
use super::{Answer, write_json};
use crate::report::{counted, path_as_text, path_text};
use client::prepared_file::{Description, MAX_SLOTS, PreparedFile};
use client::{PrivateClient, seconds_now};
pub(super) use key::KeyArguments;
use service::{ByteSize, process_memory};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// How many inferences to prepare.
    #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SLOTS)))]
    count: u32,
    /// The file to make. One that exists is not touched.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    model: String,
    prepared: u32,
    file_bytes: u64,
    bytes_each: u64,
    wall_s: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    process_memory::protect();
    let key = arguments.key.key_or_new()?;
    let mut client = arguments.server.connect()?;
    let description = client.describe_file(&arguments.server.server)?;
    let plan = std::sync::Arc::clone(client.session_mut().plan());
    ask_before(arguments, &mut client, &description, &plan)?;
    let mut file = PreparedFile::create(&arguments.output, key, description, &plan, arguments.count)?;
    let progress = OfflineProgress::start_with_lines(&plan, arguments.count as usize);
    client.session_mut().watch(progress.watcher());
    let interrupt = Interrupt::listen(progress.speaker())?;
    let start = Instant::now();
    for number in 0..arguments.count {
        let prepared = interrupt.check().and_then(|()| Ok(client.prepare_into(&mut file)?));
        if let Err(error) = prepared {
            progress.finish();
            // A session that broke has no end to tell.
            let _ = client.finish();
            return Err(left_behind(arguments, file, number, arguments.server.explain(error)));
        }
    }
    progress.finish();
    let report = Report {
        file: arguments.output.clone(),
        model: client.model().to_owned(),
        prepared: file.remaining(seconds_now())?,
        file_bytes: std::fs::metadata(&arguments.output)?.len(),
        bytes_each: plan.stored_client_bytes() as u64,
        wall_s: start.elapsed().as_secs_f64(),
    };
    client.finish()?;
    if arguments.json {
        return write_json(out, &report);
    }
    writeln!(
        out,
        "{} of {} in {} ({:.1} MB each); classify IMAGE --prepared {} uses them",
        counted(report.prepared.into(), "inference"),
        report.model,
        path_text(&report.file),
        report.bytes_each as f64 / 1e6,
        path_text(&report.file)
    )?;
    Ok(Answer::Yes)
}

/// Says what it will take here and there, and refuses what cannot come to its end.
fn ask_before(
    arguments: &Arguments,
    client: &mut PrivateClient,
    description: &Description,
    plan: &Plan,
) -> anyhow::Result<()> {
    let (count, output) = (arguments.count, &arguments.output);
    // Whoever waited for hours would hear it at the end otherwise.
    ensure!(!output.exists(), "{} exists; one that exists is not touched, name another", output.display());
    let room = client
        .room()
        .with_context(|| format!("nothing can be prepared ahead at {}", arguments.server.server))?;
    let traffic = client.cost_on(Link::LOOPBACK.speed()).for_images(count.into()).offline;
    let crossing = traffic.bytes_up + traffic.bytes_down;
    let needed = PreparedFile::full_bytes(plan, description, count);
    let free = free_bytes(output)?;
    // Progress goes to stderr; nothing can be done when that is closed.
    let _ = writeln!(
        std::io::stderr(),
        "{}: {}, {} over the link, {} of disk here ({} free); the server has {} of yours, takes {} more, \
         each for {}",
        client.model(),
        counted(count.into(), "inference"),
        ByteSize(crossing),
        ByteSize(needed),
        ByteSize(free),
        room.stored,
        room.count,
        hours(room.lifetime),
    );
    expect_room(count, &room)?;
    if needed > free {
        bail!(
            "{} takes {} when it is full, and its disk has {} free; ask for fewer with -n, or name a file on another disk",
            output.display(),
            ByteSize(needed),
            ByteSize(free)
        );
    }
    Ok(())
}

fn expect_room(count: u32, room: &Room) -> anyhow::Result<()> {
    if u64::from(count) <= room.count {
        return Ok(());
    }
    bail!(
        "the server takes {} of yours, {count} were asked for; it has {} already: use or discard some \
         (sordino prepared discard), ask for fewer with -n, or wait: some expire, and an hour allows only so many",
        counted(room.count, "more inference"),
        room.stored
    )
}

/// What a new file beside this one may take.
fn free_bytes(file: &Path) -> anyhow::Result<u64> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// A time for people.
pub(super) fn hours(seconds: u64) -> String {
    if seconds < 2 * 3600 {
        format!("{} minutes", seconds.div_ceil(60))
    } else {
        format!("{} hours", seconds / 3600)
    }
}

/// A file without an inference is of no use to anybody; one with some can be used.
fn left_behind(arguments: &Arguments, file: PreparedFile, done: u32, error: anyhow::Error) -> anyhow::Error {
    let (count, path) = (counted(arguments.count.into(), "inference"), arguments.output.display());
    if done > 0 {
        return error.context(format!("{done} of {count} are in {path}, and can be used"));
    }
    match file.remove() {
        Ok(()) => error.context(format!("none of {count} was prepared; {path} was not made")),
        Err(_) => error.context(format!("none of {count} was prepared; {path} is empty, remove it")),
    }
}
