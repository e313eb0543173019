//! As much of HTTP/1.1 as a page needs: GET, one request a connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::WebFile;
use super::request::Request;

/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// What RFC 6455 has both sides hash with the key.
const WEBSOCKET_WORD: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What comes before the bytes of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: &'static str,
    kind: &'static str,
    is_compressed: bool,
}

impl Head {
    pub(super) fn text(status: &'static str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", is_compressed: false }
    }

    pub(super) fn json() -> Self {
        Self { status: "200 OK", kind: "application/json", is_compressed: false }
    }

    pub(super) fn file(file: &WebFile) -> Self {
        Self { status: "200 OK", kind: file.kind, is_compressed: file.is_compressed }
    }
}

/// Reads a request, up to the empty line. A bad one gets the answer that stands in the second place.
pub(super) fn read_request(socket: &mut TcpStream, patience: Duration) -> io::Result<Result<Request, Head>> {
    let end = Instant::now() + patience;
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if bytes.len() >= MAX_REQUEST_BYTES {
            return Ok(Err(Head::text("431 Request Header Fields Too Large")));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        // Byte by byte would be slow; what follows the empty line belongs to nobody before the upgrade.
        let mut piece = [0; 1024];
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
    Ok(Request::parse(&bytes).map_err(Head::text))
}

/// Answers with these bytes.
pub(super) fn respond(
    socket: &mut TcpStream,
    head: &Head,
    headers: &[(&'static str, String)],
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

/// From here on the connection carries frames (RFC 6455, section 4.2.2).
pub(super) fn switch_protocols(socket: &mut TcpStream, key: &str, subprotocol: &str) -> io::Result<()> {
    let accept = accept_value(key);
    let text = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    );
    socket.write_all(text.as_bytes())
}

fn accept_value(key: &str) -> String {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    use base64::Engine;
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{WEBSOCKET_WORD}").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455, section 1.3.
    #[test]
    fn the_published_key_has_the_published_answer() {
        assert_eq!(accept_value("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
