//! `sordino bench private`: the client's process, which starts the server's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;
use inference::client::{Answer as Learned, Client, ShareRecord};
use inference::connection::{Connection, Fingerprint, Role, TlsStream, connect_tls};
use inference::plan::Reveal;
use inference::transcript::{Phase, Traffic};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use serde::Serialize;

use super::party::{Measured, cpu_seconds, peak_memory, work};
use super::relay::relay;
use crate::commands::link::Link;
use crate::commands::model::{ModelArguments, trial_image};
use crate::commands::progress::OfflineProgress;
use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The link between the parties: loopback, lan, wan, or such as 1gbps,20ms.
    #[arg(long, default_value = "loopback")]
    link: Link,
    /// Inferences to run; the one with the median online time is reported.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    repeat: usize,
    /// Images that share the round trips of each inference.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    batch: usize,
    /// Let the client learn the class alone.
    #[arg(long)]
    class_only: bool,
    /// Bytes that the server's transformed weights may take [default: as many as they need].
    #[arg(long, value_name = "BYTES")]
    weight_memory: Option<usize>,
    /// Threads of each party.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    threads: NonZeroUsize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    network: String,
    relus: u64,
    linearized: u64,
    offline: PhaseReport,
    online: PhaseReport,
    set_up: TrafficReport,
    predicted: Predicted,
    by_kind: serde_json::Map<String, serde_json::Value>,
    layers: Vec<LayerReport>,
    peak_memory: PeakMemory,
    matches_reference: bool,
    class_agrees: bool,
    max_logit_difference: Option<i64>,
    logit_range: Option<i64>,
    server_ready_s: f64,
    he: Vec<String>,
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

impl From<Traffic> for TrafficReport {
    fn from(traffic: Traffic) -> Self {
        Self { bytes_up: traffic.bytes_up, bytes_down: traffic.bytes_down, rounds: traffic.rounds }
    }
}

#[derive(Serialize)]
struct Predicted {
    offline_bytes: u64,
    online_bytes: u64,
    online_rounds: u64,
}

#[derive(Serialize)]
struct LayerReport {
    name: String,
    relus: u64,
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

/// One inference as the client saw it.
struct Run {
    offline_wall_s: f64,
    online_wall_s: f64,
    offline_cpu_s: f64,
    online_cpu_s: f64,
    images: Vec<Outcome>,
}

/// What the client learned of one image, and what it should have.
struct Outcome {
    answer: Learned,
    expected: Vec<i64>,
    plain: Vec<i64>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    ensure!(arguments.repeat > 0 && arguments.batch > 0, "--repeat and --batch must be at least 1");
    let (model, _) = arguments.model.load_or_freeze()?;
    let file = ModelFile::write(&model)?;
    let mut server = ServerProcess::start(arguments, &file.0)?;
    let address = match arguments.link {
        Link::LOOPBACK => server.address,
        link => relay(link, server.address)?,
    };
    let (stream, binding) = connect_tls(TcpStream::connect(address)?, server.fingerprint)?;
    let reveal = if arguments.class_only { Reveal::Class } else { Reveal::Logits };
    let mut client = Client::connect(Connection::new(stream, Role::Client), reveal, &binding)?;
    client.use_threads(arguments.threads)?;
    let progress = OfflineProgress::start(client.plan(), arguments.repeat * arguments.batch);
    client.watch(progress.watcher());
    let mut runs = Vec::new();
    for number in 0..arguments.repeat {
        runs.push(one_inference(&mut client, &model, number as u64, arguments.batch)?);
    }
    progress.finish();
    let measured = server.finish()?;
    let report = Report::new(arguments, &model, &client, &runs, &measured);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(if report.matches_reference { Answer::Yes } else { Answer::No })
}

/// Prepares and classifies one batch.
fn one_inference(
    client: &mut Client<TlsStream>,
    model: &InferenceModel,
    number: u64,
    batch: usize,
) -> anyhow::Result<Run> {
    let images: Vec<_> =
        (0..batch as u64).map(|image| trial_image(model, number * batch as u64 + image)).collect();
    let (start, before) = (Instant::now(), cpu_seconds());
    let mut prepared = images
        .iter()
        .map(|image| Ok((client.prepare_recorded()?, image)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (offline_wall_s, offline_cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    let coins: Option<Vec<_>> = prepared.iter_mut().map(|(prepared, _)| prepared.take_record()).collect();
    let coins = coins.context("the shares were recorded")?;
    let (start, before) = (Instant::now(), cpu_seconds());
    let answers = client.classify_batch(prepared)?;
    let (online_wall_s, online_cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    let outcome = |((answer, image), coins): ((Learned, &Image), &ShareRecord)| {
        let expected = reference::run_with(model, image, coins)?;
        Ok(Outcome { answer, expected, plain: reference::run(model, image)? })
    };
    let images =
        answers.into_iter().zip(&images).zip(&coins).map(outcome).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Run { offline_wall_s, online_wall_s, offline_cpu_s, online_cpu_s, images })
}

/// A model in a temporary file, for the other process to read.
struct ModelFile(PathBuf);

impl ModelFile {
    fn write(model: &InferenceModel) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("sordino-bench-{}.model", std::process::id()));
        model.save(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct ServerProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

impl ServerProcess {
    fn start(arguments: &Arguments, model: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "server"]).arg(model);
        command.arg("--inferences").arg(arguments.repeat.to_string());
        command.arg("--threads").arg(arguments.threads.to_string());
        command.arg("--batch").arg(arguments.batch.to_string());
        if arguments.class_only {
            command.arg("--class-only");
        }
        if let Some(bytes) = arguments.weight_memory {
            command.arg("--weight-memory").arg(bytes.to_string());
        }
        let mut child =
            command.stdout(Stdio::piped()).spawn().context("cannot start the server's process")?;
        let output = child.stdout.take().context("the server's output was piped")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Some((address, fingerprint)) = line.trim().split_once(' ') else {
            bail!("the server's process ended before it was ready");
        };
        Ok(Self { child, address: address.parse()?, fingerprint: fingerprint.parse()?, output })
    }

    fn finish(&mut self) -> anyhow::Result<Measured> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        ensure!(self.child.wait()?.success(), "the server's process failed");
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Report {
    fn new(
        arguments: &Arguments,
        model: &InferenceModel,
        client: &Client<TlsStream>,
        runs: &[Run],
        server: &Measured,
    ) -> Self {
        let plan = client.plan();
        let predicted = plan.traffic();
        let transcript = client.connection().transcript();
        let middle = median(runs.iter().map(|run| run.online_wall_s));
        let offline_middle = median(runs.iter().map(|run| run.offline_wall_s));
        let count = runs.len() as u64;
        let batch = arguments.batch as u64;
        let phase = |phase, wall_s, client_cpu_s, server_cpu_s| {
            let traffic = transcript.phase(phase);
            PhaseReport {
                wall_s,
                client_cpu_s,
                server_cpu_s,
                traffic: TrafficReport {
                    bytes_up: traffic.bytes_up / count,
                    bytes_down: traffic.bytes_down / count,
                    rounds: traffic.rounds / count,
                },
            }
        };
        let layers = plan.layers();
        let outcomes = || runs.iter().flat_map(|run| &run.images);
        let logits = outcomes().filter_map(|run| match &run.answer {
            Learned::Logits(logits) => Some((logits, run)),
            Learned::Class(_) => None,
        });
        let differences = logits
            .clone()
            .flat_map(|(logits, run)| logits.iter().zip(&run.plain).map(|(a, b)| (a - b).abs()));
        let ranges = logits.map(|(_, run)| spread(&run.plain));
        Self {
            network: model.outline().name.clone(),
            relus: model.outline().relu_count(),
            linearized: layers.iter().map(|layer| layer.linearized).sum(),
            offline: phase(
                Phase::Offline,
                offline_middle,
                median(runs.iter().map(|run| run.offline_cpu_s)),
                median(server.offline_cpu_s.iter().copied()),
            ),
            online: phase(
                Phase::Online,
                middle,
                median(runs.iter().map(|run| run.online_cpu_s)),
                median(server.online_cpu_s.iter().copied()),
            ),
            set_up: transcript.phase(Phase::SetUp).into(),
            predicted: Predicted {
                offline_bytes: (predicted.offline.bytes_up + predicted.offline.bytes_down) * batch,
                online_bytes: (predicted.online.bytes_up + predicted.online.bytes_down) * batch,
                online_rounds: predicted.online.rounds,
            },
            by_kind: by_kind(&work(transcript, runs.len()), &server.work_s),
            layers: layers
                .into_iter()
                .map(|layer| LayerReport {
                    name: layer.name,
                    relus: layer.relus,
                    linearized: layer.linearized,
                    he_bytes: layer.homomorphic,
                    nonlinear_offline_bytes: layer.nonlinear_offline,
                    online_bytes: layer.online,
                    truncation_bytes: layer.truncation,
                })
                .collect(),
            peak_memory: PeakMemory { client: peak_memory(), server: server.peak_memory },
            matches_reference: outcomes().all(Outcome::matches_reference),
            class_agrees: outcomes()
                .all(|run| run.answer.class() == Learned::Logits(run.plain.clone()).class()),
            max_logit_difference: differences.max(),
            logit_range: ranges.min(),
            server_ready_s: server.ready_s,
            he: plan.parameters().iter().map(ToString::to_string).collect(),
            threads: arguments.threads.get(),
            link: arguments.link.to_string(),
            cpu: crate::commands::doctor::processor(),
            repeat: runs.len(),
            batch: arguments.batch,
        }
    }

    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "{}: {} ReLUs kept, {} positions linearized, {}",
            self.network,
            grouped(self.relus),
            grouped(self.linearized),
            self.link
        )?;
        writeln!(out)?;
        let mut table = Table::new(&[
            "<phase",
            "wall",
            "CPU client",
            "CPU server",
            "MB up",
            "MB down",
            "rounds",
            "<predicted",
        ]);
        let megabytes = |bytes: u64| format!("{:.3}", bytes as f64 / 1e6);
        for (name, phase, bytes) in [
            ("offline", &self.offline, self.predicted.offline_bytes),
            ("online", &self.online, self.predicted.online_bytes),
        ] {
            let exact = if phase.traffic.bytes_up + phase.traffic.bytes_down == bytes {
                "to the byte"
            } else {
                "OFF"
            };
            table.row(vec![
                name.to_owned(),
                format!("{:.1} ms", phase.wall_s * 1e3),
                format!("{:.1} ms", phase.client_cpu_s * 1e3),
                format!("{:.1} ms", phase.server_cpu_s * 1e3),
                megabytes(phase.traffic.bytes_up),
                megabytes(phase.traffic.bytes_down),
                phase.traffic.rounds.to_string(),
                exact.to_owned(),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
        if self.batch > 1 {
            let each = self.online.wall_s * 1e3 / self.batch as f64;
            writeln!(out, "{} images share each round trip: {each:.1} ms online per image", self.batch)?;
        }
        for (kind, times) in &self.by_kind {
            writeln!(out, "{kind:<11} {times}")?;
        }
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

impl Outcome {
    fn matches_reference(&self) -> bool {
        match &self.answer {
            Learned::Logits(logits) => *logits == self.expected,
            // The class comes from the unrounded logits, so equal rounded ones may hide the larger.
            Learned::Class(class) => {
                let best = self.expected.iter().max();
                self.expected.get(*class).is_some_and(|logit| best.is_some_and(|best| logit + 1 >= *best))
            }
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
