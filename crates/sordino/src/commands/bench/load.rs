//! `sordino bench load`: many clients at once on one `serve`, every answer held against the reference.
//!
//! The server is a process of its own, run by the same flags as anybody's. The clients are threads of this one, so on one
//! machine they compete with it; what they hold (see `inspect --private`) is theirs and not the server's.

mod report;
mod server;

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use inference::client::{Answer as Learned, ShareRecord};
use inference::connection::Trust;
use inference::plan::{Plan, Reveal};
use inference::requests::Request;
use network::inference_model::InferenceModel;
use network::reference;

use report::Report;
use server::ServerProcess;

use crate::commands::model::{ModelArguments, trial_image};
use crate::commands::serve::PROCESS_BYTES;
use crate::commands::{Answer, write_json};
use client::{ConnectOptions, PrivateClient};
use service::{ByteSize, Limits, Service};

/// How long a client waits for a word: the server has that many handshakes to do at once.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Clients that come at the same moment, each with one image.
    #[arg(long, default_value = "100", value_name = "COUNT")]
    clients: NonZeroUsize,
    /// Clients that are computed for at once, as `serve --max-running`.
    #[arg(long, default_value = "8", value_name = "COUNT")]
    running: NonZeroUsize,
    /// The server's memory, as `serve --max-memory` [default: what it promises to so many clients].
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<ByteSize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What one client went through.
struct Visit {
    connect: Duration,
    /// In line, before each phase.
    waiting: Duration,
    offline: Duration,
    online: Duration,
    total: Duration,
    answer: Learned,
    coins: ShareRecord,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (model, _) = arguments.model.load_or_freeze()?;
    let plan = Plan::new(Arc::new(model.outline().clone()), Reveal::Logits)?;
    let clients = arguments.clients.get();
    let limits = Limits { clients, running: arguments.running, process: PROCESS_BYTES, ..Limits::default() };
    let needed =
        Service::memory_for(std::iter::once(&plan), &limits) + plan.server_prepared_memory() * clients as u64;
    let limit = arguments.max_memory.map_or(needed, |size| size.0);
    let mut server = ServerProcess::start(&model, arguments.running, clients, limit)?;
    let watch = server.watch()?;
    let start = Instant::now();
    let visits = visit_all(&server, &model, clients);
    let wall = start.elapsed();
    let promised = watch.finish();
    let peak = server.peak_memory();
    server.stop()?;
    let failed: Vec<_> = visits.iter().filter_map(|visit| visit.as_ref().err()).collect();
    if let Some(first) = failed.first() {
        anyhow::bail!("{} of {clients} clients came to nothing; the first: {first:#}", failed.len());
    }
    let visits: Vec<_> = visits.into_iter().flatten().collect();
    let right = count_right(&model, &visits)?;
    let report = Report::new(arguments, &model, &visits, wall, right, (limit, promised, peak));
    let is_good = right.exact == clients && peak.is_none_or(|peak| peak <= limit);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(if is_good { Answer::Yes } else { Answer::No })
}

fn visit_all(server: &ServerProcess, model: &InferenceModel, clients: usize) -> Vec<anyhow::Result<Visit>> {
    let door = Barrier::new(clients);
    thread::scope(|scope| {
        let visits: Vec<_> = (0..clients as u64)
            .map(|number| {
                let door = &door;
                scope.spawn(move || visit(server, model, number, door))
            })
            .collect();
        visits.into_iter().map(|visit| visit.join().expect("a client does not panic")).collect()
    })
}

fn visit(
    server: &ServerProcess,
    model: &InferenceModel,
    number: u64,
    door: &Barrier,
) -> anyhow::Result<Visit> {
    let image = trial_image(model, number);
    let options =
        ConnectOptions { silence: PATIENCE, ..ConnectOptions::new(Trust::Fingerprint(server.fingerprint)) };
    door.wait();
    let start = Instant::now();
    let mut client = PrivateClient::connect(&server.address, options)?;
    let connected = Instant::now();
    let session = client.session_mut();
    session.request(&Request::Prepare { count: 1, store: None }, |_| {})?;
    let admitted = Instant::now();
    let mut prepared = session.prepare_recorded()?;
    let ready = Instant::now();
    let coins = prepared.take_record().context("the shares were recorded")?;
    session.request(&Request::Classify { count: 1 }, |_| {})?;
    let accepted = Instant::now();
    let answer = session.classify(prepared, &image)?;
    let done = Instant::now();
    client.finish()?;
    Ok(Visit {
        connect: connected - start,
        waiting: (admitted - connected) + (accepted - ready),
        offline: ready - admitted,
        online: done - accepted,
        total: done - start,
        answer,
        coins,
    })
}

/// How many answers are what they should be.
#[derive(Clone, Copy)]
struct Right {
    /// Equal to the reference that rounds by the protocol's own coins, bit for bit.
    exact: usize,
    /// Of the class of the reference that rounds as training did.
    class: usize,
}

fn count_right(model: &InferenceModel, visits: &[Visit]) -> anyhow::Result<Right> {
    let mut right = Right { exact: 0, class: 0 };
    for (number, visit) in visits.iter().enumerate() {
        let image = trial_image(model, number as u64);
        let expected = Learned::Logits(reference::run_with(model, &image, &visit.coins)?);
        right.exact += usize::from(visit.answer == expected);
        let plain = Learned::Logits(reference::run(model, &image)?);
        right.class += usize::from(visit.answer.class() == plain.class());
    }
    Ok(right)
}
