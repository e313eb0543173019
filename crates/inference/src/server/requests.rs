//! The server's ear and mouth between inferences.

use std::io::{Read, Write};

use super::Server;
use crate::InferenceError;
use crate::connection::refusal::Refusal;
use crate::requests::{MAX_REQUEST_BYTES, Reply, Request};
use crate::transcript::{Kind, Phase};

impl<S: Read + Write> Server<S> {
    /// Waits for the client's next request. Probes are answered here.
    ///
    /// # Errors
    /// When the connection breaks or the request makes no sense.
    pub fn next_request(&mut self) -> Result<Request, InferenceError> {
        loop {
            self.begin_service()?;
            let bytes = self.connection.receive_at_most(Kind::Service, MAX_REQUEST_BYTES)?;
            let request = Request::from_bytes(&bytes)?;
            self.is_broken = false;
            match request {
                Request::Probe { down, .. } => self.reply(&Reply::Probed { bytes: down })?,
                request => return Ok(request),
            }
        }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn reply(&mut self, reply: &Reply) -> Result<(), InferenceError> {
        self.begin_service()?;
        self.connection.send(Kind::Service, &reply.to_bytes())?;
        self.connection.flush()?;
        self.is_broken = false;
        Ok(())
    }

    /// Tells the client why this is the end, if the stream is at a place where that can be said.
    pub fn refuse(&mut self, refusal: &Refusal) {
        self.is_broken = true;
        self.connection.concern(None);
        // Whether the client still listens makes no difference here.
        let _ = self.connection.refuse(refusal);
    }

    /// The stream itself, after the last word.
    pub fn into_stream(self) -> S {
        self.connection.into_inner()
    }

    fn begin_service(&mut self) -> Result<(), InferenceError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        self.connection.enter(Phase::Service);
        Ok(())
    }
}
