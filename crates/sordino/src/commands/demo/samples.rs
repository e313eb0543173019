//! What ships: a model and photographs inside the binary, and further models beside the source tree.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The one inside the binary.
pub(super) const DEFAULT_MODEL: &str = "26k";
const DEFAULT_NAME: &str = "hybrenet-26k-cifar100";
/// Of the source tree, whose model 26k and photographs are links to what is in this crate.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
#[cfg(test)]
const PHOTOGRAPHS_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/photographs");

/// A photograph, and the class of CIFAR-100 that a person would choose. Authors and licenses are in
/// `assets/photographs/README.md`.
pub(super) struct Photograph {
    pub(super) file: &'static str,
    pub(super) class: &'static str,
    pub(super) bytes: &'static [u8],
}

macro_rules! photographs {
    ($($file:literal: $class:literal),* $(,)?) => {
        /// In the order in which they are shown.
        pub(super) const PHOTOGRAPHS: &[Photograph] = &[$(Photograph {
            file: $file,
            class: $class,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/photographs/", $file)),
        }),*];
    };
}

photographs! {
    "goldfish.jpg": "aquarium_fish",
    "coffee.jpg": "cup",
    "rocket.jpg": "rocket",
    "raccoon.jpg": "raccoon",
    "picos-de-europa.jpg": "mountain",
    "empire-state-building.jpg": "skyscraper",
    "crocodile.jpg": "crocodile",
    "apple.jpg": "apple",
    "chair.jpg": "chair",
    "polar-bear.jpg": "bear",
    "astronaut.jpg": "woman",
    "komodo-dragon.jpg": "lizard",
    "chameleon.jpg": "lizard",
    "orange.jpg": "orange",
    "burj-khalifa.jpg": "skyscraper",
    "panda.jpg": "bear",
    "squirrel.jpg": "squirrel",
    "aitzgorri.jpg": "mountain",
}

/// A model file, before it is read.
pub(super) struct ShippedModel {
    pub(super) name: String,
    pub(super) bytes: Cow<'static, [u8]>,
}

impl ShippedModel {
    /// The model with this name or in this file.
    pub(super) fn find(wanted: &str) -> anyhow::Result<Self> {
        if [DEFAULT_MODEL, DEFAULT_NAME].contains(&wanted) {
            let bytes: &'static [u8] =
                include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/hybrenet-26k-cifar100.sordino"));
            return Ok(Self { name: DEFAULT_NAME.to_owned(), bytes: bytes.into() });
        }
        let path = Self::path(wanted)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, bytes: bytes.into() })
    }

    fn path(wanted: &str) -> anyhow::Result<PathBuf> {
        let beside = [Path::new("models"), Path::new(MODELS)].into_iter().flat_map(|folder| {
            let named = |name: String| folder.join(name + ".sordino");
            let short = ["hybrenet", "signet"].map(|family| format!("{family}-{wanted}-cifar100"));
            std::iter::once(wanted.to_owned()).chain(short).map(named).collect::<Vec<_>>()
        });
        match std::iter::once(PathBuf::from(wanted)).chain(beside).find(|path| path.is_file()) {
            Some(path) => Ok(path),
            None => bail!(
                "there is no model called {wanted:?}: {DEFAULT_MODEL} is inside this program, others lie in the folder \
                 models/ of the source tree; a file of your own is named by its path"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use network::inference_model::InferenceModel;

    use super::*;

    #[test]
    fn every_photograph_has_a_class_of_the_model_and_a_row_with_author_and_license() {
        let model = InferenceModel::from_bytes(&ShippedModel::find("26k").unwrap().bytes).unwrap();
        let table = std::fs::read_to_string(Path::new(PHOTOGRAPHS_FOLDER).join("README.md")).unwrap();
        for photograph in PHOTOGRAPHS {
            assert!(model.outline().class_names.iter().any(|name| name == photograph.class));
            let row = format!("| `{}` | {} | ", photograph.file, photograph.class);
            assert!(table.contains(&row), "{row}");
        }
        let files = std::fs::read_dir(PHOTOGRAPHS_FOLDER).unwrap().count();
        assert_eq!(files, PHOTOGRAPHS.len() + 1, "photographs and the table");
        assert_eq!(table.lines().filter(|line| line.starts_with("| `")).count(), PHOTOGRAPHS.len());
    }

    #[test]
    fn models_are_found_by_name_and_by_file() {
        let file = format!("{MODELS}/hybrenet-26k-cifar100.sordino");
        let by_file = ShippedModel::find(&file).unwrap();
        let by_name = ShippedModel::find("hybrenet-26k-cifar100").unwrap();
        assert!(by_file.name == by_name.name && by_file.bytes == by_name.bytes);
        for (short, name) in [("52k", "hybrenet-52k-cifar100"), ("lean", "signet-lean-cifar100")] {
            assert_eq!(ShippedModel::find(short).unwrap().name, name);
        }
        let refusal = ShippedModel::find("7k").err().unwrap().to_string();
        assert!(refusal.contains("no model called \"7k\"") && refusal.contains("26k is inside"), "{refusal}");
    }
}
