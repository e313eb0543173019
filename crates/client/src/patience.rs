//! How long the server may take for what.

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use inference::connection::TimeLimits;
use inference::connection::time_for;

/// Limits of time for a stream that keeps them.
pub struct Patience {
    /// Tells the stream how long the next exchange may take.
    allow: Box<dyn Fn(Option<Duration>) + Send>,
    silence: Duration,
    /// Bytes a second.
    least_rate: u64,
}

impl Patience {
    /// Waits as long as the stream does.
    pub fn endless() -> Self {
        Self { allow: Box::new(|_| {}), silence: Duration::MAX, least_rate: 1 }
    }

    /// Ends an exchange that takes longer than a silence and its bytes at the least rate, by limits that are the stream's
    /// own.
    #[cfg(feature = "tls")]
    pub fn with(limits: Arc<TimeLimits>, silence: Duration, least_rate: u64) -> Self {
        Self { allow: Box::new(move |total| limits.allow(total)), silence, least_rate }
    }

    /// The next exchange has so many bytes.
    pub(crate) fn for_bytes(&self, bytes: u64) {
        (self.allow)(Some(time_for(bytes, self.silence, self.least_rate)));
    }

    /// The next exchange is a few short messages.
    pub(crate) fn for_words(&self) {
        (self.allow)(Some(self.silence.saturating_mul(4)));
    }

    /// Nothing is under way.
    pub(crate) fn rest(&self) {
        (self.allow)(None);
    }
}
