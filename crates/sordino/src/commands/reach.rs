//! Which server a verb talks to, and how it knows that it is the right one.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use client::prepared_file::PreparedFile;
use client::{ClientError, ConnectOptions, PrivateClient};
use inference::InferenceError;
use inference::client::Wishes;
use inference::connection::frame::FrameError;
use inference::connection::{CertifiedKey, DEFAULT_LEAST_RATE, Fingerprint, TlsConnector, Trust};
use inference::setup::messages::ModelName;
use network::digest::Digest;
use sealed::secret_file::read_private_pem;
use service::settings::ReluMode;
use service::{ByteSize, thread_count};

use super::link::Link;
use crate::report::{counted, path_text};

/// A model whose description is longer is refused, however much memory is allowed.
const LONGEST_OUTLINE: u64 = 64 << 20;

/// Where the environment names a fingerprint. A flag of either kind wins, so that clap does not read it.
const FINGERPRINT_VARIABLE: &str = "SORDINO_FINGERPRINT";

/// Which server, and how to know that it is the right one.
#[derive(Debug, Args)]
pub(super) struct ServerArguments {
    /// The server, as HOST or HOST:PORT [or in SORDINO_SERVER].
    #[arg(long, value_name = "ADDRESS", env = "SORDINO_SERVER", hide_env = true)]
    pub(super) server: String,
    #[command(flatten)]
    reach: ReachArguments,
    /// Accept only the model whose outline has this digest, as `--json` shows it.
    #[arg(long, value_name = "HEX")]
    expect_outline: Option<Digest>,
    /// Accept only weights with this commitment, as `--json` shows it.
    #[arg(long, value_name = "HEX")]
    expect_weights: Option<Digest>,
    /// How ReLUs must be computed [default: as the server does].
    #[arg(long, value_enum)]
    relu: Option<ReluMode>,
    /// The link to the server, such as 100mbps,20ms: decides how transfers are made [default: a slow one, unless the server
    /// is on this machine].
    #[arg(long)]
    pub(super) link: Option<Link>,
    /// Memory that one inference may take here, whatever the server's model asks for.
    #[arg(long, default_value = "4G", value_name = "SIZE")]
    pub(super) max_memory: ByteSize,
    /// Bytes a second, over a whole phase, below which the link is given up.
    #[arg(long, default_value_t = DEFAULT_LEAST_RATE, value_name = "BYTES", value_parser = super::at_least_one)]
    min_rate: u64,
    /// Threads to compute with.
    #[arg(long, default_value = "1", value_name = "COUNT", value_parser = thread_count)]
    threads: NonZeroUsize,
    /// Where that part of answers is kept which a model sends every client once [default: sordino in the user's cache].
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Keep nothing: every session fetches that part again.
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
}

/// How to know a server, what to show it, which model to ask for.
#[derive(Debug, Args)]
pub(super) struct ReachArguments {
    /// The server's fingerprint, as `sordino serve` prints it [or, without --ca, in SORDINO_FINGERPRINT].
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    fingerprint: Option<Fingerprint>,
    /// The authorities (PEM) that vouch for the server.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Which of the server's models.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A certificate (PEM) for servers that ask for one.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Seconds that the server may be silent.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = super::at_least_one)]
    timeout: u64,
}

impl ServerArguments {
    /// How long who is silent is waited for.
    pub(super) fn patience(&self) -> Duration {
        self.reach.patience()
    }

    /// Connects, or says how to.
    pub(super) fn connect(&self) -> anyhow::Result<PrivateClient> {
        self.connect_for(None)
    }

    /// Connects to the server and model that a file was prepared for, or says what differs.
    pub(super) fn connect_for(&self, file: Option<&PreparedFile>) -> anyhow::Result<PrivateClient> {
        let known = file.map(PreparedFile::description);
        let agreed = known.map(|known| known.agreement);
        let wishes = Wishes {
            model: self.reach.model(known.map(|known| known.model.as_str()))?,
            reveal: None,
            relus: self.relu.map(Into::into),
            depth: self.link.map(|link| link.depth()),
            outline_digest: self.expect_outline.or(agreed.map(|agreed| agreed.outline)),
            commitment: self.expect_weights.or(agreed.map(|agreed| agreed.commitment)),
            max_memory: self.max_memory.0,
            ..Wishes::default()
        };
        let options = ConnectOptions {
            wishes,
            least_rate: self.min_rate,
            threads: self.threads,
            halves: self.cache_folder()?,
            unkept: say_unkept,
            ..self.reach.options(&self.server)?
        };
        connect(&self.server, options).map_err(|error| self.explain(error))
    }

    /// Refuses to ask for another model than a file was prepared for.
    pub(super) fn expect_model_of(&self, path: &Path, file: &PreparedFile) -> anyhow::Result<()> {
        let known = &file.description().model;
        match &self.reach.model {
            Some(named) if named != known => bail!(
                "{} was prepared for {known}, and --model says {named}; leave --model out, or prepare for {named}",
                path.display()
            ),
            _ => Ok(()),
        }
    }

    /// Adds what the flags have to do with it.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let cause = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>());
        let limit = &self.max_memory;
        match cause {
            Some(ClientError::Inference(InferenceError::TimedOut)) => {
                let silence = counted(self.reach.patience().as_secs(), "second");
                error.context(format!(
                    "the server was silent for {silence}, or slower than {} bytes a second; a larger --timeout or a smaller \
                     --min-rate waits longer",
                    self.min_rate
                ))
            }
            Some(ClientError::Inference(InferenceError::TooLarge { needed, .. })) => {
                let (needed, flag) = (ByteSize(*needed), ByteSize(*needed).as_flag());
                error.context(format!(
                    "the server's model needs {needed} of memory here, and {limit} are allowed; --max-memory {flag} is enough"
                ))
            }
            Some(ClientError::Inference(InferenceError::Frame(FrameError::TooLong { .. })))
                if limit.0 < LONGEST_OUTLINE =>
            {
                error.context(format!(
                    "the server's model needs more than {limit} of memory; raise --max-memory"
                ))
            }
            _ => error,
        }
    }

    /// The folder that was named, or the usual one where the user has a home.
    fn cache_folder(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(named) = self.cache.as_ref().filter(|named| named.exists() && !named.is_dir()) {
            bail!("{} is no folder; --cache takes one, which need not exist yet", named.display());
        }
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        Ok(match (&self.cache, self.no_cache) {
            (_, true) => None,
            (Some(named), false) => Some(named.clone()),
            (None, false) => usual().map(|cache| cache.join("sordino")),
        })
    }
}

impl ReachArguments {
    /// How long who is silent is waited for.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Connects for questions and answers alone, to whichever model has this name.
    pub(super) fn connect_to_talk(&self, server: &str, model: &str) -> anyhow::Result<PrivateClient> {
        let model = self.model(Some(model))?;
        let wishes = Wishes { model, max_memory: u64::MAX, ..Wishes::default() };
        connect(server, ConnectOptions { wishes, ..self.options(server)? })
    }

    /// Whom to believe, what to show, how long to wait.
    fn options(&self, server: &str) -> anyhow::Result<ConnectOptions> {
        let certificate = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => {
                let own = CertifiedKey::from_pem(&read(cert)?, read_private_pem(key)?.expose());
                Some(own.with_context(|| format!("{} and {} are not usable", cert.display(), key.display()))?)
            }
            _ => None,
        };
        let silence = self.patience();
        Ok(ConnectOptions { certificate, silence, ..ConnectOptions::new(self.trust(server)?) })
    }

    /// The model that was asked for, else the one that is known, else the server's only one.
    fn model(&self, known: Option<&str>) -> anyhow::Result<ModelName> {
        Ok(ModelName::new(self.model.as_deref().or(known).unwrap_or_default())?)
    }

    /// Whom to believe. Nobody is believed silently on first sight.
    fn trust(&self, server: &str) -> anyhow::Result<Trust> {
        if let Some(fingerprint) = self.fingerprint {
            return Ok(Trust::Fingerprint(fingerprint));
        }
        if let Some(path) = &self.ca {
            let trust = Trust::Authorities(read(path)?);
            TlsConnector::new(&trust, None).with_context(|| format!("{} is not usable", path.display()))?;
            return Ok(trust);
        }
        if let Some(fingerprint) = fingerprint_of_environment()? {
            return Ok(Trust::Fingerprint(fingerprint));
        }
        let found =
            PrivateClient::fingerprint_of(server).with_context(|| format!("no session with {server}"))?;
        bail!(
            "who is {server}? Its certificate has fingerprint\n  {found}\nCompare this with what `sordino serve` printed \
             there. If it is the same, add --fingerprint {found}; if the server has a certificate of an authority, name \
             that with --ca FILE"
        )
    }
}

/// The fingerprint that the environment names. An empty one counts as none.
fn fingerprint_of_environment() -> anyhow::Result<Option<Fingerprint>> {
    let named = std::env::var(FINGERPRINT_VARIABLE).ok().filter(|text| !text.is_empty());
    let parse = |text: String| text.parse::<Fingerprint>();
    named.map(parse).transpose().with_context(|| format!("{FINGERPRINT_VARIABLE} is not usable"))
}

/// Says once that the cache is of no use.
fn say_unkept(folder: &Path, error: &io::Error) {
    static SAID: Once = Once::new();
    // Nothing can be done when stderr is closed.
    SAID.call_once(|| {
        let _ = writeln!(
            io::stderr(),
            "note: nothing can be kept in {} ({error}): every session fetches that part again; name a folder with \
             --cache, or say --no-cache",
            path_text(folder)
        );
    });
}

fn connect(server: &str, options: ConnectOptions) -> anyhow::Result<PrivateClient> {
    PrivateClient::connect(server, options).with_context(|| format!("no session with {server}"))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
