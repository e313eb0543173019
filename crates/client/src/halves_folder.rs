//! Second halves of answers in a folder, so that a new session with a known model does without them.
//!
//! ```text
//! NAME.halves   BLAKE3 of what follows 32 | second halves of all layers, as the model's plan has them
//! ```
//!
//! The name hashes the server's fingerprint and the halves' id, so that no server can put anything in another one's place. Files
//! hold nothing about images. Whatever cannot be read, or is damaged, counts as absent; what cannot be written is not kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use inference::client::HalvesCache;
use inference::connection::Fingerprint;
use network::digest::{Digest, to_hex};

/// What the files of a folder may take; those that were not used for longest go first.
pub const MOST_BYTES: u64 = 1 << 30;
/// How the names of the files end.
const ENDING: &str = "halves";
/// How those of files end that are being written.
const DRAFT: &str = "draft";
/// A draft that nobody wrote to for so long was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The files of one server in a folder that all servers share.
#[derive(Clone, Debug)]
pub struct HalvesFolder {
    folder: PathBuf,
    server: Fingerprint,
    most_bytes: u64,
    unkept: Unkept,
}

/// Hears of something that could not be kept in a folder, and why.
pub type Unkept = fn(&Path, &io::Error);

impl HalvesFolder {
    /// Those of the server with this fingerprint. The folder is made when something is put there.
    pub fn new(folder: PathBuf, server: Fingerprint) -> Self {
        Self { folder, server, most_bytes: MOST_BYTES, unkept: |_, _| {} }
    }

    /// The same; this hears of what cannot be kept.
    pub fn telling(self, unkept: Unkept) -> Self {
        Self { unkept, ..self }
    }

    fn path(&self, id: &Digest) -> PathBuf {
        let name = Digest::of(&[&self.server.0[..], id.as_bytes()].concat());
        self.folder.join(to_hex(name.as_bytes())).with_extension(ENDING)
    }

    fn read(&self, id: &Digest) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(id))?;
        let mut digest = [0; Digest::BYTES];
        file.read_exact(&mut digest)?;
        let mut halves = Vec::new();
        file.take(self.most_bytes).read_to_end(&mut halves)?;
        match Digest::of(&halves) == Digest(digest) {
            true => Ok(halves),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn write(&self, id: &Digest, halves: &[u8]) -> io::Result<()> {
        make_private_folder(&self.folder)?;
        self.make_room(Digest::BYTES as u64 + halves.len() as u64)?;
        let path = self.path(id);
        // One for each process: the last to finish has the name.
        let draft = path.with_extension(format!("{}.{DRAFT}", std::process::id()));
        let written = write_private(&draft, &[Digest::of(halves).as_bytes(), halves]);
        let kept = written.and_then(|()| fs::rename(&draft, &path));
        if kept.is_err() {
            let _ = fs::remove_file(&draft);
        }
        kept
    }

    /// Removes abandoned drafts, and what was not used for longest until so many bytes fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.most_bytes {
            // Nothing has to go for what does not fit anyhow.
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let ending = path.extension().unwrap_or_default();
            let is_draft = ending == DRAFT;
            if !is_draft && ending != ENDING {
                continue;
            }
            // Another process may have removed it just now.
            let Ok(about) = fs::metadata(&path) else { continue };
            let used = about.modified()?;
            if !is_draft {
                files.push((used, about.len(), path));
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&path);
            }
        }
        files.sort();
        let mut all = bytes + files.iter().map(|(_, length, _)| length).sum::<u64>();
        for (_, length, path) in files {
            if all <= self.most_bytes {
                break;
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => all -= length,
            }
        }
        match all <= self.most_bytes {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

impl HalvesCache for HalvesFolder {
    fn get(&self, id: &Digest) -> Option<Vec<u8>> {
        let halves = self.read(id).ok()?;
        // So that what is used stays. A folder that is read alone serves, too.
        let file = File::open(self.path(id));
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
        Some(halves)
    }

    fn put(&self, id: &Digest, halves: &[u8]) {
        // What is not kept is fetched again.
        if let Err(error) = self.write(id, halves) {
            (self.unkept)(&self.folder, &error);
        }
    }
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_private(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(most_bytes: u64) -> (tempfile::TempDir, HalvesFolder) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("deep").join("halves");
        (home, HalvesFolder { most_bytes, ..HalvesFolder::new(folder, Fingerprint([1; 32])) })
    }

    fn id(number: u8) -> Digest {
        Digest([number; 32])
    }

    #[test]
    fn what_was_put_is_found_by_the_same_server_alone() {
        let (_home, ours) = folder(1 << 20);
        assert_eq!(ours.get(&id(1)), None);
        ours.put(&id(1), b"halves");
        ours.put(&id(2), b"");
        assert_eq!([1, 2].map(|number| ours.get(&id(number))), [Some(b"halves".to_vec()), Some(Vec::new())]);
        let theirs = HalvesFolder { server: Fingerprint([2; 32]), ..ours.clone() };
        assert_eq!(theirs.get(&id(1)), None);
        theirs.put(&id(1), b"others");
        assert_eq!(ours.get(&id(1)), Some(b"halves".to_vec()));
        let names: Vec<_> = fs::read_dir(&ours.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(names.len() == 3 && names.iter().all(|name| name.extension().unwrap() == ENDING));
    }

    #[test]
    fn damage_counts_as_absence_and_is_mended() {
        let (_home, ours) = folder(1 << 20);
        ours.put(&id(1), &[7; 100]);
        for damage in [vec![], vec![0; 31], vec![0; 132], [&[7; 100][..], &[0; 32]].concat()] {
            fs::write(ours.path(&id(1)), damage).unwrap();
            assert_eq!(ours.get(&id(1)), None);
        }
        ours.put(&id(1), &[8; 100]);
        assert_eq!(ours.get(&id(1)), Some(vec![8; 100]));
        // A folder that cannot be made: nothing is kept, and nothing fails.
        let nowhere = HalvesFolder { folder: ours.path(&id(1)).join("below a file"), ..ours };
        nowhere.put(&id(1), &[8; 100]);
        assert_eq!(nowhere.get(&id(1)), None);
        let telling = nowhere.telling(|folder, error| panic!("{}: {error}", folder.display()));
        std::panic::catch_unwind(|| telling.put(&id(1), &[8; 100])).unwrap_err();
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let (_home, ours) = folder(300);
        for number in [1, 2] {
            ours.put(&id(number), &[number; 100]);
            let file = File::open(ours.path(&id(number))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(100 - u64::from(number))).unwrap();
        }
        assert!(ours.get(&id(1)).is_some(), "it was used just now");
        ours.put(&id(3), &[3; 100]);
        assert_eq!([1, 2, 3].map(|number| ours.get(&id(number)).is_some()), [true, false, true]);
        ours.put(&id(4), &[4; 400]);
        assert_eq!(ours.get(&id(4)), None, "it is larger than all that may be kept");
        assert!(ours.get(&id(1)).is_some() && ours.get(&id(3)).is_some(), "nothing went for it");
    }

    #[test]
    fn drafts_of_killed_processes_go_and_those_of_others_stay() {
        let (_home, ours) = folder(1 << 20);
        ours.put(&id(1), b"halves");
        let draft = |process: u32| ours.path(&id(2)).with_extension(format!("{process}.{DRAFT}"));
        for (process, age) in [(1, ABANDONED * 2), (2, ABANDONED / 2)] {
            fs::write(draft(process), b"half of").unwrap();
            let file = OpenOptions::new().write(true).open(draft(process)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        ours.put(&id(3), b"halves");
        assert_eq!([1, 2].map(|process| draft(process).exists()), [false, true]);
        assert!(ours.get(&id(1)).is_some() && ours.get(&id(3)).is_some());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_the_files() {
        use std::os::unix::fs::PermissionsExt;
        let (_home, ours) = folder(1 << 20);
        ours.put(&id(1), b"halves");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&ours.folder), mode(&ours.path(&id(1)))), (0o700, 0o600));
    }
}
