//! The server's process, and a folder that goes away with it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use inference::connection::Fingerprint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use tempfile::TempDir;

use super::samples::ShippedModel;
use crate::commands::serve::Greeting;

/// How long the server may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of the server's log an error shows.
const LOG_LINES: usize = 10;

/// `sordino serve` with one model, on loopback, with an identity of its own that ends with it.
///
/// Its standard input is a pipe that only this process holds: however this process ends, the server notices and ends.
/// Signals that end this process remove the folder first.
pub(super) struct DemoServer {
    address: String,
    fingerprint: Fingerprint,
    folder: PathBuf,
    running: Arc<Mutex<Option<Running>>>,
    signals: Handle,
}

struct Running {
    child: Child,
    // Dropped, and so removed, after the child has ended.
    _folder: TempDir,
}

impl DemoServer {
    pub(super) fn start(model: &ShippedModel) -> anyhow::Result<Self> {
        // Caught from here on, so that nothing is left behind from here on.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let running = Arc::new(Mutex::new(None::<Running>));
        // Nobody else may enter it.
        let scratch = tempfile::Builder::new().prefix("sordino-demo-").tempdir();
        let scratch = scratch.context("cannot make a folder for temporary files")?;
        let folder = scratch.path().to_owned();
        let file = folder.join("model.sordino");
        fs::write(&file, &model.bytes).with_context(|| format!("cannot write {}", file.display()))?;
        let child = spawn(&model.name, &file, &folder)?;
        let mut running_now = Running { child, _folder: scratch };
        let output = running_now.child.stdout.take().context("the server's output was piped")?;
        *lock(&running) = Some(running_now);
        end_on_signal(signals, Arc::clone(&running));
        match Greeting::read(output, false) {
            Some(Greeting { address, fingerprint, .. }) => {
                Ok(Self { address: address.to_string(), fingerprint, folder, running, signals: handle })
            }
            None => {
                let log = last_lines(&folder);
                lock(&running).take();
                handle.close();
                bail!("the server ended before it was ready; its log:\n{log}")
            }
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The end of what the server said.
    pub(super) fn log(&self) -> String {
        last_lines(&self.folder)
    }

    /// Ends the server as its operator would, and waits for it.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        let Some(mut running) = lock(&self.running).take() else { return Ok(()) };
        running.child.stdin.take();
        let start = Instant::now();
        loop {
            match running.child.try_wait()? {
                Some(status) => {
                    ensure!(status.success(), "the server ended with {status}; its log:\n{}", self.log());
                    return Ok(());
                }
                None if start.elapsed() > PATIENCE => bail!("the server did not end when told to"),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        lock(&self.running).take();
        self.signals.close();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn end_on_signal(mut signals: Signals, running: Arc<Mutex<Option<Running>>>) {
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Held to the end: whoever sees the connection break waits here instead of reporting it.
            let mut running = lock(&running);
            running.take();
            std::process::exit(128 + signal);
        }
    });
}

fn spawn(name: &str, file: &Path, folder: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = Command::new(program);
    command.arg("serve").arg(format!("{name}={}", file.display()));
    command.args(["--listen", "127.0.0.1:0", "--store", "none", "--grace", "1", "--until-stdin-ends"]);
    command.arg("--state").arg(folder.join("state"));
    // A group of its own: Ctrl-C reaches this process, which then ends the other.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(File::create(folder.join("log"))?);
    command.spawn().context("cannot start the server's process")
}

fn last_lines(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn lock(running: &Mutex<Option<Running>>) -> std::sync::MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
