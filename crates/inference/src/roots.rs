//! Where the parties' root seeds and nonces come from: the operating system.
//!
//! The published test vectors (`tests/vectors`) need known ones. Only the tests of this crate can put a list of them in
//! the system's place, and only for their own thread; no other build holds that code.

use crypto::random::{Seed, SystemRandomError};

/// A fresh root seed.
///
/// # Errors
/// When the system has no entropy source to offer.
pub(crate) fn fresh_seed() -> Result<Seed, SystemRandomError> {
    #[cfg(test)]
    if let Some(bytes) = scripted::next() {
        return Ok(Seed::from_bytes(bytes));
    }
    Seed::from_system()
}

#[cfg(test)]
pub(crate) mod scripted {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    thread_local! {
        static SEEDS: RefCell<Option<VecDeque<[u8; 32]>>> = const { RefCell::new(None) };
    }

    /// From here on this thread draws these seeds, in order, and panics when they run out.
    pub(crate) fn install(seeds: impl IntoIterator<Item = [u8; 32]>) {
        SEEDS.set(Some(seeds.into_iter().collect()));
    }

    /// How many are left.
    pub(crate) fn left() -> usize {
        SEEDS.with_borrow(|seeds| seeds.as_ref().map_or(0, VecDeque::len))
    }

    pub(super) fn next() -> Option<[u8; 32]> {
        SEEDS.with_borrow_mut(|seeds| {
            seeds.as_mut().map(|seeds| seeds.pop_front().expect("more seeds were drawn than the script has"))
        })
    }
}
