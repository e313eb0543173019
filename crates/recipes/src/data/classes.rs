//! The classes of a set of images beside those of a model: by name where both have names, or else by number.

use super::{DataError, Dataset};

/// How a set's classes became those of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassMatch {
    /// Every class of the set is one of the model's by its name.
    ByName,
    /// The n-th of the set is taken for the n-th of the model: one of them has no names, or none is the same.
    ByOrder,
}

impl Dataset {
    /// The same images under the classes of a model, which may have more of them.
    ///
    /// # Errors
    /// When some of the set's classes are the model's and others are not.
    pub fn with_classes_of(mut self, model: &[String]) -> Result<(Self, ClassMatch), DataError> {
        let place = |class: &String| model.iter().position(|name| name == class);
        let places: Vec<Option<usize>> = self.classes.iter().map(place).collect();
        if places.iter().all(Option::is_none) {
            return Ok((self, ClassMatch::ByOrder));
        }
        if let Some(unknown) = places.iter().position(Option::is_none) {
            return Err(DataError::ClassOfNoModel { class: self.classes.swap_remove(unknown) });
        }
        for label in &mut self.labels {
            *label = places[usize::from(*label)].unwrap_or_default() as u16;
        }
        self.classes = model.to_vec();
        Ok((self, ClassMatch::ByName))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{SyntheticSize, synthetic};

    fn set(classes: &[&str], labels: &[u16]) -> Dataset {
        let mut set = synthetic(&SyntheticSize { training: 10, test: 40, ..SyntheticSize::default() }).test;
        set = set.first(labels.len());
        set.classes = names(classes);
        set.labels = labels.to_vec();
        set
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn classes_are_those_of_the_same_name() {
        let model = names(&["truck", "cat", "dog"]);
        let (found, how) = set(&["cat", "truck"], &[0, 1, 1]).with_classes_of(&model).unwrap();
        assert_eq!((found.labels, found.classes, how), (vec![1, 0, 0], model, ClassMatch::ByName));
    }

    #[test]
    fn classes_without_common_names_keep_their_order() {
        let own = set(&["n01", "n02"], &[0, 1]);
        for model in [names(&[]), names(&["goldfish", "shark"])] {
            assert_eq!(own.clone().with_classes_of(&model).unwrap(), (own.clone(), ClassMatch::ByOrder));
        }
    }

    #[test]
    fn a_class_that_the_model_does_not_know_among_others_is_refused() {
        let error =
            set(&["cat", "cats", "dog"], &[0]).with_classes_of(&names(&["cat", "dog", "owl"])).unwrap_err();
        assert!(error.to_string().contains("the class \"cats\""), "{error}");
    }
}
