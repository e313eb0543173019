//! The server's process of a benchmark, and what both processes measure of themselves.

use std::io::Write;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use inference::connection::{Connection, Identity, Role, accept_tls};
use inference::plan::{Reveal, Terms};
use inference::server::{ServedModel, Server, WeightMemory};
use inference::transcript::{Phase, Transcript, Work};
use network::digest::to_hex;
use network::inference_model::InferenceModel;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use service::settings::ReluMode;

use crate::commands::Answer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The frozen model to serve.
    model: PathBuf,
    /// How many inferences to serve before ending.
    #[arg(long)]
    inferences: usize,
    /// How many images share the round trips of an inference.
    #[arg(long)]
    batch: usize,
    /// Threads to use.
    #[arg(long)]
    threads: NonZeroUsize,
    /// Reveal the class alone.
    #[arg(long)]
    class_only: bool,
    /// How ReLUs are computed.
    #[arg(long, value_enum, default_value = "fast")]
    relu: ReluMode,
    /// Bytes that transformed weights may take.
    #[arg(long)]
    weight_memory: Option<usize>,
}

/// One party's own measurements.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) ready_s: f64,
    pub(super) offline_cpu_s: Vec<f64>,
    pub(super) online_cpu_s: Vec<f64>,
    pub(super) work_s: Vec<(String, f64, f64)>,
    pub(super) peak_memory: Option<u64>,
    /// Of every inference, in hexadecimal: with it the other process repeats the protocol's rounding.
    pub(super) mask_seeds: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    // Whoever started this holds the other end of standard input: without them there is nothing to serve.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(2);
    });
    let start = Instant::now();
    let model = InferenceModel::load(&arguments.model)
        .with_context(|| format!("cannot load {}", arguments.model.display()))?;
    let reveal = if arguments.class_only { Reveal::Class } else { Reveal::Logits };
    let memory = arguments.weight_memory.map_or(WeightMemory::Everything, WeightMemory::AtMost);
    let served = Arc::new(ServedModel::new(&model, Terms { reveal, relus: arguments.relu.into() }, memory)?);
    let mut measured = Measured { ready_s: start.elapsed().as_secs_f64(), ..Measured::default() };
    let identity = Identity::generate()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(out, "{} {}", listener.local_addr()?, identity.fingerprint())?;
    out.flush()?;
    let (stream, binding) = accept_tls(listener.accept()?.0, &identity)?;
    let mut server = Server::accept(Connection::new(stream, Role::Server), served, &binding)?;
    server.use_threads(arguments.threads)?;
    for _ in 0..arguments.inferences {
        let before = cpu_seconds();
        let prepared = (0..arguments.batch).map(|_| server.prepare()).collect::<Result<Vec<_>, _>>()?;
        let between = cpu_seconds();
        measured.mask_seeds.extend(prepared.iter().map(|prepared| to_hex(prepared.mask_seed().expose())));
        server.classify_batch(prepared)?;
        measured.offline_cpu_s.push(between - before);
        measured.online_cpu_s.push(cpu_seconds() - between);
    }
    measured.work_s = work(server.connection().transcript(), arguments.inferences);
    measured.peak_memory = peak_memory();
    serde_json::to_writer(&mut *out, &measured)?;
    writeln!(out)?;
    Ok(Answer::Yes)
}

/// CPU seconds of this process so far, all threads together; on a shaped link the relay counts as the client.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory this process ever held, where the system tells.
pub(super) fn peak_memory() -> Option<u64> {
    peak_memory_of("self")
}

/// The same of the process with this number.
pub(super) fn peak_memory_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Seconds per inference by kind of work, offline and online.
pub(super) fn work(transcript: &Transcript, inferences: usize) -> Vec<(String, f64, f64)> {
    let per_inference = |phase, work| transcript.work(phase, work).as_secs_f64() / inferences.max(1) as f64;
    Work::ALL
        .into_iter()
        .map(|work| {
            (work.name().to_owned(), per_inference(Phase::Offline, work), per_inference(Phase::Online, work))
        })
        .collect()
}
