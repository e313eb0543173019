//! As much of HTTP/1.1 as the page and the metrics need: one request a connection, each in a thread of its own. And how any
//! listener goes on when the system gives no connection.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

/// How long nobody is accepted after it failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection, or none after a pause: without descriptors the next attempt would fail at once, and the next.
pub(crate) fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    accepted(listener.accept(), || thread::sleep(PAUSE))
}

fn accepted<T>(connection: io::Result<T>, rest: impl FnOnce()) -> Option<T> {
    let failed = |error| {
        // Out of descriptors, or a client that left at once: others must not suffer.
        warn!(%error, "a connection could not be accepted");
        rest();
    };
    connection.map_err(failed).ok()
}

/// Answers each connection in a thread of that name, until the process ends. So many are answered at once; the others find the
/// door shut.
pub(crate) fn serve<A>(listener: &TcpListener, name: &'static str, most: usize, answer: A)
where
    A: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    let (answer, open) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    loop {
        let Some((socket, _)) = accept(listener) else { continue };
        let Some(visit) = Visit::begin(&open, most) else { continue };
        let answer = Arc::clone(&answer);
        let work = move || {
            let _visit = visit;
            // Who asks badly or hangs up gets nothing; others are served.
            if let Err(error) = answer(socket) {
                debug!(%error, thread = name, "who asked went away");
            }
        };
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
            warn!(%error, "a connection was dropped: no thread could be started");
        }
    }
}

/// Counted until it is dropped.
struct Visit(Arc<AtomicUsize>);

impl Visit {
    /// None where as many are open as may be.
    fn begin(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let visit = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::AcqRel) < most).then_some(visit)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads a request up to its empty line, within so long. None where it is longer than allowed. What came behind the line
/// belongs to nobody.
pub(crate) fn read_head(
    socket: &mut TcpStream,
    most_bytes: usize,
    patience: Duration,
) -> io::Result<Option<Vec<u8>>> {
    const END: &[u8] = b"\r\n\r\n";
    let end = Instant::now() + patience;
    let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
    while bytes.len() < most_bytes {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let count = socket.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let seen = bytes.len().saturating_sub(END.len() - 1);
        bytes.extend_from_slice(&piece[..count]);
        if let Some(at) = bytes[seen..].windows(END.len()).position(|window| window == END) {
            bytes.truncate(seen + at + END.len());
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// What comes before the bytes of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) is_compressed: bool,
}

impl Head {
    /// Of a text for people.
    pub(crate) const fn text(status: &'static str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", is_compressed: false }
    }

    /// Of bytes of this kind.
    pub(crate) const fn of(kind: &'static str) -> Self {
        Self { status: "200 OK", kind, is_compressed: false }
    }
}

/// What a request gets that is longer than allowed.
pub(crate) const TOO_LONG: Head = Head::text("431 Request Header Fields Too Large");

/// Answers with these bytes.
pub(crate) fn respond<V: Display>(
    socket: &mut TcpStream,
    head: &Head,
    headers: &[(&'static str, V)],
    body: &[u8],
) -> io::Result<()> {
    let Head { status, kind, is_compressed } = head;
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    if *is_compressed {
        text += "Content-Encoding: gzip\r\n";
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "Connection: close\r\n\r\n";
    socket.write_all(text.as_bytes())?;
    socket.write_all(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_accept_nobody_rests_before_the_next_attempt() {
        let mut rests = 0;
        assert_eq!(accepted(Ok(1), || rests += 1), Some(1));
        assert_eq!(accepted::<u8>(Err(io::ErrorKind::OutOfMemory.into()), || rests += 1), None);
        assert_eq!(rests, 1);
    }

    #[test]
    fn so_many_are_answered_at_once_and_the_next_when_one_has_left() {
        let open = Arc::new(AtomicUsize::new(0));
        let first = Visit::begin(&open, 2);
        let second = Visit::begin(&open, 2);
        assert!(first.is_some() && second.is_some() && Visit::begin(&open, 2).is_none());
        drop(first);
        assert!(Visit::begin(&open, 2).is_some());
    }

    /// What is read of a peer that says these pieces, and then no more.
    fn heard(pieces: &[&[u8]], most_bytes: usize) -> io::Result<Option<Vec<u8>>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0;
        thread::scope(|scope| {
            let reading = scope.spawn(|| read_head(&mut socket, most_bytes, Duration::from_secs(60)));
            for piece in pieces {
                peer.write_all(piece).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
            // The end of the stream ends a wait for more.
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            reading.join().unwrap()
        })
    }

    #[test]
    fn a_head_ends_with_its_empty_line_whatever_comes_behind() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        let with = |rest: &[u8]| [&head[..], rest].concat();
        assert_eq!(heard(&[&head], 100).unwrap(), Some(head.clone()));
        assert_eq!(heard(&[&with(b"\n")], 100).unwrap(), Some(head.clone()), "a byte behind");
        assert_eq!(
            heard(&[&head[..27], &with(b"body")[27..]], 100).unwrap(),
            Some(head.clone()),
            "in two pieces"
        );
        assert_eq!(heard(&[&[b'a'; 100]], 100).unwrap(), None);
        assert_eq!(heard(&[b"GET / HTTP/1.1\r\n"], 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
