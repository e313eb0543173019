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

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crypto::domain;
use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;
use inference::client::PreparedClient;
use inference::kept::KeptError;
use inference::plan::Plan;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::seal::{self, OVERHEAD};
use super::secret_file::{SecretFileError, create_private, expect_private, failing, sync_folder};
use super::store::{ClientToken, Kept, PreparedId};

/// The version of the format.
pub const FILE_VERSION: u32 = 1;
/// The most inferences in one file.
pub const MAX_SLOTS: u32 = 100_000;
/// The most bytes of one inference.
const MAX_BODY: u64 = 1 << 36;
/// The longest description.
const MAX_DESCRIPTION: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"SordFile";
const HEADER_BYTES: usize = 64;
const SLOT_BYTES: usize = 96;
/// Where the sealed key stands in a slot.
const SLOT_KEY: std::ops::Range<usize> = 32..32 + OVERHEAD + 32;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PreparedFileError {
    /// The system or the file's mode.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// Something else.
    #[error("{} is no file of prepared inferences", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// Another version.
    #[error("{} has format version {came}, this program reads version {expected}; prepare again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Ours.
        expected: u32,
        /// Theirs.
        came: u32,
    },
    /// Cut off, or changed by someone without the key.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The wrong key.
    #[error("the key does not open {}: it is another file's, or the file was changed", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// Nothing left.
    #[error("no usable inference is left in {} ({expired} expired); prepare new ones", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// How many were too old.
        expired: u32,
    },
    /// More than the file was made for.
    #[error("all {slots} places of {} are filled", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// How many.
        slots: u32,
    },
    /// What was read back cannot be used.
    #[error("a prepared inference cannot be used")]
    Kept(#[from] KeptError),
    /// No randomness.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

/// What a file is for. Only the key's owner can read it.
#[derive(Debug)]
pub struct Description {
    /// The client's right to its inferences at the server.
    pub token: ClientToken,
    /// Where the server was.
    pub server: String,
    /// Which of its models.
    pub model: String,
    /// What the server said it serves: the inferences fit this and nothing else.
    pub commitment: [u8; 32],
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
    pub id: PreparedId,
    /// The client's half.
    pub prepared: PreparedClient,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    slots: u32,
    body_bytes: u64,
    file_id: [u8; 16],
    description_bytes: u32,
}

impl Head {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FILE_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.file_id);
        bytes[40..44].copy_from_slice(&self.description_bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(path: &Path, bytes: &[u8; HEADER_BYTES]) -> Result<Self, PreparedFileError> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..8] != MAGIC {
            return Err(PreparedFileError::Magic { path: path.to_owned() });
        }
        let (expected, came) = (FILE_VERSION, number(8));
        if came != expected {
            return Err(PreparedFileError::Version { path: path.to_owned(), expected, came });
        }
        let head = Self {
            slots: number(12),
            body_bytes: u64::from(number(16)) | u64::from(number(20)) << 32,
            file_id: *bytes[24..40].first_chunk().expect("as many bytes"),
            description_bytes: number(40),
        };
        let is_sound = (1..=MAX_SLOTS).contains(&head.slots)
            && head.body_bytes <= MAX_BODY
            && head.description_bytes as usize <= MAX_DESCRIPTION + OVERHEAD
            && bytes[44..].iter().all(|byte| *byte == 0);
        if is_sound { Ok(head) } else { Err(damaged(path, "its header makes no sense")) }
    }

    fn slot(&self, slot: u32) -> u64 {
        (HEADER_BYTES + self.description_bytes as usize + slot as usize * SLOT_BYTES) as u64
    }

    /// A body with its nonce and tag.
    fn sealed_bytes(&self) -> u64 {
        self.body_bytes + OVERHEAD as u64
    }

    fn body(&self, slot: u32) -> u64 {
        self.slot(self.slots) + u64::from(slot) * self.sealed_bytes()
    }
}

fn damaged(path: &Path, what: &'static str) -> PreparedFileError {
    PreparedFileError::Damaged { path: path.to_owned(), what }
}

impl Description {
    fn to_bytes(&self) -> Secret<Vec<u8>> {
        let room = 32 + 32 + 8 + self.server.len() + self.model.len();
        let mut bytes = Secret::new(Vec::with_capacity(room));
        bytes.expose_mut().extend_from_slice(self.token.expose());
        bytes.expose_mut().extend_from_slice(&self.commitment);
        for text in [&self.server, &self.model] {
            bytes.expose_mut().extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.expose_mut().extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (token, rest) = bytes.split_first_chunk()?;
        let (commitment, mut rest) = rest.split_first_chunk()?;
        let mut text = || {
            let (length, others) = rest.split_first_chunk()?;
            let (text, others) = others.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = others;
            String::from_utf8(text.to_vec()).ok()
        };
        let (server, model) = (text()?, text()?);
        let token = ClientToken::from_bytes(*token);
        rest.is_empty().then_some(Self { token, server, model, commitment: *commitment })
    }
}

/// Reads the description in a file's bytes, for whoever holds the key; the rest of the file is not looked at.
///
/// # Errors
/// When the bytes are no such file, or the key is another's.
pub fn read_description(
    path: &Path,
    key: &Secret<[u8; 32]>,
    bytes: &[u8],
) -> Result<Description, PreparedFileError> {
    let short = || damaged(path, "it is cut off");
    let (head_bytes, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let head = Head::from_bytes(path, head_bytes)?;
    let sealed = rest.get(..head.description_bytes as usize).ok_or_else(short)?;
    let opened = seal::open(&file_key(key, &head), head_bytes, sealed);
    let plain = opened.map_err(|_| PreparedFileError::Key { path: path.to_owned() })?;
    Description::from_bytes(plain.expose()).ok_or_else(|| damaged(path, "its description makes no sense"))
}

fn file_key(key: &Secret<[u8; 32]>, head: &Head) -> Secret<[u8; 32]> {
    seal::derive_key(domain::PREPARED_FILE, key.expose(), &head.file_id)
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
        Self::create_with(path, key, description, plan.kept_client_bytes()? as u64, slots)
    }

    fn create_with(
        path: &Path,
        key: Secret<[u8; 32]>,
        description: Description,
        body_bytes: u64,
        slots: u32,
    ) -> Result<Self, PreparedFileError> {
        let plain = description.to_bytes();
        if !(1..=MAX_SLOTS).contains(&slots) || plain.expose().len() > MAX_DESCRIPTION || body_bytes > MAX_BODY {
            return Err(damaged(path, "more than a file can hold was asked for"));
        }
        let file_id = *Seed::from_system()?.expose().first_chunk().expect("a seed is longer than an id");
        let description_bytes = (plain.expose().len() + OVERHEAD) as u32;
        let head = Head { slots, body_bytes, file_id, description_bytes };
        let sealed = seal::seal(&file_key(&key, &head), &head.to_bytes(), plain.expose())?;
        let file = create_private(path).map_err(failing("make", path))?;
        lock(&file, path)?;
        let written = file
            .set_len(head.body(0))
            .and_then(|()| file.write_all_at(&sealed, HEADER_BYTES as u64))
            .and_then(|()| file.write_all_at(&head.to_bytes(), 0))
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_folder(path));
        written.map_err(failing("write", path))?;
        Ok(Self { path: path.to_owned(), file, key, head, description })
    }

    /// Opens a file and locks it against other processes.
    ///
    /// # Errors
    /// When others may read it, the key is another's, or it is damaged.
    pub fn open(path: &Path, key: Secret<[u8; 32]>) -> Result<Self, PreparedFileError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failing("open", path))?;
        expect_private(&file, path)?;
        lock(&file, path)?;
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
    pub fn add(&mut self, kept: Kept, prepared: PreparedClient, plan: &Plan) -> Result<(), PreparedFileError> {
        self.add_bytes(kept, prepared.into_bytes(plan)?.expose())
    }

    fn add_bytes(&mut self, kept: Kept, plain: &[u8]) -> Result<(), PreparedFileError> {
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

    /// Takes the inference out that expires first of those that last beyond `now` (seconds since 1970). When this
    /// returns it is destroyed in the file, durably.
    ///
    /// # Errors
    /// When none is left, it was changed, or it is another plan's; what was taken is gone in any case.
    pub fn take(&mut self, now: u64, plan: &Plan) -> Result<Taken, PreparedFileError> {
        let (id, bytes) = self.take_bytes(now)?;
        Ok(Taken { id, prepared: PreparedClient::from_bytes(plan, &bytes)? })
    }

    fn take_bytes(&mut self, now: u64) -> Result<(PreparedId, Secret<Vec<u8>>), PreparedFileError> {
        let (mut first, mut expired) = (None::<(u32, Slot)>, 0);
        for number in 0..self.head.slots {
            let Some(slot) = self.read_slot(number)? else { continue };
            if slot.expires <= now {
                expired += 1;
            } else if first.as_ref().is_none_or(|(_, other)| slot.expires < other.expires) {
                first = Some((number, slot));
            }
        }
        let Some((number, slot)) = first else {
            return Err(PreparedFileError::Empty { path: self.path.clone(), expired });
        };
        let mut sealed = vec![0; self.head.sealed_bytes() as usize];
        let read = self.file.read_exact_at(&mut sealed, self.head.body(number));
        self.destroy(number)?;
        read.map_err(failing("read", &self.path))?;
        let data = self.slot_data(number, &slot.id, slot.expires);
        let changed = |_| damaged(&self.path, "an inference in it was changed");
        let key = seal::open(&file_key(&self.key, &self.head), &data, &slot.sealed_key).map_err(changed)?;
        let key = Secret::new(*key.expose().first_chunk().ok_or_else(|| damaged(&self.path, "a key is short"))?);
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
    fn slot_data(&self, number: u32, id: &PreparedId, expires: u64) -> Vec<u8> {
        let head = self.head.to_bytes();
        let parts: [&[u8]; 5] = [
            &head,
            &self.description.commitment,
            &number.to_le_bytes(),
            &id.0,
            &expires.to_le_bytes(),
        ];
        parts.concat()
    }
}

struct Slot {
    id: PreparedId,
    expires: u64,
    sealed_key: Vec<u8>,
}

impl Slot {
    /// None where nothing is, or what is there is no slot.
    fn from_bytes(bytes: &[u8; SLOT_BYTES]) -> Option<Self> {
        let is_sound = bytes[0] == 1 && bytes[1..8].iter().chain(&bytes[SLOT_KEY.end..]).all(|byte| *byte == 0);
        is_sound.then(|| Self {
            id: PreparedId(*bytes[8..24].first_chunk().expect("as many bytes")),
            expires: u64::from_le_bytes(*bytes[24..32].first_chunk().expect("as many bytes")),
            sealed_key: bytes[SLOT_KEY].to_vec(),
        })
    }
}

/// Waits until no other process holds the file.
fn lock(file: &File, path: &Path) -> Result<(), PreparedFileError> {
    let locked = flock(file, FlockOperation::LockExclusive);
    Ok(locked.map_err(|error| failing("lock", path)(io::Error::from(error)))?)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod testing;
