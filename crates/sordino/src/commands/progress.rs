//! How far the offline phase is: a bar on stderr where that is a terminal; elsewhere nothing, or a line now and then.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use inference::client::Watch;
use inference::plan::Plan;

/// How often a line comes where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// The bar for one or more inferences.
pub(super) struct OfflineProgress {
    bar: ProgressBar,
    has_lines: bool,
}

impl OfflineProgress {
    /// Starts a bar for so many inferences. It stays hidden unless stderr is a terminal.
    pub(super) fn start(plan: &Plan, inferences: usize) -> Self {
        let bar = ProgressBar::new((plan.layer_count() * inferences) as u64);
        if let Ok(style) =
            ProgressStyle::with_template("offline {bar:16} {pos}/{len} layers, {eta} left  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self { bar, has_lines: false }
    }

    /// The same, with a line every few seconds where there is no terminal.
    pub(super) fn start_with_lines(plan: &Plan, inferences: usize) -> Self {
        let mut progress = Self::start(plan, inferences);
        progress.has_lines = true;
        progress
    }

    /// What to tell the client to call after each layer.
    pub(super) fn watcher(&self) -> Watch {
        let (bar, has_lines) = (self.bar.clone(), self.has_lines);
        let mut last = Instant::now();
        Box::new(move |progress| {
            bar.inc(1);
            if !bar.is_hidden() {
                bar.set_message(format!("{}, {}", HumanBytes(progress.bytes), progress.layer));
            } else if has_lines && last.elapsed() >= BETWEEN_LINES {
                last = Instant::now();
                let (done, all) = (bar.position(), bar.length().unwrap_or(0));
                // Nothing can be done when stderr is closed.
                let _ = writeln!(
                    std::io::stderr(),
                    "offline: {done} of {all} layers, {}",
                    HumanBytes(progress.bytes)
                );
            }
        })
    }

    /// What writes a line to stderr, from any thread, without mixing it with the bar.
    pub(super) fn speaker(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        // Nothing can be done when stderr is closed.
        move |text| drop(bar.suspend(|| writeln!(std::io::stderr(), "{text}")))
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

/// However it ends, no half of a bar stays.
impl Drop for OfflineProgress {
    fn drop(&mut self) {
        self.finish();
    }
}
