//! How far the offline phase is: a bar on stderr where that is a terminal; elsewhere nothing, or a line now and then.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use inference::client::Watch;
use inference::plan::Plan;
use service::ByteSize;

/// How often a line comes where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// The bar for one or more inferences.
pub(super) struct OfflineProgress {
    bar: ProgressBar,
    inferences: u64,
    layers: u64,
    has_lines: bool,
}

impl OfflineProgress {
    /// Starts a bar for so many inferences. It stays hidden unless stderr is a terminal.
    pub(super) fn start(plan: &Plan, inferences: usize) -> Self {
        let bar = ProgressBar::new((plan.layer_count() * inferences) as u64);
        if let Ok(style) = ProgressStyle::with_template("offline {bar:16} {eta} left  {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, inferences: inferences as u64, layers: plan.layer_count() as u64, has_lines: false }
    }

    /// The same, with a line every few seconds where there is no terminal.
    pub(super) fn start_with_lines(plan: &Plan, inferences: usize) -> Self {
        let mut progress = Self::start(plan, inferences);
        progress.has_lines = true;
        progress
    }

    /// What to tell the client to call after each layer.
    pub(super) fn watcher(&self) -> Watch {
        let (bar, inferences, has_lines) = (self.bar.clone(), self.inferences, self.has_lines);
        let mut last = Instant::now();
        Box::new(move |progress| {
            bar.inc(1);
            let so_far = || so_far(bar.position(), bar.length().unwrap_or(0), inferences, progress.bytes);
            if !bar.is_hidden() {
                bar.set_message(so_far());
            } else if has_lines && last.elapsed() >= BETWEEN_LINES {
                last = Instant::now();
                // Nothing can be done when stderr is closed.
                let _ = writeln!(std::io::stderr(), "offline: {}", so_far());
            }
        })
    }

    /// What writes a line to stderr, from any thread, without mixing it with the bar.
    pub(super) fn speaker(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        // Nothing can be done when stderr is closed.
        move |text| drop(bar.suspend(|| writeln!(std::io::stderr(), "{text}")))
    }

    /// So many inferences are done, whatever was counted.
    pub(super) fn set_done(&self, inferences: usize) {
        self.bar.set_position(self.layers * inferences as u64);
    }

    /// Takes the bar away while something else is written.
    pub(super) fn pause<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `23 of 60 inferences, 107.0 MB`; of a single one the layers are counted.
fn so_far(layers: u64, all: u64, inferences: u64, bytes: u64) -> String {
    let bytes = ByteSize(bytes);
    match inferences {
        0 | 1 => format!("{layers} of {all} layers, {bytes}"),
        _ => format!("{} of {inferences} inferences, {bytes}", layers * inferences / all.max(1)),
    }
}

/// However it ends, no half of a bar stays.
impl Drop for OfflineProgress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inferences_are_counted_when_all_their_layers_are_done() {
        assert_eq!(so_far(737, 1920, 60, 107_000_000), "23 of 60 inferences, 107.0 MB");
        assert_eq!(so_far(63, 64, 2, 5_300_000), "1 of 2 inferences, 5.3 MB");
        assert_eq!(so_far(12, 32, 1, 5_300_000), "12 of 32 layers, 5.3 MB");
    }
}
