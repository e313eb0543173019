//! Numbers of ReLUs as verbs read them: `51200`, `51,200`, `51.2K`, or `25%` of what a network has.

use recipes::method::ReluBudget;

/// A number of ReLUs, which may be 0, or a part of them.
pub(super) fn relu_budget(text: &str) -> Result<ReluBudget, String> {
    let plain = without_commas(text);
    match plain.parse() {
        Ok(count) => Ok(ReluBudget::Count(count)),
        Err(_) => plain.parse::<ReluBudget>().map_err(|error| error.to_string()),
    }
}

/// The same where there is no network to take a part of.
pub(super) fn relu_count(text: &str) -> Result<u64, String> {
    match relu_budget(text)? {
        ReluBudget::Count(count) => Ok(count),
        ReluBudget::FractionOfBaseline(_) => Err("a number is wanted, such as 25600 or 25.6K".to_owned()),
    }
}

/// `51,200` as `51200`. Commas that stand elsewhere stay, so that nobody reads `1,5` as 15.
fn without_commas(text: &str) -> String {
    let mut groups = text.split(',');
    let is_number = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let first_fits = groups.next().is_some_and(|first| is_number(first) && first.len() <= 3);
    match first_fits && groups.all(|group| is_number(group) && group.len() == 3) {
        true => text.replace(',', ""),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_relus_are_read_as_people_write_them() {
        for (text, expected) in
            [("0", 0), ("51200", 51_200), ("51,200", 51_200), ("1,359,872", 1_359_872), ("51.2K", 51_200)]
        {
            assert_eq!(relu_budget(text), Ok(ReluBudget::Count(expected)), "{text}");
            assert_eq!(relu_count(text), Ok(expected), "{text}");
        }
        assert_eq!(relu_budget("25%"), Ok(ReluBudget::FractionOfBaseline(0.25)));
        assert!(relu_count("25%").unwrap_err().contains("a number is wanted"));
        for bad in ["", ",", "1,5", "1234,567", "12,34", ",123", "1,234K", "half"] {
            assert!(relu_budget(bad).unwrap_err().contains("is no budget"), "{bad}");
        }
    }
}
