//! No wait without end: how long a party waits for the other, byte by byte and as a whole.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest wait that sockets know.
const SHORTEST: Duration = Duration::from_millis(1);
/// How long after a deadline the peer can still be told that it passed.
const FAREWELL: Duration = Duration::from_secs(1);
/// What is received at once at most.
const RECEIVE_BYTES: usize = 128 << 10;

/// How long to wait for the peer. Shared by the stream and whoever moves the deadline.
#[derive(Debug)]
pub struct TimeLimits(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    silence: Duration,
    deadline: Option<Instant>,
}

impl TimeLimits {
    /// Ends every wait in which no byte moves for so long.
    pub fn new(silence: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { silence: silence.max(SHORTEST), deadline: None })))
    }

    /// From here on everything must be done within so long, however steadily bytes trickle; or within no limit.
    pub fn allow(&self, total: Option<Duration>) {
        self.state().deadline = total.and_then(|total| Instant::now().checked_add(total));
    }

    /// From here on the peer may be silent for so long.
    pub fn tolerate(&self, silence: Duration) {
        self.state().silence = silence.max(SHORTEST);
    }

    /// How long the next wait may take, when bytes have not moved since a moment.
    fn wait(&self, way: Way, silent_since: Option<Instant>) -> io::Result<Duration> {
        let State { silence, deadline } = *self.state();
        let mut left = silence;
        if let Some(since) = silent_since {
            left = left.saturating_sub(since.elapsed());
        }
        if let Some(deadline) = deadline {
            let extra = match way {
                Way::In => Duration::ZERO,
                Way::Out => FAREWELL,
            };
            left = left.min((deadline + extra).saturating_duration_since(Instant::now()));
        }
        if left < SHORTEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket whose every wait is limited.
///
/// Whole inferences go through here, so it is sparing with calls of the system: TLS reads a few thousand bytes at a time,
/// which come from a larger buffer; it writes several records at once; and the socket's own timeouts change only when they
/// must.
#[derive(Debug)]
pub(super) struct TimedSocket {
    socket: TcpStream,
    limits: Arc<TimeLimits>,
    /// What the socket was told last.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// Always of full length; these bytes of it are still to be taken.
    buffer: Box<[u8]>,
    received: Range<usize>,
}

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl TimedSocket {
    pub(super) fn new(socket: TcpStream, limits: Arc<TimeLimits>) -> Self {
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Self { socket, limits, read_timeout: None, write_timeout: None, buffer, received: 0..0 }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn limits(&self) -> &TimeLimits {
        &self.limits
    }

    /// Calls until bytes moved or the time is over. The socket wakes up early rather than late, so that its timeout need
    /// not follow a deadline that comes nearer with every call.
    fn retry(
        &mut self,
        way: Way,
        mut call: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut silent_since = None;
        loop {
            let wait = self.limits.wait(way, silent_since)?;
            self.set_timeout(way, rounded_down(wait))?;
            let start = Instant::now();
            match call(&mut self.socket).map_err(timed_out) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    silent_since.get_or_insert(start);
                }
                result => return result,
            }
        }
    }

    fn set_timeout(&mut self, way: Way, wait: Duration) -> io::Result<()> {
        let last = match way {
            Way::In => &mut self.read_timeout,
            Way::Out => &mut self.write_timeout,
        };
        if last.replace(wait) == Some(wait) {
            return Ok(());
        }
        match way {
            Way::In => self.socket.set_read_timeout(Some(wait)),
            Way::Out => self.socket.set_write_timeout(Some(wait)),
        }
    }
}

/// The largest power of two of milliseconds that is not longer.
fn rounded_down(wait: Duration) -> Duration {
    let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(1 << milliseconds.ilog2())
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.received.is_empty() {
            let mut bytes = std::mem::take(&mut self.buffer);
            let count = self.retry(Way::In, |socket| socket.read(&mut bytes));
            self.buffer = bytes;
            self.received = 0..count?;
        }
        let count = self.received.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.buffer[self.received.start..][..count]);
        self.received.start += count;
        Ok(count)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(Way::Out, |socket| socket.write(bytes))
    }

    /// Without this every record of a long message would be a call, and a packet, of its own.
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.retry(Way::Out, |socket| socket.write_vectored(pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Systems disagree on what a socket says when its time is over.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn silent_peer(limits: Arc<TimeLimits>) -> (TimedSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (TimedSocket::new(socket, limits), listener.accept().unwrap().0)
    }

    #[test]
    fn a_silent_peer_ends_the_wait() {
        let (mut socket, _peer) = silent_peer(TimeLimits::new(Duration::from_millis(20)));
        assert_eq!(socket.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_peer_that_takes_nothing_ends_the_wait() {
        let (mut socket, _peer) = silent_peer(TimeLimits::new(Duration::from_millis(20)));
        let error = (0..100_000).find_map(|_| socket.write(&[0; 1 << 16]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_deadline_ends_a_trickle() {
        let limits = TimeLimits::new(Duration::from_secs(60));
        let (mut socket, mut peer) = silent_peer(Arc::clone(&limits));
        peer.write_all(&[1; 4]).unwrap();
        limits.allow(Some(Duration::from_millis(30)));
        assert_eq!(socket.read(&mut [0; 4]).unwrap(), 4);
        assert_eq!(socket.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        limits.allow(None);
        assert!(socket.write(&[0; 4]).is_ok());
    }

    #[test]
    fn after_a_deadline_there_is_time_for_a_last_word_and_no_more() {
        let limits = TimeLimits::new(Duration::from_secs(60));
        let (mut socket, _peer) = silent_peer(Arc::clone(&limits));
        limits.allow(Some(Duration::ZERO));
        assert_eq!(socket.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(socket.write(&[0; 4]).is_ok());
        let error = (0..100_000).find_map(|_| socket.write(&[0; 1 << 16]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn pieces_leave_with_one_call_and_arrive_in_any_portions() {
        let (mut socket, peer) = silent_peer(TimeLimits::new(Duration::from_secs(60)));
        let pieces = [IoSlice::new(&[1; 3]), IoSlice::new(&[2; 4]), IoSlice::new(&[3; 5])];
        assert_eq!(socket.write_vectored(&pieces).unwrap(), 12);
        let mut peer = TimedSocket::new(peer, TimeLimits::new(Duration::from_secs(60)));
        let mut bytes = [0; 12];
        bytes.chunks_mut(5).for_each(|portion| peer.read_exact(portion).unwrap());
        assert_eq!(bytes, [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        drop(socket);
        assert_eq!(peer.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn the_system_is_told_of_a_timeout_only_when_it_halves() {
        assert_eq!(rounded_down(Duration::from_millis(1)), Duration::from_millis(1));
        assert_eq!(rounded_down(Duration::from_millis(60_000)), Duration::from_millis(32_768));
        assert_eq!(rounded_down(Duration::from_millis(32_769)), Duration::from_millis(32_768));
        assert_eq!(rounded_down(Duration::from_micros(1)), SHORTEST);
    }
}
