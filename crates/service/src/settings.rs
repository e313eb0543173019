//! What a service can be told, each setting once: by a flag of `sordino serve`, or under the same name in a file.
//!
//! ```toml
//! listen = "0.0.0.0:7441"
//! metrics = "127.0.0.1:7442"
//! reveal = "class"
//! max-running = 4
//! max-memory = "16G"
//!
//! [models]
//! chest = "/srv/models/chest.sordino"
//! ```

mod error;

use std::collections::BTreeMap;
use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use inference::connection::DEFAULT_PORT;
use inference::connection::{CertifiedKey, TlsAcceptor};
use inference::plan::{ReluRounding, Reveal, Terms};
use sealed::secret_file::{SecretFileError, failing, read_private_pem};
use serde::Deserialize;

use crate::identity;
use crate::limits::{ByteSize, ClientLimits, ClientMemory, ClientPlaces, Limits, expect_useful_threads};
use crate::machine_memory;
use crate::proxy::ProxyNetwork;
use crate::store::{StoreJoin, StoreLocation, StoreOptions};

pub use error::SettingsError;

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// How long running inferences get at the end.
const DEFAULT_GRACE: Duration = Duration::from_secs(60);

/// All settings. What is not given has a default, which the accessors know.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Settings {
    /// Where clients connect [default: 127.0.0.1:7441].
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub listen: Option<String>,
    /// The server's certificate chain (PEM) instead of one it made itself.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", requires = "key"))]
    pub cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", requires = "cert"))]
    pub key: Option<PathBuf>,
    /// Serve only clients with a certificate of these authorities (PEM).
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub client_ca: Option<PathBuf>,
    /// A key that several servers share, made on first start: certificate, salt and the store's key come from it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub cluster_key: Option<PathBuf>,
    /// The folder for what survives restarts: own certificate, salt of commitments.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FOLDER"))]
    pub state: Option<PathBuf>,
    /// What clients learn [default: logits].
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub reveal: Option<Revealed>,
    /// How ReLUs are computed [default: fast].
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub relu: Option<ReluMode>,
    /// Show health and metrics there, as /healthz and /metrics; at / a page for the operator.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub metrics: Option<String>,
    /// Show the page for browsers there; its client connects through a WebSocket of the same address.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub web: Option<String>,
    /// Pages of these origins may connect as well, such as `https://models.example`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ORIGIN", value_delimiter = ',', requires = "web"))]
    pub web_origin: Option<Vec<String>>,
    /// Clients that may be connected at once [default: 128].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub max_clients: Option<usize>,
    /// Clients that are computed for at once; others wait in line, and who waits for its client needs no place [default:
    /// one for each processor].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub max_running: Option<NonZeroUsize>,
    /// Memory for weights, running inferences and what is prepared, such as 16G [default: three quarters of what the
    /// machine has and the control groups allow].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE"))]
    pub max_memory: Option<ByteSize>,
    /// Memory for transformed weights; the rest is transformed for each inference [default: all of them].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE"))]
    pub weight_memory: Option<ByteSize>,
    /// Inferences that one connection may have prepared and not used [default: 64].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub max_prepared: Option<u32>,
    /// Seconds in which a client must send or take something [default: 30].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub timeout: Option<u64>,
    /// Seconds a connected client may ask for nothing [default: 600].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub idle_timeout: Option<u64>,
    /// Bytes a second, over a whole phase, below which a client is given up [default: 125000].
    #[cfg_attr(feature = "clap", arg(long, value_name = "BYTES"))]
    pub min_rate: Option<NonZeroU64>,
    /// Seconds that running inferences get at the end [default: 60].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub grace: Option<u64>,
    /// Threads for each running inference [default: 1].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT", value_parser = crate::limits::thread_count))]
    pub threads: Option<NonZeroUsize>,
    /// Where prepared inferences are kept: a file, a postgres:// address, or none [default: a file in the state folder].
    #[cfg_attr(feature = "clap", arg(long, value_name = "PLACE"))]
    pub store: Option<String>,
    /// The key that seals them, made on first start [default: the cluster's key, or a file in the state folder].
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub store_key: Option<PathBuf>,
    /// What this machine remembers of the store; keep it out of the store's backups [default: in the state folder].
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub store_witness: Option<PathBuf>,
    /// What becomes of waiting inferences when a machine comes that the store does not know [default: in a file they are
    /// dropped; PostgreSQL refuses the machine].
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub store_join: Option<StoreJoin>,
    /// Seconds that a prepared inference may wait for its image, at most 604800 [default: 86400].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub prepared_ttl: Option<u64>,
    /// Prepared inferences that one client may have waiting in the store [default: 100].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub prepared_per_client: Option<u64>,
    /// Connections that one client may have at once, 0 for no limit; a client is a certificate, or without one an address
    /// or an IPv6 /64 [default: 16].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub client_connections: Option<usize>,
    /// Places that one client may have at once, 0 for no limit [default: all but one].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub client_running: Option<usize>,
    /// Memory that one client may have, 0 for no limit [default: a quarter of what is there for clients].
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE"))]
    pub client_memory: Option<ByteSize>,
    /// Inferences that one client may prepare in an hour, 0 for no limit [default: 600].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub preparations_per_hour: Option<u32>,
    /// Images that one client may have answered in an hour, 0 for no limit [default: 600].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub answers_per_hour: Option<u32>,
    /// Sessions that one client may begin in an hour, 0 for no limit [default: 3600].
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub sessions_per_hour: Option<u32>,
    /// Balancers (addresses or networks) that say by the PROXY protocol, version 2, whose connection they pass on.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ','))]
    pub proxy_protocol: Option<Vec<ProxyNetwork>>,
    /// Log as JSON, one object a line.
    #[cfg_attr(feature = "clap", arg(long))]
    pub log_json: bool,
    /// Model files by name; the command line names them otherwise.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub models: BTreeMap<String, PathBuf>,
}

/// What clients learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Revealed {
    /// All of them, rounded as the model says.
    Logits,
    /// The number of the best class alone: far less for who wants to copy the model.
    Class,
}

impl From<Revealed> for Reveal {
    fn from(revealed: Revealed) -> Self {
        match revealed {
            Revealed::Logits => Self::Logits,
            Revealed::Class => Self::Class,
        }
    }
}

/// How ReLUs are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ReluMode {
    /// Rounded by shares: a tenth of the bytes, off by less than one unit of an activation, without bias.
    Fast,
    /// Rounded to nearest, in garbled circuits.
    Exact,
}

impl From<ReluMode> for ReluRounding {
    fn from(mode: ReluMode) -> Self {
        match mode {
            ReluMode::Fast => Self::Stochastic,
            ReluMode::Exact => Self::Nearest,
        }
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or says something unknown; with line and reason.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let length = fs::metadata(path).map_err(failing("read", path))?.len();
        if length > MAX_BYTES {
            return Err(SettingsError::TooLong { path: path.to_owned(), length });
        }
        let text = fs::read_to_string(path).map_err(failing("read", path))?;
        let settings: Self = toml::from_str(&text)
            .map_err(|error| SettingsError::Toml { path: path.to_owned(), source: error.into() })?;
        settings.check()?;
        Ok(settings)
    }

    /// Looks for settings under which nobody could be served.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), SettingsError> {
        let is_zero = |value: Option<u64>| value == Some(0);
        let zeros = [
            ("max-clients", is_zero(self.max_clients.map(|count| count as u64)), "no client could connect"),
            ("max-memory", is_zero(self.max_memory.map(|size| size.0)), "nothing could be computed"),
            ("max-prepared", is_zero(self.max_prepared.map(u64::from)), "nothing could be prepared"),
            ("timeout", is_zero(self.timeout), "no client is that fast"),
            ("idle-timeout", is_zero(self.idle_timeout), "no client is that fast"),
            (
                "prepared-ttl",
                is_zero(self.prepared_ttl),
                "all would expire at once; `store = \"none\"` keeps none",
            ),
            (
                "prepared-per-client",
                is_zero(self.prepared_per_client),
                "nobody could store any; `store = \"none\"` keeps none",
            ),
        ];
        if let Some((name, _, why)) = zeros.into_iter().find(|(_, is_zero, _)| *is_zero) {
            return Err(SettingsError::Zero { name, why });
        }
        Ok(self.threads.map_or(Ok(()), expect_useful_threads)?)
    }

    /// These, and those of a file where these say nothing.
    pub fn or(self, file: Self) -> Self {
        // Every setting has to be here: the compiler misses one that is not.
        macro_rules! first {
            ($($name:ident)*) => {
                Self {
                    $($name: self.$name.or(file.$name),)*
                    log_json: self.log_json || file.log_json,
                    models: file.models.into_iter().chain(self.models).collect(),
                }
            };
        }
        first! {
            listen cert key client_ca cluster_key state reveal relu metrics web web_origin max_clients max_running max_memory weight_memory max_prepared
            timeout idle_timeout min_rate grace threads store store_key store_witness store_join prepared_ttl prepared_per_client
            client_connections client_running client_memory preparations_per_hour answers_per_hour sessions_per_hour
            proxy_protocol
        }
    }

    /// Where clients connect.
    pub fn listen(&self) -> String {
        self.listen.clone().unwrap_or_else(|| format!("127.0.0.1:{DEFAULT_PORT}"))
    }

    /// What clients learn.
    pub fn reveal(&self) -> Reveal {
        self.reveal.map_or(Reveal::Logits, Reveal::from)
    }

    /// That, and how ReLUs are computed.
    pub fn terms(&self) -> Terms {
        Terms { reveal: self.reveal(), relus: self.relu.unwrap_or(ReluMode::Fast).into() }
    }

    /// What clients may take.
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        let memory = self.max_memory.map(|size| size.0);
        let memory = memory.or_else(|| Some(machine_memory::available()? / 4 * 3));
        Limits {
            clients: self.max_clients.unwrap_or(usual.clients),
            running: self.max_running.unwrap_or_else(processors),
            memory: memory.unwrap_or(usual.memory),
            prepared: self.max_prepared.unwrap_or(usual.prepared),
            silence: self.timeout.map_or(usual.silence, seconds),
            idle: self.idle_timeout.map_or(usual.idle, seconds),
            least_rate: self.min_rate.map_or(usual.least_rate, NonZeroU64::get),
            threads: self.threads.unwrap_or(usual.threads),
            per_client: self.client_limits(),
            ..usual
        }
    }

    /// What one client may take. Nothing said is the usual limit, 0 is none.
    fn client_limits(&self) -> ClientLimits {
        let usual = ClientLimits::default();
        let hourly =
            |told: Option<u32>, usual| told.map_or(usual, |count| Some(count).filter(|count| *count > 0));
        ClientLimits {
            connections: match self.client_connections {
                None => usual.connections,
                Some(count) => Some(count).filter(|count| *count > 0),
            },
            running: match self.client_running {
                None => usual.running,
                Some(0) => ClientPlaces::All,
                Some(count) => ClientPlaces::AtMost(count),
            },
            memory: match self.client_memory {
                None => usual.memory,
                Some(ByteSize(0)) => ClientMemory::All,
                Some(ByteSize(bytes)) => ClientMemory::AtMost(bytes),
            },
            preparations: hourly(self.preparations_per_hour, usual.preparations),
            answers: hourly(self.answers_per_hour, usual.answers),
            sessions: hourly(self.sessions_per_hour, usual.sessions),
        }
    }

    /// Whose word on the address of a client is believed.
    pub fn proxies(&self) -> Vec<ProxyNetwork> {
        self.proxy_protocol.clone().unwrap_or_default()
    }

    /// How long running inferences get at the end.
    pub fn grace(&self) -> Duration {
        self.grace.map_or(DEFAULT_GRACE, seconds)
    }

    /// The folder for what survives restarts.
    pub fn state(&self) -> Option<PathBuf> {
        self.state.clone().or_else(identity::default_state_folder)
    }

    /// The certificate of the operator, that of the cluster, or the server's own, made on first start.
    ///
    /// # Errors
    /// When it cannot be read or made.
    pub fn certificate(&self) -> Result<CertifiedKey, SettingsError> {
        match (&self.cert, &self.key, &self.cluster_key) {
            (Some(cert), Some(key), _) => {
                let (chain, own) = (read(cert)?, read_private_pem(key)?);
                let unusable =
                    |source| SettingsError::Certificate { cert: cert.clone(), key: key.clone(), source };
                CertifiedKey::from_pem(&chain, own.expose()).map_err(unusable)
            }
            (None, None, Some(path)) => {
                Ok(identity::shared(&identity::load_or_make_shared_key(path)?)?.into_key())
            }
            (None, None, None) => {
                let folder = self.state().ok_or(SettingsError::NoFolder { what: "an identity" })?;
                Ok(identity::load_or_make(&folder)?.into_key())
            }
            _ => Err(SettingsError::HalfCertificate),
        }
    }

    /// The key that this server shares with others, where one is named: what clients must find the same on all of them is
    /// derived from it.
    pub(crate) fn shared_key(&self) -> Option<&Path> {
        self.cluster_key.as_deref().or(self.store_key.as_deref())
    }

    /// How connections are secured with this certificate.
    ///
    /// # Errors
    /// When certificate or client authorities are not usable.
    pub fn acceptor(&self, certificate: CertifiedKey) -> Result<TlsAcceptor, SettingsError> {
        let authorities = self.client_ca.as_deref().map(read).transpose()?;
        TlsAcceptor::new(certificate, authorities.as_deref()).map_err(SettingsError::Acceptor)
    }

    /// Where and how prepared inferences are kept, if they are.
    ///
    /// # Errors
    /// When there is no place for their key.
    pub fn store(&self) -> Result<Option<StoreOptions>, SettingsError> {
        let folder = self.state();
        if self.store.as_deref() == Some("none") || (self.store.is_none() && folder.is_none()) {
            return Ok(None);
        }
        let missing = || SettingsError::NoFolder { what: "a key" };
        // Where there is no folder, every file of it has to be named.
        let beside = |own: &Option<PathBuf>, usual: &Path| {
            own.clone().or_else(|| folder.as_ref().map(|_| usual.to_owned())).ok_or_else(missing)
        };
        let mut options = StoreOptions::in_folder(folder.as_deref().unwrap_or(Path::new("")));
        let key = self.store_key.clone().or_else(|| self.cluster_key.clone());
        options.key_file = beside(&key, &options.key_file)?;
        options.witness_file = beside(&self.store_witness, &options.witness_file)?;
        if let Some(place) = &self.store {
            let is_known = ["postgres://", "postgresql://"].iter().any(|known| place.starts_with(known));
            if place.contains("://") && !is_known {
                return Err(SettingsError::UnknownStore { place: place.clone() });
            }
            options.location = StoreLocation::from(place.as_str());
        }
        options.join = self.store_join;
        options.lifetime = self.prepared_ttl.map_or(options.lifetime, seconds);
        options.per_client = self.prepared_per_client.unwrap_or(options.per_client);
        Ok(Some(options))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SecretFileError> {
    fs::read(path).map_err(failing("read", path))
}

/// At least one.
fn seconds(count: u64) -> Duration {
    Duration::from_secs(count.max(1))
}

fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_flags_say() {
        let text = "listen = '[::]:7441'\nreveal = 'class'\nmax-memory = '16G'\nmax-running = 4\n[models]\na = 'b.sordino'\n";
        let settings: Settings = toml::from_str(text).unwrap();
        assert_eq!(settings.max_memory, Some(ByteSize(16 << 30)));
        assert_eq!(settings.reveal(), Reveal::Class);
        assert_eq!(settings.models["a"], Path::new("b.sordino"));
        for bad in [
            "lisen = 'x'",
            "max-running = 0",
            "min-rate = 0",
            "max-memory = 'much'",
            "models = 3",
            "reveal = 'all'",
        ] {
            assert!(toml::from_str::<Settings>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flag_wins_then_the_file_then_the_default() {
        let flags = Settings { timeout: Some(5), state: Some("here".into()), ..Settings::default() };
        let file: Settings =
            toml::from_str("timeout = 9\ngrace = 0\nlog-json = true\n[models]\na = 'b'").unwrap();
        let settings = flags.or(file);
        assert_eq!(
            (settings.limits().silence, settings.grace()),
            (Duration::from_secs(5), Duration::from_secs(1))
        );
        assert_eq!(settings.limits().idle, Limits::default().idle);
        assert!(settings.log_json && settings.models.contains_key("a"));
        assert_eq!(settings.listen(), "127.0.0.1:7441");
    }

    #[test]
    fn limits_for_one_client_are_the_usual_ones_unless_told_and_none_where_told_zero() {
        let limits = |text: &str| toml::from_str::<Settings>(text).unwrap().limits().per_client;
        assert_eq!(limits(""), ClientLimits::default());
        let none = "client-connections = 0\nclient-running = 0\nclient-memory = 0\n\
            preparations-per-hour = 0\nanswers-per-hour = 0\nsessions-per-hour = 0";
        assert_eq!(limits(none), ClientLimits::NONE);
        let own = "client-connections = 3\nclient-running = 2\nclient-memory = '1G'\n\
            preparations-per-hour = 70\nanswers-per-hour = 7\nsessions-per-hour = 9";
        let expected = ClientLimits {
            connections: Some(3),
            running: ClientPlaces::AtMost(2),
            memory: ClientMemory::AtMost(1 << 30),
            preparations: Some(70),
            answers: Some(7),
            sessions: Some(9),
        };
        assert_eq!(limits(own), expected);
        let settings: Settings = toml::from_str("proxy-protocol = ['10.0.0.7', 'fd00::/8']").unwrap();
        assert_eq!(settings.proxies().len(), 2);
        assert!(toml::from_str::<Settings>("proxy-protocol = ['balancer']").is_err());
    }

    #[test]
    fn a_store_lies_in_the_folder_unless_its_place_and_files_are_named() {
        let mut settings = Settings { state: Some("state".into()), ..Settings::default() };
        assert_eq!(settings.store().unwrap(), Some(StoreOptions::in_folder(Path::new("state"))));
        settings.store = Some("postgres://db.example/sordino".to_owned());
        settings.store_key = Some("key".into());
        let options = settings.store().unwrap().unwrap();
        assert!(matches!(options.location, StoreLocation::Postgres(_)));
        assert_eq!(options.key_file, Path::new("key"));
        assert_eq!(options.witness_file, Path::new("state/prepared.witness"));
        settings.store = Some("none".to_owned());
        assert_eq!(settings.store().unwrap(), None);
    }

    #[test]
    fn a_cluster_has_one_certificate_and_one_key_of_its_store() {
        let folder = tempfile::tempdir().unwrap();
        let server = |number: u32| Settings {
            state: Some(folder.path().join(number.to_string())),
            cluster_key: Some(folder.path().join("cluster.key")),
            ..Settings::default()
        };
        let fingerprint = |settings: &Settings| settings.certificate().unwrap().fingerprint();
        assert_eq!(fingerprint(&server(1)), fingerprint(&server(2)));
        assert_eq!(server(1).store().unwrap().unwrap().key_file, folder.path().join("cluster.key"));
        let apart = Settings { cluster_key: None, ..server(1) };
        assert_ne!(fingerprint(&apart), fingerprint(&server(1)));
        let named = Settings { store_key: Some("own".into()), ..server(1) };
        assert_eq!(named.store().unwrap().unwrap().key_file, Path::new("own"));
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.pem");
        fs::write(&path, inference::connection::Identity::generate().unwrap().to_pem().expose()).unwrap();
        let settings = Settings { cert: Some(path.clone()), key: Some(path.clone()), ..Settings::default() };
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set(0o644);
        let error = settings.certificate().err().unwrap().to_string();
        assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
        set(0o600);
        assert!(settings.certificate().is_ok());
    }

    #[test]
    fn settings_under_which_nobody_is_served_are_refused_with_words() {
        let zeros = [
            "max-clients",
            "max-memory",
            "max-prepared",
            "timeout",
            "idle-timeout",
            "prepared-ttl",
            "prepared-per-client",
        ];
        for name in zeros {
            let settings: Settings = toml::from_str(&format!("{name} = 0")).unwrap();
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is 0: ")), "{error}");
            let settings: Settings = toml::from_str(&format!("{name} = 1")).unwrap();
            settings.check().unwrap();
        }
        let settings: Settings = toml::from_str("weight-memory = 0\ngrace = 0").unwrap();
        settings.check().unwrap();
        let settings: Settings = toml::from_str("threads = 1000000").unwrap();
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with("threads: expected at most"), "{error}");
    }

    #[test]
    fn an_address_of_another_database_is_no_file() {
        let store = Some("mysql://db.example/sordino".to_owned());
        let settings = Settings { state: Some("state".into()), store, ..Settings::default() };
        let error = settings.store().unwrap_err().to_string();
        assert!(error.contains("mysql://") && error.contains("postgres://"), "{error}");
    }

    #[test]
    fn half_a_certificate_is_refused() {
        let settings = Settings { cert: Some("chain.pem".into()), ..Settings::default() };
        assert!(matches!(settings.certificate(), Err(SettingsError::HalfCertificate)));
    }
}
