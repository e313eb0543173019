//! Word of how far the offline phase is, for whoever waits.

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
    pub(super) fn layer_done(&mut self, plan: &Plan, step: usize, bytes: u64) {
        if let Some(watch) = &mut self.0 {
            watch(Progress { layer: &plan.outline().steps[step].name, bytes });
        }
    }
}
