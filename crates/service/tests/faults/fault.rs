//! One fault at one place of one direction, whatever the bytes are divided into: TLS records or messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Short enough for everybody's patience.
const HICCUP: Duration = Duration::from_millis(30);

/// What happens to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The connection ends where it would begin.
    Cut,
    /// The connection ends in its middle.
    Truncate,
    /// A bit of its header changes.
    CorruptHeader,
    /// A bit of its body changes.
    CorruptBody,
    /// It comes twice.
    Duplicate,
    /// It comes after the one that follows; if none does, never.
    Reorder,
    /// It comes a little later.
    Delay,
    /// It comes later than anybody's patience.
    Stall,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::Cut,
        Self::Truncate,
        Self::CorruptHeader,
        Self::CorruptBody,
        Self::Duplicate,
        Self::Reorder,
        Self::Delay,
        Self::Stall,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// What happens where. Shared by whoever moves bytes and whoever asks what came of it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) hit: Option<(Way, usize, Fault)>,
    /// How long a stall lasts.
    pub(crate) stall: Duration,
    /// The place was reached.
    pub(crate) is_applied: AtomicBool,
    /// How many messages passed, to the server and to the client.
    pub(crate) seen: [AtomicUsize; 2],
}

impl Plan {
    pub(crate) fn new(way: Way, index: usize, fault: Fault, stall: Duration) -> Arc<Self> {
        Arc::new(Self { hit: Some((way, index, fault)), stall, ..Self::default() })
    }

    pub(crate) fn seen(&self) -> [usize; 2] {
        self.seen.each_ref().map(|count| count.load(Ordering::SeqCst))
    }
}

/// One direction under a plan.
#[derive(Debug)]
pub(crate) struct Injector {
    plan: Arc<Plan>,
    way: Way,
    header_bytes: usize,
    held: Option<Vec<u8>>,
}

impl Injector {
    pub(crate) fn new(plan: &Arc<Plan>, way: Way, header_bytes: usize) -> Self {
        Self { plan: Arc::clone(plan), way, header_bytes, held: None }
    }

    /// What leaves where a message came, and whether the connection ends there.
    pub(crate) fn meet(&mut self, mut message: Vec<u8>) -> (Vec<Vec<u8>>, bool) {
        let index = self.plan.seen[self.way as usize].fetch_add(1, Ordering::SeqCst);
        if let Some(held) = self.held.take() {
            return (vec![message, held], false);
        }
        let Some((_, _, fault)) = self.plan.hit.filter(|(way, at, _)| (*way, *at) == (self.way, index))
        else {
            return (vec![message], false);
        };
        self.plan.is_applied.store(true, Ordering::SeqCst);
        let bit = 1 << (index % 8);
        let body = message.len() - self.header_bytes;
        match fault {
            Fault::Cut => (Vec::new(), true),
            Fault::Truncate => {
                message.truncate((message.len() / 2).max(1));
                (vec![message], true)
            }
            Fault::CorruptHeader => {
                message[index * 3 % self.header_bytes] ^= bit;
                (vec![message], false)
            }
            Fault::CorruptBody => {
                let at = if body == 0 { 0 } else { self.header_bytes + index * 31 % body };
                message[at] ^= bit;
                (vec![message], false)
            }
            Fault::Duplicate => (vec![message.clone(), message], false),
            Fault::Reorder => {
                self.held = Some(message);
                (Vec::new(), false)
            }
            Fault::Delay => {
                thread::sleep(HICCUP);
                (vec![message], false)
            }
            Fault::Stall => {
                thread::sleep(self.plan.stall);
                (vec![message], false)
            }
        }
    }
}
