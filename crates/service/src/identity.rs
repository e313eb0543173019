//! What a server is known by across restarts: the certificate made on first start, and the salt of its commitments.
//!
//! Both lie in the state folder, readable by their owner alone. Servers that clients take for one have to have the same:
//! then both are derived from one key file, of which each of them has a copy.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crypto::domain;
use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;
use inference::connection::{Identity, TlsError};
use sealed::seal::derive_key;
use sealed::secret_file::{SecretFileError, expect_private, failing, make_private, read_or_make_key};

/// The longest file that is read here.
const MAX_BYTES: u64 = 1 << 20;

/// An identity that cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// A file that cannot be made.
    #[error("{} cannot be made; name another folder with --state, or give --cert and --key", path.display())]
    Unmade {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SecretFileError,
    },
    /// Not what it was.
    #[error("{} is damaged; remove it to make a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// No certificate could be made.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// No randomness.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

/// The folder that keeps what must survive restarts: what systemd says, or the user's own.
pub fn default_state_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("STATE_DIRECTORY")
        .or_else(|| Some(variable("XDG_STATE_HOME")?.join("sordino")))
        .or_else(|| Some(variable("HOME")?.join(".local/state/sordino")))
}

/// The server's own certificate: read, or made and kept.
///
/// # Errors
/// When the file cannot be read or written, or is no identity.
pub fn load_or_make(folder: &Path) -> Result<Identity, IdentityError> {
    let path = folder.join("identity.pem");
    let pem = read_or_make(&path, || {
        Ok(Secret::new(Identity::generate()?.to_pem().expose().clone().into_bytes()))
    })?;
    Identity::from_pem(pem.expose()).map_err(|_| IdentityError::Damaged { path })
}

/// The key that several servers share: read, or made on the first start of the first of them.
///
/// # Errors
/// When the file cannot be read or written, others may read it, or it holds no key.
pub fn load_or_make_shared_key(path: &Path) -> Result<Secret<[u8; 32]>, IdentityError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failing("make", folder))?;
    }
    Ok(read_or_make_key(path)?)
}

/// The certificate of all servers that share this key.
///
/// # Errors
/// When none can be made of it.
pub fn shared(key: &Secret<[u8; 32]>) -> Result<Identity, IdentityError> {
    Ok(Identity::from_seed(&derive_key(domain::SHARED_IDENTITY, key.expose(), b""))?)
}

/// The secret salt for the commitment to one model's weights, of all servers that share this key.
pub fn shared_salt(key: &Secret<[u8; 32]>, model: &str) -> Secret<[u8; 32]> {
    derive_key(domain::SHARED_SALT, key.expose(), model.as_bytes())
}

/// The secret salt for the commitment to one model's weights, of this server alone.
///
/// # Errors
/// When the file cannot be read or written.
pub fn load_or_make_salt(folder: &Path, model: &str) -> Result<Secret<[u8; 32]>, IdentityError> {
    let path = folder.join("salt");
    let root = read_or_make(&path, || Ok(Secret::new(Seed::from_system()?.expose().to_vec())))?;
    let root = root.expose().as_slice().try_into().map_err(|_| IdentityError::Damaged { path })?;
    // The file's key serves this purpose alone.
    Ok(Secret::new(*blake3::keyed_hash(root, model.as_bytes()).as_bytes()))
}

/// What a file holds. Of two processes that make it at once, one wins for both.
fn read_or_make(
    path: &Path,
    fresh: impl FnOnce() -> Result<Secret<Vec<u8>>, IdentityError>,
) -> Result<Secret<Vec<u8>>, IdentityError> {
    if let Some(bytes) = read(path)? {
        return Ok(bytes);
    }
    let fresh = fresh()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = fs::create_dir_all(folder).map_err(failing("make", folder));
    made.and_then(|()| make_private(path, fresh.expose()))
        .map_err(|source| IdentityError::Unmade { path: path.to_owned(), source })?;
    Ok(read(path)?.unwrap_or(fresh))
}

fn read(path: &Path) -> Result<Option<Secret<Vec<u8>>>, SecretFileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failing("open", path))?,
    };
    expect_private(&file, path)?;
    // As large as it may become: a vector that grows leaves copies behind.
    let mut bytes = Secret::new(Vec::with_capacity(MAX_BYTES as usize + 1));
    file.take(MAX_BYTES).read_to_end(bytes.expose_mut()).map_err(failing("read", path))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn identity_and_salts_survive_a_restart_and_are_private() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("state");
        let first = load_or_make(&folder).unwrap().fingerprint();
        assert_eq!(load_or_make(&folder).unwrap().fingerprint(), first);
        let salt = load_or_make_salt(&folder, "a").unwrap();
        assert_eq!(load_or_make_salt(&folder, "a").unwrap().expose(), salt.expose());
        assert_ne!(load_or_make_salt(&folder, "b").unwrap().expose(), salt.expose());
        for name in ["identity.pem", "salt"] {
            let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        fs::set_permissions(folder.join("salt"), fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_or_make_salt(&folder, "a").err().unwrap();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::write(folder.join("identity.pem"), "nothing").unwrap();
        let error = load_or_make(&folder).err().unwrap();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    #[test]
    fn servers_with_copies_of_one_key_are_known_by_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster/key");
        let first = load_or_make_shared_key(&path).unwrap();
        let copy = folder.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        let second = load_or_make_shared_key(&copy).unwrap();
        assert_eq!(shared(&first).unwrap().fingerprint(), shared(&second).unwrap().fingerprint());
        assert_eq!(shared_salt(&first, "a").expose(), shared_salt(&second, "a").expose());
        assert_ne!(shared_salt(&first, "a").expose(), shared_salt(&first, "b").expose());
        let other = load_or_make_shared_key(&folder.path().join("other")).unwrap();
        assert_ne!(shared(&first).unwrap().fingerprint(), shared(&other).unwrap().fingerprint());
        assert_ne!(shared_salt(&first, "a").expose(), shared_salt(&other, "a").expose());
    }
}
