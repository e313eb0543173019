//! What both parties say of themselves: logs, errors, panics. None of it may hold a secret, all of it must explain.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, Once, PoisonError};

/// Everything that the service logged.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&LOG).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From here on logs of every level and panics of every thread are noted.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let level = tracing::level_filters::LevelFilter::TRACE;
        tracing_subscriber::fmt().json().flatten_event(true).with_max_level(level).with_writer(|| Log).init();
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            lock(&PANICS).push(panic.to_string());
            usual(panic);
        }));
    });
}

/// Panics of any thread so far, those of the service included.
pub(crate) fn panics() -> Vec<String> {
    lock(&PANICS).clone()
}

/// Every different reason that the service logged; numbers do not make a difference.
pub(crate) fn reasons() -> BTreeSet<String> {
    let log = String::from_utf8(lock(&LOG).clone()).unwrap();
    let reason = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        Some(without_numbers(line["reason"].as_str()?))
    };
    log.lines().filter_map(reason).collect()
}

/// Looks for secrets in all that was logged.
pub(crate) fn expect_no_secret_in_log() {
    expect_no_secret(&String::from_utf8(lock(&LOG).clone()).unwrap());
}

pub(crate) fn without_numbers(text: &str) -> String {
    let digits = |character: char| character.is_ascii_digit();
    let is_id = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split(' ').map(|word| if word.starts_with(digits) || is_id(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// A sentence that names a party or what lies between them, and what to do or what was due.
pub(crate) fn expect_blame(text: &str) {
    let names_somebody =
        ["peer", "server", "client", "between", "you "].iter().any(|word| text.contains(word));
    assert!(
        names_somebody && text.len() > 30,
        "this says neither what happened nor whose fault it is: {text}"
    );
}

/// No run of digits that could be a key, a share or an image. Tags of sessions have 16, lengths up to 20.
pub(crate) fn expect_no_secret(text: &str) {
    if let Some(found) = secret_in(text) {
        panic!("this could be a secret: {found:?}");
    }
}

fn secret_in(text: &str) -> Option<&str> {
    let is_long = |run: &&str| run.len() > 20 && run.contains(|character: char| character.is_ascii_digit());
    // The name of a prepared inference is of no use without the client's token.
    let hexadecimal = text.split("prepared inference ").enumerate().find_map(|(number, part)| {
        let mut runs = part.split(|character: char| !character.is_ascii_hexdigit());
        runs.by_ref().take(usize::from(number > 0)).for_each(drop);
        runs.find(is_long)
    });
    // A list of numbers, as `Debug` prints vectors.
    let is_list = |part: &&str| {
        let numbers = part.split(',').map(|number| number.trim().parse::<f64>());
        numbers.clone().count() >= 4 && numbers.into_iter().all(|number| number.is_ok())
    };
    let list = text.split(['[', ']', '(', ')', '{', '}', '"']).find(is_list);
    hexadecimal.or(list)
}

#[test]
fn secrets_would_be_found() {
    let weights = [-3_i64, 0, 127, 5, 5];
    assert!(secret_in(&format!("layer {weights:?} differs")).is_some());
    assert!(secret_in(&format!("token {}", "1f".repeat(16))).is_some());
    let id = "1f".repeat(16);
    assert!(secret_in(&format!("prepared inference {id} is spent")).is_none());
    assert!(secret_in(&format!("prepared inference {id} has token {id}")).is_some());
    assert!(secret_in("shares 0011223344556677889900 do not fit").is_some());
    assert!(secret_in("session 0x1122334455667788 where 0x99 was due, 3 images, at 127.0.0.1:4").is_none());
}
