use super::*;
use inference::setup::messages::Agreement;
use network::digest::Digest;
use sealed::ClientToken;
use sealed::secret_file::SecretFileError;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn key() -> Secret<[u8; 32]> {
    Secret::new([7; 32])
}

fn agreement() -> Agreement {
    Agreement { outline: Digest([9; 32]), commitment: Digest([8; 32]), plan: Digest([7; 32]) }
}

fn description() -> Description {
    Description {
        token: ClientToken::from_bytes([3; 32]),
        server: "server.example:7878".to_owned(),
        model: "small".to_owned(),
        agreement: agreement(),
    }
}

fn kept(number: u8, expires: u64) -> StoredEntry {
    StoredEntry { id: StoredId([number; 16]), expires }
}

fn body(number: u8) -> Vec<u8> {
    vec![number; 5000]
}

/// A file with the inferences 1, 2, 3, of which the second expires first.
fn three(path: &Path) -> PreparedFile {
    let mut file = PreparedFile::create_with(path, key(), description(), 5000, 3).unwrap();
    for (number, expires) in [(1, 300), (2, 100), (3, 200)] {
        file.add_bytes(kept(number, expires), &body(number)).unwrap();
    }
    file
}

fn take(file: &mut PreparedFile, now: u64) -> Result<(StoredId, Secret<Vec<u8>>), PreparedFileError> {
    let chosen = file.choose(now, 1)?.pop().unwrap();
    file.take_bytes(chosen)
}

#[test]
fn what_is_chosen_stays_until_it_is_taken_or_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    let mut file = three(&path);
    let ids = |file: &PreparedFile, count| {
        file.choose(0, count).unwrap().iter().map(|chosen| chosen.id().0[0]).collect::<Vec<_>>()
    };
    assert_eq!((ids(&file, 2), ids(&file, 9)), (vec![2, 3], vec![2, 3, 1]));
    let [second, third] = <[_; 2]>::try_from(file.choose(0, 2).unwrap()).unwrap();
    file.discard(second).unwrap();
    assert_eq!(file.take_bytes(third).unwrap().0, StoredId([3; 16]));
    drop(file);
    assert_eq!(ids(&PreparedFile::open(&path, key()).unwrap(), 9), [1]);
}

#[test]
fn inferences_come_out_once_and_the_first_to_expire_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    drop(three(&path));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for (number, now) in [(2, 50), (3, 150), (1, 150)] {
        let mut file = PreparedFile::open(&path, key()).unwrap();
        assert_eq!((file.description().model.as_str(), file.description().agreement), ("small", agreement()));
        assert_eq!(file.description().token.expose(), &[3; 32]);
        let (id, bytes) = take(&mut file, now).unwrap();
        assert_eq!((id, bytes.expose()), (StoredId([number; 16]), &body(number)));
    }
    let mut file = PreparedFile::open(&path, key()).unwrap();
    assert!(matches!(take(&mut file, 0), Err(PreparedFileError::Empty { expired: 0, .. })));
    file.add_bytes(kept(4, 9), &body(4)).unwrap();
    assert!(matches!(take(&mut file, 9), Err(PreparedFileError::Empty { expired: 1, .. })));
    assert_eq!((file.remaining(8).unwrap(), file.remaining(9).unwrap()), (1, 0));
}

#[test]
fn nothing_of_a_taken_inference_or_of_any_in_the_clear_stays_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    let mut file = three(&path);
    let before = fs::read(&path).unwrap();
    assert!(!before.windows(16).any(|part| part == [2; 16] && part.len() == 5000));
    let slot = file.head.slot(1) as usize;
    assert!(before[slot..slot + SLOT_BYTES].iter().any(|byte| *byte != 0));
    take(&mut file, 0).unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(after[slot..slot + SLOT_BYTES], [0; SLOT_BYTES]);
    assert!(!before.windows(64).any(|part| part == [1; 64]), "bodies are sealed");
}

#[test]
fn a_full_file_takes_no_more_and_a_file_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    let mut file = three(&path);
    assert!(matches!(file.add_bytes(kept(4, 1), &body(4)), Err(PreparedFileError::Full { slots: 3, .. })));
    assert!(matches!(file.add_bytes(kept(4, 1), &[0; 4999]), Err(PreparedFileError::Damaged { .. })));
    drop(file);
    assert!(matches!(
        PreparedFile::create_with(&path, key(), description(), 5000, 3),
        Err(PreparedFileError::File(_))
    ));
}

#[test]
fn other_keys_modes_versions_and_damage_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    drop(three(&path));
    let good = fs::read(&path).unwrap();
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        PreparedFile::open(&path, key()).and_then(|mut file| take(&mut file, 0)).map(|(id, _)| id)
    };
    assert!(open(&|_| ()).is_ok());
    assert!(matches!(open(&|bytes| bytes.truncate(10)), Err(PreparedFileError::Magic { .. })));
    assert!(matches!(open(&|bytes| bytes[0] = 0), Err(PreparedFileError::Magic { .. })));
    let version = open(&|bytes| bytes[8] = 2);
    assert!(matches!(version, Err(PreparedFileError::Version { expected: 1, came: 2, .. })));
    assert!(matches!(open(&|bytes| bytes[44] = 1), Err(PreparedFileError::Damaged { .. })));
    assert!(matches!(open(&|bytes| bytes[12..16].fill(0xff)), Err(PreparedFileError::Damaged { .. })));
    assert!(matches!(open(&|bytes| bytes[25] ^= 1), Err(PreparedFileError::Key { .. })));
    assert!(matches!(open(&|bytes| bytes[HEADER_BYTES + 20] ^= 1), Err(PreparedFileError::Key { .. })));
    assert!(matches!(open(&|bytes| bytes.truncate(200)), Err(PreparedFileError::Damaged { .. })));
    assert!(matches!(open(&|bytes| bytes.truncate(6000)), Err(PreparedFileError::File(_))));
    let last = good.len() - 6000;
    assert!(matches!(open(&|bytes| bytes[last] ^= 1), Err(PreparedFileError::Damaged { .. })));
    // Two slots that change places do not open: each is bound to its own.
    let swap = open(&|bytes| {
        let slots = bytes.len() - 3 * (5000 + OVERHEAD) - 3 * SLOT_BYTES;
        let (first, second) = bytes[slots..].split_at_mut(SLOT_BYTES);
        first.swap_with_slice(&mut second[..SLOT_BYTES]);
    });
    assert!(matches!(swap, Err(PreparedFileError::Damaged { .. })));
    fs::write(&path, &good).unwrap();
    assert!(matches!(PreparedFile::open(&path, Secret::new([8; 32])), Err(PreparedFileError::Key { .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(
        PreparedFile::open(&path, key()),
        Err(PreparedFileError::File(SecretFileError::Permissions { .. }))
    ));
}

#[test]
fn two_users_of_one_file_never_get_the_same_inference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    drop(three(&path));
    let take_all = || {
        let mut taken = Vec::new();
        // Opening waits for the lock of the other.
        while let Ok((id, _)) = take(&mut PreparedFile::open(&path, key()).unwrap(), 0) {
            taken.push(id.0[0]);
        }
        taken
    };
    let mut all = std::thread::scope(|scope| {
        let users: Vec<_> = (0..3).map(|_| scope.spawn(take_all)).collect();
        users.into_iter().flat_map(|user| user.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
}

#[test]
fn who_has_little_patience_hears_that_another_uses_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    let file = three(&path);
    let mut heard = 0;
    let patience = Duration::from_millis(120);
    let error = PreparedFile::open_within(&path, key(), patience, || heard += 1).unwrap_err();
    assert!(matches!(error, PreparedFileError::InUse { .. }), "{error}");
    assert_eq!(heard, 1);
    drop(file);
    PreparedFile::open_within(&path, key(), patience, || panic!("nobody uses it")).unwrap();
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/prepared-file-v1")
}

/// Format version 1 as it was written once, with two inferences, the first of them used.
#[test]
fn a_file_of_version_1_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared");
    fs::copy(golden_path(), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut file = PreparedFile::open(&path, key()).unwrap();
    assert_eq!(file.description().token.expose(), &[3; 32]);
    assert_eq!(
        (file.description().server.as_str(), file.description().agreement),
        ("server.example:7878", agreement())
    );
    assert_eq!(file.remaining(0).unwrap(), 1);
    let (id, bytes) = take(&mut file, 0).unwrap();
    assert_eq!((id, bytes.expose()), (StoredId([2; 16]), &vec![2; 100]));
}

#[test]
#[ignore = "writes the golden file"]
fn write_golden_file() {
    fs::create_dir_all(golden_path().parent().unwrap()).unwrap();
    let _ = fs::remove_file(golden_path());
    let mut file = PreparedFile::create_with(&golden_path(), key(), description(), 100, 2).unwrap();
    for number in [1, 2] {
        file.add_bytes(kept(number, u64::from(number)), &[number; 100]).unwrap();
    }
    take(&mut file, 0).unwrap();
}
