//! Settings that cannot be used, each with what to do about it.

use std::path::PathBuf;

use inference::connection::TlsError;
use sealed::secret_file::SecretFileError;

use crate::identity::IdentityError;
use crate::limits::TooManyThreads;

/// Why a service cannot be set up as told.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// Too long to be a configuration.
    #[error("{} has {length} bytes, too many for a configuration", path.display())]
    TooLong {
        /// The configuration.
        path: PathBuf,
        /// Its bytes.
        length: u64,
    },
    /// Not TOML, or with settings that nobody knows.
    #[error("{} is not usable", path.display())]
    Toml {
        /// The configuration.
        path: PathBuf,
        /// With the line.
        source: Box<toml::de::Error>,
    },
    /// A zero under which nobody is served.
    #[error("{name} is 0: {why}; give 1 or more")]
    Zero {
        /// The setting.
        name: &'static str,
        /// What would come of it.
        why: &'static str,
    },
    /// More threads than this machine can use.
    #[error("threads: {0}")]
    Threads(#[from] TooManyThreads),
    /// An address of a database that is not spoken to.
    #[error("{place} is no store; give a file, an address that begins with postgres://, or none")]
    UnknownStore {
        /// What came.
        place: String,
    },
    /// One of two files.
    #[error("a certificate needs its key, and a key its certificate: give both, or neither")]
    HalfCertificate,
    /// Two files that are no certificate and key.
    #[error("{} and {} are not usable", cert.display(), key.display())]
    Certificate {
        /// The chain.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
        /// Why not.
        source: TlsError,
    },
    /// TLS cannot be set up with them.
    #[error("certificate, key or client authorities are not usable")]
    Acceptor(#[source] TlsError),
    /// Nowhere to write.
    #[error("there is no folder to keep {what} in; name one with --state")]
    NoFolder {
        /// What needs one.
        what: &'static str,
    },
    /// The server's own certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}
