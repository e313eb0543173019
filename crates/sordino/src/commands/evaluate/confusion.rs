//! Which classes a model takes for which others.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::Table;

/// So many pairs are listed.
const LISTED: usize = 10;

/// Images of one class that were taken for another one.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Confusion {
    class: String,
    taken_for: String,
    images: u64,
    /// How many images of the class there are.
    of: u64,
}

/// The pairs with the most images, at most ten.
pub(super) fn largest(classes: &[String], labels: &[u16], answers: &[usize]) -> Vec<Confusion> {
    let mut pairs = BTreeMap::<(usize, usize), u64>::new();
    let mut sizes = BTreeMap::<usize, u64>::new();
    for (label, answer) in labels.iter().map(|label| usize::from(*label)).zip(answers) {
        *sizes.entry(label).or_default() += 1;
        if label != *answer {
            *pairs.entry((label, *answer)).or_default() += 1;
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    // Sorted by classes before, which stays the order among equals.
    pairs.sort_by_key(|(_, images)| std::cmp::Reverse(*images));
    let name = |class: usize| classes.get(class).cloned().unwrap_or_else(|| class.to_string());
    let confusion = |((class, answer), images): ((usize, usize), u64)| Confusion {
        class: name(class),
        taken_for: name(answer),
        images,
        of: sizes[&class],
    };
    pairs.into_iter().take(LISTED).map(confusion).collect()
}

/// One line for each pair.
pub(super) fn table(confusions: &[Confusion]) -> Table {
    let mut table = Table::new(&["<class", "<taken for", "images", "of"]);
    for Confusion { class, taken_for, images, of } in confusions {
        table.row(vec![class.clone(), taken_for.clone(), images.to_string(), of.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_confusion_comes_first() {
        let classes = ["cat", "dog", "owl"].map(str::to_owned);
        let found = largest(&classes, &[0, 0, 1, 1, 1, 2], &[0, 1, 2, 2, 1, 1]);
        let line = |class: &str, taken_for: &str, images, of| {
            let [class, taken_for] = [class, taken_for].map(str::to_owned);
            Confusion { class, taken_for, images, of }
        };
        assert_eq!(found, [line("dog", "owl", 2, 3), line("cat", "dog", 1, 2), line("owl", "dog", 1, 1)]);
        assert!(largest(&classes, &[1, 2], &[1, 2]).is_empty());
    }
}
