//! Where a client keeps the second halves of a model's answers between sessions.
//!
//! They are the same for every client of a served model and follow from its weights, outline and plan; so their id does, too. They
//! are pseudorandom, and say nothing about images. Whoever changes them where they are kept changes answers, as the server could.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use network::digest::Digest;

/// A place for second halves. It may forget whatever it likes: what is not there is fetched again.
pub trait HalvesCache: fmt::Debug + Send + Sync {
    /// What was put there under this id.
    fn get(&self, id: &Digest) -> Option<Vec<u8>>;

    /// Keeps them, if that can be done.
    fn put(&self, id: &Digest, halves: &[u8]);
}

/// How many models' second halves are kept in memory.
const MODELS: usize = 4;

/// Second halves of the last few models in memory, for a process that connects to one server again and again. Who connects to
/// several takes those of each: [`MemoryHalves::of_server`].
#[derive(Default)]
pub struct MemoryHalves(Mutex<VecDeque<(Digest, Vec<u8>)>>);

impl MemoryHalves {
    /// Those of one server, known by its fingerprint: no server can put anything in another one's place.
    pub fn of_server(self: &Arc<Self>, server: &[u8; 32]) -> Arc<dyn HalvesCache> {
        Arc::new(ServerHalves { server: *server, all: Arc::clone(self) })
    }
}

/// The part of a memory that belongs to one server.
#[derive(Debug)]
struct ServerHalves {
    server: [u8; 32],
    all: Arc<MemoryHalves>,
}

impl ServerHalves {
    fn own(&self, id: &Digest) -> Digest {
        Digest::of(&[&self.server[..], id.as_bytes()].concat())
    }
}

impl HalvesCache for ServerHalves {
    fn get(&self, id: &Digest) -> Option<Vec<u8>> {
        self.all.get(&self.own(id))
    }

    fn put(&self, id: &Digest, halves: &[u8]) {
        self.all.put(&self.own(id), halves);
    }
}

impl HalvesCache for MemoryHalves {
    fn get(&self, id: &Digest) -> Option<Vec<u8>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == id).map(|(_, halves)| halves.clone())
    }

    fn put(&self, id: &Digest, halves: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| known != id);
        kept.push_front((*id, halves.to_vec()));
        kept.truncate(MODELS);
    }
}

impl fmt::Debug for MemoryHalves {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(formatter, "MemoryHalves of {} models", kept.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_by_the_same_server_alone() {
        let all = Arc::new(MemoryHalves::default());
        let (ours, theirs, id) = (all.of_server(&[1; 32]), all.of_server(&[2; 32]), Digest([3; 32]));
        theirs.put(&id, b"others");
        assert_eq!(ours.get(&id), None);
        ours.put(&id, b"halves");
        assert_eq!(theirs.get(&id), Some(b"others".to_vec()));
        assert_eq!(all.of_server(&[1; 32]).get(&id), Some(b"halves".to_vec()));
    }

    #[test]
    fn the_last_models_are_kept() {
        let cache = MemoryHalves::default();
        let id = |number: u8| Digest([number; 32]);
        for number in 0..6 {
            cache.put(&id(number), &[number; 3]);
        }
        cache.put(&id(5), &[9]);
        assert_eq!([0, 1].map(|number| cache.get(&id(number))), [None, None]);
        assert_eq!([2, 4].map(|number| cache.get(&id(number))), [2, 4].map(|number| Some(vec![number; 3])));
        assert_eq!(cache.get(&id(5)), Some(vec![9]));
        assert_eq!(format!("{cache:?}"), "MemoryHalves of 4 models");
    }
}
