//! The last word of a party that goes no further: a code and what it is about for programs, a sentence for people, never
//! a secret.
//!
//! ```text
//! code u16 | sentence, without zeros | where it is about a stored inference: 0, its name (16)
//! ```

use std::fmt;

use crate::requests::StoredId;

/// Bytes of the longest sentence with what it is about.
const MAX_TEXT_BYTES: usize = 600;
/// Bytes of the longest refusal.
pub const MAX_BYTES: usize = 2 + MAX_TEXT_BYTES;
/// Bytes that say what it is about.
const SUBJECT_BYTES: usize = 17;

/// Why a party goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RefusalCode {
    /// Another version of the protocol.
    Version = 1,
    /// No model of that name.
    UnknownModel = 2,
    /// The server gives out something else than was asked for.
    Reveal = 3,
    /// The parties do not derive the same from the handshake.
    Difference = 4,
    /// Too many clients.
    Busy = 5,
    /// More was asked for than is given to one client.
    Limit = 6,
    /// A message made no sense.
    Malformed = 7,
    /// A prepared inference is unknown, spent, expired, or another client's.
    Spent = 8,
    /// This server stores no prepared inferences.
    NotStored = 9,
    /// The server is about to end.
    ShuttingDown = 10,
    /// The peer took too long.
    TimedOut = 11,
    /// A fault of the refusing party.
    Internal = 12,
    /// A request that is not allowed here.
    Order = 13,
    /// A code of a later version.
    Other = 0xffff,
}

impl RefusalCode {
    const ALL: [Self; 13] = [
        Self::Version,
        Self::UnknownModel,
        Self::Reveal,
        Self::Difference,
        Self::Busy,
        Self::Limit,
        Self::Malformed,
        Self::Spent,
        Self::NotStored,
        Self::ShuttingDown,
        Self::TimedOut,
        Self::Internal,
        Self::Order,
    ];
}

/// Why a party goes no further, as it tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub code: RefusalCode,
    subject: Option<StoredId>,
    text: String,
}

impl Refusal {
    /// A refusal with a sentence that says what to do. It is cut where it is too long.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Self { code, subject: None, text: cut(text.into(), MAX_TEXT_BYTES) }
    }

    /// A refusal that is about one stored inference.
    pub fn about(code: RefusalCode, subject: StoredId, text: impl Into<String>) -> Self {
        let text = cut(text.into(), MAX_TEXT_BYTES - SUBJECT_BYTES);
        Self { code, subject: Some(subject), text }
    }

    /// The stored inference it is about.
    pub fn subject(&self) -> Option<StoredId> {
        self.subject
    }

    /// For people.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&(self.code as u16).to_le_bytes()[..], self.text.as_bytes()].concat();
        if let Some(StoredId(name)) = self.subject {
            bytes.push(0);
            bytes.extend(name);
        }
        bytes
    }

    /// Reads whatever came: a refusal that makes no sense is still one. Control characters are replaced.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (number, rest) = bytes.split_at(bytes.len().min(2));
        let number = number.iter().rev().fold(0, |number, byte| number << 8 | u16::from(*byte));
        let code = RefusalCode::ALL.into_iter().find(|code| *code as u16 == number);
        let code = code.unwrap_or(RefusalCode::Other);
        match rest.split_last_chunk::<SUBJECT_BYTES>() {
            Some((text, [0, name @ ..])) if !text.contains(&0) => {
                Self::about(code, StoredId(*name), clean(text))
            }
            _ => Self::new(code, clean(rest)),
        }
    }
}

fn clean(text: &[u8]) -> String {
    let clean =
        |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    String::from_utf8_lossy(text).chars().map(clean).collect()
}

fn cut(mut text: String, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_back_and_garbage_is_a_refusal_too() {
        for code in RefusalCode::ALL {
            let refusal = Refusal::new(code, "the model is gone; ask the operator");
            assert_eq!(Refusal::from_bytes(&refusal.to_bytes()), refusal);
        }
        for garbage in [&[][..], &[1], &[0xff, 0xfe, 0xc0, 0x80], &[0xa5; 5000]] {
            let refusal = Refusal::from_bytes(garbage);
            assert!(refusal.text().len() <= MAX_TEXT_BYTES);
        }
        assert!(!Refusal::from_bytes(b"\x01\0ring \x07 \x1b[2J").text().contains(char::is_control));
    }

    #[test]
    fn long_sentences_are_cut_between_characters() {
        let long = "é".repeat(1000);
        let id = StoredId([0xa5; 16]);
        for refusal in
            [Refusal::new(RefusalCode::Internal, long.clone()), Refusal::about(RefusalCode::Spent, id, long)]
        {
            assert!(refusal.to_bytes().len() <= MAX_BYTES);
            assert_eq!(Refusal::from_bytes(&refusal.to_bytes()), refusal);
        }
    }

    #[test]
    fn what_it_is_about_is_not_read_out_of_the_sentence() {
        let id = StoredId(std::array::from_fn(|index| index as u8));
        let text = format!("prepared inference {id} is spent");
        let about = Refusal::about(RefusalCode::Spent, id, text.clone());
        assert_eq!(Refusal::from_bytes(&about.to_bytes()).subject(), Some(id));
        let plain = Refusal::new(RefusalCode::Spent, text);
        assert_eq!(Refusal::from_bytes(&plain.to_bytes()).subject(), None);
        let bytes = about.to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(Refusal::from_bytes(&bytes[..length]).subject(), None, "cut to {length}");
        }
        assert_eq!(Refusal::from_bytes(&[&bytes[..], &[7]].concat()).subject(), None, "one byte too many");
        let doubled = [&b"\x08\0a\0b"[..], &bytes[bytes.len() - SUBJECT_BYTES..]].concat();
        assert_eq!(Refusal::from_bytes(&doubled).subject(), None, "a sentence has no zeros");
    }
}
