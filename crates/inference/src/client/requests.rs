//! The client's requests, each a question and its answer.

use std::io::{Read, Write};
use std::time::Duration;

use crypto::secret::Secret;

use super::Client;
use crate::InferenceError;
use crate::clock::Instant;
use crate::connection::Connection;
use crate::requests::{MAX_REPLY_BYTES, Reply, Request, RequestError, Room, StoredId};
use crate::transcript::{Kind, Phase};

/// Bytes of the first probe.
const SMALL_PROBE: u32 = 64 << 10;
/// Bytes of the second, unless the first was slow.
const LARGE_PROBE: u32 = 1 << 20;
/// A small probe that takes longer says enough.
const SLOW: Duration = Duration::from_millis(500);

/// What a few messages say about the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// There and back.
    pub round_trip: Duration,
    /// From server to client, in bytes a second.
    pub down: f64,
    /// From client to server, in bytes a second.
    pub up: f64,
}

impl<S: Read + Write> Client<S> {
    /// Asks for something and waits until the server begins with it. While others come first, `waiting` is told how
    /// many; it may give up.
    ///
    /// # Errors
    /// When the server refuses, the connection breaks, or the reply makes no sense.
    pub fn request(
        &mut self,
        request: &Request,
        mut waiting: impl FnMut(u32),
    ) -> Result<Vec<StoredId>, InferenceError> {
        self.ask(|connection| {
            send(connection, request)?;
            loop {
                match receive(connection)? {
                    Reply::Waiting { ahead } => waiting(ahead),
                    Reply::Accepted { ids } => return expected_ids(request, ids),
                    _ => return Err(RequestError::Unexpected.into()),
                }
            }
        })
    }

    /// Waits until the server has stored what was prepared for later; says when it expires, in seconds since 1970.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn await_stored(&mut self) -> Result<u64, InferenceError> {
        self.ask(|connection| match receive(connection)? {
            Reply::Stored { expires } => Ok(expires),
            _ => Err(RequestError::Unexpected.into()),
        })
    }

    /// Asks how many inferences of this model the server would store for this client now.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn ask_room(&mut self) -> Result<Room, InferenceError> {
        self.ask(|connection| {
            send(connection, &Request::Room)?;
            match receive(connection)? {
                Reply::Room(room) => Ok(room),
                _ => Err(RequestError::Unexpected.into()),
            }
        })
    }

    /// Asks which inferences the server stores for who shows this token.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn list_stored(&mut self, token: Secret<[u8; 32]>) -> Result<Vec<StoredId>, InferenceError> {
        self.ask(|connection| {
            send(connection, &Request::List { token })?;
            match receive(connection)? {
                Reply::Listed { ids } => Ok(ids),
                _ => Err(RequestError::Unexpected.into()),
            }
        })
    }

    /// Has the server drop every inference that it stores for who shows this token; says how many they were.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn discard_stored(&mut self, token: Secret<[u8; 32]>) -> Result<u64, InferenceError> {
        self.ask(|connection| {
            send(connection, &Request::Discard { token })?;
            match receive(connection)? {
                Reply::Discarded { count } => Ok(count),
                _ => Err(RequestError::Unexpected.into()),
            }
        })
    }

    /// Measures the link with a few messages, two megabytes at most.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn measure_link(&mut self) -> Result<LinkSpeed, InferenceError> {
        let round_trip = self.probe(0, 0)?.min(self.probe(0, 0)?);
        let down = self.measure(round_trip, |client, bytes| client.probe(bytes, 0))?;
        let up = self.measure(round_trip, |client, bytes| client.probe(0, bytes))?;
        Ok(LinkSpeed { round_trip, down, up })
    }

    /// Bytes a second of one direction: from what a large message takes longer than a small one, because the round trips of
    /// both, also those of a connection that begins slowly, say nothing about long messages.
    fn measure(
        &mut self,
        round_trip: Duration,
        probe: impl Fn(&mut Self, u32) -> Result<Duration, InferenceError>,
    ) -> Result<f64, InferenceError> {
        let rate = |bytes: u32, time: Duration| f64::from(bytes) / time.as_secs_f64().max(1e-6);
        let small = probe(self, SMALL_PROBE)?;
        if small > SLOW {
            return Ok(rate(SMALL_PROBE, small.saturating_sub(round_trip)));
        }
        let large = probe(self, LARGE_PROBE)?;
        Ok(match large.checked_sub(small).filter(|more| !more.is_zero()) {
            Some(more) => rate(LARGE_PROBE - SMALL_PROBE, more),
            None => rate(LARGE_PROBE, large),
        })
    }

    /// Says goodbye. The connection is of no use afterwards.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn finish(mut self) -> Result<S, InferenceError> {
        self.connection.exchange(Phase::Service, |connection| send(connection, &Request::Bye))?;
        Ok(self.connection.into_inner())
    }

    fn probe(&mut self, down: u32, up: u32) -> Result<Duration, InferenceError> {
        let start = Instant::now();
        self.ask(|connection| {
            send(connection, &Request::Probe { down, up })?;
            match receive(connection)? {
                Reply::Probed { bytes } if bytes == down => Ok(start.elapsed()),
                _ => Err(RequestError::Unexpected.into()),
            }
        })
    }

    fn ask<R>(
        &mut self,
        exchange: impl FnOnce(&mut Connection<S>) -> Result<R, InferenceError>,
    ) -> Result<R, InferenceError> {
        let result = self.connection.exchange(Phase::Service, exchange);
        result.map_err(|error| self.connection.tell(error))
    }
}

fn send<S: Read + Write>(connection: &mut Connection<S>, request: &Request) -> Result<(), InferenceError> {
    connection.send(Kind::Service, &request.to_bytes())?;
    connection.flush()
}

fn receive<S: Read + Write>(connection: &mut Connection<S>) -> Result<Reply, InferenceError> {
    Ok(Reply::from_bytes(&connection.receive_at_most(Kind::Service, MAX_REPLY_BYTES)?)?)
}

/// As many ids as were asked for.
fn expected_ids(request: &Request, ids: Vec<StoredId>) -> Result<Vec<StoredId>, InferenceError> {
    let expected = match request {
        Request::Prepare { count, store: Some(_) } => *count as usize,
        _ => 0,
    };
    if ids.len() != expected {
        return Err(RequestError::Unexpected.into());
    }
    Ok(ids)
}
