//! What the service did so far, for Prometheus and for health checks. Sums over whole phases; nothing about one request.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 4096;
/// How long one exchange may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Sessions that were set up.
    pub sessions: AtomicU64,
    /// Clients that were turned away or refused.
    pub refusals: AtomicU64,
    /// Sessions that ended in an error.
    pub failures: AtomicU64,
    /// Inferences prepared.
    pub prepared: AtomicU64,
    /// Images classified.
    pub classified: AtomicU64,
    /// Microseconds in offline phases.
    pub offline_micros: AtomicU64,
    /// Microseconds in online phases.
    pub online_micros: AtomicU64,
    /// Bytes from clients.
    pub bytes_received: AtomicU64,
    /// Bytes to clients.
    pub bytes_sent: AtomicU64,
    /// Clients connected now.
    pub clients: AtomicU64,
}

/// What is measured at the moment of asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Clients for whom something is computed.
    pub running: usize,
    /// Clients that wait for that.
    pub waiting: usize,
    /// Bytes promised to weights and clients.
    pub memory: u64,
    /// Whether new clients are welcome.
    pub is_open: bool,
}

impl Metrics {
    /// Adds to a counter.
    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// In the text format of Prometheus.
    pub fn text(&self, now: Now) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, help: &str, value: f64| {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "# HELP sordino_{name} {help}\n# TYPE sordino_{name} {kind}\nsordino_{name} {value}"
            );
        };
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        line("connections_total", "counter", "Connections accepted.", get(&self.connections));
        line("sessions_total", "counter", "Sessions set up.", get(&self.sessions));
        line("refusals_total", "counter", "Clients refused.", get(&self.refusals));
        line("failures_total", "counter", "Sessions ended by an error.", get(&self.failures));
        line("prepared_total", "counter", "Inferences prepared.", get(&self.prepared));
        line("classified_total", "counter", "Images classified.", get(&self.classified));
        line("offline_seconds_total", "counter", "Time in offline phases.", get(&self.offline_micros) / 1e6);
        line("online_seconds_total", "counter", "Time in online phases.", get(&self.online_micros) / 1e6);
        line("received_bytes_total", "counter", "Bytes from clients.", get(&self.bytes_received));
        line("sent_bytes_total", "counter", "Bytes to clients.", get(&self.bytes_sent));
        line("clients", "gauge", "Clients connected.", get(&self.clients));
        line("running", "gauge", "Clients for whom something is computed.", now.running as f64);
        line("waiting", "gauge", "Clients that wait for that.", now.waiting as f64);
        line("promised_memory_bytes", "gauge", "Bytes promised to weights and clients.", now.memory as f64);
        text
    }
}

/// Answers `GET /healthz` and `GET /metrics`, one after the other, until the process ends.
pub(super) fn serve(listener: &TcpListener, metrics: &Metrics, now: impl Fn() -> Now) {
    for socket in listener.incoming().flatten() {
        // Who asks badly or hangs up gets nothing; the next one is served.
        let _ = answer(socket, metrics, &now);
    }
}

fn answer(mut socket: TcpStream, metrics: &Metrics, now: impl Fn() -> Now) -> std::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        let left = end.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut bytes = [0; 512];
        match socket.read(&mut bytes)? {
            0 => break,
            count => request.extend_from_slice(&bytes[..count]),
        }
        if left.is_zero() {
            return Ok(());
        }
    }
    let (status, body) = respond(&request, metrics, now());
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n"
    );
    socket.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}

fn respond(request: &[u8], metrics: &Metrics, now: Now) -> (&'static str, String) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/healthz")) if now.is_open => ("200 OK", "ok\n".to_owned()),
        (Some(b"GET"), Some(b"/healthz")) => ("503 Service Unavailable", "shutting down\n".to_owned()),
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", metrics.text(now)),
        (Some(b"GET"), Some(_)) => ("404 Not Found", "there are /healthz and /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET alone\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_metrics_and_nothing_else() {
        let metrics = Metrics::default();
        Metrics::add(&metrics.classified, 3);
        let open = Now { is_open: true, ..Now::default() };
        let ask = |line: &str, now| respond(format!("{line}\r\nHost: x\r\n\r\n").as_bytes(), &metrics, now);
        assert_eq!(ask("GET /healthz HTTP/1.1", open).0, "200 OK");
        assert!(ask("GET /healthz HTTP/1.1", Now::default()).0.starts_with("503"));
        let (status, body) = ask("GET /metrics HTTP/1.1", open);
        assert_eq!(status, "200 OK");
        assert!(body.contains("\nsordino_classified_total 3\n"), "{body}");
        assert!(ask("GET /secret HTTP/1.1", open).0.starts_with("404"));
        assert!(ask("POST /metrics HTTP/1.1", open).0.starts_with("405"));
        assert!(respond(&[0xff; 100], &metrics, open).0.starts_with("405"));
    }
}
