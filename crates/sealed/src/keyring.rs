//! A key in the kernel's keyring of this user: it is on no disk, and gone when the machine is switched off.
//!
//! The user's persistent keyring is used, which outlives every login; where the kernel has none, the user's own, which lives
//! as long as any process of the user. Every process of the user can read the key, as it could a file of mode 600.
//!
//! Two processes that make the key at the same moment end up with the same one. The kernel has no "add if absent": adding
//! under a name that exists replaces what is there. So whoever makes a key takes away the right to write it, everybody's
//! own included, and only then reads it: from then on adding fails, and what is read is what everybody reads.

use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;

use crate::secret_file::KEY_BYTES;

/// A keyring that does not give a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// Not on this system, or not for this process.
    #[error(
        "the kernel's keyring cannot be used here to {doing} ({reason}); containers often forbid it: name a file with --key-file"
    )]
    Unusable {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        reason: String,
    },
    /// A name that would not be found again.
    #[error("{came:?} cannot name a key; use 1 to 64 letters, digits, '-', '_' and '.'")]
    Name {
        /// What came.
        came: String,
    },
    /// Something else has that name.
    #[error(
        "what the keyring holds as {name} is no key of Sordino: expected {KEY_BYTES} bytes, found {found}; use another name"
    )]
    NoKey {
        /// The name in the keyring.
        name: String,
        /// Bytes that are there.
        found: usize,
    },
    /// Nothing has that name.
    #[error(
        "the keyring holds no key called {name:?}; it forgets its keys when the machine is switched off or after days without use, and \
         what they sealed is lost then: prepare anew, or name the key that `sordino prepare` was given"
    )]
    Absent {
        /// The name that was given.
        name: String,
    },
    /// No randomness for a new key.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

/// Reads the key of this name, or makes a fresh one where there is none.
///
/// # Errors
/// When the kernel has no keyring for this process, or holds something else under the name.
pub fn read_or_make_key(name: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyringError> {
    system::read_or_make(&stored_name(name)?)
}

/// Reads the key of this name.
///
/// # Errors
/// As for [`read_or_make_key`], and when there is no such key.
pub fn read_key(name: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyringError> {
    system::read(&stored_name(name)?)?.ok_or_else(|| KeyringError::Absent { name: name.to_owned() })
}

/// What a key is called in the keyring.
fn stored_name(name: &str) -> Result<String, KeyringError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain) {
        true => Ok(format!("sordino:{name}")),
        false => Err(KeyringError::Name { came: name.to_owned() }),
    }
}

fn checked(name: &str, bytes: Secret<Vec<u8>>) -> Result<Secret<[u8; KEY_BYTES]>, KeyringError> {
    let no_key = || KeyringError::NoKey { name: name.to_owned(), found: bytes.expose().len() };
    let key = bytes.expose().as_slice().try_into().map_err(|_| no_key())?;
    Ok(Secret::new(key))
}

#[cfg(target_os = "linux")]
mod system {
    use linux_keyutils::{Key, KeyError, KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};

    use super::{KEY_BYTES, KeyringError, Secret, Seed, checked};

    pub(super) fn read_or_make(name: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyringError> {
        let ring = open()?;
        let key = find(&ring, name)?.map_or_else(|| make(&ring, name), Ok)?;
        checked(name, bytes_of(&key)?)
    }

    pub(super) fn read(name: &str) -> Result<Option<Secret<[u8; KEY_BYTES]>>, KeyringError> {
        let key = find(&open()?, name)?;
        key.map(|key| checked(name, bytes_of(&key)?)).transpose()
    }

    fn find(ring: &KeyRing, name: &str) -> Result<Option<Key>, KeyringError> {
        match ring.search(name) {
            Ok(key) => Ok(Some(key)),
            Err(KeyError::KeyDoesNotExist | KeyError::KeyExpired | KeyError::KeyRevoked) => Ok(None),
            Err(error) => Err(unusable("look for a key")(error)),
        }
    }

    fn bytes_of(key: &Key) -> Result<Secret<Vec<u8>>, KeyringError> {
        Ok(Secret::new(key.read_to_vec().map_err(unusable("read a key"))?))
    }

    fn open() -> Result<KeyRing, KeyringError> {
        KeyRing::get_persistent(KeyRingIdentifier::Session)
            .or_else(|_| KeyRing::from_special_id(KeyRingIdentifier::User, true))
            .map_err(unusable("open it"))
    }

    /// A key that nobody writes to any more: a fresh one, or that of a process that came first.
    fn make(ring: &KeyRing, name: &str) -> Result<Key, KeyringError> {
        let key = match ring.add_key(name, Seed::from_system()?.expose()) {
            Ok(key) => key,
            Err(denied @ KeyError::AccessDenied) => {
                return ring.search(name).map_err(|_| unusable("add a key")(denied));
            }
            Err(error) => return Err(unusable("add a key")(error)),
        };
        let closed = || Permission::ALL.difference(Permission::WRITE);
        // Without the user's part only processes whose session holds the keyring could read it.
        let permissions = KeyPermissionsBuilder::builder().posessor(closed()).user(closed()).build();
        key.set_perms(permissions).map_err(unusable("give a key to its user"))?;
        Ok(key)
    }

    fn unusable(doing: &'static str) -> impl FnOnce(KeyError) -> KeyringError {
        move |error| KeyringError::Unusable { doing, reason: error.to_string() }
    }

    #[cfg(test)]
    pub(super) fn remove(name: &str) {
        for ring in [
            KeyRing::get_persistent(KeyRingIdentifier::Session),
            KeyRing::from_special_id(KeyRingIdentifier::User, false),
        ] {
            let _ = ring.and_then(|ring| ring.search(name)).and_then(|key| key.invalidate());
        }
    }

    #[cfg(test)]
    pub(super) fn add(name: &str, bytes: &[u8]) {
        open().unwrap().add_key(name, bytes).unwrap();
    }

    /// What a process does that looked for a key before another one made it.
    #[cfg(test)]
    pub(super) fn make_late(name: &str) -> Secret<Vec<u8>> {
        Secret::new(make(&open().unwrap(), name).unwrap().read_to_vec().unwrap())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{KEY_BYTES, KeyringError, Secret};

    pub(super) fn read_or_make(_name: &str) -> Result<Secret<[u8; KEY_BYTES]>, KeyringError> {
        Err(KeyringError::Unusable { doing: "open it", reason: "only Linux has one".to_owned() })
    }

    pub(super) fn read(name: &str) -> Result<Option<Secret<[u8; KEY_BYTES]>>, KeyringError> {
        read_or_make(name).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lengths_are_checked() {
        for bad in ["", "a b", "a:b", "ä", &"x".repeat(65)] {
            assert!(matches!(read_or_make_key(bad), Err(KeyringError::Name { .. })), "{bad:?}");
        }
        assert!(matches!(
            checked("sordino:a", Secret::new(vec![1; 31])),
            Err(KeyringError::NoKey { found: 31, .. })
        ));
        assert_eq!(checked("sordino:a", Secret::new(vec![1; 32])).unwrap().expose(), &[1; 32]);
    }

    /// Where the system has a keyring the key stays the same; where it forbids it the error says what to do.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_key_is_made_once_or_the_error_names_the_file() {
        let name = format!("test-{}", std::process::id());
        match read_key(&name) {
            Err(KeyringError::Absent { name: absent }) => assert_eq!(absent, name),
            Err(error) => return assert!(error.to_string().contains("--key-file"), "{error}"),
            Ok(_) => panic!("nobody made it"),
        }
        assert!(matches!(read_key(&name), Err(KeyringError::Absent { .. })), "looking made a key");
        let first = read_or_make_key(&name).unwrap();
        assert!(first == read_or_make_key(&name).unwrap());
        assert!(first == read_key(&name).unwrap());
        assert!(first.expose() != &[0; 32]);
        let stored = format!("sordino:{name}");
        system::remove(&stored);
        assert!(first != read_or_make_key(&name).unwrap(), "a fresh one after the old is gone");
        system::remove(&stored);
        system::add(&stored, b"short");
        assert!(matches!(read_or_make_key(&name), Err(KeyringError::NoKey { found: 5, .. })));
        system::remove(&stored);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processes_that_make_a_key_at_the_same_moment_have_the_same() {
        let name = format!("race-{}", std::process::id());
        let first = match read_or_make_key(&name) {
            Ok(key) => key,
            Err(error) => return assert!(error.to_string().contains("--key-file"), "{error}"),
        };
        let stored = format!("sordino:{name}");
        assert!(system::make_late(&stored).expose() == first.expose(), "it took the first one's place");
        assert!(read_or_make_key(&name).unwrap() == first);
        for _ in 0..20 {
            system::remove(&stored);
            let keys = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_make_key(&name))).collect();
                makers.into_iter().map(|maker| maker.join().unwrap().unwrap()).collect::<Vec<_>>()
            });
            assert!(keys.iter().all(|key| *key == keys[0]));
        }
        system::remove(&stored);
    }
}
