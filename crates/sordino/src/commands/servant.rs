//! A process of ours and its private folder, both gone when this process ends: by itself, by Ctrl-C, by a signal.
//!
//! The other process holds one end of a pipe as its standard input and ends when that does, so even `kill -9` of this one
//! leaves no process behind.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use tempfile::TempDir;

/// A folder that nobody else may enter, and the process that works there.
pub(super) struct Servant {
    folder: PathBuf,
    kept: Arc<Mutex<Kept>>,
    signals: Handle,
}

#[derive(Default)]
struct Kept {
    child: Option<Child>,
    // Removed after the child has ended.
    folder: Option<TempDir>,
}

impl Kept {
    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only where it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.folder.take();
    }
}

impl Servant {
    /// A new folder, in the system's own for temporary files. Signals are caught from here on, so that nothing is left
    /// behind from here on.
    pub(super) fn new(prefix: &str) -> anyhow::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let closed = Permissions::from_mode(0o700);
        let scratch = tempfile::Builder::new().prefix(prefix).permissions(closed).tempdir();
        let scratch = scratch.context("cannot make a folder for temporary files")?;
        let folder = scratch.path().to_owned();
        let kept = Arc::new(Mutex::new(Kept { child: None, folder: Some(scratch) }));
        thread::spawn({
            let kept = Arc::clone(&kept);
            move || {
                if let Some(signal) = signals.forever().next() {
                    // Held to the end: whoever sees the connection break waits here instead of reporting it.
                    let mut kept = lock(&kept);
                    kept.end();
                    std::process::exit(128 + signal);
                }
            }
        });
        Ok(Self { folder, kept, signals: handle })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the process. It must end when its standard input does.
    pub(super) fn start(&self, command: &mut Command) -> anyhow::Result<()> {
        // A group of its own: Ctrl-C reaches this process, which then ends the other.
        command.process_group(0).stdin(Stdio::piped());
        let mut kept = lock(&self.kept);
        kept.child = Some(command.spawn().context("cannot start the server's process")?);
        Ok(())
    }

    /// Does something with the process; with none where a signal ended it just now.
    pub(super) fn with_child<R>(&self, work: impl FnOnce(&mut Child) -> R) -> anyhow::Result<R> {
        let mut kept = lock(&self.kept);
        Ok(work(kept.child.as_mut().context("the server's process was started before")?))
    }

    /// Takes the process out, to wait for its end.
    pub(super) fn take_child(&self) -> Option<Child> {
        lock(&self.kept).child.take()
    }
}

impl Drop for Servant {
    fn drop(&mut self) {
        lock(&self.kept).end();
        self.signals.close();
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
