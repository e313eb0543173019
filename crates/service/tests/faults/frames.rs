//! Faults inside the TLS channel: a stream between the client's messages and its encryption.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use inference::connection::frame::HEADER_BYTES;

use super::fault::{Injector, Plan, Way};

/// Passes whole messages on, but for what the plan says.
pub(crate) struct FaultyStream<S> {
    /// None once the connection was cut.
    inner: Option<S>,
    to_server: Injector,
    to_client: Injector,
    unfinished: Vec<u8>,
    arrived: VecDeque<u8>,
    /// The connection ends when what arrived is read.
    is_ending: bool,
}

impl<S> FaultyStream<S> {
    pub(crate) fn new(inner: S, plan: &Arc<Plan>) -> Self {
        Self {
            inner: Some(inner),
            to_server: Injector::new(plan, Way::ToServer, HEADER_BYTES),
            to_client: Injector::new(plan, Way::ToClient, HEADER_BYTES),
            unfinished: Vec::new(),
            arrived: VecDeque::new(),
            is_ending: false,
        }
    }
}

/// Bytes of the body that follows a header.
fn body_bytes(header: &[u8]) -> usize {
    u64::from_le_bytes(*header[24..].first_chunk().unwrap()) as usize
}

impl<S: Write> Write for FaultyStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unfinished.extend_from_slice(bytes);
        while self.unfinished.len() >= HEADER_BYTES {
            let length = HEADER_BYTES + body_bytes(&self.unfinished[..HEADER_BYTES]);
            if self.unfinished.len() < length {
                break;
            }
            let rest = self.unfinished.split_off(length);
            let message = std::mem::replace(&mut self.unfinished, rest);
            let inner = self.inner.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            let (messages, is_end) = self.to_server.meet(message);
            for message in messages {
                inner.write_all(&message)?;
            }
            if is_end {
                inner.flush()?;
                self.inner = None;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.flush()
    }
}

impl<S: Read> Read for FaultyStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.arrived.is_empty() {
            if self.is_ending {
                self.inner = None;
            }
            let Some(inner) = &mut self.inner else { return Ok(0) };
            let mut message = vec![0; HEADER_BYTES];
            inner.read_exact(&mut message)?;
            message.resize(HEADER_BYTES + body_bytes(&message), 0);
            inner.read_exact(&mut message[HEADER_BYTES..])?;
            let (messages, is_end) = self.to_client.meet(message);
            self.arrived.extend(messages.concat());
            self.is_ending = is_end;
        }
        self.arrived.read(buffer)
    }
}
