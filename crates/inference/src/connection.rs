//! Messages between the parties: framed, checked, counted.
//!
//! Every message is one frame (see [`frame`]). A long one may be written and read piece by piece. Where a frame is due a
//! [`Refusal`] may come instead, and becomes an error.

pub mod frame;
#[cfg(feature = "pinned")]
pub mod pinned;
pub mod refusal;
#[cfg(feature = "tls")]
mod time_limits;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crypto::domain;
use crypto::random::{InferenceId, SessionId};

use crate::InferenceError;
use crate::conversation::{Incoming, Outgoing, Party, Planned, Turn, Words, WorkTimes, legs};
use crate::transcript::{Kind, Phase, Transcript};
use frame::{FrameError, FrameKind, HEADER_BYTES, Header, LengthRule, MAGIC, PROTOCOL_VERSION};
use refusal::Refusal;

#[cfg(feature = "pinned")]
pub use pinned::{Fingerprint, NoFingerprint};
#[cfg(feature = "tls")]
pub use time_limits::TimeLimits;
#[cfg(feature = "tls")]
pub use tls::{
    CertifiedKey, Identity, Standing, TlsAcceptor, TlsConnector, TlsError, TlsStream, Trust, Validity,
    accept_tls, connect_tls,
};

/// The port that clients expect a server at.
pub const DEFAULT_PORT: u16 = 7441;
/// The slowest link that either party waits for unless told otherwise, in bytes a second.
pub const DEFAULT_LEAST_RATE: u64 = 125_000;

/// How long an exchange of so many bytes may take: a silence, and the bytes at the least rate.
pub fn time_for(bytes: u64, silence: Duration, least_rate: u64) -> Duration {
    silence.saturating_add(Duration::from_secs(bytes / least_rate.max(1)))
}

/// Which party this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Owns the image.
    Client,
    /// Owns the weights.
    Server,
}

impl Role {
    const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// A stream to the peer that frames, checks and counts what crosses it.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    role: Role,
    phase: Phase,
    transcript: Transcript,
    /// Something was sent that may still wait in the stream's buffer.
    has_unsent: bool,
    /// What every header says: [`MAGIC`] before there is a session.
    session: [u8; 8],
    /// Zeros while nothing of one inference crosses.
    inference: [u8; 8],
    sent: Direction,
    received: Direction,
    /// Hears of bytes as they cross.
    meter: Meter,
    /// An error leaves the parties at different places of the stream; nothing may follow it.
    is_broken: bool,
}

/// Who is told how many bytes were sent and received, piece by piece.
#[derive(Clone, Default)]
struct Meter(Option<Arc<dyn Fn(u64, u64) + Send + Sync>>);

impl Meter {
    fn note(&self, sent: u64, received: u64) {
        if let Some(tell) = &self.0 {
            tell(sent, received);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Meter" } else { "no Meter" })
    }
}

/// How far one direction is.
#[derive(Debug, Default)]
struct Direction {
    /// Frames so far.
    frames: u32,
    /// Bytes of the current frame that are still to cross.
    left: u64,
}

impl Direction {
    fn next_frame(&mut self) -> Result<u32, FrameError> {
        assert_eq!(self.left, 0, "a frame is finished before the next begins");
        let step = self.frames;
        self.frames = step.checked_add(1).ok_or(FrameError::Exhausted)?;
        Ok(step)
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.checked_sub(bytes as u64).expect("a frame's pieces are as long as it");
    }
}

impl<S: Read + Write> Connection<S> {
    /// Wraps a stream, which should buffer what is written to it.
    pub fn new(stream: S, role: Role) -> Self {
        Self {
            stream,
            role,
            phase: Phase::SetUp,
            transcript: Transcript::default(),
            session: MAGIC,
            inference: [0; 8],
            sent: Direction::default(),
            received: Direction::default(),
            meter: Meter::default(),
            has_unsent: false,
            is_broken: false,
        }
    }

    /// From here on this hears of every piece that crosses: bytes sent, bytes received. The transcript counts a message
    /// when it begins; this one counts while it is under way.
    pub fn meter(&mut self, tell: Arc<dyn Fn(u64, u64) + Send + Sync>) {
        self.meter = Meter(Some(tell));
    }

    /// Runs one exchange of a phase as a whole: if it fails, nothing more can be said over this connection.
    pub(crate) fn exchange<R>(
        &mut self,
        phase: Phase,
        run: impl FnOnce(&mut Self) -> Result<R, InferenceError>,
    ) -> Result<R, InferenceError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        self.phase = phase;
        let result = run(self)?;
        self.concern(None);
        self.is_broken = false;
        Ok(result)
    }

    /// Follows a list of messages, leg by leg: says this party's and hears the peer's, for each inference in turn. Tells
    /// `heard` of each message that came, and how many bytes crossed in this phase so far.
    pub(crate) fn converse<U: Copy, D: Copy, P: Party>(
        &mut self,
        messages: &[Planned<U, D>],
        turn: impl Fn(Words<U, D>) -> Turn<P::Said, P::Heard>,
        inferences: &[InferenceId],
        party: &mut P,
        mut heard: impl FnMut(P::Heard, u64),
    ) -> Result<(), InferenceError> {
        for (leg, last) in legs(messages) {
            for (number, inference) in inferences.iter().enumerate() {
                self.concern(Some(*inference));
                for &Planned { words, kind, bytes } in leg {
                    match turn(words) {
                        Turn::Say(words) => {
                            self.begin(kind, bytes)?;
                            party.say(number, words, self)?;
                        }
                        Turn::Hear(words) => {
                            self.expect(kind, bytes)?;
                            party.hear(number, words, bytes, self)?;
                            heard(words, self.transcript.bytes(self.phase));
                        }
                    }
                }
            }
            match turn(last.words) {
                Turn::Say(words) => {
                    self.flush()?;
                    party.after_saying(words)?;
                }
                Turn::Hear(words) => party.after_hearing(words)?,
            }
        }
        Ok(())
    }

    /// From here on frames belong to this session.
    pub(crate) fn join(&mut self, session: SessionId) {
        self.session = tag(&session.0);
    }

    /// From here on frames belong to this inference, or to none.
    pub(crate) fn concern(&mut self, inference: Option<InferenceId>) {
        self.inference = inference.map_or([0; 8], |id| tag(&id.0));
    }

    /// Notes what a party worked on in this phase.
    pub(crate) fn took(&mut self, times: WorkTimes) {
        times.into_iter().for_each(|(work, time)| self.transcript.took(self.phase, work, time));
    }

    /// Sends a message whole.
    pub(crate) fn send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), InferenceError> {
        self.begin(kind, bytes.len())?;
        self.send_piece(bytes)
    }

    /// Begins a message of so many bytes, which [`Connection::send_piece`] brings.
    pub(crate) fn begin(&mut self, kind: Kind, length: usize) -> Result<(), InferenceError> {
        self.begin_frame(kind, kind.frame(), length as u64)
    }

    fn begin_frame(&mut self, kind: Kind, frame: FrameKind, length: u64) -> Result<(), InferenceError> {
        let step = self.sent.next_frame()?;
        self.sent.left = length;
        self.has_unsent = true;
        let header = self.header(self.role, frame, step, length);
        let bytes = HEADER_BYTES as u64 + length;
        self.transcript.note(self.phase, kind, self.role == Role::Client, bytes);
        let result = self.stream.write_all(&header.to_bytes());
        self.meter.note(HEADER_BYTES as u64, 0);
        result.map_err(|error| self.why_broken(error))
    }

    /// Sends the next bytes of a message that was begun.
    pub(crate) fn send_piece(&mut self, bytes: &[u8]) -> Result<(), InferenceError> {
        self.sent.take(bytes.len());
        self.has_unsent = true;
        let result = self.stream.write_all(bytes);
        self.meter.note(bytes.len() as u64, 0);
        result.map_err(|error| self.why_broken(error))
    }

    /// Hands everything sent so far to the network.
    pub(crate) fn flush(&mut self) -> Result<(), InferenceError> {
        self.has_unsent = false;
        let result = self.stream.flush();
        result.map_err(|error| self.why_broken(error))
    }

    /// A peer that hung up may have said why before it did.
    fn why_broken(&mut self, error: io::Error) -> InferenceError {
        self.has_unsent = false;
        let broken = InferenceError::from(error);
        if !matches!(broken, InferenceError::Connection(_)) || self.received.left > 0 {
            return broken;
        }
        // Whatever else it said before no longer matters: only a refusal explains the end.
        match self.expect_frame(Kind::Service, LengthRule::AtMost(0)) {
            Err(refused @ InferenceError::Refused { .. }) => refused,
            _ => broken,
        }
    }

    /// Tells the peer why this party goes no further, where that helps it. The error is what counts, not whether the
    /// peer heard of it.
    pub(crate) fn tell(&mut self, error: InferenceError) -> InferenceError {
        let _ = error.for_peer().map(|refusal| self.refuse(&refusal));
        error
    }

    /// Ends this party's part with a last word, if the stream is at a place where that can be said.
    pub(crate) fn break_off(&mut self, refusal: &Refusal) {
        self.is_broken = true;
        self.concern(None);
        // Whether the peer still listens makes no difference here.
        let _ = self.refuse(refusal);
    }

    /// Tells the peer why this party goes no further, unless it is in the middle of a message.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn refuse(&mut self, refusal: &Refusal) -> Result<(), InferenceError> {
        if self.sent.left > 0 {
            return Ok(());
        }
        let bytes = refusal.to_bytes();
        self.begin_frame(Kind::Service, FrameKind::Refusal, bytes.len() as u64)?;
        self.send_piece(&bytes)?;
        self.flush()
    }

    /// Receives a message of a known length whole.
    pub(crate) fn receive(&mut self, kind: Kind, length: usize) -> Result<Vec<u8>, InferenceError> {
        self.expect(kind, length)?;
        self.receive_piece(length)
    }

    /// Receives a message that may have any length up to a limit.
    pub(crate) fn receive_at_most(&mut self, kind: Kind, limit: u64) -> Result<Vec<u8>, InferenceError> {
        let length = self.expect_frame(kind, LengthRule::AtMost(limit))?;
        self.receive_piece(length as usize)
    }

    /// Waits for a message of so many bytes, which [`Connection::receive_piece`] gives.
    pub(crate) fn expect(&mut self, kind: Kind, length: usize) -> Result<(), InferenceError> {
        self.expect_frame(kind, LengthRule::Exactly(length as u64)).map(drop)
    }

    fn expect_frame(&mut self, kind: Kind, rule: LengthRule) -> Result<u64, InferenceError> {
        // Who waits for an answer to what never left waits forever.
        if self.has_unsent {
            self.flush()?;
        }
        let mut bytes = [0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes)?;
        let step = self.received.next_frame()?;
        let mut expected = self.header(self.role.peer(), kind.frame(), step, 0);
        if self.phase == Phase::SetUp && Header::is_early_refusal(&bytes) {
            // Who refuses during the set-up may not have got as far as the session.
            expected.session = MAGIC;
        }
        let header = Header::check(&bytes, &expected, rule)?;
        if header.kind == FrameKind::Refusal {
            let mut bytes = vec![0; header.length as usize];
            self.stream.read_exact(&mut bytes)?;
            return Err(InferenceError::Refused {
                by: self.role.peer(),
                refusal: Refusal::from_bytes(&bytes),
            });
        }
        self.meter.note(0, HEADER_BYTES as u64);
        self.received.left = header.length;
        let bytes = HEADER_BYTES as u64 + header.length;
        self.transcript.note(self.phase, kind, self.role == Role::Server, bytes);
        Ok(header.length)
    }

    /// Receives the next bytes of a message that was waited for.
    pub(crate) fn receive_piece(&mut self, length: usize) -> Result<Vec<u8>, InferenceError> {
        self.received.take(length);
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        self.meter.note(0, length as u64);
        Ok(bytes)
    }

    fn header(&self, sender: Role, kind: FrameKind, step: u32, length: u64) -> Header {
        let (session, inference) = (self.session, self.inference);
        Header { session, inference, step, sender, kind, version: PROTOCOL_VERSION, length }
    }

    /// Whether an exchange failed: nothing more can be said over this connection.
    pub fn is_broken(&self) -> bool {
        self.is_broken
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

impl<S: Read + Write> Outgoing for Connection<S> {
    fn piece(&mut self, bytes: &[u8]) -> Result<(), InferenceError> {
        self.send_piece(bytes)
    }

    fn flush(&mut self) -> Result<(), InferenceError> {
        Self::flush(self)
    }
}

impl<S: Read + Write> Incoming for Connection<S> {
    fn piece(&mut self, length: usize) -> Result<Vec<u8>, InferenceError> {
        self.receive_piece(length)
    }
}

/// What stands for an id in a header. Ids go into keys; their tags are seen by both parties alone, and yet tell nothing.
fn tag(id: &[u8]) -> [u8; 8] {
    let hash = blake3::derive_key(domain::FRAME_TAG.context(), id);
    let mut tag = [0; 8];
    tag.copy_from_slice(&hash[..8]);
    tag
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
        let (ours, theirs) = memory_pair();
        let mut connection = Connection::new(ours, Role::Client);
        connection.send(Kind::Values, b"question").unwrap();
        let peer = std::thread::spawn(move || {
            let mut connection = Connection::new(theirs, Role::Server);
            connection.receive(Kind::Values, 8)?;
            connection.send(Kind::Values, b"answer")?;
            connection.flush()
        });
        assert_eq!(connection.receive(Kind::Values, 6).unwrap(), b"answer");
        peer.join().unwrap().unwrap();
    }
}
