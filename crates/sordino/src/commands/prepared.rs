//! `sordino prepared list|discard`: what was prepared ahead and waits in files, and how to be rid of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use client::prepared_file::{PreparedFile, PreparedFileError, StoredEntry};
use client::seconds_now;
use network::text::with_causes;
use serde::Serialize;
use service::process_memory;

use super::prepare::{KeyArguments, hours};
use super::reach::ReachArguments;
use super::{Answer, write_json};
use crate::report::{Table, path_as_text, path_text, printable};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List files of prepared inferences and what is left in them.
    List(Box<ListArguments>),
    /// Destroy files of prepared inferences and have the server drop its halves, so that its quota is free at once.
    Discard(Box<DiscardArguments>),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Files made by `sordino prepare`, or folders of them.
    #[arg(value_name = "FILE", default_value = ".")]
    files: Vec<PathBuf>,
    /// Also ask this server, as HOST or HOST:PORT, what it still has of them.
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    #[command(flatten)]
    reach: ReachArguments,
    #[command(flatten)]
    key: KeyArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DiscardArguments {
    /// Files made by `sordino prepare`.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The server, as HOST or HOST:PORT [default: the one that the file was prepared with].
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    #[command(flatten)]
    reach: ReachArguments,
    /// Tell no server: its halves wait until they expire.
    #[arg(long, conflicts_with_all = ["server", "fingerprint", "ca"])]
    local_only: bool,
    #[command(flatten)]
    key: KeyArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    process_memory::protect();
    match &arguments.what {
        What::List(arguments) => list(arguments, out),
        What::Discard(arguments) => discard(arguments, out),
    }
}

/// One file, as `--json` lists it.
#[derive(Serialize)]
struct Listed {
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    #[serde(flatten)]
    found: Option<Found>,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What is in a file.
#[derive(Serialize)]
struct Found {
    server: String,
    model: String,
    /// Inferences that are in the file and have not expired.
    left: usize,
    expired: usize,
    /// Seconds until the first of those that are left expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_expires_s: Option<u64>,
    /// How many of those that are left the server has, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_server: Option<usize>,
    /// Bytes on disk.
    bytes: u64,
}

fn list(arguments: &ListArguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let paths = prepared_files(&arguments.files)?;
    let mut listed = Vec::new();
    for path in &paths {
        // One that cannot be read hides no other.
        let (found, error) = match look(arguments, path) {
            Ok(found) => (Some(found), None),
            Err(error) if error.is::<PreparedFileError>() => (None, Some(with_causes(error.as_ref()))),
            Err(error) => return Err(error),
        };
        listed.push(Listed { file: path.clone(), found, error });
    }
    if arguments.json {
        write_json(out, &listed)?;
    } else {
        table(&listed).write(out)?;
    }
    let is_whole = listed.iter().all(|file| file.error.is_none());
    Ok(if is_whole { Answer::Yes } else { Answer::No })
}

/// Looks at a file without a lock, so that nobody who uses it is waited for.
fn look(arguments: &ListArguments, path: &Path) -> anyhow::Result<Found> {
    let file = arguments.key.look(path)?;
    let now = seconds_now();
    let (left, expired): (Vec<_>, Vec<_>) =
        file.entries()?.into_iter().partition(|entry| entry.expires > now);
    let at_server = match &arguments.server {
        Some(server) => {
            let model = file.description().model.clone();
            let mut client = arguments.reach.connect_to_talk(server, &model)?;
            let ids = client.list_stored(&file)?;
            client.finish()?;
            Some(ids)
        }
        None => None,
    };
    let is_known = |entry: &&StoredEntry| at_server.as_ref().is_some_and(|ids| ids.contains(&entry.id));
    Ok(Found {
        server: file.description().server.clone(),
        model: file.description().model.clone(),
        left: left.len(),
        expired: expired.len(),
        first_expires_s: left.iter().map(|entry| entry.expires.saturating_sub(now)).min(),
        at_server: at_server.as_ref().map(|_| left.iter().filter(is_known).count()),
        bytes: disk_bytes(path)?,
    })
}

/// A row for each file; a last column where something is wrong with one.
fn table(listed: &[Listed]) -> Table {
    let mut columns =
        vec!["<file", "<server", "<model", "left", "expired", "first expires in", "at server", "MB"];
    let is_whole = listed.iter().all(|file| file.error.is_none());
    if !is_whole {
        columns.push("<error");
    }
    let mut table = Table::new(&columns);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for Listed { file, found, error } in listed {
        let cell = |of: &dyn Fn(&Found) -> String| or_dash(found.as_ref().map(of));
        let mut cells = vec![
            path_text(file),
            cell(&|found| found.server.clone()),
            cell(&|found| found.model.clone()),
            cell(&|found| found.left.to_string()),
            cell(&|found| found.expired.to_string()),
            cell(&|found| or_dash(found.first_expires_s.map(hours))),
            cell(&|found| or_dash(found.at_server.map(|count| count.to_string()))),
            cell(&|found| format!("{:.1}", found.bytes as f64 / 1e6)),
        ];
        if !is_whole {
            cells.push(error.as_deref().map(printable).unwrap_or_default());
        }
        table.row(cells);
    }
    table
}

/// One file that is gone, as `--json` says it.
#[derive(Serialize)]
struct Discarded {
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    /// Inferences that were in it.
    here: usize,
    /// Halves that the server dropped; none where it was not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_server: Option<u64>,
}

fn discard(arguments: &DiscardArguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let mut discarded = Vec::new();
    for path in &arguments.files {
        let file = arguments.key.open(path, arguments.reach.patience())?;
        let here = file.entries()?.len();
        // The server first: without the file nobody could tell it any more.
        let at_server = if arguments.local_only { None } else { Some(tell_server(arguments, &file, path)?) };
        file.remove()?;
        let gone = Discarded { file: path.clone(), here, at_server };
        if !arguments.json {
            let told = match at_server {
                Some(count) => format!("{count} at the server"),
                None => "the server's halves wait until they expire".to_owned(),
            };
            let here = match here {
                1 => "1 inference is".to_owned(),
                _ => format!("{here} inferences are"),
            };
            writeln!(out, "{}: {here} gone here, {told}", path_text(path))?;
            out.flush()?;
        }
        discarded.push(gone);
    }
    if arguments.json { write_json(out, &discarded) } else { Ok(Answer::Yes) }
}

fn tell_server(arguments: &DiscardArguments, file: &PreparedFile, path: &Path) -> anyhow::Result<u64> {
    let known = file.description();
    let server = arguments.server.as_ref().unwrap_or(&known.server);
    // Whichever model the server has under that name by now: the token is what counts.
    let told = arguments.reach.connect_to_talk(server, &known.model).and_then(|mut client| {
        let count = client.discard_stored(file)?;
        client.finish()?;
        Ok(count)
    });
    told.with_context(|| format!("{} is not touched; --local-only leaves the server out", path.display()))
}

/// Files as they were named; folders become the files of prepared inferences in them.
fn prepared_files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for path in named {
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut found: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file() && PreparedFile::is_one(path))
            .collect();
        found.sort();
        paths.extend(found);
    }
    if paths.is_empty() {
        bail!("no file of prepared inferences there; name one that `sordino prepare` made, or its folder");
    }
    Ok(paths)
}

/// What a file takes: the room of used inferences was given back.
fn disk_bytes(path: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok(file.blocks() * 512)
}
