//! What the service did so far, for Prometheus and for health checks. Sums over whole phases; nothing about one request.

mod http;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use inference::setup::messages::ModelName;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

pub(crate) use http::serve;

/// Seconds as a sum.
type Seconds = Counter<f64, AtomicU64>;
/// How long a phase took, by model.
type Durations = Family<ByModel, Histogram, fn() -> Histogram>;

/// Counters since the start.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Connections that were accepted.
    pub connections: Counter,
    /// Sessions that were set up.
    pub sessions: Counter,
    /// Clients that were turned away or refused.
    pub refusals: Counter,
    /// Sessions that ended in an error.
    pub failures: Counter,
    /// Inferences prepared.
    pub prepared: Counter,
    /// Images classified.
    pub classified: Counter,
    /// Time in offline phases.
    pub offline_seconds: Seconds,
    /// Time in online phases.
    pub online_seconds: Seconds,
    /// Bytes from clients.
    pub bytes_received: Counter,
    /// Bytes to clients.
    pub bytes_sent: Counter,
    /// Clients connected now.
    pub clients: Gauge,
    running: Gauge,
    waiting: Gauge,
    promised_memory: Gauge,
    offline_phases: Durations,
    online_phases: Durations,
    images: Family<ByModel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByModel {
    model: String,
}

impl From<&ModelName> for ByModel {
    fn from(name: &ModelName) -> Self {
        Self { model: name.to_string() }
    }
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

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("sordino");
        let shown = &mut registry;
        Self {
            connections: register(shown, "connections", "Connections accepted", Counter::default()),
            sessions: register(shown, "sessions", "Sessions set up", Counter::default()),
            refusals: register(shown, "refusals", "Clients refused", Counter::default()),
            failures: register(shown, "failures", "Sessions ended by an error", Counter::default()),
            prepared: register(shown, "prepared", "Inferences prepared", Counter::default()),
            classified: register(shown, "classified", "Images classified", Counter::default()),
            offline_seconds: register(shown, "offline_seconds", "Time in offline phases", Counter::default()),
            online_seconds: register(shown, "online_seconds", "Time in online phases", Counter::default()),
            bytes_received: register(shown, "received_bytes", "Bytes from clients", Counter::default()),
            bytes_sent: register(shown, "sent_bytes", "Bytes to clients", Counter::default()),
            clients: register(shown, "clients", "Clients connected", Gauge::default()),
            running: register(shown, "running", "Clients for whom something is computed", Gauge::default()),
            waiting: register(shown, "waiting", "Clients that wait for that", Gauge::default()),
            promised_memory: register(
                shown,
                "promised_memory_bytes",
                "Bytes promised to weights and clients",
                Gauge::default(),
            ),
            offline_phases: register(
                shown,
                "offline_phase_seconds",
                "How long preparing one took",
                durations(),
            ),
            online_phases: register(
                shown,
                "online_phase_seconds",
                "How long answering a batch took",
                durations(),
            ),
            images: register(shown, "model_images", "Images classified by each model", Family::default()),
            registry,
        }
    }
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// From 10 milliseconds to 20 minutes.
fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.01, 2.0, 18)))
}

impl Metrics {
    /// One more inference is prepared.
    pub(crate) fn note_prepared(&self, model: &ModelName, time: Duration) {
        self.prepared.inc();
        self.offline_seconds.inc_by(time.as_secs_f64());
        self.offline_phases.get_or_create(&model.into()).observe(time.as_secs_f64());
    }

    /// So many images more are classified, in one batch.
    pub(crate) fn note_classified(&self, model: &ModelName, images: u64, time: Duration) {
        self.classified.inc_by(images);
        self.images.get_or_create(&model.into()).inc_by(images);
        self.online_seconds.inc_by(time.as_secs_f64());
        self.online_phases.get_or_create(&model.into()).observe(time.as_secs_f64());
    }

    /// Counts bytes of a connection while they cross.
    pub(crate) fn byte_meter(&self) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
        let (sent, received) = (self.bytes_sent.clone(), self.bytes_received.clone());
        Arc::new(move |more_sent, more_received| {
            sent.inc_by(more_sent);
            received.inc_by(more_received);
        })
    }

    /// In the text format of OpenMetrics, which Prometheus reads.
    pub fn text(&self, now: Now) -> String {
        self.running.set(now.running as i64);
        self.waiting.set(now.waiting as i64);
        self.promised_memory.set(now.memory as i64);
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).expect("writing to a string does not fail");
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stand_alone_and_each_model_has_its_own_times() {
        let metrics = Metrics::default();
        let model = ModelName::new("chest").unwrap();
        metrics.note_prepared(&model, Duration::from_millis(1500));
        metrics.note_classified(&model, 2, Duration::from_millis(15));
        let text = metrics.text(Now { running: 1, memory: 5 << 30, ..Now::default() });
        for line in [
            "# TYPE sordino_classified counter",
            "sordino_prepared_total 1",
            "sordino_classified_total 2",
            "sordino_offline_seconds_total 1.5",
            "sordino_running 1",
            "sordino_promised_memory_bytes 5368709120",
            "sordino_model_images_total{model=\"chest\"} 2",
            "sordino_offline_phase_seconds_count{model=\"chest\"} 1",
            "sordino_online_phase_seconds_bucket{le=\"0.01\",model=\"chest\"} 0",
            "sordino_online_phase_seconds_bucket{le=\"0.02\",model=\"chest\"} 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
