//! From when to when a certificate is valid: the one thing that is read out of it here, to warn its owner in time.
//!
//! Only the way to the two dates is walked (RFC 5280, section 4.1). Whoever relies on a certificate checks all of it.

use std::time::{Duration, SystemTime};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Two moments, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first one.
    pub begins: i64,
    /// The last one.
    pub ends: i64,
}

/// What a date says at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// For so long still.
    Valid(Duration),
    /// Only after so long.
    NotYet(Duration),
    /// Since so long no more.
    Expired(Duration),
}

impl Validity {
    /// That of a certificate in DER; none where its dates cannot be found.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = field(certificate, SEQUENCE)?;
        let (mut signed, _) = field(certificate, SEQUENCE)?;
        if let Some((_, rest)) = field(signed, VERSION) {
            signed = rest;
        }
        // Serial number, algorithm, issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            (_, signed) = field(signed, tag)?;
        }
        let (dates, _) = field(signed, SEQUENCE)?;
        let (begins, rest) = moment(dates)?;
        let (ends, _) = moment(rest)?;
        Some(Self { begins, ends })
    }

    /// How it stands at a moment.
    pub fn at(&self, now: SystemTime) -> Standing {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let between = |from: i64, to: i64| Duration::from_secs(to.saturating_sub(from).unsigned_abs());
        if now < self.begins {
            Standing::NotYet(between(now, self.begins))
        } else if now > self.ends {
            Standing::Expired(between(self.ends, now))
        } else {
            Standing::Valid(between(now, self.ends))
        }
    }
}

/// The contents of the first field, if it has this tag, and what follows it.
fn field(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, length, rest @ ..] = bytes else { return None };
    if *found != tag {
        return None;
    }
    if *length < 0x80 {
        return rest.split_at_checked(usize::from(*length));
    }
    let (digits, rest) = rest.split_at_checked(usize::from(*length & 0x7f))?;
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    let length = digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit));
    rest.split_at_checked(length)
}

/// A date at the beginning, in seconds since 1970, and what follows it.
fn moment(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, years) = match field(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, 2),
        None => field(bytes, GENERALIZED_TIME).map(|(text, rest)| (text, rest, 4))?,
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != years + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0'));
    let (year, others) = digits.split_at(years);
    let year = match (number(year), years) {
        (year, 4) => year,
        (year, _) if year < 50 => 2000 + year,
        (year, _) => 1900 + year,
    };
    let (others, _) = others.as_chunks::<2>();
    let [month, day, hour, minute, second] = others else { return None };
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|digits| number(digits));
    let is_sound =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    is_sound.then_some((seconds, rest))
}

/// Days of the Gregorian calendar. Years begin in March here, so that a leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate(begins: (i32, u8, u8), ends: (i32, u8, u8)) -> Vec<u8> {
        let mut parameters = CertificateParams::new(vec!["here".to_owned()]).unwrap();
        parameters.not_before = date_time_ymd(begins.0, begins.1, begins.2);
        parameters.not_after = date_time_ymd(ends.0, ends.1, ends.2);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_dates_are_read() {
        // Until 2049 they have two digits for a year, from then on four.
        let validity = Validity::of(&certificate((1999, 12, 31), (2024, 2, 29))).unwrap();
        assert_eq!(validity, Validity { begins: 946_598_400, ends: 1_709_164_800 });
        let validity = Validity::of(&certificate((2000, 3, 1), (2100, 3, 1))).unwrap();
        assert_eq!(validity, Validity { begins: 951_868_800, ends: 4_107_542_400 });
        let at = |seconds| validity.at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(951_868_790), Standing::NotYet(Duration::from_secs(10)));
        assert_eq!(at(4_107_542_395), Standing::Valid(Duration::from_secs(5)));
        assert_eq!(at(4_107_542_500), Standing::Expired(Duration::from_secs(100)));
    }

    #[test]
    fn cut_or_changed_certificates_are_read_or_not_and_nothing_else() {
        let whole = certificate((2020, 1, 1), (2030, 1, 1));
        for length in 0..whole.len() {
            assert_eq!(Validity::of(&whole[..length]), None, "{length}");
        }
        for place in 0..200 {
            for change in [0x01, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[place] ^= change;
                let _ = Validity::of(&changed);
            }
        }
    }
}
