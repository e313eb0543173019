//! What `bench private` prints.

use std::collections::BTreeMap;
use std::io::Write;

use client::Cost;
use inference::client::{Answer as Learned, Client};
use inference::connection::TlsStream;
use inference::connection::frame::PROTOCOL_VERSION;
use inference::plan::LayerTraffic;
use inference::transcript::{Phase, Traffic};
use network::cost::{Counts, LineCounts};
use network::inference_model::InferenceModel;
use results::PrivateTiming;
use serde::Serialize;
use service::settings::ReluMode;

use super::{Arguments, Outcome, Run};
use crate::commands::bench::party::{Measured, peak_memory, work};
use crate::commands::rates::KnownRates;
use crate::report::{Table, grouped};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    network: String,
    #[serde(flatten)]
    counts: Counts,
    linearized: u64,
    offline: PhaseReport,
    online: PhaseReport,
    set_up: TrafficReport,
    predicted: Predicted,
    by_kind: serde_json::Map<String, serde_json::Value>,
    layers: Vec<LayerReport>,
    peak_memory: PeakMemory,
    pub(super) matches_reference: bool,
    class_agrees: bool,
    max_logit_difference: Option<i64>,
    logit_range: Option<i64>,
    server_ready_s: f64,
    he: Vec<String>,
    protocol_version: u16,
    exact_relus: bool,
    class_only: bool,
    threads: usize,
    link: String,
    cpu: Option<String>,
    repeat: usize,
    batch: usize,
}

#[derive(Serialize)]
struct PhaseReport {
    wall_s: f64,
    client_cpu_s: f64,
    server_cpu_s: f64,
    #[serde(flatten)]
    traffic: TrafficReport,
}

#[derive(Serialize)]
struct TrafficReport {
    bytes_up: u64,
    bytes_down: u64,
    rounds: u64,
}

#[derive(Serialize)]
struct Predicted {
    /// On this link, at the rates of [`KnownRates`]; absent where images or threads share the work.
    offline_s: Option<f64>,
    online_s: Option<f64>,
    /// Whose rates they are.
    rates_of: String,
    /// For each run.
    offline_bytes: u64,
    /// For the first image of a session, and for every further one.
    first_offline_bytes: u64,
    later_offline_bytes: u64,
    online_bytes: u64,
    online_rounds: u64,
}

#[derive(Serialize)]
struct LayerReport {
    name: String,
    #[serde(flatten)]
    counts: LineCounts,
    linearized: u64,
    he_bytes: u64,
    nonlinear_offline_bytes: u64,
    online_bytes: u64,
    truncation_bytes: u64,
}

#[derive(Serialize)]
struct PeakMemory {
    client: Option<u64>,
    server: Option<u64>,
}

impl Report {
    pub(super) fn new(
        arguments: &Arguments,
        model: &InferenceModel,
        client: &Client<TlsStream>,
        runs: &[Run],
        server: &Measured,
    ) -> Self {
        let plan = client.plan();
        let transcript = client.connection().transcript();
        let counts = model.outline().counts();
        let layers = plan.layers(client.depth()).into_iter();
        let layers: Vec<_> = layers.map(|layer| LayerReport::new(layer, counts.shares_signs())).collect();
        let agreement = Agreement::of(runs);
        let phase = |phase, [wall_s, client_cpu_s]: [fn(&Run) -> f64; 2], server_cpu_s: &[f64]| PhaseReport {
            wall_s: median(runs.iter().map(wall_s)),
            client_cpu_s: median(runs.iter().map(client_cpu_s)),
            server_cpu_s: median(server_cpu_s.iter().copied()),
            traffic: TrafficReport::per_run(transcript.phase(phase), runs.len() as u64),
        };
        Self {
            network: model.outline().name.clone(),
            counts,
            linearized: layers.iter().map(|layer| layer.linearized).sum(),
            offline: phase(
                Phase::Offline,
                [|run| run.offline_wall_s, |run| run.offline_cpu_s],
                &server.offline_cpu_s,
            ),
            online: phase(
                Phase::Online,
                [|run| run.online_wall_s, |run| run.online_cpu_s],
                &server.online_cpu_s,
            ),
            set_up: TrafficReport::per_run(transcript.phase(Phase::SetUp), 1),
            predicted: Predicted::new(arguments, client, runs.len() as u64),
            by_kind: by_kind(&work(transcript, runs.len()), &server.work_s),
            layers,
            peak_memory: PeakMemory { client: peak_memory(), server: server.peak_memory },
            matches_reference: agreement.matches_reference,
            class_agrees: agreement.class_agrees,
            max_logit_difference: agreement.max_logit_difference,
            logit_range: agreement.logit_range,
            server_ready_s: server.ready_s,
            he: plan.rings().iter().map(ToString::to_string).collect(),
            protocol_version: PROTOCOL_VERSION,
            exact_relus: arguments.relu == ReluMode::Exact,
            class_only: arguments.class_only,
            threads: arguments.threads.get(),
            link: arguments.link.to_string(),
            cpu: crate::commands::doctor::processor(),
            repeat: runs.len(),
            batch: arguments.batch,
        }
    }

    /// What a result's record keeps of it.
    pub(super) fn timing(&self, digest: String, random_weights: bool) -> PrivateTiming {
        let bytes = |phase: &PhaseReport| phase.traffic.bytes_up + phase.traffic.bytes_down;
        // What first and further images take is known one by one only as planned, so the plan must have been right.
        let as_planned =
            |planned: u64| (bytes(&self.offline) == self.predicted.offline_bytes).then_some(planned);
        PrivateTiming {
            online_s: self.online.wall_s,
            offline_s: self.offline.wall_s,
            online_bytes: bytes(&self.online),
            offline_bytes: bytes(&self.offline),
            first_offline_bytes: as_planned(self.predicted.first_offline_bytes),
            further_offline_bytes: as_planned(self.predicted.later_offline_bytes),
            rounds: self.online.traffic.rounds,
            protocol_version: Some(self.protocol_version),
            exact_relus: self.exact_relus,
            class_only: self.class_only,
            link: self.link.clone(),
            threads: self.threads,
            processor: self.cpu.clone().unwrap_or_else(|| "unknown processor".to_owned()),
            work_s: self.work_by_kind(),
            repeat: self.repeat,
            digest,
            random_weights,
        }
    }

    /// Of both parties and phases together.
    fn work_by_kind(&self) -> BTreeMap<String, f64> {
        let sum = |times: &serde_json::Value| {
            let parts = times.as_object().into_iter().flat_map(|parts| parts.values());
            parts.filter_map(serde_json::Value::as_f64).sum::<f64>()
        };
        let kinds = self.by_kind.iter().map(|(kind, times)| (kind.clone(), sum(times)));
        kinds.filter(|(_, seconds)| *seconds > 0.0).collect()
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let linearized = grouped(self.linearized);
        let Self { network, link, counts, .. } = self;
        writeln!(out, "{network}: {counts}, {linearized} positions linearized, {link}\n")?;
        self.phase_table().write(out)?;
        writeln!(out)?;
        if self.batch > 1 {
            let each = self.online.wall_s * 1e3 / self.batch as f64;
            writeln!(out, "{} images share each round trip: {each:.1} ms online per image", self.batch)?;
        }
        self.work_table().write(out)?;
        writeln!(out)?;
        for parameters in &self.he {
            writeln!(out, "{parameters}")?;
        }
        let memory = |bytes: Option<u64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6))
        };
        writeln!(
            out,
            "peak memory: client {}, server {}; server ready after {:.1} s",
            memory(self.peak_memory.client),
            memory(self.peak_memory.server),
            self.server_ready_s
        )?;
        self.write_agreement(out)
    }

    /// How long each kind of work took each party.
    fn work_table(&self) -> Table {
        let figures = ["offline_client_s", "offline_server_s", "online_client_s", "online_server_s"];
        let mut table =
            Table::new(&["<work", "offline client", "offline server", "online client", "online server"]);
        for (kind, times) in &self.by_kind {
            let cell = |figure: &&str| match times[*figure].as_f64() {
                Some(seconds) if seconds > 0.0 => format!("{:.1} ms", seconds * 1e3),
                _ => "-".to_owned(),
            };
            table.row(std::iter::once(kind.clone()).chain(figures.iter().map(cell)).collect());
        }
        table
    }

    fn phase_table(&self) -> Table {
        let columns = [
            "<phase",
            "wall",
            "predicted",
            "CPU client",
            "CPU server",
            "MB up",
            "MB down",
            "rounds",
            "<predicted",
        ];
        let mut table = Table::new(&columns);
        let megabytes = |bytes: u64| format!("{:.3}", bytes as f64 / 1e6);
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        let Predicted { offline_s, online_s, .. } = self.predicted;
        for (name, phase, predicted_s, predicted) in [
            ("offline", &self.offline, offline_s, self.predicted.offline_bytes),
            ("online", &self.online, online_s, self.predicted.online_bytes),
        ] {
            let TrafficReport { bytes_up, bytes_down, rounds } = phase.traffic;
            table.row(vec![
                name.to_owned(),
                milliseconds(phase.wall_s),
                predicted_s.map_or_else(|| "-".to_owned(), milliseconds),
                milliseconds(phase.client_cpu_s),
                milliseconds(phase.server_cpu_s),
                megabytes(bytes_up),
                megabytes(bytes_down),
                rounds.to_string(),
                if bytes_up + bytes_down == predicted { "to the byte" } else { "OFF" }.to_owned(),
            ]);
        }
        table
    }

    fn write_agreement(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let equal = if self.matches_reference { "equals" } else { "DIFFERS from" };
        writeln!(out, "the private answer {equal} the reference with the protocol's rounding, bit for bit")?;
        if let (Some(difference), Some(range)) = (self.max_logit_difference, self.logit_range) {
            writeln!(
                out,
                "against plain rounding: class {}, logits off by at most {difference} of a range of {range}",
                if self.class_agrees { "agrees" } else { "differs" }
            )?;
        }
        Ok(())
    }
}

impl TrafficReport {
    fn per_run(traffic: Traffic, runs: u64) -> Self {
        Self {
            bytes_up: traffic.bytes_up / runs,
            bytes_down: traffic.bytes_down / runs,
            rounds: traffic.rounds / runs,
        }
    }
}

impl Predicted {
    fn new(arguments: &Arguments, client: &Client<TlsStream>, runs: u64) -> Self {
        let (plan, depth, batch) = (client.plan(), client.depth(), arguments.batch as u64);
        let traffic = plan.traffic(depth);
        let KnownRates { processor: rates_of, rates } = KnownRates::load();
        let cost = Cost::planned(plan, depth, arguments.link.speed());
        let is_alone = batch == 1 && arguments.threads.get() == 1;
        // The median run is not the first of its session.
        let offline_s = if runs > 1 { cost.later() } else { cost }.offline_time(&rates);
        let online_s = cost.online_time(&rates);
        let offline = TrafficReport::per_run(traffic.offline_of(batch * runs), runs);
        let bytes = |traffic: Traffic| traffic.bytes_up + traffic.bytes_down;
        Self {
            offline_s: is_alone.then_some(offline_s.as_secs_f64()),
            online_s: is_alone.then_some(online_s.as_secs_f64()),
            rates_of,
            offline_bytes: offline.bytes_up + offline.bytes_down,
            first_offline_bytes: bytes(traffic.offline),
            later_offline_bytes: bytes(traffic.later_offline),
            online_bytes: (traffic.online.bytes_up + traffic.online.bytes_down) * batch,
            online_rounds: traffic.online.rounds,
        }
    }
}

impl LayerReport {
    fn new(layer: LayerTraffic, shares_signs: bool) -> Self {
        Self {
            counts: layer.counts().line(shares_signs),
            name: layer.name,
            linearized: layer.linearized,
            he_bytes: layer.homomorphic,
            nonlinear_offline_bytes: layer.nonlinear_offline,
            online_bytes: layer.online,
            truncation_bytes: layer.truncation,
        }
    }
}

/// What all images together say about the answers.
struct Agreement {
    matches_reference: bool,
    class_agrees: bool,
    max_logit_difference: Option<i64>,
    logit_range: Option<i64>,
}

impl Agreement {
    fn of(runs: &[Run]) -> Self {
        let outcomes = || runs.iter().flat_map(|run| &run.images);
        let logits = || {
            outcomes().filter_map(|run| match &run.answer {
                Learned::Logits(logits) => Some((logits, &run.plain)),
                Learned::Class(_) => None,
            })
        };
        let differences = |(logits, plain): (&Vec<i64>, &Vec<i64>)| {
            logits.iter().zip(plain).map(|(private, plain)| (private - plain).abs()).max()
        };
        Self {
            matches_reference: outcomes().all(Outcome::matches_reference),
            class_agrees: outcomes()
                .all(|run| run.answer.class() == Learned::Logits(run.plain.clone()).class()),
            max_logit_difference: logits().filter_map(differences).max(),
            logit_range: logits().map(|(_, plain)| spread(plain)).min(),
        }
    }
}

fn by_kind(
    client: &[(String, f64, f64)],
    server: &[(String, f64, f64)],
) -> serde_json::Map<String, serde_json::Value> {
    let mut kinds = serde_json::Map::new();
    for ((kind, client_offline, client_online), (_, server_offline, server_online)) in
        client.iter().zip(server)
    {
        let times = serde_json::json!({
            "offline_client_s": client_offline,
            "offline_server_s": server_offline,
            "online_client_s": client_online,
            "online_server_s": server_online,
        });
        kinds.insert(kind.clone(), times);
    }
    kinds
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn spread(logits: &[i64]) -> i64 {
    logits.iter().max().unwrap_or(&0) - logits.iter().min().unwrap_or(&0)
}
