//! What one client may have in an hour: a bucket that fills at a steady rate and never holds more than an hour's worth.
//!
//! A full bucket may be emptied at once; from then on one more is there every so many seconds. A bucket is one number, the
//! moment at which it will be full again. It lies in the store where there is one, so that it survives restarts and is the
//! same for all servers that share the store; else in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::stores::ClientName;

/// Microseconds of an hour.
const HOUR: i64 = 3_600_000_000;
/// Buckets in memory from which on full ones are forgotten.
const MANY: usize = 1024;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Inferences whose offline phase is begun.
    Preparations,
    /// Images whose online phase is begun.
    Answers,
    /// Sessions whose set-up is begun.
    Sessions,
}

impl Quota {
    /// How it is called in a store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Preparations => 1,
            Self::Answers => 2,
            Self::Sessions => 3,
        }
    }
}

/// What came of drawing from a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It held enough.
    Given,
    /// It will hold enough after so long, if nobody else draws.
    After(Duration),
    /// It never holds so much.
    Never,
}

/// Draws from a bucket that will be full at a moment: says when it will be full afterwards, where it holds enough. Moments
/// are microseconds since 1970.
pub(crate) fn draw(full_at: i64, now: i64, count: u32, per_hour: u32) -> Result<i64, Drawn> {
    if count > per_hour {
        return Err(Drawn::Never);
    }
    let missing = full_at.saturating_sub(now).max(0);
    let wanted = (i128::from(HOUR) * i128::from(count)).div_euclid(i128::from(per_hour.max(1)));
    // A clock that was set back must not lock anybody out for longer than an hour.
    let after = missing.min(HOUR) + i64::try_from(wanted).unwrap_or(HOUR);
    if after <= HOUR {
        Ok(now.saturating_add(after))
    } else {
        Err(Drawn::After(Duration::from_micros((after - HOUR).unsigned_abs())))
    }
}

/// How many a bucket that will be full at a moment gives at once.
pub(crate) fn left(full_at: i64, now: i64, per_hour: u32) -> u32 {
    let there = HOUR - full_at.saturating_sub(now).clamp(0, HOUR);
    // The largest count whose part of an hour, rounded down as in `draw`, is there.
    let most = ((i128::from(there) + 1) * i128::from(per_hour) - 1).div_euclid(i128::from(HOUR));
    u32::try_from(most.max(0)).unwrap_or(u32::MAX).min(per_hour)
}

/// The buckets of a service without a store.
#[derive(Debug, Default)]
pub(crate) struct ProcessQuotas(Mutex<HashMap<(ClientName, Quota), i64>>);

impl ProcessQuotas {
    pub(crate) fn draw(
        &self,
        client: &ClientName,
        quota: Quota,
        count: u32,
        per_hour: u32,
        now: i64,
    ) -> Drawn {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MANY {
            buckets.retain(|_, full_at| *full_at > now);
        }
        let bucket = buckets.entry((client.clone(), quota)).or_insert(now);
        match draw(*bucket, now, count, per_hour) {
            Ok(full_at) => {
                *bucket = full_at;
                Drawn::Given
            }
            Err(drawn) => drawn,
        }
    }

    pub(crate) fn left(&self, client: &ClientName, quota: Quota, per_hour: u32, now: i64) -> u32 {
        let buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left(buckets.get(&(client.clone(), quota)).copied().unwrap_or(now), now, per_hour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn an_hours_worth_at_once_and_then_at_a_steady_rate() {
        let buckets = ProcessQuotas::default();
        let (one, other) = (ClientName("a".to_owned()), ClientName("b".to_owned()));
        let at = |client, count, seconds: i64| {
            buckets.draw(client, Quota::Answers, count, 60, 1_000 * HOUR + seconds * SECOND)
        };
        assert_eq!(at(&one, 61, 0), Drawn::Never);
        assert_eq!(at(&one, 59, 0), Drawn::Given);
        assert_eq!(at(&one, 2, 0), Drawn::After(Duration::from_secs(60)));
        assert_eq!(at(&one, 1, 0), Drawn::Given, "what was refused took nothing");
        assert_eq!(at(&one, 1, 59), Drawn::After(Duration::from_secs(1)));
        assert_eq!(at(&one, 1, 60), Drawn::Given);
        assert_eq!(at(&other, 60, 60), Drawn::Given, "everybody has a bucket");
        assert_eq!(at(&one, 60, 60 + 3600), Drawn::Given, "full again after an hour");
        let preparations = buckets.draw(&one, Quota::Preparations, 60, 60, 1_001 * HOUR);
        assert_eq!(preparations, Drawn::Given, "each quota has a bucket");
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out_for_longer_than_an_hour() {
        assert_eq!(draw(5_000 * HOUR, HOUR, 1, 3600), Err(Drawn::After(Duration::from_secs(1))));
        assert_eq!(draw(i64::MIN, HOUR, 3600, 3600), Ok(2 * HOUR));
        assert_eq!(draw(0, 0, u32::MAX, u32::MAX), Ok(HOUR));
    }

    #[test]
    fn what_is_left_can_be_drawn_and_not_one_more() {
        for per_hour in [1, 2, 7, 59, 60, 600, 3601, 1_000_003] {
            for missing in [0, 1, 17, SECOND, 59 * SECOND, HOUR / 2 + 1, HOUR - 1, HOUR, 5 * HOUR] {
                let left = left(HOUR + missing, HOUR, per_hour);
                assert!(draw(HOUR + missing, HOUR, left, per_hour).is_ok(), "{per_hour} {missing} {left}");
                assert!(
                    draw(HOUR + missing, HOUR, left + 1, per_hour).is_err(),
                    "{per_hour} {missing} {left}"
                );
            }
        }
        assert_eq!(left(0, 0, 0), 0);
        let buckets = ProcessQuotas::default();
        let client = ClientName("a".to_owned());
        assert_eq!(buckets.left(&client, Quota::Preparations, 60, HOUR), 60);
        buckets.draw(&client, Quota::Preparations, 59, 60, HOUR);
        assert_eq!(buckets.left(&client, Quota::Preparations, 60, HOUR), 1);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let buckets = ProcessQuotas::default();
        for number in 0..3 * MANY as i64 {
            let client = ClientName(number.to_string());
            buckets.draw(&client, Quota::Answers, 1, 3600, number * SECOND);
        }
        assert!(buckets.0.lock().unwrap().len() <= MANY + 1);
    }
}
