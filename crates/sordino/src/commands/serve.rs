//! `sordino serve MODEL…`: answers clients until it is told to stop.

mod greeting;
mod options;
mod reload;

use std::io::{ErrorKind, IsTerminal, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use inference::plan::Reveal;
use service::models::LoadedModels;
use service::store::{PreparedStore, StoreOptions};
use service::{ByteSize, Limits, Service, ServiceParts, Store, TooLittleMemory, process_memory};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{info, warn};

use super::{Answer, web};

pub(super) use greeting::Greeting;
pub(super) use options::Arguments;
use reload::{Loaded, Reloader};

/// What the process takes before the first client, weights apart; a program with the trainer inside loads libtorch, too.
pub(super) const PROCESS_BYTES: u64 = if cfg!(feature = "training") { 256 << 20 } else { 32 << 20 };

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let settings = arguments.settings()?;
    start_logs(settings.log_json);
    protect_memory();
    raise_open_files(&settings.limits());
    // Who asks for new files while the first are read is heard afterwards.
    let signals = Signals::new([SIGHUP])?;
    let listener = bind(&settings.listen())?;
    let Loaded { models: loaded, acceptor, fingerprint } = Loaded::read(&settings, &LoadedModels::default())?;
    let (models, names) = (loaded.served(), loaded.names());
    let limits = Limits { process: PROCESS_BYTES, ..settings.limits() };
    let store = settings.store()?.as_ref().map(open_store).transpose()?;
    let parts = ServiceParts { models, acceptor, limits, store, proxies: settings.proxies() };
    let service = Service::new(parts).map_err(in_units)?;
    let metrics = settings.metrics.as_deref().map(bind).transpose()?;
    let shown = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = metrics {
        service.show_metrics(listener)?;
    }
    let page = settings.web.as_deref().map(bind).transpose()?;
    let page_address = page.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = page {
        let plain = arguments.web_compare.then(|| web::plain_answers(&settings.models)).transpose()?;
        service.show_page(listener, web::page(settings.web_origin.clone().unwrap_or_default(), plain))?;
    }
    let address = listener.local_addr()?;
    // Caught from here on; before, these ended the process at once.
    signals.add_signal(SIGINT)?;
    signals.add_signal(SIGTERM)?;
    let reveals = if settings.reveal() == Reveal::Class { "the class alone" } else { "logits" };
    info!(%address, %fingerprint, models = names, "serving");
    let greeting =
        Greeting { address, models: names, reveals, metrics: shown, page: page_address, fingerprint };
    write!(out, "{greeting}")?;
    out.flush()?;
    if arguments.until_stdin_ends {
        thread::spawn(end_with_stdin);
    }
    let grace = settings.grace();
    let reloader = Reloader::start(arguments, settings, loaded, &service)?;
    serve(&service, listener, signals, &reloader, grace)
}

/// What a service needs and has, in the units of other messages, and the flag that would do.
fn in_units(error: TooLittleMemory) -> anyhow::Error {
    let TooLittleMemory::InAll { weights, clients, running, each, needed, limit } = error else {
        return error.into();
    };
    let [weights, each, sum, limit] = [weights, each, needed, limit].map(ByteSize);
    anyhow!(
        "the models take {weights}, {running} running inferences {each} each and {clients} clients a megabyte each, {sum} in \
         all, more than the {limit} of --max-memory; allow --max-memory {}, hold fewer weights with --weight-memory, or \
         allow fewer with --max-running and --max-clients",
        ByteSize(needed).as_flag()
    )
}

/// Serves until a signal comes, then lets running inferences finish.
fn serve(
    service: &Arc<Service>,
    listener: TcpListener,
    mut signals: Signals,
    reloader: &Reloader,
    grace: Duration,
) -> anyhow::Result<Answer> {
    let address = listener.local_addr()?;
    let listening = thread::spawn({
        let service = Arc::clone(service);
        move || {
            let _alarm = Alarm;
            service.run(&listener);
        }
    });
    let signal = wait_for_end(&mut signals, reloader);
    info!(signal, grace_s = grace.as_secs(), "shutting down; running inferences are finished");
    // A second signal ends the process at once.
    thread::spawn(move || {
        if signals.forever().any(|signal| signal != SIGHUP) {
            std::process::exit(2);
        }
    });
    let is_clean = service.close(address, grace);
    expect_no_panic(listening)?;
    if !is_clean {
        warn!("some clients were cut off: the time to finish is over");
        return Ok(Answer::No);
    }
    info!("all clients are gone");
    Ok(Answer::Yes)
}

/// Ends the server when the thread panics that has this: it would accept nobody any more.
struct Alarm;

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking()
            && let Err(error) = signal_hook::low_level::raise(SIGTERM)
        {
            warn!(%error, "nobody is accepted any more, and the server could not be ended");
        }
    }
}

/// Waits for the thread that accepts clients.
fn expect_no_panic(listening: JoinHandle<()>) -> anyhow::Result<()> {
    listening.join().map_err(|_| {
        anyhow!("the thread that accepts clients panicked; the log says where: report it, and start the server again")
    })
}

/// The signal that ends the server. SIGHUP asks for new files, unless it says that the terminal is gone.
fn wait_for_end(signals: &mut Signals, reloader: &Reloader) -> Option<i32> {
    let had_terminal = std::io::stdin().is_terminal();
    signals.forever().find(|signal| {
        let has_lost_terminal = had_terminal && !std::io::stdin().is_terminal();
        let is_reload = *signal == SIGHUP && !has_lost_terminal;
        if is_reload {
            reloader.ask();
        }
        !is_reload
    })
}

/// A core dump or a page in swap would hold weights, keys and shares.
fn protect_memory() {
    let protection = process_memory::protect();
    if protection.is_undumpable && protection.is_locked {
        info!(%protection, "memory");
    } else {
        warn!(%protection, "memory");
    }
}

/// A client takes two: its connection, and the means to send it home. Stores, metrics and logs take some more.
fn raise_open_files(limits: &Limits) {
    let wanted = 2 * limits.clients as u64 + 128;
    if let Some(allowed) = process_memory::raise_open_files().filter(|allowed| *allowed < wanted) {
        warn!(
            allowed,
            wanted, "too few open files are allowed for so many clients; raise the limit (ulimit -n)"
        );
    }
}

fn open_store(options: &StoreOptions) -> anyhow::Result<Arc<dyn Store>> {
    let store = PreparedStore::open_tidy(options);
    Ok(store.context("prepared inferences cannot be kept; --store none does without")?)
}

/// Whoever started this holds the other end of standard input.
fn end_with_stdin() {
    // An input that cannot be read has ended, too.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
        warn!(%error, "the end of standard input could not end the server");
    }
}

fn bind(address: &str) -> anyhow::Result<TcpListener> {
    let found = address.to_socket_addrs().with_context(|| {
        format!("{address} is no address to listen on; write HOST:PORT, such as 127.0.0.1:7441")
    })?;
    let found: Vec<_> = found.collect();
    TcpListener::bind(&found[..]).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => "this user may not; ports from 1024 on are free for everybody",
            ErrorKind::AddrNotAvailable => "this machine does not have that address",
            _ => "is another process there already?",
        };
        anyhow::Error::from(error).context(format!("cannot listen on {address}; {advice}"))
    })
}

/// Logs go to stderr. They name clients, models and counts; images, answers and weights never come near them.
fn start_logs(is_json: bool) {
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    // A test may have started them already.
    let _ = if is_json { logs.json().flatten_event(true).try_init() } else { logs.try_init() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_that_accepts_clients_is_an_error() {
        assert!(expect_no_panic(thread::spawn(|| {})).is_ok());
        let error = expect_no_panic(thread::spawn(|| panic!("on purpose"))).unwrap_err().to_string();
        assert!(error.contains("panicked") && error.contains("start the server again"), "{error}");
    }
}
