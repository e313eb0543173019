//! Whether sealing and opening depend on secrets, as valgrind's memcheck sees it: `scripts/constant-time`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed check")]

#[path = "../../crypto/examples/constant_time/memcheck.rs"]
mod memcheck;

use std::hint::black_box;
use std::process::ExitCode;

use crypto::domain;
use crypto::secret::Secret;
use memcheck::{Verdict, poison, publish, secret};
use sordino_sealed::seal::{NotOpened, derive_key, open, seal};

fn main() -> ExitCode {
    if !memcheck::is_watching() {
        eprintln!("nobody watches: run this with scripts/constant-time, under valgrind");
        return ExitCode::FAILURE;
    }
    let mut verdict = Verdict::default();
    verdict.caught("control: a jump on a secret byte", || {
        if secret::<32>(1)[3] == 1 {
            black_box(1);
        }
    });
    verdict.silent("keys of rows and files", || {
        black_box(derive_key(domain::STORE_ROW, &secret(2), b"name").expose());
    });
    verdict.silent("sealing", || {
        let mut plain = vec![7; 1000];
        poison(&mut plain);
        let mut sealed = seal(&Secret::new(secret(3)), b"data", &plain).unwrap();
        publish(&mut sealed);
        black_box(sealed);
    });
    // Whether it opens is public, and the only thing that a jump may depend on.
    let (mut key, mut plain) = ([4; 32], vec![7; 1000]);
    let mut sealed = seal(&Secret::new(key), b"data", &plain).unwrap();
    publish(&mut sealed);
    poison(&mut key);
    poison(&mut plain);
    verdict.at_most(1, "opening: one jump on whether it opens", || {
        let opened: Result<Secret<Vec<u8>>, NotOpened> = open(&Secret::new(key), b"data", &sealed);
        black_box(opened.unwrap().expose());
    });
    verdict.finish()
}
