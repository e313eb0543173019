//! Bytes between the parties, counted. Lengths are known from the plan, so nothing is framed.

mod tls;

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::transcript::{Kind, Phase, Transcript, Work};

pub use tls::{Fingerprint, Identity, TlsError, TlsStream, accept_tls, connect_tls};

/// Which party this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Owns the image.
    Client,
    /// Owns the weights.
    Server,
}

/// A stream to the peer that counts what crosses it.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    role: Role,
    phase: Phase,
    transcript: Transcript,
    /// Something was sent that may still wait in the stream's buffer.
    has_unsent: bool,
}

impl<S: Read + Write> Connection<S> {
    /// Wraps a stream, which should buffer what is written to it.
    pub fn new(stream: S, role: Role) -> Self {
        Self { stream, role, phase: Phase::SetUp, transcript: Transcript::default(), has_unsent: false }
    }

    /// From here on bytes belong to this phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Notes work done since a moment.
    pub(crate) fn spent(&mut self, work: Work, since: Instant) {
        self.took(work, since.elapsed());
    }

    /// Notes work that took so long.
    pub(crate) fn took(&mut self, work: Work, time: Duration) {
        self.transcript.took(self.phase, work, time);
    }

    pub(crate) fn send(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        self.transcript.note(self.phase, kind, self.role == Role::Client, bytes.len() as u64);
        self.has_unsent = true;
        self.stream.write_all(bytes)
    }

    /// Hands everything sent so far to the network.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.has_unsent = false;
        self.stream.flush()
    }

    pub(crate) fn receive(&mut self, kind: Kind, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.receive_into(kind, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn receive_into(&mut self, kind: Kind, bytes: &mut [u8]) -> io::Result<()> {
        // Who waits for an answer to what never left waits forever.
        if self.has_unsent {
            self.flush()?;
        }
        self.stream.read_exact(bytes)?;
        self.transcript.note(self.phase, kind, self.role == Role::Server, bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn receive_array<const N: usize>(&mut self, kind: Kind) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.receive_into(kind, &mut bytes)?;
        Ok(bytes)
    }

    /// What crossed so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The stream itself.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

/// One end of a connection within the process, for tests and examples.
#[derive(Debug)]
pub struct MemoryStream {
    outgoing: Sender<Vec<u8>>,
    incoming: Receiver<Vec<u8>>,
    pending: Vec<u8>,
    position: usize,
    unsent: Vec<u8>,
}

/// Two ends of a connection within the process.
pub fn memory_pair() -> (MemoryStream, MemoryStream) {
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    let end = |outgoing, incoming| MemoryStream {
        outgoing,
        incoming,
        pending: Vec::new(),
        position: 0,
        unsent: Vec::new(),
    };
    (end(to_second, from_second), end(to_first, from_first))
}

impl Read for MemoryStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.pending.len() {
            self.pending = self.incoming.recv().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            self.position = 0;
        }
        let available = &self.pending[self.position..];
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.position += count;
        Ok(count)
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.unsent);
        self.outgoing.send(bytes).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_that_waits_has_handed_over_what_it_said() {
        let (ours, mut theirs) = memory_pair();
        let mut connection = Connection::new(ours, Role::Client);
        connection.send(Kind::Values, b"question").unwrap();
        let peer = std::thread::spawn(move || {
            theirs.read_exact(&mut [0; 8])?;
            theirs.write_all(b"answer")?;
            theirs.flush()
        });
        assert_eq!(connection.receive(Kind::Values, 6).unwrap(), b"answer");
        peer.join().unwrap().unwrap();
    }
}
