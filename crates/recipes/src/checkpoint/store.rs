//! Folders of checkpoints: written under a hidden name, brought to disk, then renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{CheckpointError, FileEntry, Manifest};
use crate::file::{FileError, read_bytes};

/// The file that describes a checkpoint.
pub(super) const MANIFEST: &str = "state.json";
const FOLDER: &str = "checkpoints";
const PREFIX: &str = "epoch-";
/// Hidden names of folders that are being written or removed.
const WRITING: &str = ".writing-";
const REMOVING: &str = ".removing-";
/// The longest description; networks of the zoo need less than a hundredth.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Opens a new file for writing; tests put a full disk in its place.
pub(super) type Create = dyn Fn(&Path) -> io::Result<File>;

pub(super) fn create_file(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Writes the files of one checkpoint and removes older ones.
pub(super) fn write(
    run: &Path,
    epoch: u32,
    files: &[(String, Vec<u8>)],
    create: &Create,
) -> Result<PathBuf, CheckpointError> {
    let parent = run.join(FOLDER);
    let hidden = parent.join(format!("{WRITING}{epoch:06}"));
    fs::create_dir_all(&parent).map_err(unwritable(&parent))?;
    remove_leftovers(run)?;
    write_files(&hidden, files, create).inspect_err(|_| {
        // Space that a failed attempt took is given back; the error that matters is the first one.
        let _ = fs::remove_dir_all(&hidden);
    })?;
    let named = parent.join(format!("{PREFIX}{epoch:06}"));
    name(&hidden, &named).and_then(|()| sync(&parent)).map_err(unwritable(&named))?;
    for (other, path) in list(&parent).map_err(unwritable(&parent))? {
        if other != epoch {
            remove(&path).map_err(unwritable(&path))?;
        }
    }
    Ok(named)
}

/// Gives a written folder its name; one that had the name before takes the hidden one in the same instant, and goes.
fn name(hidden: &Path, named: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    if !named.exists() {
        return fs::rename(hidden, named);
    }
    match renameat_with(CWD, hidden, CWD, named, RenameFlags::EXCHANGE) {
        Ok(()) => fs::remove_dir_all(hidden),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => replace(hidden, named),
        Err(error) => Err(error.into()),
    }
}

/// The same on file systems that cannot exchange two names, such as NFS. Who is killed between both names has neither.
fn replace(hidden: &Path, named: &Path) -> io::Result<()> {
    let old = removed_name(named);
    let _ = fs::remove_dir_all(&old);
    fs::rename(named, &old)?;
    fs::rename(hidden, named)?;
    fs::remove_dir_all(&old)
}

/// What to say when a checkpoint cannot be written.
fn unwritable(path: &Path) -> impl Fn(io::Error) -> FileError + Copy {
    let advice = "; the last good checkpoint of the run is untouched: free some space or choose another --out, then \
                  go on with --resume";
    move |source| FileError::on("write", path)(source).advise(advice)
}

fn write_files(folder: &Path, files: &[(String, Vec<u8>)], create: &Create) -> Result<(), FileError> {
    fs::create_dir(folder).map_err(unwritable(folder))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        let written = create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(unwritable(&path))?;
    }
    sync(folder).map_err(unwritable(folder))
}

/// Brings a folder's entries to disk.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Takes a folder's name away at once, then its files.
fn remove(folder: &Path) -> io::Result<()> {
    let hidden = removed_name(folder);
    let _ = fs::remove_dir_all(&hidden);
    fs::rename(folder, &hidden)?;
    fs::remove_dir_all(&hidden)
}

/// What a folder is called while it goes.
fn removed_name(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    folder.with_file_name(format!("{REMOVING}{name}"))
}

/// Removes what an interrupted write or removal left behind.
fn remove_leftovers(run: &Path) -> Result<(), CheckpointError> {
    let parent = run.join(FOLDER);
    let failed = unwritable(&parent);
    if !parent.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&parent).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(WRITING) || name.starts_with(REMOVING) {
            fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// The checkpoints of a run by epoch, oldest first.
fn list(parent: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|number| number.parse().ok());
        found.extend(number.map(|number: u32| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// The folder of a checkpoint: the one given, or the last one of the run given.
///
/// # Errors
/// When there is none.
pub fn find(path: &Path) -> Result<PathBuf, CheckpointError> {
    if path.join(MANIFEST).is_file() {
        return Ok(path.into());
    }
    for parent in [path.join(FOLDER), path.to_owned()] {
        let last = list(&parent).ok().and_then(|mut found| found.pop());
        if let Some((_, folder)) = last.filter(|(_, folder)| folder.join(MANIFEST).is_file()) {
            return Ok(folder);
        }
    }
    let runs = runs_in(path);
    match runs.is_empty() {
        true => Err(CheckpointError::None { path: path.into() }),
        false => Err(CheckpointError::OfRuns { path: path.into(), runs }),
    }
}

/// The runs that lie in a folder, as a result of `optimize` does.
fn runs_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|folder| folder.join(FOLDER).is_dir());
    let mut runs: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
    runs.sort_unstable();
    runs
}

/// Reads the description of a checkpoint.
pub(super) fn read_manifest(folder: &Path) -> Result<Manifest, CheckpointError> {
    let path = folder.join(MANIFEST);
    let bytes = read_bytes(&path, MAX_MANIFEST_BYTES)?;
    let damaged = |reason| CheckpointError::Damaged { path: path.clone(), reason };
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let (normalization, channels) = (&manifest.state.normalization, manifest.state.input.channels);
    match normalization.is_usable(channels) {
        true => Ok(manifest),
        false => {
            Err(damaged(format!("expected a mean and a deviation above 0 for each of {channels} channels")))
        }
    }
}

/// Reads a file and checks its length and digest.
pub(super) fn read_checked(folder: &Path, entry: &FileEntry) -> Result<Vec<u8>, CheckpointError> {
    let path = folder.join(&entry.name);
    let damaged = |reason: String| Err(CheckpointError::Damaged { path: path.clone(), reason });
    if entry.name.contains(['/', '\\']) || entry.name.starts_with('.') {
        return damaged("its name leads out of the checkpoint".to_owned());
    }
    // One byte more would show that it is longer.
    let bytes = read_bytes(&path, entry.bytes.saturating_add(1))?;
    if bytes.len() as u64 != entry.bytes {
        return damaged(format!("it has {} bytes instead of {}", bytes.len(), entry.bytes));
    }
    if blake3::hash(&bytes).to_hex().as_str() != entry.digest {
        return damaged("its digest is another one".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_the_place_of_another_also_without_an_exchange_of_names() {
        for place in [name, replace] {
            let scratch = tempfile::tempdir().unwrap();
            let [hidden, named] = [".writing-000003", "epoch-000003"].map(|name| scratch.path().join(name));
            for (folder, text) in [(&hidden, "new"), (&named, "old")] {
                fs::create_dir(folder).unwrap();
                fs::write(folder.join("file"), text).unwrap();
            }
            place(&hidden, &named).unwrap();
            assert_eq!(fs::read_to_string(named.join("file")).unwrap(), "new");
            assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing is left of the old one");
        }
    }
}
