//! `sordino verify MODEL|NETWORK`: private inference against inference in the clear.
//!
//! Both parties run in this process. Two oracles judge each answer: the reference that repeats the protocol's own
//! rounding, which it must equal bit for bit, and the reference with plain rounding, to which it must be close.

mod report;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args;
use inference::InferenceError;
use inference::client::{Answer as Learned, Client};
use inference::connection::{Connection, MemoryStream, Role, memory_pair};
use inference::plan::Reveal;
use inference::server::{ServedModel, Server, WeightMemory};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference::{self, bound};

use super::model::{ModelArguments, trial_image};
use super::progress::OfflineProgress;
use super::{Answer, write_json};
use crate::image_files;
use report::{Comparison, Report};

/// Compared where nobody says how many.
const RANDOM_IMAGES: u64 = 100;
/// Both parties share a process, so there is no channel to bind to.
const CHANNEL_BINDING: &[u8] = b"sordino verify";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// How many images to compare on [default: 100 random ones, or all of --images].
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Compare on the images of this folder (PNG, JPEG, WebP) instead of random ones.
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (model, _) = arguments.model.load_or_freeze()?;
    let comparisons = compare(&model, &arguments.images(&model)?)?;
    let report = Report::new(&model, arguments.model.origin(), arguments.images.clone(), &comparisons);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(report.answer())
}

impl Arguments {
    /// All that are compared, so that an unusable file is found before anything runs.
    fn images(&self, model: &InferenceModel) -> anyhow::Result<Vec<Image>> {
        let Some(folder) = &self.images else {
            return Ok((0..self.count.unwrap_or(RANDOM_IMAGES))
                .map(|number| trial_image(model, number))
                .collect());
        };
        let count = self.count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Ok(image_files::load_images(folder, model.outline().input, count)?)
    }
}

/// Runs both parties on the images.
fn compare(model: &InferenceModel, images: &[Image]) -> anyhow::Result<Vec<Comparison>> {
    let count = images.len();
    let served = Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything)?);
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || serve(server_end, served, count));
    let compared = compare_with_server(client_end, model, images);
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

fn serve(end: MemoryStream, model: Arc<ServedModel>, count: usize) -> Result<(), InferenceError> {
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
    images: &[Image],
) -> anyhow::Result<Vec<Comparison>> {
    let connection = Connection::new(end, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, CHANNEL_BINDING)?;
    let progress = OfflineProgress::start(client.plan(), images.len());
    client.watch(progress.watcher());
    let comparisons = images.iter().map(|image| compare_one(&mut client, model, image)).collect();
    progress.finish();
    comparisons
}

fn compare_one(
    client: &mut Client<MemoryStream>,
    model: &InferenceModel,
    image: &Image,
) -> anyhow::Result<Comparison> {
    let mut prepared = client.prepare_recorded()?;
    let coins = prepared.take_record().context("the shares were recorded")?;
    let Learned::Logits(private) = client.classify(prepared, image)? else {
        return Err(anyhow!("the class alone came, the logits were asked for"));
    };
    let rounded_alike = reference::trace(model, image, Some(&coins))?;
    let plain = reference::trace(model, image, None)?;
    let first_difference = plain.first_difference(&rounded_alike, model.outline());
    let off = |logit: &usize| private[*logit].abs_diff(plain.logits[*logit]);
    let farthest = (0..private.len()).max_by_key(off).unwrap_or(0);
    let deviation = bound::logit_deviation(model, &plain, farthest);
    let (expected, plain) = (rounded_alike.logits, plain.logits);
    Ok(Comparison { private, expected, plain, deviation, first_difference })
}
