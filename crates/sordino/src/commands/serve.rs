//! `sordino serve MODEL…`: answers clients until it is told to stop.

mod kept;
mod options;

use std::io::Write;
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use inference::connection::TlsAcceptor;
use inference::plan::Reveal;
use inference::server::{ServedModel, WeightMemory};
use inference::setup::hello::ModelName;
use network::inference_model::InferenceModel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{info, warn};

use super::Answer;
use options::{Options, key_of};
use service::{Keeper, Service, ServiceParts, identity, process_memory};

pub(super) use options::Arguments;

/// What the process takes before the first client, weights apart; a program with the trainer inside loads libtorch, too.
pub(super) const PROCESS_BYTES: u64 = if cfg!(feature = "training") { 256 << 20 } else { 32 << 20 };

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let options = arguments.options()?;
    start_logs(options.logs_json);
    // A core dump or a page in swap would hold weights, keys and shares.
    let protection = process_memory::protect();
    if protection.is_undumpable && protection.is_locked {
        info!(%protection, "memory");
    } else {
        warn!(%protection, "memory");
    }
    let listener = bind(&options.listen)?;
    let key = key_of(&options)?;
    let fingerprint = key.fingerprint();
    let client_authorities = options.client_ca.as_deref().map(options::read).transpose()?;
    let acceptor = TlsAcceptor::new(key, client_authorities.as_deref())
        .context("certificate, key or client authorities are not usable")?;
    let models = load_models(&options)?;
    let names: Vec<_> = models.keys().map(ToString::to_string).collect();
    let limits = options.limits.clone();
    let keeper = options.store.as_ref().map(kept::open).transpose()?.map(|store| store as Arc<dyn Keeper>);
    let service = Service::new(ServiceParts { models, acceptor, limits, keeper })?;
    let metrics = options.metrics.as_deref().map(bind).transpose()?;
    let shown = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = metrics {
        service.show_metrics(listener)?;
    }
    let address = listener.local_addr()?;
    // Caught from here on; before, the signals ended the process at once.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    writeln!(out, "listening   {address}")?;
    writeln!(out, "models      {}", names.join(", "))?;
    writeln!(
        out,
        "reveals     {}",
        if options.reveal == Reveal::Class { "the class alone" } else { "logits" }
    )?;
    writeln!(out, "fingerprint {fingerprint}")?;
    if let Some(address) = shown {
        writeln!(out, "metrics     {address}")?;
    }
    out.flush()?;
    info!(%address, %fingerprint, models = %names.join(","), "serving");
    let listening = thread::spawn({
        let service = service.clone();
        move || service.run(&listener)
    });
    if options.until_stdin_ends {
        thread::spawn(end_with_stdin);
    }
    let signal = signals.forever().next();
    info!(signal, grace_s = options.grace.as_secs(), "shutting down; running inferences are finished");
    // A second signal ends the process at once.
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            std::process::exit(2);
        }
    });
    let is_clean = service.close(address, options.grace);
    if let Ok(result) = listening.join() {
        result?;
    }
    if !is_clean {
        warn!("some clients were cut off: the time to finish is over");
        return Ok(Answer::No);
    }
    info!("all clients are gone");
    Ok(Answer::Yes)
}

/// Whoever started this holds the other end of standard input.
fn end_with_stdin() {
    // An input that cannot be read has ended, too.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
        warn!(%error, "the end of standard input could not end the server");
    }
}

fn load_models(
    options: &Options,
) -> anyhow::Result<std::collections::BTreeMap<ModelName, std::sync::Arc<ServedModel>>> {
    let mut models = std::collections::BTreeMap::new();
    let mut room = options.weight_memory;
    for (name, path) in &options.models {
        let model =
            InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))?;
        let salt = match &options.state {
            Some(folder) => Some(identity::load_or_make_salt(folder, name)?),
            None => None,
        };
        let memory = room.map_or(WeightMemory::Everything, |room| WeightMemory::AtMost(room as usize));
        let served = match &salt {
            Some(salt) => ServedModel::with_salt(&model, options.reveal, memory, salt.expose()),
            None => ServedModel::new(&model, options.reveal, memory),
        };
        let served = served.with_context(|| format!("{} cannot be served", path.display()))?;
        room = room.map(|room| room.saturating_sub(served.plan().memory().server_weights));
        let name = ModelName::new(name).with_context(|| format!("{name:?} cannot name a model"))?;
        info!(model = %name, relus = model.outline().relu_count(), "loaded");
        if models.insert(name.clone(), std::sync::Arc::new(served)).is_some() {
            bail!("two models are called {name}; rename one with NAME=FILE");
        }
    }
    Ok(models)
}

fn bind(address: &str) -> anyhow::Result<TcpListener> {
    let found = address.to_socket_addrs().with_context(|| format!("{address} is no address to listen on"))?;
    let found: Vec<_> = found.collect();
    TcpListener::bind(&found[..])
        .with_context(|| format!("cannot listen on {address}; is another process there already?"))
}

/// Logs go to stderr. They name clients, models and counts; images, answers and weights never come near them.
fn start_logs(is_json: bool) {
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    // A test may have started them already.
    let _ = if is_json { logs.json().flatten_event(true).try_init() } else { logs.try_init() };
}
