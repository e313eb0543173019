//! How far the offline phase is: a bar on stderr where that is a terminal, nothing otherwise.

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use inference::client::Watch;
use inference::plan::Plan;

/// The bar for one or more inferences.
pub(super) struct OfflineProgress(ProgressBar);

impl OfflineProgress {
    /// Starts a bar for so many inferences. It stays hidden unless stderr is a terminal.
    pub(super) fn start(plan: &Plan, inferences: usize) -> Self {
        let bar = ProgressBar::new((plan.layer_count() * inferences) as u64);
        if let Ok(style) =
            ProgressStyle::with_template("offline {bar:16} {pos}/{len} layers, {eta} left  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// What to tell the client to call after each layer.
    pub(super) fn watcher(&self) -> Watch {
        let bar = self.0.clone();
        Box::new(move |progress| {
            if !bar.is_hidden() {
                bar.set_message(format!("{}, {}", HumanBytes(progress.bytes), progress.layer));
            }
            bar.inc(1);
        })
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
