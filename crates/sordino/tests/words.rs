//! The book says what is there: names of the glossary and of the style guide's samples occur in the code, the reference of
//! the command line lists exactly the flags that there are, and that of recipes has every key of ours.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use sordino::commands::CommandLine;

type Words = BTreeSet<String>;

#[test]
fn every_name_of_glossary_and_style_guide_is_in_the_code() {
    let known = words_of_the_code();
    assert!(known.contains("NetworkSpec") && known.len() > 5000, "{} words of code", known.len());
    let (glossary, style) = (page("glossary.md"), page("style.md"));
    let (in_code, samples) = (in_code_column(&glossary), samples(&style));
    assert!(in_code.len() > 80 && samples.len() > 40, "{} and {} names", in_code.len(), samples.len());
    let types = [&glossary, &style].into_iter().flat_map(|text| types(text));
    let missing: Words =
        in_code.into_iter().chain(samples).chain(types).filter(|name| !known.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "docs/src/glossary.md or style.md names what is nowhere in the code: {missing:?}"
    );
}

#[test]
fn the_map_has_every_module_and_script() {
    let map = page("architecture/map.md").to_lowercase();
    let root = repository();
    let names = |folder: PathBuf, ending: Option<&str>| -> Vec<String> {
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.is_file());
        let wanted = files.filter(|path| path.extension().and_then(|ending| ending.to_str()) == ending);
        wanted.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let crates = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<String> = crates.flat_map(|folder| names(folder.join("src"), Some("rs"))).collect();
    assert!(all.len() > 100, "{}", all.len());
    all.extend(names(root.join("scripts"), None));
    let plain = ["lib", "main", "error", "tests"];
    let missing: Words =
        all.into_iter().filter(|name| !plain.contains(&&name[..]) && !map.contains(name)).collect();
    assert!(missing.is_empty(), "docs/src/architecture/map.md does not name {missing:?}");
}

#[test]
fn the_reference_lists_the_flags_that_help_prints() {
    let chapter = page("reference/command-line.md");
    let sections: BTreeMap<_, _> =
        chapter.split("\n## ").filter_map(|section| section.split_once('\n')).collect();
    let verbs = verbs(&CommandLine::command(), "");
    assert!(verbs.len() > 20, "{verbs:?}");
    for (verb, flags) in verbs {
        let section =
            sections.get(&verb[..]).unwrap_or_else(|| panic!("the reference has no section {verb:?}"));
        let mut listed = listed_flags(section);
        for (title, shared) in &sections {
            let anchor = format!("(#{})", title.to_lowercase().replace(' ', "-"));
            if section.contains(&anchor) {
                listed.extend(listed_flags(shared));
            }
        }
        assert_eq!(listed, flags, "flags of {verb:?} in the reference, and those it takes");
    }
}

#[test]
fn the_reference_has_the_defaults_that_help_prints() {
    let chapter = page("reference/command-line.md");
    let section = chapter.split("\n## ").find(|section| section.starts_with("serve\n")).unwrap();
    let command = CommandLine::command();
    let serve = command.find_subcommand("serve").unwrap();
    let mut compared = 0;
    for argument in serve.get_arguments() {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let Some((_, default)) = help.split_once(" [default: ") else { continue };
        let flag = format!("| `--{} ", argument.get_long().unwrap());
        let row = section.lines().find(|line| line.starts_with(&flag)).unwrap();
        let shown = row.trim_end_matches(" |").rsplit(" | ").next();
        assert_eq!(shown, Some(default.trim_end_matches(['.', ']'])), "{row}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn the_reference_names_every_key_of_our_recipes() {
    let named: Words =
        spans(&page("reference/recipes.md").replace("```", "")).flat_map(identifiers).collect();
    let mut keys = Words::new();
    let folders =
        ["recipes", "recipes/sweeps", "recipes/rows", "recipes/tiny-imagenet", "recipes/deepreduce-table-4"];
    for folder in folders {
        for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    // What stands before a sign of equality outside of texts, in tables within a line, too.
                    let code: String =
                        line.split('#').next().unwrap_or_default().split('"').step_by(2).collect();
                    let before = code.split('=').rev().skip(1);
                    keys.extend(before.filter_map(|text| identifiers(text).last()));
                }
            }
        }
    }
    let missing: Words = keys.difference(&named).cloned().collect();
    assert!(keys.len() > 40 && missing.is_empty(), "docs/src/reference/recipes.md lacks {missing:?}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join("docs/src").join(name)).unwrap()
}

/// Every word of the sources of all crates, comments left out: what is only spoken of does not exist.
fn words_of_the_code() -> Words {
    let mut words = Words::new();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(repository().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    words.extend(identifiers(line.split("//").next().unwrap_or_default()));
                }
            }
        }
    }
    words
}

fn identifiers(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| word.len() > 1 && !word.starts_with(|character: char| character.is_ascii_digit()))
        .map(str::to_owned)
}

/// What stands between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names in the second column of tables whose head says "in code".
fn in_code_column(text: &str) -> Words {
    let mut names = Words::new();
    for table in text.split("\n\n").filter(|table| table.starts_with("| word | in code |")) {
        for row in table.lines().skip(2) {
            let column = row.split('|').nth(2).unwrap();
            names.extend(spans(column).flat_map(identifiers));
        }
    }
    names
}

/// The names in sample code from a line that says "after" on; what is said or printed there does not count.
fn samples(text: &str) -> Words {
    let mut names = Words::new();
    for sample in text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()) {
        for line in sample.lines().skip_while(|line| !line.starts_with("// after")) {
            let code: String = line.split("//").next().unwrap_or_default().split('"').step_by(2).collect();
            names.extend(identifiers(&code));
        }
    }
    names
}

/// Names of types between backticks, wherever they stand in prose and tables.
fn types(text: &str) -> Words {
    let prose: String = text.split("```").step_by(2).collect();
    let is_type = |name: &String| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.contains(|letter: char| letter.is_ascii_lowercase())
    };
    spans(&prose).flat_map(identifiers).filter(is_type).collect()
}

/// The verbs that do something, such as `design hybrenet`, with their flags.
fn verbs(command: &Command, above: &str) -> Vec<(String, Words)> {
    let mut found = Vec::new();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{above}{}", verb.get_name());
        if verb.has_subcommands() {
            found.extend(verbs(verb, &format!("{name} ")));
            continue;
        }
        let shown = verb.get_arguments().filter(|argument| !argument.is_hide_set());
        let flags = shown.filter_map(|argument| Some(format!("--{}", argument.get_long()?)));
        found.push((name, flags.collect()));
    }
    found
}

/// The flags in the first column of a section's tables, such as `-n, --count <COUNT>`.
fn listed_flags(section: &str) -> Words {
    let options = section.lines().filter(|line| line.starts_with("| `")).filter_map(|row| spans(row).next());
    let flag = |option: &str| {
        let name = &option[option.find("--")?..];
        let end = name.find(|character: char| !character.is_alphanumeric() && character != '-');
        Some(name[..end.unwrap_or(name.len())].to_owned())
    };
    options.filter_map(flag).collect()
}
