//! Which tensor of a file holds the weights of which step.
//!
//! ```toml
//! [names]
//! "stem.conv1" = "conv1"        # reads conv1.weight, and conv1.bias where the layer has one
//! "stem.norm1" = "bn1"          # reads bn1.weight, .bias, .running_mean, .running_var
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bytes::read_at_most;

const MAX_FILE_BYTES: u64 = 4 << 20;

/// Step names to the beginnings of tensor names; a step that is not listed keeps its own name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesMap {
    names: BTreeMap<String, String>,
}

impl NamesMap {
    /// The maps that come with the product, by name.
    pub const BUILT_IN: &'static [(&'static str, &'static str)] =
        &[("torchvision-resnet18", include_str!("../../assets/torchvision-resnet18.toml"))];

    /// The names torchvision and timm give the tensors of a ResNet-18.
    pub fn torchvision_resnet18() -> Self {
        Self::from_toml(Self::BUILT_IN[0].1).expect("the map that comes with the product is tested")
    }

    /// Reads a map from TOML text.
    ///
    /// # Errors
    /// When the text is no TOML, or TOML of another kind.
    pub fn from_toml(text: &str) -> Result<Self, NamesMapError> {
        toml::from_str(text).map_err(|source| NamesMapError::Syntax(Box::new(source)))
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or holds no map.
    pub fn from_file(path: &Path) -> Result<Self, NamesMapError> {
        let unreadable = |source| NamesMapError::Unreadable { path: path.into(), source };
        let bytes = read_at_most(path, MAX_FILE_BYTES).map_err(unreadable)?;
        let text = String::from_utf8(bytes);
        Self::from_toml(&text.map_err(|error| unreadable(std::io::Error::other(error.utf8_error())))?)
    }

    /// The beginning of the names of a step's tensors.
    pub fn tensor<'a>(&'a self, step: &'a str) -> &'a str {
        self.names.get(step).map_or(step, String::as_str)
    }

    /// The steps it lists.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

/// A file that holds no map of names.
#[derive(Debug, thiserror::Error)]
pub enum NamesMapError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or TOML of another kind.
    #[error("this is no map of names in TOML: {0}")]
    Syntax(#[source] Box<toml::de::Error>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn the_included_map_names_every_layer_of_resnet18() {
        let map = NamesMap::torchvision_resnet18();
        let spec = zoo::build("resnet18:stem=imagenet", 224, 1000).unwrap();
        let has_weights = |kind: &str| matches!(kind, "conv" | "norm" | "fc");
        let steps = spec.walk().steps().iter().filter(|step| has_weights(step.operation.kind()));
        let mut names: Vec<_> = steps.map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(map.steps().collect::<Vec<_>>(), names);
        assert_eq!(map.tensor("stage3.block1.shortcut.norm1"), "layer3.0.downsample.1");
        assert_eq!(map.tensor("something.else"), "something.else");
    }

    #[test]
    fn a_text_of_another_kind_is_refused() {
        for bad in ["", "names = 3", "[names]\na = 1", "[other]\na = \"b\"", "[["] {
            assert!(NamesMap::from_toml(bad).is_err(), "{bad}");
        }
    }
}
