//! The stream itself: gathers what is written, ends with goodbye.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData, StreamOwned};

use super::TlsError;
use crate::connection::pinned::{BINDING_BYTES, BINDING_LABEL, Fingerprint};
use crate::connection::time_limits::TimedSocket;

/// What is gathered before it goes to the socket.
const BUFFER_BYTES: usize = 64 << 10;
/// How long the end of a connection may take.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A TLS stream that gathers what is written until it is flushed.
pub struct TlsStream {
    inner: Inner,
    unsent: Vec<u8>,
    /// Nothing can be written any more; what the peer said before it hung up can still be read.
    is_half_closed: bool,
}

enum Inner {
    Client(Box<StreamOwned<ClientConnection, TimedSocket>>),
    Server(Box<StreamOwned<ServerConnection, TimedSocket>>),
}

impl TlsStream {
    pub(super) fn client(connection: ClientConnection, socket: TimedSocket) -> Self {
        let inner = Inner::Client(Box::new(StreamOwned::new(connection, socket)));
        Self { inner, unsent: Vec::new(), is_half_closed: false }
    }

    pub(super) fn server(connection: ServerConnection, socket: TimedSocket) -> Self {
        let inner = Inner::Server(Box::new(StreamOwned::new(connection, socket)));
        Self { inner, unsent: Vec::new(), is_half_closed: false }
    }

    fn stream(&mut self) -> &mut dyn ReadWrite {
        match &mut self.inner {
            Inner::Client(stream) => stream.as_mut(),
            Inner::Server(stream) => stream.as_mut(),
        }
    }

    /// Runs the handshake. What TLS has against the peer comes wrapped in an error of the socket.
    pub(super) fn shake_hands(mut self) -> Result<(Self, [u8; BINDING_BYTES]), TlsError> {
        let result = match &mut self.inner {
            Inner::Client(stream) => stream.conn.complete_io(&mut stream.sock),
            Inner::Server(stream) => stream.conn.complete_io(&mut stream.sock),
        };
        let is_server = matches!(self.inner, Inner::Server(_));
        let said = |error: TlsError| if is_server { error.at_server() } else { error };
        result.map_err(|error| said(TlsError::from_stream(error)))?;
        let empty = [0; BINDING_BYTES];
        let binding = match &self.inner {
            Inner::Client(stream) => stream.conn.export_keying_material(empty, BINDING_LABEL, None)?,
            Inner::Server(stream) => stream.conn.export_keying_material(empty, BINDING_LABEL, None)?,
        };
        Ok((self, binding))
    }

    /// The fingerprint of the peer's certificate, where it showed one.
    pub fn peer(&self) -> Option<Fingerprint> {
        let certificates = match &self.inner {
            Inner::Client(stream) => stream.conn.peer_certificates(),
            Inner::Server(stream) => stream.conn.peer_certificates(),
        };
        certificates?.first().map(Fingerprint::of)
    }

    fn socket(&self) -> &TimedSocket {
        match &self.inner {
            Inner::Client(stream) => &stream.sock,
            Inner::Server(stream) => &stream.sock,
        }
    }

    /// Nothing is waited for any more: what comes next is computed, in this session's turn.
    fn go_on(&self) {
        self.socket().limits().resume();
    }

    fn push(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let result = self.stream().write_all(&unsent);
        self.unsent = unsent;
        self.unsent.clear();
        self.note(result)
    }

    /// Remembers that the peer takes nothing any more.
    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.is_half_closed |= result.is_err();
        result
    }
}

/// A stream ends with goodbye. A server then waits a moment for the client to hang up: unread bytes would make the system
/// throw away our last words, which may say why it ends.
impl Drop for TlsStream {
    fn drop(&mut self) {
        // The peer may be gone already; then there is nobody to say it to.
        match &mut self.inner {
            Inner::Client(stream) => {
                stream.sock.limits().allow(Some(LAST_WORDS));
                stream.conn.send_close_notify();
                let _ = stream.conn.write_tls(&mut stream.sock);
            }
            Inner::Server(stream) => {
                stream.sock.limits().allow(Some(LAST_WORDS));
                stream.conn.send_close_notify();
                let _ = stream.conn.write_tls(&mut stream.sock);
                let _ = stream.sock.socket().shutdown(Shutdown::Write);
                let mut unread = [0; 4096];
                while stream.sock.read(&mut unread).is_ok_and(|count| count > 0) {}
            }
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_half_closed {
            return self.stream().read(buffer);
        }
        match &mut self.inner {
            Inner::Client(stream) => read_only(&mut stream.conn, &mut stream.sock, buffer),
            Inner::Server(stream) => read_only(&mut stream.conn, &mut stream.sock, buffer),
        }
    }

    /// A turn that was given up is asked for when all of it is there, not for every part.
    fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.go_on();
        Ok(())
    }
}

/// Reads without the attempt to write first, which rustls's own stream makes.
fn read_only<D>(
    connection: &mut ConnectionCommon<D>,
    socket: &mut TimedSocket,
    buffer: &mut [u8],
) -> io::Result<usize>
where
    D: SideData,
{
    loop {
        match connection.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        if connection.read_tls(socket)? == 0 {
            return Ok(0);
        }
        connection
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsent.len() + bytes.len() > BUFFER_BYTES {
            self.push()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            let result = self.stream().write_all(bytes);
            self.note(result)?;
        } else {
            self.unsent.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes)?;
        self.go_on();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        let result = self.stream().flush();
        self.note(result)?;
        self.go_on();
        Ok(())
    }
}
