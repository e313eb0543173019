//! The server's ear and mouth between inferences.

use std::io::{Read, Write};

use super::Server;
use crate::InferenceError;
use crate::connection::Connection;
use crate::connection::refusal::Refusal;
use crate::requests::{MAX_REQUEST_BYTES, Reply, Request};
use crate::transcript::{Kind, Phase};

impl<S: Read + Write> Server<S> {
    /// Waits for the client's next request.
    ///
    /// # Errors
    /// When the connection breaks or the request makes no sense.
    pub fn next_request(&mut self) -> Result<Request, InferenceError> {
        self.connection.exchange(Phase::Service, |connection| {
            Ok(Request::from_bytes(&connection.receive_at_most(Kind::Service, MAX_REQUEST_BYTES)?)?)
        })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn reply(&mut self, reply: &Reply) -> Result<(), InferenceError> {
        self.connection.exchange(Phase::Service, |connection| send(connection, reply))
    }

    /// Tells the client why this is the end, if the stream is at a place where that can be said.
    pub fn refuse(&mut self, refusal: &Refusal) {
        self.connection.break_off(refusal);
    }

    /// The stream itself, after the last word.
    pub fn into_stream(self) -> S {
        self.connection.into_inner()
    }
}

fn send<S: Read + Write>(connection: &mut Connection<S>, reply: &Reply) -> Result<(), InferenceError> {
    connection.send(Kind::Service, &reply.to_bytes())?;
    connection.flush()
}
