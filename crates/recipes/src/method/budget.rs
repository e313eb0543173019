//! How many ReLUs a result may keep.

use std::fmt;
use std::str::FromStr;

use network::cost::Counts;
use serde::{Deserialize, Serialize};

/// How many ReLUs a result may keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum ReluBudget {
    /// So many.
    Count(u64),
    /// This part of what the network has, above 0 and below 1.
    FractionOfBaseline(f64),
}

impl ReluBudget {
    /// The number of ReLUs (comparisons, where signs are shared) for a network of these costs.
    ///
    /// # Errors
    /// When it comes to none, or to more than the network has.
    pub fn resolve(self, network: &str, whole: Counts) -> Result<u64, BudgetError> {
        let baseline = whole.comparisons;
        let budget = match self {
            Self::Count(count) => count,
            // 29% of 100 are 29, though the nearest binary fractions make a little less of them.
            Self::FractionOfBaseline(fraction) => (baseline as f64 * fraction + 1e-6).floor() as u64,
        };
        if budget == 0 {
            return Err(BudgetError::Zero);
        }
        if budget > baseline {
            let (network, noun) = (network.to_owned(), whole.noun());
            return Err(BudgetError::AboveBaseline { budget, network, baseline, noun });
        }
        Ok(budget)
    }
}

/// Reads `50000`, `50K`, `1.5M` or `25%`.
impl FromStr for ReluBudget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let malformed = || BudgetError::Malformed { came: text.to_owned() };
        let number = |digits: &str| {
            let is_plain =
                digits.chars().all(|character| character.is_ascii_digit() || matches!(character, '.' | '_'));
            let number = digits.replace('_', "").parse::<f64>().ok().filter(|_| is_plain);
            number.ok_or_else(malformed)
        };
        if let Some(percent) = text.strip_suffix('%') {
            let fraction = number(percent)? / 100.0;
            return match fraction {
                0.0 => Err(BudgetError::Zero),
                _ if fraction < 1.0 => Ok(Self::FractionOfBaseline(fraction)),
                _ => Err(malformed()),
            };
        }
        let (digits, unit) = match text.strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1e3),
            None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1e6)),
        };
        // A count that is no whole number is a typing mistake; 13.1K is 13100 in spite of binary fractions.
        let count = number(digits)? * unit;
        match count.round() {
            0.0 if count == 0.0 => Err(BudgetError::Zero),
            whole if (count - whole).abs() < 1e-6 && whole < 1e15 => Ok(Self::Count(whole as u64)),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for ReluBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(formatter, "{count}"),
            Self::FractionOfBaseline(fraction) => write!(formatter, "{}%", percent(*fraction)),
        }
    }
}

/// The shortest decimal that is read as this fraction: 7, where 100 times the binary 0.07 is 7.000000000000001.
fn percent(fraction: f64) -> String {
    let exact = fraction * 100.0;
    let is_read_as_it = |text: &String| text.parse::<f64>().is_ok_and(|percent| percent / 100.0 == fraction);
    let shortest = (0..=DECIMALS).map(|decimals| format!("{exact:.decimals$}")).find(is_read_as_it);
    shortest.unwrap_or_else(|| exact.to_string())
}

/// The most decimals of a percent that are tried.
const DECIMALS: usize = 17;

/// As a recipe writes it: a number, or a text such as `"25%"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u64),
    Text(String),
}

impl TryFrom<Written> for ReluBudget {
    type Error = BudgetError;

    fn try_from(written: Written) -> Result<Self, BudgetError> {
        match written {
            Written::Count(0) => Err(BudgetError::Zero),
            Written::Count(count) => Ok(Self::Count(count)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<ReluBudget> for Written {
    fn from(budget: ReluBudget) -> Self {
        match budget {
            ReluBudget::Count(count) => Self::Count(count),
            ReluBudget::FractionOfBaseline(_) => Self::Text(budget.to_string()),
        }
    }
}

/// A budget that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// No ReLU at all.
    #[error(
        "a budget of zero leaves a linear network, which learns nothing; give at least one ReLU, such as 10%"
    )]
    Zero,
    /// More than there are.
    #[error(
        "{network} has {baseline} {noun}, fewer than the budget of {budget}; give a smaller budget or a larger network"
    )]
    AboveBaseline {
        /// What was asked for.
        budget: u64,
        /// The network.
        network: String,
        /// What it has.
        baseline: u64,
        /// What those are called.
        noun: &'static str,
    },
    /// Less than the method can reach.
    #[error("{method} reaches {smallest} {noun} on {network} and no fewer; the budget is {budget}")]
    BelowSmallest {
        /// The method.
        method: &'static str,
        /// What was asked for.
        budget: u64,
        /// The network.
        network: String,
        /// The smallest it can do.
        smallest: u64,
        /// What those are called.
        noun: &'static str,
    },
    /// A part where nothing is there to take a part of.
    #[error(
        "shared signs need a count of comparisons for their budget, such as 13056 or 13.1K; a part has no baseline"
    )]
    NoCount,
    /// No network of shared signs has so many or so few.
    #[error(
        "a budget of {budget} comparisons cannot be met by {network}; the nearest that can {}",
        named(nearest)
    )]
    NoSharedSigns {
        /// What was asked for.
        budget: u64,
        /// The network.
        network: String,
        /// What can be had.
        nearest: Vec<u64>,
    },
    /// No number.
    #[error(
        "{came:?} is no budget; write a count of ReLUs or a part of them below 100%, such as 50000, 50K or 25%"
    )]
    Malformed {
        /// What came.
        came: String,
    },
}

/// `is 5`, `are 5 or 10`.
fn named(counts: &[u64]) -> String {
    let list: Vec<String> = counts.iter().map(ToString::to_string).collect();
    format!("{} {}", if list.len() == 1 { "is" } else { "are" }, list.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
        for (text, expected) in [
            ("50000", ReluBudget::Count(50_000)),
            ("50_000", ReluBudget::Count(50_000)),
            ("13.1K", ReluBudget::Count(13_100)),
            ("1.5M", ReluBudget::Count(1_500_000)),
            ("25%", ReluBudget::FractionOfBaseline(0.25)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "K", "-5", "1e3", "100%", "0.5", "12.0004K", "NaN", "inf", "1e300K"] {
            assert!(matches!(text.parse::<ReluBudget>(), Err(BudgetError::Malformed { .. })), "{text}");
        }
        for text in ["0", "0%", "0K"] {
            assert_eq!(text.parse::<ReluBudget>(), Err(BudgetError::Zero), "{text}");
        }
    }

    #[test]
    fn percents_are_written_as_they_are_read() {
        let tenths = (1..1000).map(|tenth| match tenth % 10 {
            0 => format!("{}%", tenth / 10),
            rest => format!("{}.{rest}%", tenth / 10),
        });
        for text in tenths.chain(["0.01%".to_owned(), "33.333%".to_owned(), "99.9999%".to_owned()]) {
            let budget: ReluBudget = text.parse().unwrap();
            assert_eq!(budget.to_string(), text);
        }
        for percent in 1..100 {
            let budget: ReluBudget = format!("{percent}%").parse().unwrap();
            assert_eq!(budget.resolve("net", relus(100)), Ok(percent), "{percent}%");
        }
    }

    fn relus(comparisons: u64) -> Counts {
        Counts { comparisons, gated_values: 0 }
    }

    #[test]
    fn a_budget_lies_between_nothing_and_what_there_is() {
        assert_eq!(ReluBudget::FractionOfBaseline(0.25).resolve("net", relus(1000)), Ok(250));
        assert_eq!(ReluBudget::Count(1000).resolve("net", relus(1000)), Ok(1000));
        assert_eq!(
            ReluBudget::FractionOfBaseline(0.0001).resolve("net", relus(1000)),
            Err(BudgetError::Zero)
        );
        let text = ReluBudget::Count(1001).resolve("net", relus(1000)).unwrap_err().to_string();
        assert_eq!(
            text,
            "net has 1000 ReLUs, fewer than the budget of 1001; give a smaller budget or a larger network"
        );
        let signs = Counts { comparisons: 1000, gated_values: 3000 };
        let text = ReluBudget::Count(1001).resolve("net", signs).unwrap_err().to_string();
        assert!(text.starts_with("net has 1000 comparisons, fewer than"), "{text}");
    }
}
