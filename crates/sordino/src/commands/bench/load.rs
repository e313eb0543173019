//! `sordino bench load`: many clients at once on one `serve`, every answer held against the reference.
//!
//! The server is a process of its own, run by the same flags as anybody's. The clients are threads of this one, so on one
//! machine they compete with it; what they hold (see `inspect --private`) is theirs and not the server's.

mod report;
mod server;

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use inference::client::{Answer as Learned, ShareRecord};
use inference::connection::Trust;
use inference::plan::{Plan, Reveal};
use inference::requests::Request;
use inference::verify::is_close;
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
    /// Clients that come at the same moment.
    #[arg(long, default_value = "100", value_name = "COUNT")]
    clients: NonZeroUsize,
    /// Images that each client asks about at once.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    batch: NonZeroUsize,
    /// How often each client asks.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    rounds: NonZeroUsize,
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
    /// With the number of the image.
    answers: Vec<(u64, Learned, ShareRecord)>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (model, _) = arguments.model.load_or_freeze()?;
    let plan = Plan::new(Arc::new(model.outline().clone()), Reveal::Logits)?;
    let clients = arguments.clients.get();
    let limits = Limits { clients, running: arguments.running, process: PROCESS_BYTES, ..Limits::default() };
    let (batch, rounds) = (arguments.batch.get(), arguments.rounds.get());
    let prepared = plan.server_prepared_memory() * (clients * batch) as u64;
    let batches = plan.server_online_memory() * (arguments.running.get() * (batch - 1)) as u64;
    let needed = Service::memory_for(std::iter::once(&plan), &limits) + prepared + batches;
    let limit = arguments.max_memory.map_or(needed, |size| size.0);
    let mut server = ServerProcess::start(&model, arguments.running, clients, limit)?;
    let watch = server.watch()?;
    let start = Instant::now();
    let visits = visit_all(&server, &model, clients, (batch, rounds));
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
    let is_good = right.close == clients * batch * rounds && peak.is_none_or(|peak| peak <= limit);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(if is_good { Answer::Yes } else { Answer::No })
}

fn visit_all(
    server: &ServerProcess,
    model: &InferenceModel,
    clients: usize,
    images: (usize, usize),
) -> Vec<anyhow::Result<Visit>> {
    let door = Barrier::new(clients);
    thread::scope(|scope| {
        let visits: Vec<_> = (0..clients as u64)
            .map(|number| {
                let door = &door;
                scope.spawn(move || visit(server, model, number, images, door))
            })
            .collect();
        visits.into_iter().map(|visit| visit.join().expect("a client does not panic")).collect()
    })
}

fn visit(
    server: &ServerProcess,
    model: &InferenceModel,
    number: u64,
    (batch, rounds): (usize, usize),
    door: &Barrier,
) -> anyhow::Result<Visit> {
    let options =
        ConnectOptions { silence: PATIENCE, ..ConnectOptions::new(Trust::Fingerprint(server.fingerprint)) };
    door.wait();
    let start = Instant::now();
    let mut client = PrivateClient::connect(&server.address, options)?;
    let mut visit = Visit {
        connect: start.elapsed(),
        waiting: Duration::ZERO,
        offline: Duration::ZERO,
        online: Duration::ZERO,
        total: Duration::ZERO,
        answers: Vec::with_capacity(batch * rounds),
    };
    for round in 0..rounds {
        let first = (number as usize * rounds + round) * batch;
        visit.ask(&mut client, model, first as u64..(first + batch) as u64)?;
    }
    client.finish()?;
    visit.total = start.elapsed();
    Ok(visit)
}

impl Visit {
    /// Asks about a batch of images.
    fn ask(
        &mut self,
        client: &mut PrivateClient,
        model: &InferenceModel,
        numbers: Range<u64>,
    ) -> anyhow::Result<()> {
        let images: Vec<_> = numbers.clone().map(|number| trial_image(model, number)).collect();
        let count = u32::try_from(images.len())?;
        let session = client.session_mut();
        let start = Instant::now();
        session.request(&Request::Prepare { count, store: None }, |_| {})?;
        let admitted = Instant::now();
        let mut batch = Vec::with_capacity(images.len());
        let mut records = Vec::with_capacity(images.len());
        for image in &images {
            let mut prepared = session.prepare_recorded()?;
            records.push(prepared.take_record().context("the shares were recorded")?);
            batch.push((prepared, image));
        }
        let ready = Instant::now();
        session.request(&Request::Classify { count }, |_| {})?;
        let accepted = Instant::now();
        let answers = session.classify_batch(batch)?;
        self.waiting += (admitted - start) + (accepted - ready);
        self.offline += ready - admitted;
        self.online += accepted.elapsed();
        self.answers.extend(
            numbers.zip(answers).zip(records).map(|((number, answer), coins)| (number, answer, coins)),
        );
        Ok(())
    }
}

/// How many answers are what they should be.
#[derive(Clone, Copy)]
struct Right {
    /// As close to the reference that rounds by the client's own shares as the encryption's errors allow.
    close: usize,
    /// Of the class of the reference that rounds as training did.
    class: usize,
}

fn count_right(model: &InferenceModel, visits: &[Visit]) -> anyhow::Result<Right> {
    let mut right = Right { close: 0, class: 0 };
    for (number, answer, coins) in visits.iter().flat_map(|visit| &visit.answers) {
        let image = trial_image(model, *number);
        let Learned::Logits(logits) = answer else { anyhow::bail!("the class alone came") };
        right.close += usize::from(is_close(model, &image, coins, logits)?);
        let plain = Learned::Logits(reference::run(model, &image)?);
        right.class += usize::from(answer.class() == plain.class());
    }
    Ok(right)
}
