//! `sordino verify MODEL|NETWORK`: private inference against inference in the clear.
//!
//! Both parties run in this process. Two oracles judge each answer: the reference that repeats the protocol's own
//! rounding, which it must equal bit for bit, and the reference with plain rounding, to which it must be close.

mod report;

use std::io::Write;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args;
use inference::InferenceError;
use inference::client::{Answer as Learned, Client};
use inference::connection::{Connection, MemoryStream, Role, memory_pair};
use inference::plan::Reveal;
use inference::server::{ServedModel, Server, WeightMemory};
use network::inference_model::InferenceModel;
use network::reference;

use super::model::{ModelArguments, trial_image};
use super::progress::OfflineProgress;
use super::{Answer, write_json};
use report::{Comparison, Report};

/// Both parties share a process, so there is no channel to bind to.
const CHANNEL_BINDING: &[u8] = b"sordino verify";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// How many random images to compare on.
    #[arg(short = 'n', long = "count", default_value_t = 100, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (model, _) = arguments.model.load_or_freeze()?;
    let comparisons = compare(&model, arguments.count)?;
    let report = Report::new(&model, arguments.model.origin(), &comparisons);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(report.answer())
}

/// Runs both parties on so many images.
fn compare(model: &InferenceModel, count: u64) -> anyhow::Result<Vec<Comparison>> {
    let served = Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything)?);
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || serve(server_end, served, count));
    let compared = compare_with_server(client_end, model, count);
    // The client's end is gone by now, so that the server ends too.
    let served = server.join().map_err(|_| anyhow!("the server's thread panicked"))?;
    match (compared, served) {
        (Ok(comparisons), Ok(())) => Ok(comparisons),
        // Whoever fails breaks the other's connection: the cause is the other kind of error.
        (Err(client), Err(server)) if !matches!(server, InferenceError::Connection(_)) => {
            Err(anyhow::Error::from(server).context(format!("the server failed; the client saw: {client}")))
        }
        (Err(client), _) => Err(client),
        (Ok(_), Err(server)) => Err(server.into()),
    }
}

fn serve(end: MemoryStream, model: Arc<ServedModel>, count: u64) -> Result<(), InferenceError> {
    let mut server = Server::accept(Connection::new(end, Role::Server), model, CHANNEL_BINDING)?;
    for _ in 0..count {
        let prepared = server.prepare()?;
        server.classify(prepared)?;
    }
    Ok(())
}

fn compare_with_server(
    end: MemoryStream,
    model: &InferenceModel,
    count: u64,
) -> anyhow::Result<Vec<Comparison>> {
    let connection = Connection::new(end, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, CHANNEL_BINDING)?;
    let progress = OfflineProgress::start(client.plan(), count as usize);
    client.watch(progress.watcher());
    let comparisons = (0..count).map(|number| compare_one(&mut client, model, number)).collect();
    progress.finish();
    comparisons
}

fn compare_one(
    client: &mut Client<MemoryStream>,
    model: &InferenceModel,
    number: u64,
) -> anyhow::Result<Comparison> {
    let image = trial_image(model, number);
    let mut prepared = client.prepare_recorded()?;
    let coins = prepared.take_record().context("the shares were recorded")?;
    let Learned::Logits(private) = client.classify(prepared, &image)? else {
        return Err(anyhow!("the class alone came, the logits were asked for"));
    };
    let rounded_alike = reference::trace(model, &image, Some(&coins))?;
    let plain = reference::trace(model, &image, None)?;
    let first_difference = plain.first_difference(&rounded_alike, model.outline());
    Ok(Comparison { private, expected: rounded_alike.logits, plain: plain.logits, first_difference })
}
