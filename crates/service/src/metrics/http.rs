//! The small HTTP that shows health and metrics, to programs and to the operator. Each connection has a thread and a short time, so that nobody who reads
//! slowly keeps others from asking whether the service lives.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::{Metrics, Now};
use crate::http::{self, Head};
use crate::server::Service;

/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 4096;
/// How long one exchange may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections that are answered at once; the others find the door shut.
const MAX_CONNECTIONS: usize = 64;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The operator's page: it reads `/metrics` and shows it. Its own files are all that it may load.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'";
const PAGE: &str = include_str!("dashboard/dashboard.html");
const PAGE_STYLE: &str = include_str!("dashboard/dashboard.css");
const PAGE_SCRIPT: &str = include_str!("dashboard/dashboard.js");

/// Answers `GET /healthz`, `GET /metrics` and the operator's page until the process ends.
pub(crate) fn serve(listener: &TcpListener, service: &Arc<Service>) {
    let service = Arc::clone(service);
    http::serve(listener, "metrics-answer", MAX_CONNECTIONS, move |socket| answer(socket, &service));
}

fn answer(mut socket: TcpStream, service: &Service) -> io::Result<()> {
    socket.set_write_timeout(Some(PATIENCE))?;
    let (head, body) = match http::read_head(&mut socket, MAX_REQUEST_BYTES, PATIENCE)? {
        Some(request) => respond(&request, service.metrics(), service.now()),
        None => (http::TOO_LONG, "the request is too long\n".to_owned()),
    };
    let headers = [("Content-Security-Policy", PAGE_POLICY), ("X-Content-Type-Options", "nosniff")];
    http::respond(&mut socket, &head, &headers, body.as_bytes())
}

fn respond(request: &[u8], metrics: &Metrics, now: Now) -> (Head, String) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let plain = |status, body: &str| (Head::text(status), body.to_owned());
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/healthz")) if now.is_open => plain("200 OK", "ok\n"),
        (Some(b"GET"), Some(b"/healthz")) => plain("503 Service Unavailable", "shutting down\n"),
        (Some(b"GET"), Some(b"/metrics")) => (Head::of(OPEN_METRICS), metrics.text(now)),
        (Some(b"GET"), Some(b"/")) => (Head::of("text/html; charset=utf-8"), PAGE.to_owned()),
        (Some(b"GET"), Some(b"/dashboard.css")) => {
            (Head::of("text/css; charset=utf-8"), PAGE_STYLE.to_owned())
        }
        (Some(b"GET"), Some(b"/dashboard.js")) => {
            (Head::of("text/javascript; charset=utf-8"), PAGE_SCRIPT.to_owned())
        }
        (Some(b"GET"), Some(_)) => plain("404 Not Found", "there are /, /healthz and /metrics\n"),
        _ => plain("405 Method Not Allowed", "GET alone\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_metrics_the_page_and_nothing_else() {
        let metrics = Metrics::default();
        metrics.classified.inc_by(3);
        let open = Now { is_open: true, ..Now::default() };
        let ask = |line: &str, now| {
            let (head, body) = respond(format!("{line}\r\nHost: x\r\n\r\n").as_bytes(), &metrics, now);
            (head.status, body)
        };
        assert_eq!(ask("GET /healthz HTTP/1.1", open).0, "200 OK");
        assert!(ask("GET /healthz HTTP/1.1", Now::default()).0.starts_with("503"));
        let (status, body) = ask("GET /metrics HTTP/1.1", open);
        assert_eq!(status, "200 OK");
        assert!(body.contains("\nsordino_classified_total 3\n"), "{body}");
        for (path, part) in
            [("/", "The server now"), ("/dashboard.css", "color-scheme"), ("/dashboard.js", "fetch")]
        {
            let (status, body) = ask(&format!("GET {path} HTTP/1.1"), open);
            assert!(status == "200 OK" && body.contains(part), "{path}");
        }
        assert!(ask("GET /secret HTTP/1.1", open).0.starts_with("404"));
        assert!(ask("POST /metrics HTTP/1.1", open).0.starts_with("405"));
        assert!(respond(&[0xff; 100], &metrics, open).0.status.starts_with("405"));
    }

    #[test]
    fn the_page_reads_names_that_metrics_have() {
        use inference::setup::messages::ModelName;
        let metrics = Metrics::default();
        let model = ModelName::new("chest").unwrap();
        metrics.note_prepared(&model, Duration::from_secs(1));
        metrics.note_classified(&model, 1, Duration::from_secs(1));
        let text = metrics.text(Now::default());
        let named = PAGE_SCRIPT.split("value(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let means = ["offline_phase_seconds_sum", "online_phase_seconds_sum", "online_phase_seconds_count"];
        for name in named.chain(means) {
            let is_there = text.lines().any(|line| {
                line.strip_prefix(&format!("sordino_{name}")).is_some_and(|rest| rest.starts_with([' ', '{']))
            });
            assert!(is_there, "{name}");
        }
    }
}
