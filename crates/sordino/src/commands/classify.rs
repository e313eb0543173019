//! `sordino classify IMAGE… --server ADDRESS`: asks a server about images it never sees.

mod report;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use inference::client::Wishes;
use inference::connection::{CertifiedKey, Fingerprint, Trust};
use inference::setup::messages::ModelName;
use inference::transcript::Traffic;
use network::digest::Digest;
use network::image::Image;

use super::prepare::KeyArguments;
use super::progress::OfflineProgress;
use super::{Answer, write_json};
use crate::image_files::{image_paths, load_image};
use client::prepared_file::PreparedFile;
use client::{ConnectOptions, Cost, PrivateClient};
use inference::connection::DEFAULT_LEAST_RATE;
use report::{ImageReport, Report};
use sealed::secret_file::read_private_pem;
use service::{ByteSize, process_memory};

/// The most images that share round trips.
const BATCH: usize = 16;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Images (PNG, JPEG, WebP), or folders of them.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArguments,
    /// Use inferences from this file, made by `sordino prepare`: only the online phase is left.
    #[arg(long, value_name = "FILE")]
    prepared: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArguments,
    /// How many of the best classes to show.
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    top: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which server, and how to know that it is the right one.
#[derive(Debug, Args)]
pub(super) struct ServerArguments {
    /// The server, as HOST or HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) server: String,
    /// The server's fingerprint, as `sordino serve` prints it.
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    fingerprint: Option<Fingerprint>,
    /// The authorities (PEM) that vouch for the server.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Which of the server's models.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Accept only the model whose outline has this digest, as `--json` shows it.
    #[arg(long, value_name = "HEX")]
    expect_outline: Option<Digest>,
    /// Accept only weights with this commitment, as `--json` shows it.
    #[arg(long, value_name = "HEX")]
    expect_weights: Option<Digest>,
    /// A certificate (PEM) for servers that ask for one.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Memory that one inference may take here, whatever the server's model asks for.
    #[arg(long, default_value = "4G", value_name = "SIZE")]
    pub(super) max_memory: ByteSize,
    /// Seconds that the server may be silent.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Bytes a second, over a whole phase, below which the link is given up.
    #[arg(long, default_value_t = DEFAULT_LEAST_RATE, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    min_rate: u64,
    /// Threads to compute with.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    threads: NonZeroUsize,
}

impl ServerArguments {
    /// Connects, or says how to.
    pub(super) fn connect(&self) -> anyhow::Result<PrivateClient> {
        self.connect_for(None)
    }

    /// Connects to the server and model that a file was prepared for, or says what differs.
    pub(super) fn connect_for(&self, file: Option<&PreparedFile>) -> anyhow::Result<PrivateClient> {
        let known = file.map(PreparedFile::description);
        let certificate = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => {
                let own = CertifiedKey::from_pem(&read(cert)?, read_private_pem(key)?.expose());
                Some(own.with_context(|| format!("{} and {} are not usable", cert.display(), key.display()))?)
            }
            _ => None,
        };
        let model = self.model.as_deref().or(known.map(|known| known.model.as_str()));
        let model = ModelName::new(model.unwrap_or_default())?;
        let agreed = known.map(|known| known.agreement);
        let options = ConnectOptions {
            certificate,
            wishes: Wishes {
                model,
                reveal: None,
                outline_digest: self.expect_outline.or(agreed.map(|agreed| agreed.outline)),
                commitment: self.expect_weights.or(agreed.map(|agreed| agreed.commitment)),
                max_memory: self.max_memory.0,
            },
            silence: Duration::from_secs(self.timeout.max(1)),
            least_rate: self.min_rate,
            threads: self.threads,
            ..ConnectOptions::new(self.trust()?)
        };
        PrivateClient::connect(&self.server, options)
            .with_context(|| format!("no session with {}", self.server))
    }

    /// Whom to believe. Nobody is believed silently on first sight.
    fn trust(&self) -> anyhow::Result<Trust> {
        if let Some(fingerprint) = self.fingerprint {
            return Ok(Trust::Fingerprint(fingerprint));
        }
        if let Some(path) = &self.ca {
            return Ok(Trust::Authorities(read(path)?));
        }
        let found = PrivateClient::fingerprint_of(&self.server)
            .with_context(|| format!("no session with {}", self.server))?;
        bail!(
            "who is {server}? Its certificate has fingerprint\n  {found}\nCompare this with what `sordino serve` printed \
             there. If it is the same, add --fingerprint {found}; if the server has a certificate of an authority, name \
             that with --ca FILE",
            server = self.server
        )
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    process_memory::protect();
    let paths = image_paths(&arguments.images)?;
    let open = |path: &PathBuf| anyhow::Ok(PreparedFile::open(path, arguments.key.key()?)?);
    let mut file = arguments.prepared.as_ref().map(open).transpose()?;
    let mut client = arguments.server.connect_for(file.as_ref())?;
    let images = load(&paths, &client)?;
    let mut cost = client.cost()?;
    if file.is_some() {
        // What lies in the file is paid for.
        cost.offline = Traffic::default();
    }
    announce(&client, &cost, images.len());
    client.on_waiting(|ahead| note(&format!("waiting: {ahead} in line")));
    let batch = batch_size(&cost, arguments.server.max_memory.0);
    let progress = OfflineProgress::start_with_lines(client.session_mut().plan(), images.len());
    client.session_mut().watch(progress.watcher());
    let start = Instant::now();
    let mut online = Duration::ZERO;
    let mut reports = Vec::new();
    for (paths, images) in paths.chunks(batch).zip(images.chunks(batch)) {
        if file.is_none() {
            client.prepare(images.len() as u32)?;
        }
        let image_known = Instant::now();
        let answers = match &mut file {
            Some(file) => client.classify_from(file, images)?,
            None => client.classify_batch(images)?,
        };
        online += image_known.elapsed();
        let described = paths.iter().zip(&answers);
        reports.extend(
            described.map(|(path, answer)| ImageReport::new(path, answer, client.outline(), arguments.top)),
        );
    }
    progress.finish();
    let report = Report::new(&mut client, &cost, start.elapsed(), online, reports);
    client.finish()?;
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out)?;
    Ok(Answer::Yes)
}

fn load(paths: &[PathBuf], client: &PrivateClient) -> anyhow::Result<Vec<Image>> {
    let input = client.outline().input;
    Ok(paths.iter().map(|path| load_image(path, input)).collect::<Result<_, _>>()?)
}

/// As many images as share round trips within the memory.
fn batch_size(cost: &Cost, max_memory: u64) -> usize {
    ((max_memory / cost.memory.max(1)) as usize).clamp(1, BATCH)
}

/// Says what it will cost; asks nothing.
fn announce(client: &PrivateClient, cost: &Cost, images: usize) {
    let total = |each: &Traffic| ByteSize((each.bytes_up + each.bytes_down).saturating_mul(images as u64));
    let link = &cost.link;
    note(&format!(
        "{}: {images} image{}, {} before and {} after they are needed, {} of memory for each",
        client.model(),
        if images == 1 { "" } else { "s" },
        total(&cost.offline),
        total(&cost.online),
        ByteSize(cost.memory),
    ));
    note(&format!(
        "link: {:.0} Mb/s down, {:.0} Mb/s up, {:.1} ms round trip: about {:.2} s + {:.2} s, and what computing takes",
        link.down * 8e-6,
        link.up * 8e-6,
        link.round_trip.as_secs_f64() * 1e3,
        cost.least_offline_time().as_secs_f64() * images as f64,
        cost.least_online_time().as_secs_f64() * images as f64,
    ));
}

/// Progress goes to stderr; nothing can be done when that is closed.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
