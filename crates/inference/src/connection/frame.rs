//! The header in front of every message: whose it is, where it stands, how long it is.
//!
//! ```text
//! session tag [8] | inference tag [8] | step u32 | direction u8 | kind u8 | version u16 | length u64
//! ```
//!
//! The receiver knows every field beforehand (lengths follow from the plan, or have a limit) and compares all of them
//! before it reads the body. Before there is a session its tag is [`MAGIC`]. Steps count all frames of one
//! direction, so that a frame that was lost, repeated or moved is noticed by its number.

use std::fmt;

use super::Role;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// The version both parties must speak.
pub const PROTOCOL_VERSION: u16 = 5;
/// The session tag of the frames that come before the session.
pub const MAGIC: [u8; 8] = *b"SORDINO\0";

/// What the body of a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Nonces, outline, keys, base transfers.
    SetUp = 1,
    /// Ciphertexts of linear layers.
    Homomorphic = 2,
    /// Corrections of oblivious transfers.
    Transfer = 3,
    /// Garbled tables, labels and replies.
    Garbled = 4,
    /// Truncations at positions without ReLU.
    Truncation = 5,
    /// The image and the logits.
    Values = 6,
    /// What the client wants next, and what the server says to that.
    Service = 7,
    /// The peer goes no further, and why.
    Refusal = 8,
    /// Signs as shared bits, and values times them.
    Gates = 9,
}

/// One header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which session, or [`MAGIC`] before there is one.
    pub session: [u8; 8],
    /// Which inference; zeros for what concerns none.
    pub inference: [u8; 8],
    /// The number of the frame among those of its direction.
    pub step: u32,
    /// Who sent it.
    pub sender: Role,
    /// What the body carries.
    pub kind: FrameKind,
    /// The protocol's version.
    pub version: u16,
    /// Bytes of the body.
    pub length: u64,
}

impl Header {
    /// As it crosses the wire.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.session);
        bytes[8..16].copy_from_slice(&self.inference);
        bytes[16..20].copy_from_slice(&self.step.to_le_bytes());
        bytes[20] = direction(self.sender);
        bytes[21] = self.kind as u8;
        bytes[22..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The kind's number and the body's length, unchecked: for whoever looks at frames of its own side.
    pub fn kind_and_length(bytes: &[u8; HEADER_BYTES]) -> (u8, u64) {
        (bytes[21], bytes[24..].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Whether this is a refusal from before the session.
    pub(super) fn is_early_refusal(bytes: &[u8; HEADER_BYTES]) -> bool {
        bytes[..8] == MAGIC && bytes[21] == FrameKind::Refusal as u8
    }

    /// Reads a header that must be `expected` in all but kind and length, which must be allowed.
    ///
    /// # Errors
    /// With the first field that differs.
    pub fn check(
        bytes: &[u8; HEADER_BYTES],
        expected: &Self,
        length: LengthRule,
    ) -> Result<Self, FrameError> {
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let sender = expected.sender;
        if expected.session == MAGIC && bytes[..8] != MAGIC {
            // Version 1 had no frames; it began with its number and a nonce.
            return Err(match number(0..4) {
                1 => FrameError::Version { sender, expected: expected.version, came: 1 },
                _ => FrameError::Stranger { sender },
            });
        }
        let version = number(22..24);
        if expected.session == MAGIC && version != u64::from(expected.version) {
            return Err(FrameError::Version { sender, expected: expected.version, came: version as u16 });
        }
        let fields = [
            (Field::Session, word(expected.session), number(0..8)),
            (Field::Version, u64::from(expected.version), version),
            (Field::Direction, u64::from(direction(sender)), number(20..21)),
            (Field::Step, u64::from(expected.step), number(16..20)),
        ];
        let differs = |field, expected, came| FrameError::Differs { sender, field, expected, came };
        for (field, expected, came) in fields {
            if expected != came {
                return Err(differs(field, expected, came));
            }
        }
        let came = number(24..32);
        if bytes[21] == FrameKind::Refusal as u8 {
            let limit = super::refusal::MAX_BYTES as u64;
            let header = Self { kind: FrameKind::Refusal, length: came, ..*expected };
            return LengthRule::AtMost(limit).check(sender, came).map(|()| header);
        }
        if bytes[21] != expected.kind as u8 {
            return Err(differs(Field::Kind, u64::from(expected.kind as u8), u64::from(bytes[21])));
        }
        if bytes[8..16] != expected.inference {
            return Err(differs(Field::Inference, word(expected.inference), number(8..16)));
        }
        length.check(sender, came)?;
        Ok(Self { length: came, ..*expected })
    }
}

const fn word(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

const fn direction(sender: Role) -> u8 {
    match sender {
        Role::Client => 1,
        Role::Server => 2,
    }
}

/// Which lengths a body may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthRule {
    /// What the plan says.
    Exactly(u64),
    /// Up to a limit.
    AtMost(u64),
}

impl LengthRule {
    fn check(self, sender: Role, came: u64) -> Result<(), FrameError> {
        match self {
            Self::Exactly(expected) if came != expected => {
                Err(FrameError::Differs { sender, field: Field::Length, expected, came })
            }
            Self::AtMost(limit) if came > limit => Err(FrameError::TooLong { sender, limit, came }),
            _ => Ok(()),
        }
    }
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Which session.
    Session,
    /// Which inference.
    Inference,
    /// Which number.
    Step,
    /// Who sent it.
    Direction,
    /// What it carries.
    Kind,
    /// Which version.
    Version,
    /// How long it is.
    Length,
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Session => "session",
            Self::Inference => "inference",
            Self::Step => "number",
            Self::Direction => "direction",
            Self::Kind => "kind",
            Self::Version => "version",
            Self::Length => "length",
        })
    }
}

/// A frame that is not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Something else listens or calls there.
    #[error("the {sender} does not speak Sordino's protocol; check the address and the port")]
    Stranger {
        /// Who sent it.
        sender: Role,
    },
    /// Another version.
    #[error(
        "the {sender} speaks protocol version {came}, this program version {expected}; \
         install the same release on both sides"
    )]
    Version {
        /// Who sent it.
        sender: Role,
        /// Ours.
        expected: u16,
        /// The peer's.
        came: u16,
    },
    /// A field differs.
    #[error(
        "the {sender} sent a message with {field} {came:#x} where {expected:#x} was due: the {sender} is at fault, or \
         something between the parties lost, repeated or changed a message; connect again"
    )]
    Differs {
        /// Who sent it.
        sender: Role,
        /// Which field.
        field: Field,
        /// What was due.
        expected: u64,
        /// What came.
        came: u64,
    },
    /// A body without a planned length is too long.
    #[error("the {sender} announced a message of {came} bytes where at most {limit} are accepted")]
    TooLong {
        /// Who sent it.
        sender: Role,
        /// The most that is accepted.
        limit: u64,
        /// What it announced.
        came: u64,
    },
    /// Four billion frames.
    #[error("this session is too long; connect again")]
    Exhausted,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            session: [1; 8],
            inference: [2; 8],
            step: 7,
            sender: Role::Client,
            kind: FrameKind::Garbled,
            version: PROTOCOL_VERSION,
            length: 1000,
        }
    }

    #[test]
    fn a_header_passes_its_own_check() {
        let rule = LengthRule::Exactly(1000);
        assert_eq!(Header::check(&header().to_bytes(), &header(), rule), Ok(header()));
    }

    #[test]
    fn every_changed_bit_is_noticed_and_named() {
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = header().to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Header::check(&bytes, &header(), LengthRule::Exactly(1000)).unwrap_err();
            let expected = match bit / 8 {
                0..8 => Field::Session,
                8..16 => Field::Inference,
                16..20 => Field::Step,
                20 => Field::Direction,
                21 => Field::Kind,
                22..24 => Field::Version,
                _ => Field::Length,
            };
            assert!(
                matches!(error, FrameError::Differs { field, .. } if field == expected),
                "{bit}: {error}"
            );
        }
    }

    #[test]
    fn before_a_session_strangers_and_other_versions_are_told_apart() {
        let expected = Header { session: MAGIC, inference: [0; 8], step: 0, ..header() };
        let check = |bytes: [u8; HEADER_BYTES]| Header::check(&bytes, &expected, LengthRule::AtMost(2000));
        assert!(check(expected.to_bytes()).is_ok());
        let web = *b"GET / HTTP/1.1\r\nHost: localhost\r";
        assert_eq!(check(web), Err(FrameError::Stranger { sender: Role::Client }));
        let old = Header { version: 1, length: 9, ..expected };
        let error = FrameError::Version { sender: Role::Client, expected: PROTOCOL_VERSION, came: 1 };
        assert_eq!(check(old.to_bytes()), Err(error));
        let long = Header { length: 2001, ..expected };
        let error = FrameError::TooLong { sender: Role::Client, limit: 2000, came: 2001 };
        assert_eq!(check(long.to_bytes()), Err(error));
    }

    #[test]
    fn a_refusal_may_stand_where_anything_was_due_but_is_short() {
        let refusal = Header { kind: FrameKind::Refusal, length: 12, ..header() };
        let rule = LengthRule::Exactly(1000);
        assert_eq!(Header::check(&refusal.to_bytes(), &header(), rule), Ok(refusal));
        let long = Header { length: 1 << 30, ..refusal };
        assert!(matches!(Header::check(&long.to_bytes(), &header(), rule), Err(FrameError::TooLong { .. })));
    }
}
