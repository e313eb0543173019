//! How far a run is: bars on a terminal, one line per epoch elsewhere; always on stderr.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use recipes::log::{Epoch, Start};
use training::run::Watch;

use super::stop;
use crate::report::grouped;

/// The bar within an epoch.
const STEPS: &str = "step  {bar:24} {pos}/{len}  {wide_msg}";

/// Tells a person how far a run is.
pub(super) struct Terminal {
    is_terminal: bool,
    bars: MultiProgress,
    epochs: ProgressBar,
    steps: ProgressBar,
    images_per_epoch: u64,
    epoch_began: Instant,
    total: u32,
    /// Stands before every line, where several runs are told of at once.
    name: String,
    /// Has the work stop when it becomes true.
    sign: Option<Arc<AtomicBool>>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            name: String::new(),
            bars: MultiProgress::new(),
            epochs: ProgressBar::hidden(),
            steps: ProgressBar::hidden(),
            images_per_epoch: 0,
            epoch_began: Instant::now(),
            total: 0,
            sign: None,
        }
    }

    /// For one of several runs at once: lines, each with the run's name, and no bars.
    pub(super) fn of_run(name: &str) -> Self {
        Self { is_terminal: false, name: format!("{name}: "), ..Self::new() }
    }

    pub(super) fn stop_with(&mut self, sign: Arc<AtomicBool>) {
        self.sign = Some(sign);
    }

    /// Another part of the work begins: nothing of the one before stays on the screen but its lines.
    pub(super) fn begin_part(&mut self, title: &str) {
        self.steps.finish_and_clear();
        self.images_per_epoch = 0;
        self.say(&format!("== {title}"));
    }

    /// Nothing can be done when even stderr is closed.
    pub(super) fn say(&self, text: &str) {
        if self.is_terminal && !self.steps.is_hidden() {
            let _ = self.bars.println(text);
        } else {
            let _ = writeln!(std::io::stderr().lock(), "{}{text}", self.name);
        }
    }

    fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(length));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    }
}

impl Watch for Terminal {
    fn start(&mut self, start: &Start) {
        let kind = if start.deterministic {
            "the same seed gives the same bits"
        } else {
            "not deterministic to the bit"
        };
        self.say(&format!(
            "{}: {}, {} weights; {} images of {}; {} ({kind})",
            start.network,
            start.counts,
            grouped(start.parameters),
            grouped(start.images),
            start.data,
            start.device
        ));
        if start.resumed_after > 0 {
            self.say(&format!("going on after epoch {}", start.resumed_after));
        }
        (self.images_per_epoch, self.total) = (start.images, start.epochs);
        if self.is_terminal {
            let epochs = u64::from(start.epochs);
            self.epochs = self.bar(epochs, "epoch {bar:24} {pos}/{len}, {eta} left");
            self.epochs.set_position(u64::from(start.resumed_after));
            self.epochs.reset_eta();
            self.steps = self.bar(1, STEPS);
        }
    }

    fn step(&mut self, done: u64, steps: u64) {
        if !self.is_terminal {
            return;
        }
        if self.steps.is_hidden() || self.steps.is_finished() {
            // A search, which begins without the word that a run begins with.
            self.steps = self.bar(1, STEPS);
        }
        if done <= 1 {
            self.epoch_began = Instant::now();
            self.steps.set_length(steps);
        }
        self.steps.set_position(done);
        let seconds = self.epoch_began.elapsed().as_secs_f64();
        if done > 1 && seconds > 0.0 {
            let rate = (done - 1) as f64 / seconds;
            self.steps.set_message(match self.images_per_epoch {
                0 => format!("{rate:.1} steps/s"),
                images => format!("{:.0} images/s", rate * images as f64 / steps.max(1) as f64),
            });
        }
    }

    fn epoch(&mut self, epoch: &Epoch) {
        let mut text = format!("loss {:.4}, learned {:.2}%", epoch.loss, 100.0 * epoch.training_accuracy);
        if let Some(tried) = &epoch.tried {
            text.push_str(&format!(", {} {:.2}%", tried.on, 100.0 * tried.accuracy));
        }
        if self.is_terminal {
            // A line of its own, which stays above the bars; beside a bar there is no room for it on 80 columns.
            self.say(&format!("epoch {}: {text}", epoch.epoch));
            self.epochs.set_position(u64::from(epoch.epoch));
            if u64::from(epoch.epoch) == self.epochs.length().unwrap_or(0) {
                self.epochs.finish();
                self.steps.finish_and_clear();
            }
            return;
        }
        let left = epoch.seconds * f64::from(self.total.saturating_sub(epoch.epoch));
        self.say(&format!(
            "epoch {}/{}: {text}, rate {:.4}, {:.0} images/s, about {left:.0} s left",
            epoch.epoch, self.total, epoch.learning_rate, epoch.images_per_second
        ));
    }

    fn should_stop(&self) -> bool {
        stop::is_asked() || self.sign.as_ref().is_some_and(|sign| sign.load(Ordering::Relaxed))
    }
}
