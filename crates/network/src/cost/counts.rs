//! How many signs a network computes and how many values follow them, as results, logs and tables say it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Cost;
use crate::text;

/// What a network compares and gates.
///
/// Written as `relus`, or as `comparisons` and `gated_values` where values follow the signs of other channels: such a
/// network never has ReLUs alone. The form of before, `relus` beside `gated_values`, can still be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Counts {
    /// Signs that are computed. Without shared signs each is a ReLU.
    pub comparisons: u64,
    /// Values that follow another channel's sign.
    pub gated_values: u64,
}

impl Counts {
    /// Whether values follow the signs of other channels.
    pub fn shares_signs(self) -> bool {
        self.gated_values > 0
    }

    /// What its comparisons are called: `ReLUs`, or `comparisons` where signs are shared.
    pub fn noun(self) -> &'static str {
        if self.shares_signs() { "comparisons" } else { "ReLUs" }
    }

    /// The form of one line of a network that shares signs somewhere, or nowhere.
    pub fn line(self, shares_signs: bool) -> LineCounts {
        let Self { comparisons, gated_values } = self;
        match shares_signs {
            true => LineCounts::Shared { comparisons, gated_values },
            false => LineCounts::Relus { relus: comparisons },
        }
    }
}

/// What a part of a network compares and gates. All parts of a network are written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LineCounts {
    /// Of a network in which every sign decides over one value.
    Relus {
        /// How many are kept.
        relus: u64,
    },
    /// Of a network in which some decide over several.
    Shared {
        /// Signs that are computed.
        comparisons: u64,
        /// Values that follow another channel's sign.
        gated_values: u64,
    },
}

/// `26,112 ReLUs`, or `26,112 comparisons and 78,336 gated values`.
impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&text::comparisons(self.comparisons, self.gated_values))
    }
}

impl From<Cost> for Counts {
    fn from(cost: Cost) -> Self {
        Self { comparisons: cost.relus, gated_values: cost.gated_values }
    }
}

/// The form of files.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relus: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comparisons: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gated_values: Option<u64>,
}

impl TryFrom<Written> for Counts {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let comparisons = match (written.relus, written.comparisons) {
            (Some(count), None) | (None, Some(count)) => count,
            (None, None) => return Err("missing `relus`, or `comparisons` beside `gated_values`"),
            (Some(_), Some(_)) => return Err("expected `relus` or `comparisons`, and not both"),
        };
        Ok(Self { comparisons, gated_values: written.gated_values.unwrap_or(0) })
    }
}

impl From<Counts> for Written {
    fn from(counts: Counts) -> Self {
        let Counts { comparisons, gated_values } = counts;
        match counts.shares_signs() {
            true => Self { relus: None, comparisons: Some(comparisons), gated_values: Some(gated_values) },
            false => Self { relus: Some(comparisons), comparisons: None, gated_values: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_signs_are_never_written_as_relus() {
        let plain = Counts { comparisons: 5, gated_values: 0 };
        let shared = Counts { comparisons: 5, gated_values: 15 };
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"relus":5}"#);
        assert_eq!(serde_json::to_string(&shared).unwrap(), r#"{"comparisons":5,"gated_values":15}"#);
        assert_eq!((plain.to_string(), plain.noun()), ("5 ReLUs".to_owned(), "ReLUs"));
        assert_eq!(shared.to_string(), "5 comparisons and 15 gated values");
    }

    #[test]
    fn all_forms_are_read_and_half_of_one_is_refused() {
        let read = |text: &str| serde_json::from_str::<Counts>(text).map_err(|error| error.to_string());
        let counts = |comparisons, gated_values| Ok(Counts { comparisons, gated_values });
        assert_eq!(read(r#"{"relus":5}"#), counts(5, 0));
        assert_eq!(read(r#"{"relus":5,"gated_values":15}"#), counts(5, 15));
        assert_eq!(read(r#"{"comparisons":5,"gated_values":15}"#), counts(5, 15));
        assert!(read(r#"{"gated_values":15}"#).unwrap_err().contains("missing `relus`"));
        assert!(read(r#"{"relus":5,"comparisons":5}"#).unwrap_err().contains("not both"));
    }
}
