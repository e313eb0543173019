//! The bytes of a file of prepared inferences.

use std::ops::Range;
use std::path::Path;

use crypto::domain;
use crypto::secret::Secret;
use inference::requests::KeptId;
use inference::setup::hello::Agreement;

use super::error::{PreparedFileError, damaged};
use sealed::ClientToken;
use sealed::seal::{self, OVERHEAD};

/// The version of the format.
pub const FILE_VERSION: u32 = 1;
/// The most inferences in one file.
pub const MAX_SLOTS: u32 = 100_000;
/// The most bytes of one inference.
pub(super) const MAX_BODY: u64 = 1 << 36;
/// The longest description.
pub(super) const MAX_DESCRIPTION: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"SordFile";
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const SLOT_BYTES: usize = 96;
/// Where the sealed key stands in a slot.
pub(super) const SLOT_KEY: Range<usize> = 32..32 + OVERHEAD + 32;

/// What a file is for. Only the key's owner can read it.
#[derive(Debug)]
pub struct Description {
    /// The client's right to its inferences at the server.
    pub token: ClientToken,
    /// Where the server was.
    pub server: String,
    /// Which of its models.
    pub model: String,
    /// What both parties agreed on: the inferences fit this and nothing else.
    pub agreement: Agreement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) slots: u32,
    pub(super) body_bytes: u64,
    pub(super) file_id: [u8; 16],
    pub(super) description_bytes: u32,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FILE_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.file_id);
        bytes[40..44].copy_from_slice(&self.description_bytes.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(path: &Path, bytes: &[u8; HEADER_BYTES]) -> Result<Self, PreparedFileError> {
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

    pub(super) fn slot(&self, slot: u32) -> u64 {
        (HEADER_BYTES + self.description_bytes as usize + slot as usize * SLOT_BYTES) as u64
    }

    /// A body with its nonce and tag.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.body_bytes + OVERHEAD as u64
    }

    pub(super) fn body(&self, slot: u32) -> u64 {
        self.slot(self.slots) + u64::from(slot) * self.sealed_bytes()
    }
}

impl Description {
    pub(super) fn to_bytes(&self) -> Secret<Vec<u8>> {
        let room = 32 + Agreement::BYTES + 8 + self.server.len() + self.model.len();
        let mut bytes = Secret::new(Vec::with_capacity(room));
        bytes.expose_mut().extend_from_slice(self.token.expose());
        bytes.expose_mut().extend_from_slice(&self.agreement.to_bytes());
        for text in [&self.server, &self.model] {
            bytes.expose_mut().extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.expose_mut().extend_from_slice(text.as_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (token, rest) = bytes.split_first_chunk()?;
        let (agreement, mut rest) = rest.split_first_chunk::<{ Agreement::BYTES }>()?;
        let agreement = Agreement::from_bytes(agreement).ok()?;
        let mut text = || {
            let (length, others) = rest.split_first_chunk()?;
            let (text, others) = others.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = others;
            String::from_utf8(text.to_vec()).ok()
        };
        let (server, model) = (text()?, text()?);
        let token = ClientToken::from_bytes(*token);
        rest.is_empty().then_some(Self { token, server, model, agreement })
    }
}

/// Reads the description in a file's bytes, for whoever holds the key; the rest of the file is not looked at.
///
/// # Errors
/// When the bytes are no such file, or the key is another's.
pub(super) fn read_description(
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

pub(super) fn file_key(key: &Secret<[u8; 32]>, head: &Head) -> Secret<[u8; 32]> {
    seal::derive_key(domain::PREPARED_FILE, key.expose(), &head.file_id)
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: KeptId,
    pub(super) expires: u64,
    pub(super) sealed_key: Vec<u8>,
}

impl Slot {
    /// None where nothing is, or what is there is no slot.
    pub(super) fn from_bytes(bytes: &[u8; SLOT_BYTES]) -> Option<Self> {
        let is_sound =
            bytes[0] == 1 && bytes[1..8].iter().chain(&bytes[SLOT_KEY.end..]).all(|byte| *byte == 0);
        is_sound.then(|| Self {
            id: KeptId(*bytes[8..24].first_chunk().expect("as many bytes")),
            expires: u64::from_le_bytes(*bytes[24..32].first_chunk().expect("as many bytes")),
            sealed_key: bytes[SLOT_KEY].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let path = Path::new("file");
            let _ = read_description(path, &Secret::new([1; 32]), &bytes);
            let mut begun = Head { slots: 1, body_bytes: 1, file_id: [0; 16], description_bytes: 40 }.to_bytes().to_vec();
            begun.extend_from_slice(&bytes);
            prop_assert!(read_description(path, &Secret::new([1; 32]), &begun).is_err());
            if let Some(description) = Description::from_bytes(&bytes) {
                let written = description.to_bytes();
                prop_assert_eq!(written.expose(), &bytes);
            }
        }

        #[test]
        fn any_header_is_refused_or_written_the_same(
            slots in any::<u32>(), body_bytes in any::<u64>(), description_bytes in 0..100_000_u32,
        ) {
            let head = Head { slots, body_bytes, file_id: [3; 16], description_bytes };
            match Head::from_bytes(Path::new("file"), &head.to_bytes()) {
                Ok(read) => prop_assert_eq!(read, head),
                Err(error) => {
                    let is_damaged = matches!(error, PreparedFileError::Damaged { .. });
                    prop_assert!(is_damaged);
                }
            }
        }

        #[test]
        fn any_slot_is_empty_or_whole(bytes in prop::collection::vec(any::<u8>(), SLOT_BYTES)) {
            let mut bytes: [u8; SLOT_BYTES] = bytes.try_into().expect("as many bytes");
            let filled = Slot::from_bytes(&bytes).is_some();
            prop_assert_eq!(filled, bytes[0] == 1 && bytes[1..8] == [0; 7] && bytes[SLOT_KEY.end..] == [0; 4]);
            bytes[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            bytes[SLOT_KEY.end..].fill(0);
            prop_assert!(Slot::from_bytes(&bytes).is_some());
        }
    }
}
