//! The last word of a party that goes no further: a code for programs, a sentence for people, never a secret.

use std::fmt;

/// Bytes of the longest sentence.
const MAX_TEXT_BYTES: usize = 600;
/// Bytes of the longest refusal.
pub const MAX_BYTES: usize = 2 + MAX_TEXT_BYTES;

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
    /// This server keeps no prepared inferences.
    NotKept = 9,
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
        Self::NotKept,
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
    text: String,
}

impl Refusal {
    /// A refusal with a sentence that says what to do. It is cut where it is too long.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { code, text }
    }

    /// For people.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&(self.code as u16).to_le_bytes()[..], self.text.as_bytes()].concat()
    }

    /// Reads whatever came: a refusal that makes no sense is still one. Control characters are replaced.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (number, text) = bytes.split_at(bytes.len().min(2));
        let number = number.iter().rev().fold(0, |number, byte| number << 8 | u16::from(*byte));
        let known = RefusalCode::ALL.into_iter().find(|code| *code as u16 == number);
        let clean = |character: char| {
            if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
        };
        let text: String = String::from_utf8_lossy(text).chars().map(clean).collect();
        Self::new(known.unwrap_or(RefusalCode::Other), text)
    }
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
        let refusal = Refusal::new(RefusalCode::Internal, "é".repeat(1000));
        assert!(refusal.to_bytes().len() <= MAX_BYTES);
        assert_eq!(Refusal::from_bytes(&refusal.to_bytes()), refusal);
    }
}
