//! No wait without end: how long a party waits for the other, byte by byte and as a whole.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::turns::Turns;

/// The shortest wait that sockets know.
const SHORTEST: Duration = Duration::from_millis(1);
/// How long after a deadline the peer can still be told that it passed.
const FAREWELL: Duration = Duration::from_secs(1);
/// What is received at once at most.
const RECEIVE_BYTES: usize = 128 << 10;

/// How long to wait for the peer. Shared by the stream and whoever moves the deadline.
#[derive(Debug)]
pub struct TimeLimits(Mutex<State>);

#[derive(Debug)]
struct State {
    silence: Duration,
    deadline: Option<Instant>,
    /// How long everything may take from the moment that the next byte comes.
    from_next_byte: Option<Duration>,
    /// Given up while the peer is waited for.
    turns: Option<Arc<dyn Turns>>,
    is_paused: bool,
}

impl TimeLimits {
    /// Ends every wait in which no byte moves for so long.
    pub fn new(silence: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            silence: silence.max(SHORTEST),
            deadline: None,
            from_next_byte: None,
            turns: None,
            is_paused: false,
        })))
    }

    /// From here on everything must be done within so long, however steadily bytes trickle; or within no limit.
    pub fn allow(&self, total: Option<Duration>) {
        let mut state = self.state();
        state.deadline = total.and_then(|total| Instant::now().checked_add(total));
        state.from_next_byte = None;
    }

    /// From here on the peer may be silent; but once a byte of it has come, everything must be done within so long.
    pub fn allow_from_next_byte(&self, total: Duration) {
        let mut state = self.state();
        state.deadline = None;
        state.from_next_byte = Some(total);
    }

    /// Gives so much more time: it was not the peer that needed it.
    pub fn extend(&self, time: Duration) {
        let mut state = self.state();
        state.deadline = state.deadline.and_then(|deadline| deadline.checked_add(time));
    }

    /// From here on this turn, which this thread has, is given up while the peer is waited for.
    pub fn take_turns(&self, turns: Arc<dyn Turns>) {
        let mut state = self.state();
        state.turns = Some(turns);
        state.is_paused = false;
    }

    /// From here on no turn is given up or asked for. If this thread has its turn still, it is given back.
    pub fn leave_turns(&self) {
        let mut state = self.state();
        let turns = state.turns.take().filter(|_| !state.is_paused);
        drop(state);
        if let Some(turns) = turns {
            turns.end();
        }
    }

    /// This thread is about to wait for the peer.
    fn pause(&self) {
        let mut state = self.state();
        if state.is_paused {
            return;
        }
        if let Some(turns) = state.turns.clone() {
            state.is_paused = true;
            drop(state);
            turns.end();
        }
    }

    /// This thread goes on, in its turn.
    pub(super) fn resume(&self) {
        let mut state = self.state();
        if !state.is_paused {
            return;
        }
        state.is_paused = false;
        if let Some(turns) = state.turns.clone() {
            drop(state);
            turns.begin();
        }
    }

    /// Bytes of the peer have come.
    fn note_bytes(&self) {
        let mut state = self.state();
        if let Some(total) = state.from_next_byte.take() {
            state.deadline = Instant::now().checked_add(total);
        }
    }

    /// From here on the peer may be silent for so long.
    pub fn tolerate(&self, silence: Duration) {
        self.state().silence = silence.max(SHORTEST);
    }

    /// How long the next wait may take, when bytes have not moved since a moment.
    fn wait(&self, way: Way, silent_since: Option<Instant>) -> io::Result<Duration> {
        let state = self.state();
        let (mut left, deadline) = (state.silence, state.deadline);
        drop(state);
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
/// which come from a larger buffer; it writes several records at once; and it waits only where the socket is not ready.
#[derive(Debug)]
pub(super) struct TimedSocket {
    socket: TcpStream,
    limits: Arc<TimeLimits>,
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
    pub(super) fn new(socket: TcpStream, limits: Arc<TimeLimits>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Ok(Self { socket, limits, buffer, received: 0..0 })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn limits(&self) -> &TimeLimits {
        &self.limits
    }

    /// Calls until bytes moved or the time is over. A session that has to wait gives up its turn.
    fn retry(
        &mut self,
        way: Way,
        mut call: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut silent_since = None;
        loop {
            let wait = self.limits.wait(way, silent_since)?;
            match call(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            silent_since.get_or_insert_with(Instant::now);
            self.limits.pause();
            self.await_readiness(way, wait)?;
        }
    }

    /// Waits until the socket is ready, at most so long.
    fn await_readiness(&self, way: Way, wait: Duration) -> io::Result<()> {
        let flags = match way {
            Way::In => PollFlags::IN,
            Way::Out => PollFlags::OUT,
        };
        let timeout = Timespec::try_from(wait).ok();
        match poll(&mut [PollFd::new(&self.socket, flags)], timeout.as_ref()) {
            // Whoever called finds out how much time is left.
            Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.received.is_empty() {
            let mut bytes = std::mem::take(&mut self.buffer);
            let count = self.retry(Way::In, |socket| socket.read(&mut bytes));
            self.buffer = bytes;
            self.received = 0..count?;
            self.limits.note_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn silent_peer(limits: Arc<TimeLimits>) -> (TimedSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (TimedSocket::new(socket, limits).unwrap(), listener.accept().unwrap().0)
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
        let mut peer = TimedSocket::new(peer, TimeLimits::new(Duration::from_secs(60))).unwrap();
        let mut bytes = [0; 12];
        bytes.chunks_mut(5).for_each(|portion| peer.read_exact(portion).unwrap());
        assert_eq!(bytes, [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        drop(socket);
        assert_eq!(peer.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn a_first_byte_starts_the_clock_and_silence_before_it_does_not() {
        let limits = TimeLimits::new(Duration::from_secs(60));
        let (mut socket, mut peer) = silent_peer(Arc::clone(&limits));
        limits.allow_from_next_byte(Duration::ZERO);
        assert!(socket.limits.wait(Way::In, None).is_ok(), "nothing has come");
        peer.write_all(&[1]).unwrap();
        assert_eq!(socket.read(&mut [0; 4]).unwrap(), 1);
        assert_eq!(socket.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        limits.allow_from_next_byte(Duration::ZERO);
        limits.allow(Some(Duration::from_secs(60)));
        peer.write_all(&[2]).unwrap();
        assert_eq!(socket.read(&mut [0; 4]).unwrap(), 1);
        assert!(socket.limits.wait(Way::In, None).is_ok(), "another limit took its place");
    }

    #[test]
    fn time_that_the_peer_did_not_need_is_given_back_to_it() {
        let limits = TimeLimits::new(Duration::from_secs(60));
        limits.allow(Some(Duration::ZERO));
        assert!(limits.wait(Way::In, None).is_err());
        limits.extend(Duration::from_secs(30));
        assert!(limits.wait(Way::In, None).is_ok());
    }

    /// How many threads compute.
    #[derive(Debug, Default)]
    struct Count(Mutex<i32>);

    impl Count {
        fn get(&self) -> i32 {
            *self.0.lock().unwrap()
        }
    }

    impl Turns for Count {
        fn begin(&self) {
            *self.0.lock().unwrap() += 1;
        }

        fn end(&self) {
            *self.0.lock().unwrap() -= 1;
        }
    }

    #[test]
    fn a_turn_is_given_up_while_the_peer_is_waited_for_and_at_no_other_time() {
        let limits = TimeLimits::new(Duration::from_millis(20));
        let (mut socket, mut peer) = silent_peer(Arc::clone(&limits));
        let turns = Arc::new(Count(Mutex::new(1)));
        limits.take_turns(Arc::<Count>::clone(&turns));
        peer.write_all(&[1]).unwrap();
        peer.flush().unwrap();
        poll(&mut [PollFd::new(&socket.socket, PollFlags::IN)], None).unwrap();
        assert_eq!(socket.read(&mut [0; 4]).unwrap(), 1);
        assert_eq!(turns.get(), 1, "what is there is read without a wait");
        assert!(socket.read(&mut [0; 4]).is_err());
        assert_eq!(turns.get(), 0, "nothing came, and nothing is computed");
        assert!(socket.read(&mut [0; 4]).is_err());
        assert_eq!(turns.get(), 0, "given up once");
        limits.resume();
        limits.resume();
        assert_eq!(turns.get(), 1, "asked for once");
        limits.leave_turns();
        assert_eq!(turns.get(), 0);
        limits.take_turns(Arc::<Count>::clone(&turns));
        turns.begin();
        limits.pause();
        limits.leave_turns();
        limits.resume();
        assert_eq!(turns.get(), 0, "who has given its turn up has none to give back");
    }
}
