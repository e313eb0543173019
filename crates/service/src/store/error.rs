//! What can go wrong with the store.

use std::path::PathBuf;

use crypto::random::SystemRandomError;
use inference::requests::StoredId;
use inference::stored::StoredError;

use sealed::secret_file::SecretFileError;

/// A prepared inference that was not stored or not given back.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The key or the witness.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// A database that this program does without.
    #[error(
        "this program was built without {database}; build it with the Cargo feature `{feature}`, or choose another \
         store, or none"
    )]
    NotBuiltIn {
        /// Which one.
        database: &'static str,
        /// What brings it.
        feature: &'static str,
    },
    /// The embedded database.
    #[cfg(feature = "sqlite")]
    #[error("the store {} failed to {doing}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: rusqlite::Error,
    },
    /// The shared database.
    #[cfg(feature = "postgres")]
    #[error("the shared store failed to {doing}; is PostgreSQL reachable under the address that was given?")]
    Postgres {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: postgres::Error,
    },
    /// TLS towards the shared database could not be set up.
    #[cfg(feature = "postgres")]
    #[error("no connection to the shared store: {0}")]
    PostgresTls(String),
    /// The shared database, or who answers in its place, shows no certificate that is believed.
    #[cfg(feature = "postgres")]
    #[error(
        "no secure connection to the shared store. Its certificate must name the host as the address does, and be of an \
         authority that this machine trusts: for one of your own set SSL_CERT_FILE=FILE"
    )]
    PostgresCertificate {
        /// What was wrong.
        source: postgres::Error,
    },
    /// The shared database would forget that an inference is spent.
    #[cfg(feature = "postgres")]
    #[error(
        "the shared store runs with {setting} = {value}, so a crash may bring spent inferences back; set it to on"
    )]
    NotDurable {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// A connection that someone could change on its way.
    #[cfg(feature = "postgres")]
    #[error("the shared store at {host} is on another machine; add sslmode=require to its address")]
    Plain {
        /// The host.
        host: String,
    },
    /// Sealed under another key.
    #[error("the key in {} is not the one of this store; all processes of one store share one key file", path.display())]
    OtherKey {
        /// The key file.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error(
        "the store has format version {came}, this program knows version {expected}; use a newer program or a new store"
    )]
    Version {
        /// Ours.
        expected: i64,
        /// Theirs.
        came: i64,
    },
    /// Not there, no matter why.
    #[error(
        "prepared inference {id} is not in the store: it was used, has expired, or is another client's; prepare again"
    )]
    Unknown {
        /// Which one.
        id: StoredId,
    },
    /// Too many of them.
    #[error("the store keeps at most {limit} {what}; use or let expire what was prepared before")]
    Full {
        /// What would be too much.
        what: &'static str,
        /// How much may be.
        limit: u64,
    },
    /// An old copy of the database was put back, or nobody can tell.
    #[error(
        "an old copy of the store was put back, or this machine was never here; all {dropped} prepared inferences in it were \
         dropped, since some may be spent"
    )]
    Restored {
        /// How many.
        dropped: u64,
    },
    /// A machine comes that has not joined, and cannot tell whether the database is an old copy.
    #[error(
        "the store does not know this machine, and {waiting} prepared inferences wait there. Its witness {} is new or \
         was lost. If the database was never put back from a copy, start this machine once with --store-join keep; \
         otherwise, or when in doubt, with --store-join drop, which drops what waits", path.display()
    )]
    UnknownMachine {
        /// Rows that may be spent already.
        waiting: u64,
        /// What this machine would remember it by.
        path: PathBuf,
    },
    /// They would wait too long.
    #[error(
        "prepared inferences may wait {most} seconds at most, {came} were asked for; choose another --prepared-ttl"
    )]
    Lifetime {
        /// The limit.
        most: u64,
        /// What was asked for.
        came: u64,
    },
    /// A row was changed by somebody else.
    #[error("prepared inference {id} was changed in the store by someone without its key; it is gone")]
    Damaged {
        /// Which one.
        id: StoredId,
    },
    /// A row holds something else than it should.
    #[error("prepared inference {id} cannot be used; it is gone")]
    Unusable {
        /// Which one.
        id: StoredId,
        /// Why not.
        source: StoredError,
    },
    /// No thread for its upkeep.
    #[error("the store cannot be kept tidy: no thread could be started")]
    Thread(#[source] std::io::Error),
    /// No randomness.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}
