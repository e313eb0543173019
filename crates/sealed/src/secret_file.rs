//! Keys and files that only their owner may read, written so that a crash leaves the old or the new state.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;

/// Length of a key in bytes; its file holds twice as many hexadecimal digits and a line end.
pub const KEY_BYTES: usize = 32;

/// What is read of a private key at most.
const MAX_PEM_BYTES: usize = 1 << 16;

/// A key or secret file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others may read it.
    #[error("{} can be read by others (mode {mode:o}); only its owner may: chmod 600 {}", path.display(), path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds something else.
    #[error("{} holds no key: expected 64 hexadecimal digits", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A passphrase would open it.
    #[error(
        "the key in {} is encrypted, and nobody is asked for a passphrase; write it without one: openssl pkey -in {} -out NEW",
        path.display(),
        path.display()
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// No randomness for a new key.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

/// Says what was tried when the system refuses.
pub fn failing<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SecretFileError + 'a {
    move |source| SecretFileError::File { doing, path: path.to_owned(), source }
}

/// Reads the key in a file, or makes the file with a fresh key where there is none.
///
/// # Errors
/// When others may read the file, it holds no key, or it cannot be read or made.
pub fn read_or_make_key(path: &Path) -> Result<Secret<[u8; KEY_BYTES]>, SecretFileError> {
    match read_key(path) {
        Err(SecretFileError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make_key(path)?;
            read_key(path)
        }
        result => result,
    }
}

/// Reads the key in a file.
///
/// # Errors
/// When others may read the file, it holds no key, or it cannot be read.
pub fn read_key(path: &Path) -> Result<Secret<[u8; KEY_BYTES]>, SecretFileError> {
    let file = File::open(path).map_err(failing("open", path))?;
    let mut text = Secret::new(String::with_capacity(2 * KEY_BYTES + 2));
    // One more than a key takes, so that a longer file is noticed.
    let read = (&file).take(2 * KEY_BYTES as u64 + 2).read_to_string(text.expose_mut());
    let no_key = || SecretFileError::NoKey { path: path.to_owned() };
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => no_key(),
        _ => failing("read", path)(error),
    })?;
    let digits = text.expose().trim_end().as_bytes();
    let mut key = Secret::new([0; KEY_BYTES]);
    let is_key = digits.len() == 2 * KEY_BYTES && base16ct::mixed::decode(digits, key.expose_mut()).is_ok();
    // Whoever named a file of other contents by mistake shall not change its mode.
    if is_key || digits.is_empty() {
        expect_private(&file, path)?;
    }
    if is_key { Ok(key) } else { Err(no_key()) }
}

/// Makes a file with a fresh key.
fn make_key(path: &Path) -> Result<(), SecretFileError> {
    let mut text = Secret::new([b'\n'; 2 * KEY_BYTES + 1]);
    let written = base16ct::lower::encode(Seed::from_system()?.expose(), text.expose_mut());
    written.expect("a key has two digits for each byte");
    make_private(path, text.expose())
}

/// Makes a file that only its owner may read, whole or not at all. Of two processes that do so at once, one wins; a file
/// that exists stays as it is.
///
/// # Errors
/// When the system refuses.
pub fn make_private(path: &Path, bytes: &[u8]) -> Result<(), SecretFileError> {
    let draft = draft_path(path)?;
    write_private(&draft, bytes).map_err(failing("write", &draft))?;
    // A link, unlike a rename, does not replace what another process made in the meantime.
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).map_err(failing("remove", &draft))?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.and_then(|()| sync_folder(path)).map_err(failing("make", path)),
    }
}

/// Replaces a file as a whole: after a crash it holds the old or the new bytes.
///
/// # Errors
/// When the system refuses.
pub fn replace_durably(path: &Path, bytes: &[u8]) -> Result<(), SecretFileError> {
    let draft = draft_path(path)?;
    write_private(&draft, bytes).map_err(failing("write", &draft))?;
    fs::rename(&draft, path).and_then(|()| sync_folder(path)).map_err(failing("replace", path))
}

/// Opens a new file that only its owner may read; one that exists is not touched.
///
/// # Errors
/// When it exists, or the system refuses.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Refuses a file that others may read.
///
/// # Errors
/// When they may.
pub fn expect_private(file: &File, path: &Path) -> Result<(), SecretFileError> {
    let mode = file.metadata().map_err(failing("look at", path))?.mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(SecretFileError::Permissions { path: path.to_owned(), mode })
}

/// Reads a private key (PEM) that somebody else's tool wrote. Others may not read it; the group may where root owns it, as
/// packages of certificates do.
///
/// # Errors
/// When others may read it, or the system refuses.
pub fn read_private_pem(path: &Path) -> Result<Secret<Vec<u8>>, SecretFileError> {
    let file = File::open(path).map_err(failing("open", path))?;
    let found = file.metadata().map_err(failing("look at", path))?;
    let mode = found.mode() & 0o777;
    let allowed = if found.uid() == 0 { 0o740 } else { 0o700 };
    if found.is_file() && mode & !allowed != 0 {
        return Err(SecretFileError::Permissions { path: path.to_owned(), mode });
    }
    let mut pem = Secret::new(Vec::with_capacity(MAX_PEM_BYTES));
    file.take(MAX_PEM_BYTES as u64).read_to_end(pem.expose_mut()).map_err(failing("read", path))?;
    // The word stands in the title of PKCS #8, and in a line below that of older keys.
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    if pem.expose().windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
        return Err(SecretFileError::Encrypted { path: path.to_owned() });
    }
    Ok(pem)
}

/// Makes a new or renamed entry of a folder durable.
///
/// # Errors
/// When the system refuses.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name beside the file that no other writer has.
fn draft_path(path: &Path) -> Result<PathBuf, SecretFileError> {
    let random = Seed::from_system()?;
    let mark = u64::from_le_bytes(*random.expose().first_chunk().expect("a seed is longer"));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{mark:016x}"));
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(matches!(read_key(&path), Err(SecretFileError::File { .. })));
        let key = read_or_make_key(&path).unwrap();
        assert!(read_or_make_key(&path).unwrap() == key);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft stays behind");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read_key(&path), Err(SecretFileError::Permissions { mode: 0o640, .. })));
    }

    #[test]
    fn a_private_pem_that_others_may_read_is_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.key");
        write_private(&path, b"-----BEGIN PRIVATE KEY-----").unwrap();
        assert_eq!(read_private_pem(&path).unwrap().expose(), b"-----BEGIN PRIVATE KEY-----");
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o604, 0o620, 0o602] {
            set(mode);
            let error = read_private_pem(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:o}")) && error.contains("chmod 600"), "{error}");
        }
        set(0o640);
        let is_root = fs::metadata(&path).unwrap().uid() == 0;
        assert_eq!(read_private_pem(&path).is_ok(), is_root, "a group may read what root owns");
    }

    #[test]
    fn an_encrypted_key_is_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("new", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII="),
            ("old", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"),
        ] {
            let path = folder.path().join(name);
            write_private(&path, text.as_bytes()).unwrap();
            let error = read_private_pem(&path).unwrap_err().to_string();
            assert!(error.contains("is encrypted") && error.contains("openssl pkey"), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in
            ["", "abc", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)].iter().enumerate()
        {
            let path = folder.path().join(number.to_string());
            write_private(&path, text.as_bytes()).unwrap();
            assert!(matches!(read_key(&path), Err(SecretFileError::NoKey { .. })), "{text:?}");
        }
        let public = folder.path().join("public");
        fs::write(&public, "no key, and anybody may read it").unwrap();
        fs::set_permissions(&public, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read_key(&public), Err(SecretFileError::NoKey { .. })));
        let path = folder.path().join("good");
        write_private(&path, "0a".repeat(32).as_bytes()).unwrap();
        assert_eq!(read_key(&path).unwrap().expose(), &[10; 32]);
    }
}
