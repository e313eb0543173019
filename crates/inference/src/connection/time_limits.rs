//! No wait without end: how long a party waits for the other, byte by byte and as a whole.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest wait that sockets know.
const SHORTEST: Duration = Duration::from_millis(1);

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

    /// How long the next wait may take.
    fn wait(&self) -> io::Result<Duration> {
        let State { silence, deadline } = *self.state();
        let Some(deadline) = deadline else { return Ok(silence) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left < SHORTEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left.min(silence))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket whose every wait is limited.
#[derive(Debug)]
pub(super) struct TimedSocket {
    socket: TcpStream,
    limits: Arc<TimeLimits>,
}

impl TimedSocket {
    pub(super) fn new(socket: TcpStream, limits: Arc<TimeLimits>) -> Self {
        Self { socket, limits }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn limits(&self) -> &TimeLimits {
        &self.limits
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.limits.wait()?))?;
        self.socket.read(buffer).map_err(timed_out)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.limits.wait()?))?;
        self.socket.write(bytes).map_err(timed_out)
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
        limits.allow(Some(Duration::ZERO));
        assert_eq!(socket.write(&[0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        limits.allow(None);
        assert!(socket.write(&[0; 4]).is_ok());
    }
}
