//! Which recipe a folder belongs to.
//!
//! A second call with the same folder goes on or finds everything done; with another recipe it would show results that
//! were not asked for. So the recipe is noted in the folder first, and another one is refused.

use std::path::Path;

use recipes::file::{FileError, read_text, unfinished, write_whole};
use recipes::method::OptimizeSection;
use recipes::recipe::Recipe;
use results::{RECIPE, RECORDS};

use super::{MAX_FILE_BYTES, OptimizeRunError};

/// Notes the recipe in its folder, and refuses a folder that holds the optimization of another one. Stages whose
/// criticality was all that was asked for may be reduced by it afterwards, and what was only searched may be trained.
pub(super) fn claim(folder: &Path, recipe: &Recipe) -> Result<(), OptimizeRunError> {
    let path = folder.join(RECIPE);
    if path.is_file() {
        let text = read_text(&path, MAX_FILE_BYTES)?;
        let damaged = |error| OptimizeRunError::Damaged { path: path.clone(), reason: format!("{error}") };
        let earlier = Recipe::from_toml(&text).map_err(damaged)?;
        let Some(differences) = recipe.differences(&earlier) else { return Ok(()) };
        if !only_found_criticality(&earlier, recipe) && !only_searched(&earlier, recipe) {
            return Err(OptimizeRunError::OtherRecipe { folder: folder.to_owned(), differences });
        }
        let records = folder.join(RECORDS);
        match std::fs::remove_file(&records) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(FileError::on("remove", &records)(error).into());
            }
            _ => {}
        }
    }
    Ok(write_whole(&path, recipe.to_toml())?)
}

/// Whether the folder is noted to be this recipe's.
pub(super) fn belongs(folder: &Path, recipe: &Recipe) -> bool {
    let noted = read_text(&folder.join(RECIPE), MAX_FILE_BYTES).ok();
    let noted = noted.and_then(|text| Recipe::from_toml(&text).ok());
    noted.is_some_and(|noted| noted.differences(recipe).is_none())
}

/// Gives a folder back in which nothing was made: the next recipe may have it.
pub(super) fn release(folder: &Path) {
    let note = folder.join(RECIPE);
    let notes = [unfinished(&note), note];
    let is_note =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| notes.contains(&entry.path()));
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.all(is_note)) {
        // What cannot be removed is found by the next claim, which says so.
        notes.iter().for_each(|note| drop(std::fs::remove_file(note)));
    }
}

/// Whether the earlier recipe found the criticality that this one builds on.
fn only_found_criticality(earlier: &Recipe, recipe: &Recipe) -> bool {
    let (mut earlier, recipe) = (earlier.comparable(), recipe.comparable());
    let (Some(OptimizeSection::DeepReduce(before)), Some(OptimizeSection::DeepReduce(now))) =
        (&mut earlier.optimize, &recipe.optimize)
    else {
        return false;
    };
    let was_only = before.only_criticality;
    (before.budget, before.only_criticality, before.single_blocks) =
        (now.budget, now.only_criticality, now.single_blocks);
    was_only && earlier == recipe
}

/// Whether the earlier recipe searched for what this one trains, too.
fn only_searched(earlier: &Recipe, recipe: &Recipe) -> bool {
    let mut earlier = earlier.comparable();
    let Some(OptimizeSection::Sphynx(section)) = &mut earlier.optimize else { return false };
    let was_only = std::mem::take(&mut section.only_search);
    was_only && earlier == recipe.comparable()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(section: &str) -> Recipe {
        Recipe::from_toml(&format!(
            "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 3\nbatch = 50\n[optimize]\n{section}"
        ))
        .unwrap()
    }

    #[test]
    fn a_folder_belongs_to_its_recipe() {
        let folder = tempfile::tempdir().unwrap();
        let quarter = recipe("method = \"snl\"\nbudget = \"25%\"");
        assert!(!belongs(folder.path(), &quarter));
        claim(folder.path(), &quarter).unwrap();
        claim(folder.path(), &quarter).unwrap();
        assert!(belongs(folder.path(), &quarter));
        assert!(!belongs(folder.path(), &recipe("method = \"snl\"\nbudget = \"30%\"")));
        claim(folder.path(), &recipe("method = \"snl\"\nbudget = \"25%\"\nmax_epochs = 7")).unwrap();
        let error =
            claim(folder.path(), &recipe("method = \"snl\"\nbudget = \"30%\"")).unwrap_err().to_string();
        assert!(
            error.contains("optimize.budget was \"25%\" and is \"30%\" now") && error.contains("--out"),
            "{error}"
        );
        let mut longer = quarter.clone();
        (longer.training.epochs, longer.seed) = (4, 7);
        let error = claim(folder.path(), &longer).unwrap_err().to_string();
        assert!(error.contains("training.epochs was 3 and is 4 now") && error.contains("seed"), "{error}");
        assert!(claim(folder.path(), &recipe("method = \"deepreduce\"\nbudget = \"25%\"")).is_err());
    }

    #[test]
    fn what_criticality_was_found_for_may_follow() {
        let folder = tempfile::tempdir().unwrap();
        let only = recipe("method = \"deepreduce\"\nonly_criticality = true");
        let budget = recipe("method = \"deepreduce\"\nbudget = \"25%\"");
        claim(folder.path(), &only).unwrap();
        std::fs::write(folder.path().join(RECORDS), "{}").unwrap();
        let other = recipe("method = \"deepreduce\"\nbudget = \"25%\"\nprobe_epochs = 1");
        assert!(claim(folder.path(), &other).is_err());
        claim(folder.path(), &budget).unwrap();
        assert!(!folder.path().join(RECORDS).exists());
        claim(folder.path(), &budget).unwrap();
        assert!(claim(folder.path(), &only).is_err());
    }

    #[test]
    fn what_was_only_searched_may_be_trained() {
        let folder = tempfile::tempdir().unwrap();
        let with = |section: &str| recipe(&format!("method = \"sphynx\"\nbudget = 5000\n{section}"));
        claim(folder.path(), &with("only_search = true")).unwrap();
        std::fs::write(folder.path().join(RECORDS), "{}").unwrap();
        assert!(claim(folder.path(), &with("locations = \"thirds\"")).is_err());
        claim(folder.path(), &with("")).unwrap();
        assert!(!folder.path().join(RECORDS).exists());
        assert!(claim(folder.path(), &with("only_search = true")).is_err());
    }

    #[test]
    fn a_recipe_that_came_to_nothing_gives_its_folder_back() {
        let folder = tempfile::tempdir().unwrap();
        let (quarter, half) =
            (recipe("method = \"snl\"\nbudget = \"25%\""), recipe("method = \"snl\"\nbudget = \"50%\""));
        claim(folder.path(), &quarter).unwrap();
        release(folder.path());
        claim(folder.path(), &half).unwrap();
        std::fs::create_dir(folder.path().join("teacher")).unwrap();
        release(folder.path());
        assert!(claim(folder.path(), &quarter).is_err());
    }

    #[test]
    fn a_damaged_note_is_not_taken_for_another_recipe() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(RECIPE), "seed = ").unwrap();
        let error =
            claim(folder.path(), &recipe("method = \"snl\"\nbudget = \"25%\"")).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("recipe.toml"), "{error}");
    }
}
