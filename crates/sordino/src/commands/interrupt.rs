//! Ctrl-C and SIGTERM ask a client to end: after the inferences under way, with what is known by then. A second one ends it
//! at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::ensure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Whether an end was asked for.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen; the first signal is answered with a line.
    pub(super) fn listen(say: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let is_asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, the second finds it up.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&is_asked))?;
            flag::register(signal, Arc::clone(&is_asked))?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                say("stops after the inferences under way; once more stops at once");
            }
        });
        Ok(Self(is_asked))
    }

    /// Fails once an end was asked for.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "stopped by Ctrl-C or SIGTERM");
        Ok(())
    }
}
