//! How a request becomes a WebSocket (RFC 6455, section 4.2.2).

use std::io::{self, Write};
use std::net::TcpStream;

/// What RFC 6455 has both sides hash with the key.
const WEBSOCKET_WORD: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// From here on the connection carries frames.
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
