//! What a client asks of a server after the set-up, and what the server says to it.
//!
//! ```text
//! Prepare { count, store }       -> Accepted { ids }, then the offline phase `count` times, then Stored where asked for
//! Classify { count }             -> Accepted { }, then the online phase of a batch of the oldest `count` of this session
//! ClassifyStored { token, ids }  -> Accepted { }, then the online phase of a batch of these
//! Probe { down, padding }        -> Probed { padding }
//! Room                           -> Room { count, stored, bytes, lifetime }
//! List { token }                 -> Listed { ids }
//! Discard { token }              -> Discarded { count }
//! Bye                            -> nothing
//! ```
//!
//! Before `Accepted` any number of `Waiting` may come, which also keeps the connection from looking silent. In place of
//! any reply a refusal may come. The server makes "spent" durable before it says `Accepted`; the client destroys its
//! own copy before it sends the blinded image.

use std::fmt;

use crypto::secret::Secret;
use network::digest::to_hex;

/// The most inferences one request may name.
pub const MAX_COUNT: u32 = 4096;
/// The most padding of a probe, in either direction.
pub const MAX_PROBE_BYTES: u32 = 1 << 20;
/// The longest request.
pub const MAX_REQUEST_BYTES: u64 = MAX_PROBE_BYTES as u64 + 64;
/// The longest reply.
pub const MAX_REPLY_BYTES: u64 = MAX_PROBE_BYTES as u64 + 64;

/// The name of a stored inference: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredId(pub [u8; 16]);

impl fmt::Display for StoredId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

/// What the client wants next.
#[derive(Debug)]
pub enum Request {
    /// The offline work of so many inferences.
    Prepare {
        /// How many.
        count: u32,
        /// The hash of the client's token where they are to outlive the session.
        store: Option<[u8; 32]>,
    },
    /// The online work of the oldest that were prepared in this session.
    Classify {
        /// How many.
        count: u32,
    },
    /// The online work of stored ones.
    ClassifyStored {
        /// What the client made when it prepared them.
        token: Secret<[u8; 32]>,
        /// Which.
        ids: Vec<StoredId>,
    },
    /// Bytes there and back, to measure the link.
    Probe {
        /// How many bytes to answer with.
        down: u32,
        /// How many bytes came along.
        up: u32,
    },
    /// The client is done.
    Bye,
    /// How many inferences of this model would be stored for this client now.
    Room,
    /// Which inferences are stored for who shows this token.
    List {
        /// What the client made when it prepared them.
        token: Secret<[u8; 32]>,
    },
    /// Drops every stored inference of who shows this token, of whichever model.
    Discard {
        /// What the client made when it prepared them.
        token: Secret<[u8; 32]>,
    },
}

/// How much a server would store for a client at this moment. Others may come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many inferences more, of the session's model.
    pub count: u64,
    /// How many it stores for this client already, of all models.
    pub stored: u64,
    /// Bytes that one more takes at the server.
    pub bytes: u64,
    /// How long one may wait for its image, in seconds.
    pub lifetime: u64,
}

/// What the server says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It begins now. With the names of what will be stored.
    Accepted {
        /// One for each inference to store; none where nothing is stored.
        ids: Vec<StoredId>,
    },
    /// Others come first.
    Waiting {
        /// How many.
        ahead: u32,
    },
    /// What was prepared is stored durably.
    Stored {
        /// When the first of them expires, in seconds since 1970.
        expires: u64,
    },
    /// The bytes that were asked for.
    Probed {
        /// How many.
        bytes: u32,
    },
    /// What would be stored now.
    Room(Room),
    /// What is stored.
    Listed {
        /// Their names, 4096 at most.
        ids: Vec<StoredId>,
    },
    /// What was stored is gone.
    Discarded {
        /// How many.
        count: u64,
    },
}

impl Request {
    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Prepare { count, store } => {
                let hash = store.unwrap_or([0; 32]);
                [&[1][..], &count.to_le_bytes(), &[u8::from(store.is_some())], &hash].concat()
            }
            Self::Classify { count } => [&[2][..], &count.to_le_bytes()].concat(),
            Self::ClassifyStored { token, ids } => {
                let mut bytes = [&[3][..], token.expose()].concat();
                ids.iter().for_each(|id| bytes.extend_from_slice(&id.0));
                bytes
            }
            Self::Probe { down, up } => {
                let mut bytes = [&[4][..], &down.to_le_bytes()].concat();
                bytes.resize(bytes.len() + *up as usize, 0);
                bytes
            }
            Self::Bye => vec![5],
            Self::Room => vec![6],
            Self::List { token } => [&[7][..], token.expose()].concat(),
            Self::Discard { token } => [&[8][..], token.expose()].concat(),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// When it makes no sense or asks for more than can be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let malformed = || RequestError::Malformed { bytes: bytes.len() };
        let (sort, rest) = bytes.split_first().ok_or_else(malformed)?;
        match sort {
            1 => {
                let (count, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
                let (flag, hash) = rest.split_first().ok_or_else(malformed)?;
                let hash = hash.try_into().map_err(|_| malformed())?;
                let store = match (flag, hash) {
                    (0, hash) if hash == [0; 32] => None,
                    (1, hash) => Some(hash),
                    _ => return Err(malformed()),
                };
                Ok(Self::Prepare { count: counted(u32::from_le_bytes(*count))?, store })
            }
            2 => {
                let count = rest.try_into().map_err(|_| malformed())?;
                Ok(Self::Classify { count: counted(u32::from_le_bytes(count))? })
            }
            3 => {
                let (token, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
                let ids = ids(rest).ok_or_else(malformed)?;
                counted(ids.len() as u32)?;
                Ok(Self::ClassifyStored { token: Secret::new(*token), ids })
            }
            4 => {
                let (down, padding) = rest.split_first_chunk().ok_or_else(malformed)?;
                let (down, up) = (u32::from_le_bytes(*down), padding.len() as u32);
                let is_small = down <= MAX_PROBE_BYTES && up <= MAX_PROBE_BYTES;
                is_small.then_some(Self::Probe { down, up }).ok_or_else(malformed)
            }
            5 if rest.is_empty() => Ok(Self::Bye),
            6 if rest.is_empty() => Ok(Self::Room),
            7 | 8 => {
                let token = Secret::new(rest.try_into().map_err(|_| malformed())?);
                Ok(if *sort == 7 { Self::List { token } } else { Self::Discard { token } })
            }
            _ => Err(malformed()),
        }
    }
}

impl Reply {
    /// As it crosses the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Accepted { ids } => {
                let mut bytes = vec![1];
                ids.iter().for_each(|id| bytes.extend_from_slice(&id.0));
                bytes
            }
            Self::Waiting { ahead } => [&[2][..], &ahead.to_le_bytes()].concat(),
            Self::Stored { expires } => [&[3][..], &expires.to_le_bytes()].concat(),
            Self::Probed { bytes } => {
                let mut padded = vec![4];
                padded.resize(1 + *bytes as usize, 0);
                padded
            }
            Self::Room(Room { count, stored, bytes, lifetime }) => {
                let numbers = [count, stored, bytes, lifetime].map(|number| number.to_le_bytes());
                [&[5][..], &numbers.concat()].concat()
            }
            Self::Listed { ids } => {
                let mut bytes = vec![6];
                ids.iter().for_each(|id| bytes.extend_from_slice(&id.0));
                bytes
            }
            Self::Discarded { count } => [&[7][..], &count.to_le_bytes()].concat(),
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let malformed = || RequestError::Malformed { bytes: bytes.len() };
        let (sort, rest) = bytes.split_first().ok_or_else(malformed)?;
        match sort {
            1 => Ok(Self::Accepted { ids: ids(rest).ok_or_else(malformed)? }),
            2 => {
                let ahead = rest.try_into().map_err(|_| malformed())?;
                Ok(Self::Waiting { ahead: u32::from_le_bytes(ahead) })
            }
            3 => {
                let expires = rest.try_into().map_err(|_| malformed())?;
                Ok(Self::Stored { expires: u64::from_le_bytes(expires) })
            }
            4 => Ok(Self::Probed { bytes: rest.len() as u32 }),
            5 => {
                let (numbers, rest) = rest.as_chunks();
                let [count, stored, bytes, lifetime] = numbers else { return Err(malformed()) };
                let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
                let room = Room {
                    count: number(count),
                    stored: number(stored),
                    bytes: number(bytes),
                    lifetime: number(lifetime),
                };
                rest.is_empty().then_some(Self::Room(room)).ok_or_else(malformed)
            }
            6 => Ok(Self::Listed { ids: ids(rest).ok_or_else(malformed)? }),
            7 => {
                let count = rest.try_into().map_err(|_| malformed())?;
                Ok(Self::Discarded { count: u64::from_le_bytes(count) })
            }
            _ => Err(malformed()),
        }
    }
}

fn counted(count: u32) -> Result<u32, RequestError> {
    if count == 0 || count > MAX_COUNT {
        return Err(RequestError::Count { came: count });
    }
    Ok(count)
}

fn ids(bytes: &[u8]) -> Option<Vec<StoredId>> {
    let (ids, rest) = bytes.as_chunks();
    (rest.is_empty() && ids.len() <= MAX_COUNT as usize).then(|| ids.iter().map(|id| StoredId(*id)).collect())
}

/// A request or reply that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither tag nor length fit.
    #[error("the peer sent {bytes} bytes that are neither a request nor a reply")]
    Malformed {
        /// How many.
        bytes: usize,
    },
    /// None, or too many at once.
    #[error("the peer asked for {came} inferences at once; from 1 to {MAX_COUNT} are possible")]
    Count {
        /// How many.
        came: u32,
    },
    /// A reply that does not answer the request.
    #[error("the server's reply does not answer the request")]
    Unexpected,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        vec![
            Request::Prepare { count: 3, store: None },
            Request::Prepare { count: MAX_COUNT, store: Some([9; 32]) },
            Request::Classify { count: 1 },
            Request::ClassifyStored {
                token: Secret::new([4; 32]),
                ids: vec![StoredId([1; 16]), StoredId([2; 16])],
            },
            Request::Probe { down: 1000, up: 77 },
            Request::Bye,
            Request::Room,
            Request::List { token: Secret::new([5; 32]) },
            Request::Discard { token: Secret::new([6; 32]) },
        ]
    }

    #[test]
    fn requests_and_replies_read_back() {
        for request in requests() {
            let bytes = request.to_bytes();
            assert!(bytes.len() as u64 <= MAX_REQUEST_BYTES);
            assert_eq!(Request::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        }
        let replies = [
            Reply::Accepted { ids: vec![] },
            Reply::Accepted { ids: vec![StoredId([3; 16]); 5] },
            Reply::Waiting { ahead: 12 },
            Reply::Stored { expires: 1 << 40 },
            Reply::Probed { bytes: 4000 },
            Reply::Room(Room { count: 1, stored: 2, bytes: 3 << 40, lifetime: 86_400 }),
            Reply::Listed { ids: vec![StoredId([4; 16]); MAX_COUNT as usize] },
            Reply::Discarded { count: 1 << 33 },
        ];
        for reply in replies {
            assert!(reply.to_bytes().len() as u64 <= MAX_REPLY_BYTES);
            assert_eq!(Reply::from_bytes(&reply.to_bytes()).unwrap(), reply);
        }
    }

    #[test]
    fn counts_of_zero_or_too_many_and_cut_messages_are_refused() {
        for count in [0, MAX_COUNT + 1, u32::MAX] {
            let bytes = Request::Classify { count }.to_bytes();
            assert_eq!(Request::from_bytes(&bytes).unwrap_err(), RequestError::Count { came: count });
        }
        let probe = Request::Probe { down: MAX_PROBE_BYTES + 1, up: 0 };
        assert!(Request::from_bytes(&probe.to_bytes()).is_err());
        for request in requests().iter().filter(|request| !matches!(request, Request::Probe { .. })) {
            let bytes = request.to_bytes();
            assert!(Request::from_bytes(&bytes[..bytes.len() - 1]).is_err());
            assert!(Request::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }
        let room = Reply::Room(Room { count: 1, stored: 2, bytes: 3, lifetime: 4 }).to_bytes();
        assert!(Reply::from_bytes(&room[..room.len() - 8]).is_err());
        assert!(Reply::from_bytes(&[&room[..], &[0]].concat()).is_err());
        assert!(Request::from_bytes(&[]).is_err() && Reply::from_bytes(&[]).is_err());
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = || Secret::new([0xab; 32]);
        let requests = [
            Request::ClassifyStored { token: token(), ids: vec![] },
            Request::List { token: token() },
            Request::Discard { token: token() },
        ];
        assert!(requests.iter().all(|request| !format!("{request:?}").contains("171")));
    }
}
