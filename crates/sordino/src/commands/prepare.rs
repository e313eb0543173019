//! `sordino prepare --server ADDRESS -n COUNT -o FILE`: does the offline work of images that do not exist yet.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use crypto::secret::Secret;
use serde::Serialize;

use super::classify::ServerArguments;
use super::progress::OfflineProgress;
use super::{Answer, write_json};
use client::prepared_file::PreparedFile;
use client::seconds_now;
use sealed::keyring;
use sealed::secret_file::{KEY_BYTES, read_or_make_key};
use service::{identity, process_memory};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// How many inferences to prepare.
    #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT")]
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

/// What opens a file of prepared inferences.
#[derive(Debug, Args)]
pub(super) struct KeyArguments {
    /// The key that seals prepared inferences, made if there is none [default: prepared.key in Sordino's folder].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The same key from elsewhere: keyring:NAME is the kernel's keyring of this user, file:PATH a file.
    #[arg(long, value_name = "SOURCE", conflicts_with = "key_file")]
    key: Option<KeySource>,
}

/// Where a key comes from.
#[derive(Clone, Debug)]
enum KeySource {
    File(PathBuf),
    Keyring(String),
}

impl std::str::FromStr for KeySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("keyring", name)) => Ok(Self::Keyring(name.to_owned())),
            Some(("file", path)) => Ok(Self::File(path.into())),
            _ => Err(format!("{text:?} names no key; write keyring:NAME or file:PATH")),
        }
    }
}

impl KeyArguments {
    pub(super) fn key(&self) -> anyhow::Result<Secret<[u8; KEY_BYTES]>> {
        match (&self.key, &self.key_file) {
            (Some(KeySource::Keyring(name)), _) => return Ok(keyring::read_or_make_key(name)?),
            (Some(KeySource::File(path)), _) | (None, Some(path)) => return Ok(read_or_make_key(path)?),
            (None, None) => {}
        }
        let folder = identity::default_state_folder()
            .context("there is no folder for a key; name a file with --key-file")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(read_or_make_key(&folder.join("prepared.key"))?)
    }
}

#[derive(Serialize)]
struct Report {
    file: PathBuf,
    model: String,
    prepared: u32,
    file_bytes: u64,
    bytes_each: u64,
    wall_s: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    process_memory::protect();
    let key = arguments.key.key()?;
    let mut client = arguments.server.connect()?;
    let description = client.describe_file(&arguments.server.server)?;
    let plan = std::sync::Arc::clone(client.session_mut().plan());
    let mut file = PreparedFile::create(&arguments.output, key, description, &plan, arguments.count)?;
    let progress = OfflineProgress::start_with_lines(&plan, arguments.count as usize);
    client.session_mut().watch(progress.watcher());
    let start = Instant::now();
    for number in 0..arguments.count {
        client.prepare_into(&mut file).with_context(|| {
            format!("{number} of {} inferences are in {}", arguments.count, arguments.output.display())
        })?;
    }
    progress.finish();
    let report = Report {
        file: arguments.output.clone(),
        model: client.model().to_owned(),
        prepared: file.remaining(seconds_now())?,
        file_bytes: std::fs::metadata(&arguments.output)?.len(),
        bytes_each: plan.kept_client_bytes()? as u64,
        wall_s: start.elapsed().as_secs_f64(),
    };
    client.finish()?;
    if arguments.json {
        return write_json(out, &report);
    }
    writeln!(
        out,
        "{} inferences of {} in {} ({:.1} MB each); classify IMAGE --prepared {} uses them",
        report.prepared,
        report.model,
        report.file.display(),
        report.bytes_each as f64 / 1e6,
        report.file.display()
    )?;
    Ok(Answer::Yes)
}
