//! A zoo name taken apart: the family and its options.

use std::fmt::Display;

use super::ZooError;

/// Blocks, cells and the like beyond this number are typing mistakes.
const MAX_COUNT: usize = 1000;

/// A family and options that are taken out one by one; [`Name::finish`] refuses what nobody took.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) family: String,
    options: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Name {
    pub(super) fn parse(text: &str) -> Result<Self, ZooError> {
        let malformed = || ZooError::Malformed { name: text.to_owned() };
        let (family, rest) = text.split_once(':').map_or((text, None), |(family, rest)| (family, Some(rest)));
        if family.is_empty() {
            return Err(malformed());
        }
        let mut options: Vec<(String, String)> = Vec::new();
        for option in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (key, value) = option.split_once('=').ok_or_else(malformed)?;
            if key.is_empty() || value.is_empty() || options.iter().any(|(other, _)| other == key) {
                return Err(malformed());
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self { text: text.to_owned(), family: family.to_owned(), options, known: Vec::new() })
    }

    fn take(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        let index = self.options.iter().position(|(name, _)| name == key)?;
        Some(self.options.remove(index).1)
    }

    pub(super) fn bad(&self, option: &str, value: impl Display, expected: impl Display) -> ZooError {
        ZooError::BadValue {
            family: self.family.clone(),
            option: option.to_owned(),
            value: value.to_string(),
            expected: expected.to_string(),
        }
    }

    /// A number of channels or the like.
    pub(super) fn number(&mut self, key: &'static str, default: usize) -> Result<usize, ZooError> {
        match self.take(key) {
            None => Ok(default),
            Some(value) => {
                value.parse().ok().filter(|number| *number <= crate::shape::MAX_CHANNELS).ok_or_else(|| {
                    self.bad(key, &value, format_args!("a number up to {}", crate::shape::MAX_CHANNELS))
                })
            }
        }
    }

    /// A number of blocks or cells.
    pub(super) fn count(&mut self, key: &'static str, default: usize) -> Result<usize, ZooError> {
        let count = self.number(key, default)?;
        if count == 0 || count > MAX_COUNT {
            return Err(self.bad(key, count, format_args!("a number from 1 to {MAX_COUNT}")));
        }
        Ok(count)
    }

    /// Numbers joined by `+`.
    pub(super) fn counts(&mut self, key: &'static str) -> Result<Option<Vec<usize>>, ZooError> {
        self.numbers(key, MAX_COUNT, "2+1+1+1")
    }

    /// Numbers of channels joined by `+`.
    pub(super) fn channels(&mut self, key: &'static str, default: &[usize]) -> Result<Vec<usize>, ZooError> {
        let given = self.numbers(key, crate::shape::MAX_CHANNELS, "16+64+256+512")?;
        Ok(given.unwrap_or_else(|| default.to_vec()))
    }

    fn numbers(
        &mut self,
        key: &'static str,
        limit: usize,
        example: &str,
    ) -> Result<Option<Vec<usize>>, ZooError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let numbers: Option<Vec<usize>> =
            value.split('+').map(|part| part.parse().ok().filter(|number| *number <= limit)).collect();
        match numbers {
            Some(numbers) => Ok(Some(numbers)),
            None => {
                let expected = format!("numbers up to {limit} joined by +, such as {example}");
                Err(self.bad(key, &value, expected))
            }
        }
    }

    /// Growth factors such as `5x5x3x`.
    pub(super) fn factors(&mut self, key: &'static str) -> Result<Option<Vec<usize>>, ZooError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match parse_factors(&value) {
            Some(factors) => Ok(Some(factors)),
            None => Err(self.bad(key, &value, "factors such as 3x3x3x")),
        }
    }

    /// Any word.
    pub(super) fn word(&mut self, key: &'static str) -> Option<String> {
        self.take(key)
    }

    /// One of a few words; the first is the default.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ZooError> {
        let Some(value) = self.take(key) else { return Ok(choices[0].1) };
        match choices.iter().find(|(word, _)| *word == value) {
            Some((_, choice)) => Ok(*choice),
            None => {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                Err(self.bad(key, &value, words.join(" or ")))
            }
        }
    }

    /// Refuses options that nobody asked for.
    pub(super) fn finish(&self) -> Result<(), ZooError> {
        match self.options.first() {
            None => Ok(()),
            Some((option, _)) => Err(ZooError::UnknownOption {
                family: self.family.clone(),
                option: option.clone(),
                known: self.known.join(", "),
            }),
        }
    }
}

/// `5x5x3x` as numbers.
pub(super) fn parse_factors(text: &str) -> Option<Vec<usize>> {
    let numbers = text.strip_suffix('x')?;
    numbers
        .split('x')
        .map(|part| part.parse().ok().filter(|factor| (1..=MAX_COUNT).contains(factor)))
        .collect()
}
