//! Word of how far the offline phase is, for whoever waits.

use crate::offline::messages::ServerWords;
use crate::plan::Plan;

/// A layer whose offline work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Its name.
    pub layer: &'a str,
    /// Bytes of the offline phases of this session so far, both directions.
    pub bytes: u64,
}

/// Told of each layer.
pub type Watch = Box<dyn FnMut(Progress<'_>) + Send>;

/// Who is told, if anyone.
#[derive(Default)]
pub(super) struct Watcher(pub(super) Option<Watch>);

impl Watcher {
    /// A layer is done when its answer came, or its last offer.
    pub(super) fn heard(&mut self, plan: &Plan, words: ServerWords, bytes: u64) {
        let done = match words {
            ServerWords::Answer(job) => Some(plan.job(job).step),
            ServerWords::Offer(part) => plan.part(part).step.filter(|_| plan.part(part).completes_step),
            ServerWords::ReverseSums | ServerWords::ReverseCorrections | ServerWords::HashKey => None,
        };
        if let (Some(step), Some(watch)) = (done, &mut self.0) {
            watch(Progress { layer: &plan.outline().step(step).name, bytes });
        }
    }
}
