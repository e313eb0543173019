//! The words of the handshake, as bytes. Names have a fixed room, so that lengths tell nothing.

use std::fmt;

use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::{Depth, TreeSums};
use network::bytes::{ByteReader, Truncated};
use network::digest::Digest;

use crate::conversation::Planned;
use crate::plan::{Plan, ReluRounding, Reveal, Terms};
use crate::transcript::Kind;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Room for a model's name.
pub const NAME_BYTES: usize = 64;

/// The name of a served model: up to 64 bytes, without control characters; empty where the client leaves the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelName(String);

impl ModelName {
    /// Checks a name.
    ///
    /// # Errors
    /// When it is too long or has control characters.
    pub fn new(name: &str) -> Result<Self, HelloError> {
        if name.len() > NAME_BYTES || name.contains(char::is_control) {
            return Err(HelloError::Name);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn to_bytes(&self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; NAME_BYTES]) -> Result<Self, HelloError> {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self::new(std::str::from_utf8(&bytes[..end]).map_err(|_| HelloError::Name)?)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// What it wants to learn; none leaves it to the server.
    pub wish: Option<Reveal>,
    /// How ReLUs are to round; none leaves it to the server.
    pub relus: Option<ReluRounding>,
    /// How deep the trees of transfers are to be; none leaves it to the server.
    pub depth: Option<Depth>,
    /// The model it wants.
    pub model: ModelName,
}

impl ClientHello {
    /// Its length.
    pub const BYTES: usize = NONCE_BYTES + 3 + NAME_BYTES;

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let wishes = [
            self.wish.map_or(ANY, reveal_byte),
            self.relus.map_or(ANY, relus_byte),
            self.depth.map_or(ANY, depth_byte),
        ];
        [&self.nonce[..], &wishes, &self.model.to_bytes()].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        let length = HelloError::Length { came: bytes.len() };
        let mut reader = ByteReader::new(bytes);
        let fields = (|| Ok::<_, Truncated>((reader.array()?, reader.array()?, reader.array()?)))();
        let (nonce, [wish, relus, depth], name) = fields.map_err(|_| length)?;
        if !reader.rest().is_empty() {
            return Err(length);
        }
        let wish = if wish == ANY { None } else { Some(reveal_of(wish)?) };
        let relus = if relus == ANY { None } else { Some(relus_of(relus)?) };
        let depth = if depth == ANY { None } else { Some(depth_of(depth)?) };
        Ok(Self { nonce, wish, relus, depth, model: ModelName::from_bytes(&name)? })
    }
}

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// What the client will learn, and how ReLUs round.
    pub terms: Terms,
    /// How deep the trees of transfers are.
    pub depth: Depth,
    /// The salted commitment to the weights.
    pub commitment: Digest,
    /// The model's name.
    pub model: ModelName,
    /// The outline.
    pub outline: Vec<u8>,
}

impl ServerHello {
    /// Its length without the outline.
    pub const BYTES: usize = NONCE_BYTES + 3 + Digest::BYTES + NAME_BYTES;

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let name = self.model.to_bytes();
        let depth = [depth_byte(self.depth)];
        [&self.nonce[..], &terms_bytes(self.terms), &depth, self.commitment.as_bytes(), &name, &self.outline]
            .concat()
    }

    /// Reads it; the outline is not looked at.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        let mut reader = ByteReader::new(bytes);
        let mut fields =
            || Ok::<_, Truncated>((reader.array()?, reader.array()?, reader.array()?, reader.array()?));
        let (nonce, [reveal, relus, depth], commitment, name) =
            fields().map_err(|_| HelloError::Length { came: bytes.len() })?;
        let terms = Terms { reveal: reveal_of(reveal)?, relus: relus_of(relus)? };
        let (depth, model) = (depth_of(depth)?, ModelName::from_bytes(&name)?);
        Ok(Self {
            nonce,
            terms,
            depth,
            commitment: Digest(commitment),
            model,
            outline: reader.rest().to_vec(),
        })
    }
}

/// What each side understood and derived; must be the same on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The digest of the outline.
    pub outline: Digest,
    /// The commitment to the weights.
    pub commitment: Digest,
    /// The digest of parameters and messages.
    pub plan: Digest,
}

impl Agreement {
    /// Its length.
    pub const BYTES: usize = 3 * Digest::BYTES;

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (room, digest) in bytes.as_chunks_mut().0.iter_mut().zip(self.digests()) {
            *room = digest.0;
        }
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        match bytes.as_chunks() {
            ([outline, commitment, plan], []) => {
                Ok(Self { outline: Digest(*outline), commitment: Digest(*commitment), plan: Digest(*plan) })
            }
            _ => Err(HelloError::Length { came: bytes.len() }),
        }
    }

    fn digests(&self) -> [Digest; 3] {
        [self.outline, self.commitment, self.plan]
    }

    /// What differs, in words, if anything does.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            (self.outline == other.outline, "the outline's digest"),
            (self.commitment == other.commitment, "the commitment to the weights"),
            (self.plan == other.plan, "the parameters and messages derived from the outline"),
        ];
        parts.into_iter().find(|(is_same, _)| !is_same).map(|(_, what)| what)
    }
}

/// The client's second message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Understood {
    /// What it understood and derived.
    pub agreement: Agreement,
    /// Whether it has the second halves of this model's answers; else they come with its first inference.
    pub has_halves: bool,
}

impl Understood {
    /// Its length.
    pub const BYTES: usize = Agreement::BYTES + 1;

    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.agreement.to_bytes()[..], &[u8::from(self.has_halves)]].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        let Some((flag, agreement)) = bytes.split_last() else {
            return Err(HelloError::Length { came: bytes.len() });
        };
        let agreement =
            Agreement::from_bytes(agreement).map_err(|_| HelloError::Length { came: bytes.len() })?;
        match flag {
            0 | 1 => Ok(Self { agreement, has_halves: *flag == 1 }),
            _ => Err(HelloError::Halves { came: *flag }),
        }
    }
}

/// The client leaves the choice to the server.
const ANY: u8 = 0xff;

/// How the server says what the client will learn, and how ReLUs round. It decides: a client that expects something else
/// hangs up.
pub(crate) const fn terms_bytes(terms: Terms) -> [u8; 2] {
    [reveal_byte(terms.reveal), relus_byte(terms.relus)]
}

/// The server says the depth too, and takes the client's wish.
pub(crate) const fn depth_byte(depth: Depth) -> u8 {
    depth.bits() as u8
}

fn depth_of(byte: u8) -> Result<Depth, HelloError> {
    Depth::from_bits(byte).ok_or(HelloError::Depth { came: byte })
}

const fn relus_byte(relus: ReluRounding) -> u8 {
    match relus {
        ReluRounding::Stochastic => 0,
        ReluRounding::Nearest => 1,
    }
}

const fn relus_of(byte: u8) -> Result<ReluRounding, HelloError> {
    match byte {
        0 => Ok(ReluRounding::Stochastic),
        1 => Ok(ReluRounding::Nearest),
        came => Err(HelloError::Relus { came }),
    }
}

const fn reveal_byte(reveal: Reveal) -> u8 {
    match reveal {
        Reveal::Logits => 0,
        Reveal::Class => 1,
    }
}

const fn reveal_of(byte: u8) -> Result<Reveal, HelloError> {
    match byte {
        0 => Ok(Reveal::Logits),
        1 => Ok(Reveal::Class),
        came => Err(HelloError::Reveal { came }),
    }
}

/// All messages of the set-up, in order.
pub(crate) fn list(plan: &Plan) -> Vec<Planned<(), ()>> {
    let up = |bytes| Planned::up((), Kind::SetUp, bytes);
    let down = |bytes| Planned::down((), Kind::SetUp, bytes);
    let outline = plan.outline().to_bytes().len();
    let mut list = vec![up(ClientHello::BYTES), down(ServerHello::BYTES + outline), up(Understood::BYTES)];
    list.extend([up(SenderPoint::BYTES), down(ReceiverPoints::BYTES)]);
    let reverses = plan.reverse_count() > 0;
    list.extend(reverses.then(|| down(SenderPoint::BYTES)));
    list.push(up(TreeSums::BYTES));
    list.extend(reverses.then(|| up(ReceiverPoints::BYTES)));
    list
}

/// A hello that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Too short or too long.
    #[error("the peer's hello has {came} bytes, which is no length of one")]
    Length {
        /// What came.
        came: usize,
    },
    /// An unknown mode.
    #[error("the peer names {came} as what the client is to learn; there are 0 (logits) and 1 (class)")]
    Reveal {
        /// What came.
        came: u8,
    },
    /// An unknown way to round.
    #[error("the peer names {came} as how ReLUs round; there are 0 (by shares) and 1 (to nearest)")]
    Relus {
        /// What came.
        came: u8,
    },
    /// An unknown depth.
    #[error("the peer names {came} as how deep the trees of transfers are; there are 4 and 8")]
    Depth {
        /// What came.
        came: u8,
    },
    /// Neither yes nor no.
    #[error("the peer says {came} where it may have second halves of answers already (1) or not (0)")]
    Halves {
        /// What came.
        came: u8,
    },
    /// An unusable name.
    #[error("a model's name has at most {NAME_BYTES} bytes and no control characters")]
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_read_back() {
        for wish in [None, Some(Reveal::Logits), Some(Reveal::Class)] {
            let relus = wish.map(|_| ReluRounding::Nearest);
            let model = ModelName::new("chest-x-ray é").unwrap();
            let hello = ClientHello { nonce: [7; 32], wish, relus, depth: wish.map(|_| Depth::Eight), model };
            assert_eq!(hello.to_bytes().len(), ClientHello::BYTES);
            assert_eq!(ClientHello::from_bytes(&hello.to_bytes()).unwrap(), hello);
        }
        let hello = ServerHello {
            nonce: [1; 32],
            terms: Terms { reveal: Reveal::Class, relus: ReluRounding::Nearest },
            depth: Depth::Eight,
            commitment: Digest([2; 32]),
            model: ModelName::default(),
            outline: vec![3; 100],
        };
        assert_eq!(hello.to_bytes().len(), ServerHello::BYTES + 100);
        assert_eq!(ServerHello::from_bytes(&hello.to_bytes()).unwrap(), hello);
        let agreement =
            Agreement { outline: Digest([1; 32]), commitment: Digest([2; 32]), plan: Digest([3; 32]) };
        assert_eq!(Agreement::from_bytes(&agreement.to_bytes()).unwrap(), agreement);
        for has_halves in [false, true] {
            let understood = Understood { agreement, has_halves };
            assert_eq!(Understood::from_bytes(&understood.to_bytes()), Ok(understood));
        }
        let mut bytes = Understood { agreement, has_halves: true }.to_bytes();
        bytes[Agreement::BYTES] = 2;
        assert_eq!(Understood::from_bytes(&bytes), Err(HelloError::Halves { came: 2 }));
        for wrong in [0, 1, 96, 98] {
            assert_eq!(Understood::from_bytes(&vec![0; wrong]), Err(HelloError::Length { came: wrong }));
        }
    }

    #[test]
    fn short_long_and_senseless_hellos_are_refused() {
        let bytes =
            ClientHello { nonce: [7; 32], wish: None, relus: None, depth: None, model: ModelName::default() };
        let bytes = bytes.to_bytes();
        for length in 0..bytes.len() {
            assert!(ClientHello::from_bytes(&bytes[..length]).is_err());
            assert!(ServerHello::from_bytes(&bytes[..length]).is_err());
        }
        assert!(ClientHello::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let mut other = bytes.clone();
        other[32] = 9;
        assert_eq!(ClientHello::from_bytes(&other), Err(HelloError::Reveal { came: 9 }));
        let mut other = bytes.clone();
        other[33] = 9;
        assert_eq!(ClientHello::from_bytes(&other), Err(HelloError::Relus { came: 9 }));
        let mut other = bytes.clone();
        other[34] = 9;
        assert_eq!(ClientHello::from_bytes(&other), Err(HelloError::Depth { came: 9 }));
        let mut other = bytes;
        other[35] = 0xff;
        assert_eq!(ClientHello::from_bytes(&other), Err(HelloError::Name));
        assert!(ModelName::new(&"x".repeat(65)).is_err() && ModelName::new("a\nb").is_err());
    }

    #[test]
    fn differences_are_named() {
        let ours = Agreement { outline: Digest([1; 32]), commitment: Digest([2; 32]), plan: Digest([3; 32]) };
        assert_eq!(ours.difference(&ours), None);
        let difference = |theirs| ours.difference(&theirs).unwrap();
        assert!(difference(Agreement { outline: Digest([0; 32]), ..ours }).contains("outline"));
        assert!(difference(Agreement { commitment: Digest([0; 32]), ..ours }).contains("weights"));
        assert!(difference(Agreement { plan: Digest([0; 32]), ..ours }).contains("parameters"));
    }
}
