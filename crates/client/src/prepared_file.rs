//! The client's halves of prepared inferences in a file: sealed, and destroyed one by one before use.
//!
//! ```text
//! magic 8 | version u32 | slots u32 | body length u64 | file id 16 | description length u32 | zeros 20     64 bytes
//! description, sealed: the client's token, what the server is and serves
//! slots, 96 bytes each: is filled u8 | zeros 7 | id 16 | expires u64 | a fresh key, sealed 60 | zeros 4
//! bodies, each sealed under its slot's key
//! ```
//!
//! A slot is overwritten and the disk asked to keep it so before its inference is used: without the slot's key the body
//! is noise. The room of the body is given back afterwards. A copy of the file opens the same inferences; the server,
//! which spends each id once, refuses the second use. One process at a time holds the file's lock.

mod error;
mod format;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crypto::random::Seed;
use crypto::secret::Secret;
use inference::client::PreparedClient;
use inference::plan::Plan;
use inference::requests::StoredId;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

pub use error::PreparedFileError;
use error::damaged;
pub use format::{Description, FILE_VERSION, MAX_SLOTS};
use format::{
    HEADER_BYTES, Head, MAX_BODY, MAX_DESCRIPTION, SLOT_BYTES, SLOT_KEY, Slot, file_key, read_description,
};

use sealed::seal::{self, OVERHEAD};
use sealed::secret_file::{create_private, expect_private, failing, sync_folder};

/// How often it is tried whether a file is free.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A prepared inference in the server's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its name.
    pub id: StoredId,
    /// When it goes, in seconds since 1970.
    pub expires: u64,
}

/// An open and locked file.
#[derive(Debug)]
pub struct PreparedFile {
    path: PathBuf,
    file: File,
    key: Secret<[u8; 32]>,
    head: Head,
    description: Description,
}

/// One inference that was taken out of a file and is no longer in it.
#[derive(Debug)]
pub struct Taken {
    /// Its name at the server.
    pub id: StoredId,
    /// The client's half.
    pub prepared: PreparedClient,
}

/// One inference of a file that is still in it. The file's lock keeps others from choosing it, too.
#[derive(Debug)]
pub struct Chosen {
    number: u32,
    slot: Slot,
}

impl Chosen {
    /// Its name at the server.
    pub fn id(&self) -> StoredId {
        self.slot.id
    }
}

impl PreparedFile {
    /// Makes a new file with room for so many inferences of this plan. A file that exists is not touched.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn create(
        path: &Path,
        key: Secret<[u8; 32]>,
        description: Description,
        plan: &Plan,
        slots: u32,
    ) -> Result<Self, PreparedFileError> {
        Self::create_with(path, key, description, plan.stored_client_bytes() as u64, slots)
    }

    /// Makes a new file with room for so many inferences of so many bytes.
    ///
    /// # Errors
    /// As [`PreparedFile::create`].
    pub fn create_with(
        path: &Path,
        key: Secret<[u8; 32]>,
        description: Description,
        body_bytes: u64,
        slots: u32,
    ) -> Result<Self, PreparedFileError> {
        let plain = description.to_bytes();
        if !(1..=MAX_SLOTS).contains(&slots)
            || plain.expose().len() > MAX_DESCRIPTION
            || body_bytes > MAX_BODY
        {
            return Err(damaged(path, "more than a file can hold was asked for"));
        }
        let file_id = *Seed::from_system()?.expose().first_chunk().expect("a seed is longer than an id");
        let description_bytes = (plain.expose().len() + OVERHEAD) as u32;
        let head = Head { slots, body_bytes, file_id, description_bytes };
        let sealed = seal::seal(&file_key(&key, &head), &head.to_bytes(), plain.expose())?;
        let file = create_private(path).map_err(failing("make", path))?;
        lock_within(&file, path, Duration::MAX, || {})?;
        let written = file
            .set_len(head.body(0))
            .and_then(|()| file.write_all_at(&sealed, HEADER_BYTES as u64))
            .and_then(|()| file.write_all_at(&head.to_bytes(), 0))
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_folder(path));
        written.map_err(failing("write", path))?;
        Ok(Self { path: path.to_owned(), file, key, head, description })
    }

    /// Opens a file and locks it against other processes. One that uses it is waited for without end.
    ///
    /// # Errors
    /// When others may read it, the key is another's, or it is damaged.
    pub fn open(path: &Path, key: Secret<[u8; 32]>) -> Result<Self, PreparedFileError> {
        Self::open_within(path, key, Duration::MAX, || {})
    }

    /// The same for who has so much patience alone; hears of it where another process uses the file.
    ///
    /// # Errors
    /// As [`PreparedFile::open`], and when the other process does not end in time.
    pub fn open_within(
        path: &Path,
        key: Secret<[u8; 32]>,
        patience: Duration,
        waiting: impl FnOnce(),
    ) -> Result<Self, PreparedFileError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failing("open", path))?;
        expect_ours(&file, path)?;
        lock_within(&file, path, patience, waiting)?;
        Self::read(file, path, key)
    }

    /// Opens a file only to look at it, also while another process uses it. What is seen may be old a moment later;
    /// nothing can be added or taken.
    ///
    /// # Errors
    /// As [`PreparedFile::open`].
    pub fn look(path: &Path, key: Secret<[u8; 32]>) -> Result<Self, PreparedFileError> {
        let file = File::open(path).map_err(failing("open", path))?;
        expect_ours(&file, path)?;
        Self::read(file, path, key)
    }

    /// Whether a file begins as one of these does. One that cannot be read does not.
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; HEADER_BYTES];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut start, 0));
        let is_other = |error| matches!(error, PreparedFileError::Magic { .. });
        read.is_ok() && !Head::from_bytes(path, &start).is_err_and(is_other)
    }

    fn read(file: File, path: &Path, key: Secret<[u8; 32]>) -> Result<Self, PreparedFileError> {
        let mut start = vec![0; HEADER_BYTES];
        file.read_exact_at(&mut start, 0).map_err(|_| PreparedFileError::Magic { path: path.to_owned() })?;
        let head = Head::from_bytes(path, start.first_chunk().expect("as many were read"))?;
        start.resize(HEADER_BYTES + head.description_bytes as usize, 0);
        let cut = |_| damaged(path, "it is cut off");
        file.read_exact_at(&mut start[HEADER_BYTES..], HEADER_BYTES as u64).map_err(cut)?;
        let description = read_description(path, &key, &start)?;
        let length = file.metadata().map_err(failing("look at", path))?.len();
        if length < head.body(0) {
            return Err(damaged(path, "it is cut off"));
        }
        Ok(Self { path: path.to_owned(), file, key, head, description })
    }

    /// What a file with room for so many inferences of this plan takes on disk when it is full.
    pub fn full_bytes(plan: &Plan, description: &Description, slots: u32) -> u64 {
        let description_bytes = (description.to_bytes().expose().len() + OVERHEAD) as u32;
        let body_bytes = plan.stored_client_bytes() as u64;
        let head = Head { slots, body_bytes, file_id: [0; 16], description_bytes };
        head.body(0).saturating_add(head.sealed_bytes().saturating_mul(u64::from(slots)))
    }

    /// Every inference that is in it, the expired ones included.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn entries(&self) -> Result<Vec<StoredEntry>, PreparedFileError> {
        let mut entries = Vec::new();
        for number in 0..self.head.slots {
            let slot = self.read_slot(number)?;
            entries.extend(slot.map(|slot| StoredEntry { id: slot.id, expires: slot.expires }));
        }
        Ok(entries)
    }

    /// Destroys every inference that is in it, durably, and removes the file.
    ///
    /// # Errors
    /// When it cannot be written or removed.
    pub fn remove(mut self) -> Result<(), PreparedFileError> {
        for number in 0..self.head.slots {
            if self.is_filled(number)? {
                self.destroy(number)?;
            }
        }
        let removed = std::fs::remove_file(&self.path).and_then(|()| sync_folder(&self.path));
        Ok(removed.map_err(failing("remove", &self.path))?)
    }

    /// What it is for.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// How many inferences are left that the server still knows at this time (seconds since 1970).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn remaining(&self, now: u64) -> Result<u32, PreparedFileError> {
        let mut count = 0;
        for number in 0..self.head.slots {
            count += u32::from(self.read_slot(number)?.is_some_and(|slot| slot.expires > now));
        }
        Ok(count)
    }

    /// Adds an inference; it is durable when this returns.
    ///
    /// # Errors
    /// When the file is full, the inference is another plan's, or the file cannot be written.
    pub fn add(
        &mut self,
        kept: StoredEntry,
        prepared: PreparedClient,
        plan: &Plan,
    ) -> Result<(), PreparedFileError> {
        self.add_bytes(kept, prepared.into_bytes(plan)?.expose())
    }

    /// Adds an inference as bytes; it is durable when this returns.
    ///
    /// # Errors
    /// As [`PreparedFile::add`].
    pub fn add_bytes(&mut self, kept: StoredEntry, plain: &[u8]) -> Result<(), PreparedFileError> {
        if plain.len() as u64 != self.head.body_bytes {
            return Err(damaged(&self.path, "this inference belongs to another model"));
        }
        let mut number = 0;
        while number < self.head.slots && self.is_filled(number)? {
            number += 1;
        }
        if number == self.head.slots {
            return Err(PreparedFileError::Full { path: self.path.clone(), slots: self.head.slots });
        }
        let body_key = Secret::new(*Seed::from_system()?.expose());
        let data = self.slot_data(number, &kept.id, kept.expires);
        let body = seal::seal(&body_key, &data, plain)?;
        let sealed_key = seal::seal(&file_key(&self.key, &self.head), &data, body_key.expose())?;
        let mut slot = [0; SLOT_BYTES];
        slot[0] = 1;
        slot[8..24].copy_from_slice(&kept.id.0);
        slot[24..32].copy_from_slice(&kept.expires.to_le_bytes());
        slot[SLOT_KEY].copy_from_slice(&sealed_key);
        let written = self
            .file
            .write_all_at(&body, self.head.body(number))
            .and_then(|()| self.file.sync_all())
            .and_then(|()| self.file.write_all_at(&slot, self.head.slot(number)))
            .and_then(|()| self.file.sync_all());
        Ok(written.map_err(failing("write", &self.path))?)
    }

    /// Chooses the inferences that expire first of those that last beyond `now` (seconds since 1970): so many, or all
    /// that are left. They stay in the file until [`PreparedFile::take`] or [`PreparedFile::discard`] is called.
    ///
    /// # Errors
    /// When none is left or the file cannot be read.
    pub fn choose(&self, now: u64, count: usize) -> Result<Vec<Chosen>, PreparedFileError> {
        let (mut lasting, mut expired) = (Vec::new(), 0);
        for number in 0..self.head.slots {
            match self.read_slot(number)? {
                None => {}
                Some(slot) if slot.expires <= now => expired += 1,
                Some(slot) => lasting.push((number, slot)),
            }
        }
        if lasting.is_empty() {
            return Err(PreparedFileError::Empty { path: self.path.clone(), expired });
        }
        lasting.sort_by_key(|(number, slot)| (slot.expires, *number));
        lasting.truncate(count);
        Ok(lasting.into_iter().map(|(number, slot)| Chosen { number, slot }).collect())
    }

    /// Takes a chosen inference out. When this returns it is destroyed in the file, durably.
    ///
    /// # Errors
    /// When it was changed, is another plan's, or the file cannot be written; it must not be used then, and is gone in all
    /// but the last case.
    pub fn take(&mut self, chosen: Chosen, plan: &Plan) -> Result<Taken, PreparedFileError> {
        let (id, bytes) = self.take_bytes(chosen)?;
        Ok(Taken { id, prepared: PreparedClient::from_bytes(plan, &bytes)? })
    }

    /// Destroys a chosen inference that is of no use any more.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn discard(&mut self, chosen: Chosen) -> Result<(), PreparedFileError> {
        self.destroy(chosen.number)
    }

    /// Takes the bytes of a chosen inference out. When this returns it is destroyed in the file, durably.
    ///
    /// # Errors
    /// As [`PreparedFile::take`].
    pub fn take_bytes(&mut self, chosen: Chosen) -> Result<(StoredId, Secret<Vec<u8>>), PreparedFileError> {
        let Chosen { number, slot } = chosen;
        let mut sealed = vec![0; self.head.sealed_bytes() as usize];
        let read = self.file.read_exact_at(&mut sealed, self.head.body(number));
        self.destroy(number)?;
        read.map_err(failing("read", &self.path))?;
        let data = self.slot_data(number, &slot.id, slot.expires);
        let changed = |_| damaged(&self.path, "an inference in it was changed");
        let key = seal::open(&file_key(&self.key, &self.head), &data, &slot.sealed_key).map_err(changed)?;
        let key =
            Secret::new(*key.expose().first_chunk().ok_or_else(|| damaged(&self.path, "a key is short"))?);
        Ok((slot.id, seal::open(&key, &data, &sealed).map_err(changed)?))
    }

    /// Overwrites the key of a slot durably, then gives the room of the body back.
    fn destroy(&mut self, number: u32) -> Result<(), PreparedFileError> {
        let zeros = [0; SLOT_BYTES];
        let written = self.file.write_all_at(&zeros, self.head.slot(number));
        written.and_then(|()| self.file.sync_all()).map_err(failing("write", &self.path))?;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Without its key the body is noise; not every file system gives room back, and none needs to.
        let _ = fallocate(&self.file, hole, self.head.body(number), self.head.sealed_bytes());
        Ok(())
    }

    fn is_filled(&self, number: u32) -> Result<bool, PreparedFileError> {
        Ok(self.read_slot(number)?.is_some())
    }

    fn read_slot(&self, number: u32) -> Result<Option<Slot>, PreparedFileError> {
        let mut bytes = [0; SLOT_BYTES];
        let read = self.file.read_exact_at(&mut bytes, self.head.slot(number));
        read.map_err(failing("read", &self.path))?;
        Ok(Slot::from_bytes(&bytes))
    }

    /// What a slot's key and body are bound to.
    fn slot_data(&self, number: u32, id: &StoredId, expires: u64) -> Vec<u8> {
        let head = self.head.to_bytes();
        let parts: [&[u8]; 5] = [
            &head,
            &self.description.agreement.to_bytes(),
            &number.to_le_bytes(),
            &id.0,
            &expires.to_le_bytes(),
        ];
        parts.concat()
    }
}

/// Refuses what is something else before it speaks of who may read it.
fn expect_ours(file: &File, path: &Path) -> Result<(), PreparedFileError> {
    if !PreparedFile::is_one(path) {
        return Err(PreparedFileError::Magic { path: path.to_owned() });
    }
    Ok(expect_private(file, path)?)
}

/// Waits until no other process holds the file, or patience ends.
fn lock_within(
    file: &File,
    path: &Path,
    patience: Duration,
    waiting: impl FnOnce(),
) -> Result<(), PreparedFileError> {
    let (start, mut waiting) = (Instant::now(), Some(waiting));
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            locked => return Ok(locked.map_err(|error| failing("lock", path)(io::Error::from(error)))?),
        }
        if let Some(waiting) = waiting.take() {
            waiting();
        }
        if start.elapsed() >= patience {
            return Err(PreparedFileError::InUse { path: path.to_owned(), seconds: patience.as_secs() });
        }
        thread::sleep(LOCK_PAUSE.min(patience));
    }
}
