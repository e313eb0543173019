//! The page for browsers, and the WebSocket through which its client reaches the service.
//!
//! ```text
//! browser                              this module                        the service
//!   GET /…                 ------->    files of the page, headers
//!   GET /settings.json     ------->    fingerprint, models
//!   GET /socket, upgraded  ------->    allowed origin?
//!   binary frames          <------>    their payloads         <------>    a session like any other
//!   GET /plain, upgraded   ------->    in demos alone: the answer in plain, to compare with
//! ```
//!
//! What frames carry is TLS between the page's client and the session: this module, and whoever stands before it, moves
//! bytes that it cannot read or change. A connection through here is held to the same limits as one through the front door.
//!
//! A WebSocket may be opened by any page of any origin. Only origins that were listed may, and the page of this very
//! address; there the host must be an address or `localhost`, because a name could be made to point here by anybody.

mod frames;
mod plain;
mod relay;
mod request;
mod upgrade;

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};

use crate::http::{self, Head};
use crate::proxy::{self, Proxied};
use crate::server::Service;
use request::Request;

pub use plain::PlainAnswers;

/// Where the WebSocket is.
const SOCKET_PATH: &str = "/socket";
/// Where a demo's page asks in plain.
const PLAIN_PATH: &str = "/plain";
/// Where the page learns whom it talks to.
const SETTINGS_PATH: &str = "/settings.json";
/// The word that page and server agree on for what the frames carry.
const SUBPROTOCOL: &str = "sordino";
/// How long a request may take, and a browser that takes no bytes is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Requests for files that are answered at once; the others find the door shut.
const MAX_REQUESTS: usize = 64;

/// One file of the page.
#[derive(Clone, Debug)]
pub struct WebFile {
    /// Its path, such as `/app.js`.
    pub path: String,
    /// Its media type.
    pub kind: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The bytes are compressed by gzip.
    pub is_compressed: bool,
}

/// The page that browsers get.
#[derive(Clone, Debug)]
pub struct WebPage {
    /// All files; `/` is the page itself.
    pub files: Vec<WebFile>,
    /// Headers of every answer: what the page may do and load.
    pub headers: Vec<(&'static str, String)>,
    /// Origins besides its own whose pages may open the WebSocket, such as `https://models.example`.
    pub origins: Vec<String>,
    /// In demos alone: answers for pages that show their picture to the server, to compare.
    pub plain: Option<PlainAnswers>,
}

impl Service {
    /// Shows a page on another address, in threads of its own, until the process ends.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn show_page(self: &Arc<Self>, listener: TcpListener, page: WebPage) -> io::Result<()> {
        let (service, most) = (Arc::clone(self), MAX_REQUESTS + self.most_clients());
        let answer = move |socket| answer(socket, &service, &page);
        let show = move || http::serve(&listener, "web-answer", most, answer);
        thread::Builder::new().name("web".to_owned()).spawn(show).map(drop)
    }
}

fn answer(mut socket: TcpStream, service: &Arc<Service>, page: &WebPage) -> io::Result<()> {
    let Some(address) = who(&socket, service)? else { return Ok(()) };
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let head = http::read_head(&mut socket, MAX_REQUEST_BYTES, PATIENCE)?;
    let request = match head.ok_or(http::TOO_LONG).and_then(|head| Request::parse(&head).map_err(Head::text))
    {
        Ok(request) => request,
        Err(head) => return http::respond(&mut socket, &head, &page.headers, head.status.as_bytes()),
    };
    let plain = page.plain.as_ref().filter(|_| request.path == PLAIN_PATH);
    if request.path == SOCKET_PATH || plain.is_some() {
        return match (admission(&request, page), plain) {
            (Ok(key), Some(plain)) => {
                upgrade::switch_protocols(&mut socket, &key, SUBPROTOCOL)?;
                plain.run(&socket, address, service)
            }
            (Ok(key), None) => {
                upgrade::switch_protocols(&mut socket, &key, SUBPROTOCOL)?;
                socket.set_read_timeout(None)?;
                relay::run(socket, address, service)
            }
            (Err((status, why)), _) => {
                debug!(client = %address, why, "no WebSocket");
                http::respond(&mut socket, &Head::text(status), &page.headers, why.as_bytes())
            }
        };
    }
    if request.path == SETTINGS_PATH {
        let settings = service.page_settings(page.plain.is_some());
        return http::respond(&mut socket, &Head::of("application/json"), &page.headers, settings.as_bytes());
    }
    match page.files.iter().find(|file| file.path == request.path) {
        Some(file) => {
            let head = Head { is_compressed: file.is_compressed, ..Head::of(file.kind) };
            http::respond(&mut socket, &head, &page.headers, &file.bytes)
        }
        None => http::respond(
            &mut socket,
            &Head::text("404 Not Found"),
            &page.headers,
            b"there is no such file\n",
        ),
    }
}

/// Whose connection it is: where a balancer passes it on, it says so first. None of a balancer that only looks.
fn who(socket: &TcpStream, service: &Service) -> io::Result<Option<IpAddr>> {
    let peer = socket.peer_addr()?.ip();
    if !service.is_proxy(peer) {
        return Ok(Some(peer));
    }
    match proxy::read(socket, PATIENCE) {
        Ok(Proxied::Client(address)) => Ok(Some(address)),
        Ok(Proxied::Local) => Ok(None),
        Err(error) => {
            warn!(balancer = %peer, reason = %error, "no header of a balancer");
            Ok(None)
        }
    }
}

/// The key of a WebSocket that may be opened.
fn admission(request: &Request, page: &WebPage) -> Result<String, (&'static str, &'static str)> {
    let is = |name: &str, word: &str| {
        let values = request.header(name).unwrap_or_default();
        values.split(',').any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    let key = request.header("sec-websocket-key").filter(|key| key.len() == 24);
    let is_upgrade = is("upgrade", "websocket") && is("connection", "upgrade");
    let (Some(key), true) = (key, is_upgrade && is("sec-websocket-version", "13")) else {
        return Err(("426 Upgrade Required", "expected a WebSocket of version 13\n"));
    };
    if !is("sec-websocket-protocol", SUBPROTOCOL) {
        return Err(("400 Bad Request", "expected the WebSocket subprotocol sordino\n"));
    }
    let (origin, host) = (request.header("origin"), request.header("host"));
    // Programs that are no browsers name no origin; they could as well use the front door.
    if origin.is_some_and(|origin| !may_connect(origin, host.unwrap_or_default(), &page.origins)) {
        return Err(("403 Forbidden", "pages of this origin may not connect; --web-origin allows them\n"));
    }
    Ok(key.to_owned())
}

/// Whether a page of this origin may open the WebSocket.
fn may_connect(origin: &str, host: &str, listed: &[String]) -> bool {
    let same = |listed: &String| listed.trim_end_matches('/').eq_ignore_ascii_case(origin);
    if listed.iter().any(same) {
        return true;
    }
    let of_origin = origin.split_once("://").map(|(_, host)| host);
    of_origin.is_some_and(|own| own.eq_ignore_ascii_case(host)) && cannot_be_redirected(host)
}

/// Whether a host is an address, or this machine: names can be made to point anywhere by whoever owns them.
fn cannot_be_redirected(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_and_listed_ones_may_connect_and_no_others() {
        let listed = ["https://models.example/".to_owned()];
        let may = |origin: &str, host: &str| may_connect(origin, host, &listed);
        assert!(may("http://127.0.0.1:7443", "127.0.0.1:7443"));
        assert!(may("http://localhost:7443", "localhost:7443") && may("http://[::1]:7443", "[::1]:7443"));
        assert!(may("https://models.example", "anything"));
        assert!(!may("http://127.0.0.1:7444", "127.0.0.1:7443"), "another port");
        assert!(!may("http://evil.example", "127.0.0.1:7443"));
        assert!(!may("http://evil.example:7443", "evil.example:7443"), "a name that was made to point here");
        assert!(!may("null", "127.0.0.1:7443") && !may("", ""));
        assert!(!may("https://models.example.evil.example", "x"));
    }
}
