//! Whether two recipes mean the same result, and in what they differ.

use std::collections::BTreeMap;

use super::Recipe;
use crate::method::OptimizeSection;

/// How many differences are named.
const NAMED: usize = 4;

impl Recipe {
    /// The recipe without what may differ between two attempts at the same thing: its title, where the data lies, how often
    /// things are written.
    pub fn comparable(&self) -> Self {
        let mut recipe = self.clone();
        recipe.title = String::new();
        recipe.data.directory = None;
        (recipe.training.checkpoint_every, recipe.training.evaluate_every) = (1, 1);
        let search = match &mut recipe.optimize {
            Some(OptimizeSection::Snl(section)) => Some(section),
            Some(OptimizeSection::SharedSigns(section)) => section.mask.as_mut(),
            _ => None,
        };
        if let Some(search) = search {
            (search.max_epochs, search.checkpoint_every) = (1, 1);
        }
        if let Some(OptimizeSection::Senet(section)) = &mut recipe.optimize {
            section.checkpoint_every = 1;
        }
        if let Some(OptimizeSection::Sphynx(section)) = &mut recipe.optimize {
            (section.cell_search.checkpoint_every, section.location_search.checkpoint_every) = (1, 1);
        }
        recipe
    }

    /// The keys with other values than in an earlier recipe, as a reader of the two would name them; nothing where both mean
    /// the same result.
    pub fn differences(&self, earlier: &Self) -> Option<String> {
        let (earlier, recipe) = (keys(&earlier.comparable()), keys(&self.comparable()));
        let mut all: Vec<&String> = earlier.keys().chain(recipe.keys()).collect();
        all.sort_unstable();
        all.dedup();
        let value = |keys: &BTreeMap<String, String>, key: &str| {
            keys.get(key).map_or_else(|| "nothing".to_owned(), String::clone)
        };
        let differing: Vec<String> = all
            .into_iter()
            .filter(|key| earlier.get(*key) != recipe.get(*key))
            .map(|key| format!("{key} was {} and is {} now", value(&earlier, key), value(&recipe, key)))
            .collect();
        let named = differing.get(..NAMED).unwrap_or(&differing).join(", ");
        match differing.len() {
            0 => None,
            many if many > NAMED => Some(format!("{named}, and {} more", many - NAMED)),
            _ => Some(named),
        }
    }
}

/// Every value of a recipe by its key, such as `training.epochs`.
fn keys(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    let mut tables = vec![(String::new(), recipe.to_toml().parse().expect("a recipe is written as TOML"))];
    while let Some((prefix, table)) = tables.pop() {
        let table: toml::Table = table;
        for (name, value) in table {
            let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value {
                toml::Value::Table(table) => tables.push((key, table)),
                value => {
                    keys.insert(key, value.to_string());
                }
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::Recipe;

    fn recipe(training: &str) -> Recipe {
        let text = format!(
            "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n{training}"
        );
        Recipe::from_toml(&text).unwrap()
    }

    #[test]
    fn a_key_that_was_added_is_the_one_that_is_named() {
        let plain = recipe("");
        let differences = recipe("clip = 5.0\n").differences(&plain);
        assert_eq!(differences.as_deref(), Some("training.clip was nothing and is 5.0 now"));
    }

    #[test]
    fn how_often_things_are_written_makes_no_difference() {
        let mut other = recipe("checkpoint_every = 2\nevaluate_every = 3\n");
        other.title = "again".to_owned();
        other.data.directory = Some("elsewhere".into());
        assert_eq!(other.differences(&recipe("")), None);
    }

    #[test]
    fn four_differences_are_named_and_the_others_counted() {
        let mut other = recipe("clip = 5.0\ndrop_path = 0.1\n[training.loss]\nlabel_smoothing = 0.1\n");
        (other.seed, other.training.epochs, other.training.batch) = (2, 4, 9);
        let differences = other.differences(&recipe("")).unwrap();
        assert!(differences.starts_with("seed was 1 and is 2 now, training.batch was 8"), "{differences}");
        assert!(differences.ends_with(", and 2 more"), "{differences}");
    }
}
