//! Numbers and errors as people read them, the same in every report and log.

use std::error::Error;

/// `1,359,872`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 round trip`, `1,024 round trips`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `26,112 ReLUs`; where channels share signs, `26,112 comparisons and 78,336 gated values`.
pub fn comparisons(relus: u64, gated_values: u64) -> String {
    match gated_values {
        0 => counted(relus, "ReLU"),
        _ => format!("{} and {}", counted(relus, "comparison"), counted(gated_values, "gated value")),
    }
}

/// An error and everything behind it: `cannot read a: no such file`.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).join(": ")
}

/// What an error and everything behind it say, one after the other. What the message before has already is left out: some
/// errors quote their cause.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut told = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        let message = inner.to_string();
        if told.last().is_none_or(|before| !before.contains(&message)) {
            told.push(message);
        }
        cause = inner.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let numbers = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_359_872, "1,359,872")];
        for (number, text) in numbers {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(counted(0, "round trip"), "0 round trips");
        assert_eq!(counted(1, "round trip"), "1 round trip");
        assert_eq!(counted(2048, "round trip"), "2,048 round trips");
        assert_eq!((comparisons(1, 0), comparisons(26_112, 0)), ("1 ReLU".into(), "26,112 ReLUs".into()));
        assert_eq!(comparisons(1, 3), "1 comparison and 3 gated values");
    }

    #[test]
    fn an_error_comes_with_all_that_is_behind_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("level {level}")]
        struct Nested {
            level: u32,
            source: Option<Box<Nested>>,
        }
        let nest = |level, source| Nested { level, source };
        let error = nest(1, Some(Box::new(nest(2, Some(Box::new(nest(3, None)))))));
        assert_eq!(with_causes(&error), "level 1: level 2: level 3");
    }

    #[test]
    fn a_cause_that_was_quoted_is_not_said_again() {
        #[derive(Debug, thiserror::Error)]
        enum Quoting {
            #[error("no names: {0}")]
            Outer(#[source] Box<Quoting>),
            #[error("line 2 is blank")]
            Inner,
        }
        let twice = Quoting::Outer(Box::new(Quoting::Outer(Box::new(Quoting::Inner))));
        assert_eq!(causes(&twice), ["no names: no names: line 2 is blank"]);
    }
}
