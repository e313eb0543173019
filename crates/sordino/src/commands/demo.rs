//! `sordino demo`: a server process, a client process, photographs that only the client sees.
//!
//! ```text
//! this process, the client                          its child, `sordino serve`
//!   prepare one inference          <- TLS ->          the shipped model
//!   classify one photograph        <- TLS ->
//!   the same in the clear, to compare
//! ```
//!
//! The client loads the model as well, which no other client could: only to say afterwards what the answer should be. A
//! row is "as in plain" when the logits are as close to the integer reference with the same shares as the encryption's
//! rounding allows, and the class is that of plain rounding.

mod report;
mod samples;
mod server;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use inference::client::Answer as Learned;
use inference::connection::Trust;
use inference::requests::Request;
use inference::transcript::Phase;
use inference::verify::is_close;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;

use super::progress::OfflineProgress;
use super::{Answer, write_json};
use crate::image_files::{decode_image, load_image, named_images};
use crate::report::printable;
use client::{ConnectOptions, PrivateClient};
use report::{ImageReport, Report};
use samples::{PHOTOGRAPHS, ShippedModel};
use server::DemoServer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Your own images (PNG, JPEG, WebP, GIF, BMP, TIFF) or folders of them [default: the photographs that come with Sordino].
    #[arg(value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// A model that ships, by name (26k is inside this program), or a file made by `sordino freeze`.
    #[arg(long, default_value = samples::DEFAULT_MODEL, value_name = "MODEL")]
    model: String,
    /// Classify only the first so many images.
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = super::at_least_one)]
    count: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Show a page instead, on which a browser of this machine is the client [default address: 127.0.0.1:7443].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = WEB_ADDRESS)]
    #[arg(conflicts_with_all = ["images", "count", "json"])]
    web: Option<String>,
}

/// Where the page is unless somebody says otherwise.
const WEB_ADDRESS: &str = "127.0.0.1:7443";

/// An image to show, and what a person says it shows.
struct Sample {
    file: String,
    expected: Option<&'static str>,
    image: Image,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let shipped = ShippedModel::find(&arguments.model)?;
    if let Some(address) = &arguments.web {
        return show_page(&shipped, address, out);
    }
    let model = InferenceModel::from_bytes(&shipped.bytes)
        .with_context(|| format!("{} is not usable", arguments.model))?;
    let samples = arguments.samples(&model)?;
    let server = DemoServer::start(&shipped, None)?;
    let classified = classify_all(&server, &model, &samples);
    let images = classified.map_err(|error| match server.log() {
        log if log.is_empty() => error,
        log => error.context(format!("the demo failed; the server's log ends with\n{log}")),
    })?;
    server.stop()?;
    let report = Report::new(&shipped.name, model.outline(), images);
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(report.answer())
}

/// Shows the page until Ctrl-C.
fn show_page(shipped: &ShippedModel, address: &str, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let server = DemoServer::start(shipped, Some(address))?;
    let page = server.page().context("the server says where its page is")?;
    writeln!(out, "page        http://{page}/\nfingerprint {}", server.fingerprint())?;
    writeln!(out, "Open the page in a browser of this machine. Ctrl-C ends the server.")?;
    out.flush()?;
    server.wait()?;
    Ok(Answer::Yes)
}

impl Arguments {
    fn samples(&self, model: &InferenceModel) -> anyhow::Result<Vec<Sample>> {
        let input = model.outline().input;
        let at_most = self.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        if self.images.is_empty() {
            let decode = |photograph: &samples::Photograph| {
                let image = decode_image(photograph.bytes, input)
                    .with_context(|| format!("{} is not usable", photograph.file))?;
                Ok(Sample { file: photograph.file.into(), expected: Some(photograph.class), image })
            };
            return PHOTOGRAPHS.iter().take(at_most).map(decode).collect();
        }
        let load = |path: &PathBuf| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Sample { file, expected: None, image: load_image(path, input)? })
        };
        let images = named_images(&self.images)?;
        images.notes.iter().for_each(|note| eprintln!("{}", printable(note)));
        images.paths.iter().take(at_most).map(load).collect()
    }
}

fn classify_all(
    server: &DemoServer,
    model: &InferenceModel,
    samples: &[Sample],
) -> anyhow::Result<Vec<ImageReport>> {
    let options = ConnectOptions::new(Trust::Fingerprint(server.fingerprint()));
    let mut client = PrivateClient::connect(server.address(), options)?;
    let progress = OfflineProgress::start(client.session_mut().plan(), samples.len());
    client.session_mut().watch(progress.watcher());
    let images = samples.iter().map(|sample| classify(&mut client, model, sample)).collect();
    progress.finish();
    client.finish()?;
    images
}

/// Prepares, classifies and compares one image.
fn classify(
    client: &mut PrivateClient,
    model: &InferenceModel,
    sample: &Sample,
) -> anyhow::Result<ImageReport> {
    let session = client.session_mut();
    let phases = [Phase::Offline, Phase::Online, Phase::Service];
    let bytes = |session: &inference::client::Client<_>| -> u64 {
        phases.iter().map(|phase| session.connection().transcript().bytes(*phase)).sum()
    };
    let (before, start) = (bytes(session), Instant::now());
    session.request(&Request::Prepare { count: 1, store: None }, |_| {})?;
    let mut prepared = session.prepare_recorded()?;
    let coins = prepared.take_record().context("the shares were recorded")?;
    let (offline, start) = (start.elapsed(), Instant::now());
    session.request(&Request::Classify { count: 1 }, |_| {})?;
    let answer = session.classify(prepared, &sample.image)?;
    let online = start.elapsed();
    let bytes = bytes(session) - before;
    let Learned::Logits(logits) = &answer else { bail!("the class alone came, the logits were asked for") };
    let is_close = is_close(model, &sample.image, &coins, logits)?;
    let plain = reference::run(model, &sample.image)?;
    Ok(ImageReport::new(sample, model.outline(), &answer, &plain, is_close)?.measured(online, offline, bytes))
}
