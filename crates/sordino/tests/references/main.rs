//! The pages on TOML files follow the types that read them: the tables of the page on networks are generated from the
//! sources, and the page on recipes names every key and word.
//!
//! `SORDINO_WRITE=1 cargo test -p sordino --test references` writes the tables anew.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod types;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sordino::network::spec::NetworkSpec;
use types::{Field, Item, Kind, items};

const NETWORKS: &str = "docs/src/reference/networks.md";
const RECIPES: &str = "docs/src/reference/recipes.md";
/// What follows in the page is made here.
const MARK: &str = "<!-- From here on made by crates/sordino/tests/references -->\n";

#[test]
fn the_tables_of_network_files_are_those_of_the_types() {
    let page = text(NETWORKS);
    let (written, tables) = page.split_once(MARK).unwrap();
    let expected = network_tables();
    if std::env::var_os("SORDINO_WRITE").is_some() {
        std::fs::write(repository().join(NETWORKS), format!("{written}{MARK}{expected}")).unwrap();
        return;
    }
    assert!(tables == expected, "{NETWORKS} is not what the types say; SORDINO_WRITE=1 writes it anew");
}

#[test]
fn the_examples_of_network_files_are_networks() {
    let page = text(NETWORKS);
    let examples: Vec<_> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        NetworkSpec::from_toml(example).unwrap_or_else(|error| panic!("{error:?} in\n{example}"));
    }
}

#[test]
fn the_page_on_recipes_names_every_key_and_word_of_the_types() {
    let page = text(RECIPES);
    let spans: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let is_named = |word: &str| {
        spans.iter().any(|span| span.split(|letter: char| !is_of_key(letter)).any(|named| named == word))
    };
    let sources = [
        "recipe.rs",
        "recipe/network_section.rs",
        "recipe/training_section.rs",
        "method/l1_pruning.rs",
        "method/section.rs",
        "method/senet.rs",
        "method/sweep.rs",
        "method/sphynx/section.rs",
        "method/sphynx/searches.rs",
        "method/settle.rs",
    ];
    let mut words = Vec::new();
    for source in sources {
        for item in items(&text(&format!("crates/recipes/src/{source}"))).iter().filter(|item| item.is_read())
        {
            words.extend(item.words());
        }
    }
    let missing: Vec<_> = words.iter().filter(|word| !is_named(word)).collect();
    assert!(words.len() > 80 && missing.is_empty(), "{RECIPES} lacks {missing:?} of {} words", words.len());
}

fn is_of_key(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

/// Everything that a network file may hold.
fn network_tables() -> String {
    let mut found = items(&text("crates/network/src/spec.rs"));
    for source in ["spec/layer.rs", "spec/signs.rs", "shape.rs"] {
        found.extend(items(&text(&format!("crates/network/src/{source}"))));
    }
    let item =
        |name: &str| found.iter().find(|item| item.name == name).unwrap_or_else(|| panic!("no type {name}"));
    let mut out = String::new();
    for (title, name) in [
        ("The file", "Draft"),
        ("`input`", "Shape"),
        ("`stem`", "Stem"),
        ("`stages`", "Stage"),
        ("`blocks`", "Block"),
        ("`residual`", "Residual"),
        ("`cell`", "Cell"),
        ("An edge of a cell", "Edge"),
        ("Layers", "Layer"),
        ("`conv`", "Conv"),
        ("`shared_signs`", "Written"),
        ("`average_pool`, `max_pool`", "Pool"),
        ("`factorized_reduce`", "FactorizedReduce"),
        ("`fully_connected`", "FullyConnected"),
        ("`branches`", "Branches"),
        ("`join`", "Join"),
        ("`split`", "Split"),
        ("A group of `split`", "Group"),
    ] {
        let item = item(name);
        // What the page says above is about the file as a whole.
        let about = if name == "Draft" { String::new() } else { format!("{}\n\n", item.about) };
        write!(out, "\n## {title}\n\n{about}{}", table(item)).unwrap();
    }
    out
}

fn table(item: &Item) -> String {
    let mut out = String::new();
    match item.kind {
        Kind::Struct => {
            out.push_str("| key | value | what | default |\n| --- | --- | --- | --- |\n");
            for field in &item.fields {
                let Field { name, about, .. } = field;
                writeln!(out, "| `{name}` | {} | {} | {} |", value(&field.of), plain(about), default(field))
                    .unwrap();
            }
        }
        Kind::Enum => {
            out.push_str("| written | what |\n| --- | --- |\n");
            for Field { name, about, of, .. } in &item.fields {
                let written = match of.as_str() {
                    "" => format!("`\"{name}\"`"),
                    of if of.starts_with("Vec") => format!("`{{ {name} = [ … ] }}`"),
                    _ => format!("`{{ {name} = {{ … }} }}`"),
                };
                writeln!(out, "| {written} | {} |", plain(about)).unwrap();
            }
        }
    }
    out
}

/// A sentence as it stands in a cell.
fn plain(about: &str) -> &str {
    about.trim_end_matches('.')
}

/// What a type is in TOML.
fn value(of: &str) -> String {
    let inner = |prefix: &str| of.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("Option<") {
        return value(inner);
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list: {}", value(inner));
    }
    match of {
        "usize" => "number".to_owned(),
        "bool" => "`true` or `false`".to_owned(),
        "String" => "text".to_owned(),
        "Groups" => "number or `\"depthwise\"`".to_owned(),
        "Layer" => "[layer](#layers)".to_owned(),
        "Edge" => "[edge](#an-edge-of-a-cell)".to_owned(),
        "Group" => "[group](#a-group-of-split)".to_owned(),
        "Block" => "[block](#blocks)".to_owned(),
        "Stage" => "[stage](#stages)".to_owned(),
        "Stem" | "Shape" => "table".to_owned(),
        "Join" => "[word](#join)".to_owned(),
        other => panic!("the page has no words for {other}"),
    }
}

fn default(field: &Field) -> &'static str {
    match (field.default.as_deref(), field.of.as_str()) {
        (None, _) => "required",
        (Some("one"), _) | (_, "Groups") => "1",
        (_, "usize") => "0",
        (_, "bool") => "`false`",
        (_, of) if of.starts_with("Option") => "none",
        _ => "empty",
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
