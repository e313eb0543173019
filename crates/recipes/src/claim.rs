//! Who works in a folder: claims of which two workers never hold the same, on one machine or on a shared file system.
//!
//! ```text
//! runs/sweep/.claims/NAME.1.json   the first claim of runs/sweep/NAME: host, process, a beat that counts up
//! runs/sweep/.claims/NAME.2.json   the next one, after the first was released or its holder died
//! ```
//!
//! A claim is a file that is made where none was, which every file system does for one maker alone. The highest number
//! holds. A holder counts its beat up every few seconds. A worker that finds a claim judges whether the holder lives: by the
//! table of processes on the same machine, elsewhere by watching the beat with its own clock, so that clocks need not agree.
//! A dead holder's claim is followed by the next number. A holder that was only asleep finds that number and stops.

mod holder;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::file::{FileError, read_bytes, write_shared};

pub use holder::Holder;

/// Where claims and marks of failure lie, beside the folders they are about.
const FOLDER: &str = ".claims";
/// A claim is a few hundred bytes.
const MAX_FILE_BYTES: u64 = 1 << 16;

/// How often a holder counts up, and how long a beat may stand still before its holder counts as dead.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two beats.
    pub beat: Duration,
    /// Much longer than a beat, so that a slow file system kills nobody.
    pub lease: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { beat: Duration::from_secs(5), lease: Duration::from_secs(60) }
    }
}

/// What is known about whoever holds a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process is there, or its beat was seen to move.
    Alive,
    /// Its process is gone, its beat stands still for too long, or it let go.
    Gone,
    /// Not watched for long enough.
    Unknown,
}

/// What came of the wish to work in a folder.
#[derive(Debug)]
pub enum Attempt {
    /// Nobody else does.
    Taken(Claim),
    /// Somebody does.
    Held {
        /// Who; nothing where the claim was not written to its end yet.
        holder: Option<Holder>,
        /// Whether that is certain.
        life: Life,
    },
}

/// Looks at claims and remembers what it saw of them.
#[derive(Debug, Default)]
pub struct Claims {
    timing: Timing,
    seen: BTreeMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    bytes: Vec<u8>,
    since: Instant,
    has_moved: bool,
}

impl Claims {
    /// With other times than usual.
    pub fn with_timing(timing: Timing) -> Self {
        Self { timing, seen: BTreeMap::new() }
    }

    /// Tries to become the one who works in a folder, which need not exist yet.
    ///
    /// # Errors
    /// When claims cannot be read or written.
    pub fn take(&mut self, folder: &Path) -> Result<Attempt, FileError> {
        loop {
            let last = last_claim(folder)?;
            let number = match &last {
                None => 1,
                Some((number, path)) => match self.look(path)? {
                    (_, Life::Gone) => number + 1,
                    (holder, life) => return Ok(Attempt::Held { holder, life }),
                },
            };
            if let Some(claim) = Claim::make(folder, number, self.timing)? {
                return Ok(Attempt::Taken(claim));
            }
        }
    }

    /// Who holds the claim of a folder, if anybody does.
    ///
    /// # Errors
    /// When claims cannot be read.
    pub fn holder(&mut self, folder: &Path) -> Result<Option<(Option<Holder>, Life)>, FileError> {
        match last_claim(folder)? {
            None => Ok(None),
            Some((_, path)) => self.look(&path).map(Some),
        }
    }

    fn look(&mut self, path: &Path) -> Result<(Option<Holder>, Life), FileError> {
        let bytes = match read_bytes(path, MAX_FILE_BYTES) {
            // Whoever made the next claim removed it.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok((None, Life::Unknown)),
            bytes => bytes?,
        };
        let holder: Option<Holder> = serde_json::from_slice(&bytes).ok();
        let now = Instant::now();
        let seen = self.seen.entry(path.to_owned()).or_insert_with(|| Seen {
            bytes: bytes.clone(),
            since: now,
            has_moved: false,
        });
        if seen.bytes != bytes {
            *seen = Seen { bytes, since: now, has_moved: true };
        }
        let life = match &holder {
            Some(holder) if holder.released => Life::Gone,
            Some(holder) if holder.is_of_this_machine() && holder.is_running() => Life::Alive,
            Some(holder) if holder.is_of_this_machine() => Life::Gone,
            _ if now.duration_since(seen.since) >= self.timing.lease => Life::Gone,
            _ if seen.has_moved => Life::Alive,
            _ => Life::Unknown,
        };
        Ok((holder, life))
    }
}

/// The right to work in a folder, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    is_lost: Arc<AtomicBool>,
    holder: Arc<std::sync::Mutex<Holder>>,
    beating: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Claim {
    /// Makes the claim of a number, unless somebody else did.
    fn make(folder: &Path, number: u64, timing: Timing) -> Result<Option<Self>, FileError> {
        let path = path_of(folder, number);
        let parent = path.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(parent).map_err(FileError::on("make the folder", parent))?;
        let holder = Holder::of_this_process();
        match File::create_new(&path).and_then(|mut file| file.write_all(&holder.to_bytes())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made.map_err(FileError::on("write", &path))?,
        }
        // One who looked long ago may have made a number that others left behind.
        if last_claim(folder)?.is_some_and(|(last, _)| last > number) {
            fs::remove_file(&path).map_err(FileError::on("remove", &path))?;
            return Ok(None);
        }
        // The number before this one stays, so that nobody can make it again.
        for old in 1..number.saturating_sub(1) {
            let _ = fs::remove_file(path_of(folder, old));
        }
        let claim = Self { path, is_lost: Arc::default(), holder: Arc::new(holder.into()), beating: None };
        Ok(Some(claim.beat(folder.to_owned(), number, timing)))
    }

    fn beat(mut self, folder: PathBuf, number: u64, timing: Timing) -> Self {
        let (end, ended) = mpsc::channel();
        let (path, holder, is_lost) = (self.path.clone(), self.holder.clone(), self.is_lost.clone());
        let beats = thread::spawn(move || {
            while ended.recv_timeout(timing.beat) == Err(RecvTimeoutError::Timeout) {
                if last_claim(&folder).is_ok_and(|last| last.is_some_and(|(last, _)| last > number)) {
                    is_lost.store(true, Ordering::Relaxed);
                    return;
                }
                let mut holder = holder.lock().unwrap_or_else(PoisonError::into_inner);
                holder.beat += 1;
                // A disk that is full for a while costs beats; if it lasts, another worker takes over.
                let _ = write_shared(&path, holder.to_bytes());
            }
        });
        self.beating = Some((end, beats));
        self
    }

    /// Becomes true when this process was taken for dead.
    pub fn loss(&self) -> Arc<AtomicBool> {
        self.is_lost.clone()
    }

    /// Whether this process was taken for dead, and another one works in the folder now.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Claim {
    /// What cannot be written is found out by others: the process is gone, or its beat stands still.
    fn drop(&mut self) {
        if let Some((end, beats)) = self.beating.take() {
            drop(end);
            let _ = beats.join();
        }
        if !self.is_lost() {
            let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
            holder.released = true;
            let _ = write_shared(&self.path, holder.to_bytes());
        }
    }
}

/// Notes why the work in a folder failed.
///
/// # Errors
/// When that cannot be written.
pub fn mark_failed(folder: &Path, reason: &str) -> Result<(), FileError> {
    write_shared(&beside(folder, "failed.txt"), reason)
}

/// Why the work in a folder failed, where it did.
pub fn failure(folder: &Path) -> Option<String> {
    let bytes = read_bytes(&beside(folder, "failed.txt"), MAX_FILE_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Forgets that the work in a folder failed.
///
/// # Errors
/// When the mark cannot be removed.
pub fn clear_failure(folder: &Path) -> Result<(), FileError> {
    let path = beside(folder, "failed.txt");
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::on("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// The claim with the highest number.
fn last_claim(folder: &Path) -> Result<Option<(u64, PathBuf)>, FileError> {
    let any = path_of(folder, 1);
    let parent = any.parent().unwrap_or(Path::new(""));
    let failed = FileError::on("read", parent);
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(failed)?,
    };
    let prefix = format!("{}.", name_of(folder));
    let mut last = None;
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .and_then(|rest| rest.strip_suffix(".json"))
            .and_then(|number| number.parse::<u64>().ok());
        last = last.max(number);
    }
    Ok(last.map(|number| (number, path_of(folder, number))))
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    beside(folder, &format!("{number}.json"))
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let parent = folder.parent().unwrap_or(Path::new(""));
    parent.join(FOLDER).join(format!("{}.{ending}", name_of(folder)))
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(|| "here".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
