//! What a server is known by across restarts: the certificate made on first start, and the salt of its commitments.
//!
//! Both lie in the state folder, readable by their owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use crypto::random::Seed;
use crypto::secret::Secret;
use inference::connection::Identity;

/// The longest file that is read here.
const MAX_BYTES: u64 = 1 << 20;

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
pub fn load_or_make(folder: &Path) -> anyhow::Result<Identity> {
    let path = folder.join("identity.pem");
    if let Some(pem) = read(&path)? {
        return Identity::from_pem(pem.expose())
            .with_context(|| format!("{} is damaged; remove it to make a new identity", path.display()));
    }
    let identity = Identity::generate()?;
    write_new(&path, identity.to_pem().expose().as_bytes())?;
    Ok(identity)
}

/// The secret salt for the commitment to one model's weights.
///
/// # Errors
/// When the file cannot be read or written.
pub fn load_or_make_salt(folder: &Path, model: &str) -> anyhow::Result<Secret<[u8; 32]>> {
    let path = folder.join("salt");
    let root = match read(&path)? {
        Some(bytes) => {
            let bytes = bytes.expose().as_slice().try_into();
            Secret::new(bytes.with_context(|| format!("{} is damaged: it has 32 bytes", path.display()))?)
        }
        None => {
            let fresh = Secret::new(*Seed::from_system()?.expose());
            write_new(&path, fresh.expose())?;
            fresh
        }
    };
    // The file's key serves this purpose alone.
    Ok(Secret::new(*blake3::keyed_hash(root.expose(), model.as_bytes()).as_bytes()))
}

fn read(path: &Path) -> anyhow::Result<Option<Secret<Vec<u8>>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(Secret::new(bytes)))
}

/// Writes a file for its owner alone; whole or not at all, and never over another.
fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.join(format!(".{name}.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        let linked = fs::hard_link(&temporary, path);
        fs::remove_file(&temporary)?;
        linked?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| {
        format!("cannot write {}; name another folder with --state, or give --cert and --key", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn identity_and_salts_survive_a_restart_and_are_private() {
        let folder = std::env::temp_dir().join(format!("sordino-identity-{}", std::process::id()));
        let first = load_or_make(&folder).unwrap().fingerprint();
        assert_eq!(load_or_make(&folder).unwrap().fingerprint(), first);
        let salt = load_or_make_salt(&folder, "a").unwrap();
        assert_eq!(load_or_make_salt(&folder, "a").unwrap().expose(), salt.expose());
        assert_ne!(load_or_make_salt(&folder, "b").unwrap().expose(), salt.expose());
        for name in ["identity.pem", "salt"] {
            let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        fs::write(folder.join("identity.pem"), "nothing").unwrap();
        let error = load_or_make(&folder).err().unwrap();
        assert!(error.to_string().contains("damaged"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
