//! A clock from outside, in the shape of the standard library's.

use std::sync::OnceLock;
use std::time::Duration;

/// Time since some moment that does not change.
static CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

/// Every time is taken from this clock from here on; without one all work takes no time. The first counts.
pub fn bring(clock: fn() -> Duration) {
    CLOCK.get_or_init(|| clock);
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(CLOCK.get().map_or(Duration::ZERO, |clock| clock()))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
