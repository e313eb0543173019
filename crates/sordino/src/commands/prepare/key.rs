//! The key that seals files of prepared inferences, and how they are opened with it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use client::prepared_file::{PreparedFile, PreparedFileError};
use crypto::secret::Secret;
use sealed::keyring;
use sealed::secret_file::{KEY_BYTES, read_key, read_or_make_key};
use service::identity;

use crate::report::path_text;

/// The usual key's file. A server of the same user has `prepared.key`, which seals its store.
const FILE: &str = "client-prepared.key";
/// What sealed files before clients had a key of their own.
const EARLIER_FILE: &str = "prepared.key";

type Key = Secret<[u8; KEY_BYTES]>;

/// What opens a file of prepared inferences.
#[derive(Debug, Args)]
pub(in crate::commands) struct KeyArguments {
    /// The key that seals prepared inferences; `prepare` makes it if there is none [default: client-prepared.key in Sordino's
    /// folder].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The same key from elsewhere: keyring:NAME is the kernel's keyring of this user, file:PATH a file.
    #[arg(long, value_name = "SOURCE", conflicts_with = "key_file")]
    key: Option<KeySource>,
}

/// Where a key comes from.
#[derive(Clone, Debug)]
enum KeySource {
    File(PathBuf),
    Keyring(String),
}

impl std::str::FromStr for KeySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("keyring", name)) => Ok(Self::Keyring(name.to_owned())),
            Some(("file", path)) => Ok(Self::File(path.into())),
            _ => Err(format!("{text:?} names no key; write keyring:NAME or file:PATH")),
        }
    }
}

impl KeyArguments {
    /// Opens and locks a file; says so where another process has to end first.
    pub(in crate::commands) fn open(&self, path: &Path, patience: Duration) -> anyhow::Result<PreparedFile> {
        self.unseal(|key| {
            let waiting = || {
                // Nothing can be done when stderr is closed.
                let _ = writeln!(std::io::stderr(), "waiting: another process uses {}", path_text(path));
            };
            PreparedFile::open_within(path, key, patience, waiting)
        })
    }

    /// Opens a file only to look at it.
    pub(in crate::commands) fn look(&self, path: &Path) -> anyhow::Result<PreparedFile> {
        self.unseal(|key| PreparedFile::look(path, key))
    }

    /// The key for a new file, made where there is none.
    pub(super) fn key_or_new(&self) -> anyhow::Result<Key> {
        if let Some(KeySource::Keyring(name)) = &self.key {
            return Ok(keyring::read_or_make_key(name)?);
        }
        if let Some(path) = self.named() {
            return Ok(read_or_make_key(path)?);
        }
        let folder = folder()?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(read_or_make_key(&folder.join(FILE))?)
    }

    /// Tries the keys that may have sealed a file; makes none.
    fn unseal(
        &self,
        open: impl Fn(Key) -> Result<PreparedFile, PreparedFileError>,
    ) -> anyhow::Result<PreparedFile> {
        if let Some(KeySource::Keyring(name)) = &self.key {
            return open(keyring::read_key(name)?).map_err(|error| tried(error, &format!("keyring:{name}")));
        }
        let paths = match self.named() {
            Some(path) => vec![path.to_owned()],
            None => {
                let folder = folder()?;
                vec![folder.join(FILE), folder.join(EARLIER_FILE)]
            }
        };
        let (mut refused, mut names) = (None, Vec::new());
        for path in paths.iter().filter(|path| path.try_exists().unwrap_or(true)) {
            names.push(path_text(path));
            match open(read_key(path)?) {
                // Of another file's keys the first speaks.
                Err(error @ PreparedFileError::Key { .. }) => refused = refused.or(Some(error)),
                opened => return Ok(opened?),
            }
        }
        match refused {
            Some(error) => Err(tried(error, &names.join(" and "))),
            None => bail!(
                "there is no key at {}; expected the one that `sordino prepare` made: name it with --key-file",
                paths[0].display()
            ),
        }
    }

    /// The file that was named.
    fn named(&self) -> Option<&Path> {
        match &self.key {
            Some(KeySource::File(path)) => Some(path),
            _ => self.key_file.as_deref(),
        }
    }
}

/// Says which key it was that does not open a file.
fn tried(error: PreparedFileError, key: &str) -> anyhow::Error {
    match error {
        PreparedFileError::Key { .. } => anyhow::Error::from(error).context(format!(
            "{key} was tried; name the key that `sordino prepare` used with --key-file, or with --key"
        )),
        error => error.into(),
    }
}

/// Where the usual key is.
fn folder() -> anyhow::Result<PathBuf> {
    identity::default_state_folder().context("there is no folder for a key; name a file with --key-file")
}
