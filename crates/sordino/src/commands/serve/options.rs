//! Flags and file of `sordino serve`, brought together: a flag wins, then the file, then the default.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use inference::connection::CertifiedKey;
use inference::plan::Reveal;

use super::kept::StoreArguments;
use service::config::Config;
use service::limits::DEFAULT_PORT;
use service::store::StoreOptions;
use service::{ByteSize, Limits, identity};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Model files, as FILE or NAME=FILE; without a name a model is called by its file's.
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// Where clients connect [default: 127.0.0.1:7441].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Read what is not given here from this TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server's certificate chain (PEM) instead of one it made itself.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Serve only clients with a certificate of these authorities (PEM).
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// The folder for what survives restarts: own certificate, salt of commitments.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// What clients learn [default: logits].
    #[arg(long, value_enum)]
    reveal: Option<Revealed>,
    /// Show health and metrics there, as /healthz and /metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Clients that may be connected at once [default: 128].
    #[arg(long, value_name = "COUNT")]
    max_clients: Option<usize>,
    /// Clients that are computed for at once; others wait in line [default: one for each processor].
    #[arg(long, value_name = "COUNT")]
    max_running: Option<NonZeroUsize>,
    /// Memory for weights, running inferences and what is prepared, such as 16G [default: three quarters of it].
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<ByteSize>,
    /// Memory for transformed weights; the rest is transformed for each inference [default: all of them].
    #[arg(long, value_name = "SIZE")]
    weight_memory: Option<ByteSize>,
    /// Inferences that one connection may have prepared and not used [default: 64].
    #[arg(long, value_name = "COUNT")]
    max_prepared: Option<u32>,
    /// Seconds in which a client must send or take something [default: 30].
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Seconds a connected client may ask for nothing [default: 600].
    #[arg(long, value_name = "SECONDS")]
    idle_timeout: Option<u64>,
    /// Bytes a second, over a whole phase, below which a client is given up [default: 125000].
    #[arg(long, value_name = "BYTES")]
    min_rate: Option<NonZeroU64>,
    /// Seconds that running inferences get at the end [default: 60].
    #[arg(long, value_name = "SECONDS")]
    grace: Option<u64>,
    /// Threads for each running inference [default: 1].
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// End as on SIGTERM when standard input ends: for a server that must not outlive the program that started it.
    #[arg(long)]
    until_stdin_ends: bool,
    #[command(flatten)]
    store: StoreArguments,
    /// Log as JSON, one object a line.
    #[arg(long)]
    log_json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Revealed {
    /// All of them, rounded as the model says.
    Logits,
    /// The number of the best class alone: far less for who wants to copy the model.
    Class,
}

/// What to serve, and how.
pub(super) struct Options {
    pub(super) models: BTreeMap<String, PathBuf>,
    pub(super) listen: String,
    pub(super) metrics: Option<String>,
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) reveal: Reveal,
    pub(super) limits: Limits,
    pub(super) store: Option<StoreOptions>,
    pub(super) weight_memory: Option<u64>,
    pub(super) grace: Duration,
    pub(super) until_stdin_ends: bool,
    pub(super) logs_json: bool,
}

impl Arguments {
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let file = self.config.as_deref().map(Config::load).transpose()?.unwrap_or_default();
        let models = self.models(&file)?;
        let reveal = match (self.reveal, file.reveal.as_deref()) {
            (Some(Revealed::Class), _) | (None, Some("class")) => Reveal::Class,
            (Some(Revealed::Logits), _) | (None, None | Some("logits")) => Reveal::Logits,
            (None, Some(other)) => bail!("reveal = {other:?} is neither \"logits\" nor \"class\""),
        };
        let certificate =
            match (self.cert.clone().or(file.cert.clone()), self.key.clone().or(file.key.clone())) {
                (Some(cert), Some(key)) => Some((cert, key)),
                (None, None) => None,
                _ => bail!("a certificate needs its key, and a key its certificate: give both, or neither"),
            };
        let defaults = Limits::default();
        let seconds = |flag: Option<u64>, file: Option<u64>, default: Duration| {
            flag.or(file).map_or(default, |seconds| Duration::from_secs(seconds.max(1)))
        };
        let memory = self.max_memory.or(file.max_memory).map(|size| size.0).or_else(three_quarters_of_memory);
        let limits = Limits {
            clients: self.max_clients.or(file.max_clients).unwrap_or(defaults.clients),
            running: self.max_running.or(file.max_running).unwrap_or_else(processors),
            memory: memory.unwrap_or(defaults.memory),
            process: super::PROCESS_BYTES,
            prepared: self.max_prepared.or(file.max_prepared).unwrap_or(defaults.prepared),
            silence: seconds(self.timeout, file.timeout, defaults.silence),
            idle: seconds(self.idle_timeout, file.idle_timeout, defaults.idle),
            threads: self.threads.or(file.threads).unwrap_or(defaults.threads),
            least_rate: self.min_rate.or(file.min_rate).map_or(defaults.least_rate, NonZeroU64::get),
        };
        let state = self.state.clone().or(file.state.clone()).or_else(identity::default_state_folder);
        let store = self.store.options(&file, state.as_ref())?;
        Ok(Options {
            models,
            listen: self
                .listen
                .clone()
                .or(file.listen)
                .unwrap_or_else(|| format!("127.0.0.1:{DEFAULT_PORT}")),
            metrics: self.metrics.clone().or(file.metrics),
            certificate,
            client_ca: self.client_ca.clone().or(file.client_ca),
            state,
            reveal,
            limits,
            store,
            weight_memory: self.weight_memory.or(file.weight_memory).map(|size| size.0),
            grace: seconds(self.grace, file.grace, Duration::from_secs(60)),
            until_stdin_ends: self.until_stdin_ends,
            logs_json: self.log_json || file.log_json.unwrap_or(false),
        })
    }

    fn models(&self, file: &Config) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        let mut models = file.models.clone();
        for text in &self.models {
            let (name, path) = match text.split_once('=') {
                Some((name, path)) => (name.to_owned(), PathBuf::from(path)),
                None => {
                    let path = PathBuf::from(text);
                    let stem = path.file_stem().and_then(|stem| stem.to_str());
                    let stem = stem.with_context(|| format!("{text} has no name; write NAME=FILE"))?;
                    (stem.to_owned(), path)
                }
            };
            if models.insert(name.clone(), path).is_some() {
                bail!("two models are called {name}; rename one with NAME=FILE");
            }
        }
        if models.is_empty() {
            bail!("there is no model to serve; name a file made by `sordino freeze`");
        }
        Ok(models)
    }
}

/// The certificate of the operator, or the server's own, made on first start.
pub(super) fn key_of(options: &Options) -> anyhow::Result<CertifiedKey> {
    if let Some((cert, key)) = &options.certificate {
        let read_key = crypto::secret::Secret::new(read(key)?);
        return CertifiedKey::from_pem(&read(cert)?, read_key.expose())
            .with_context(|| format!("{} and {} are not usable", cert.display(), key.display()));
    }
    let folder =
        options.state.as_ref().context("there is no folder to keep an identity in; name one with --state")?;
    Ok(identity::load_or_make(folder)?.into_key())
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn three_quarters_of_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024) / 4 * 3)
}
