//! The file that names all that one result needs: data, network, teacher, schedule, losses, seed.
//!
//! ```toml
//! [data]
//! set = "cifar100"
//!
//! [network]
//! name = "hrn-2x5x3x:m=8"
//! cull = [1]
//! thin = [2, 3, 4]
//!
//! [training]
//! epochs = 200
//! batch = 128
//! ```
//!
//! Everything that is left out has the default that its field names. A key that nobody knows is refused with the nearest
//! one that exists.

mod difference;
mod error;
mod network_section;
mod training_section;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use network::zoo::ZooError;
use serde::{Deserialize, Serialize};

use crate::data::{DataKind, DataRequest, SyntheticSize};
use crate::file::{FileError, read_text};
use crate::method::OptimizeSection;

pub use error::RecipeError;
pub use network_section::{NetworkSection, NetworkSectionError};
pub use training_section::{
    Augmentation, AuxiliaryHead, DecayScope, Distillation, Initialization, Loss, OptimizerChoice, Precision,
    ReadingOfWeight, Schedule, ScheduleKind, TrainingSection, UpdateEvery,
};

/// The longest recipe.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// All that one result needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What it is for.
    #[serde(default)]
    pub title: String,
    /// What weights, order and augmentation are drawn from.
    #[serde(default = "one")]
    pub seed: u64,
    /// What to learn from.
    pub data: DataSection,
    /// What is to learn.
    pub network: NetworkSection,
    /// Which ReLUs stay, scalar by scalar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskSection>,
    /// Whom to learn from besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<TeacherSection>,
    /// Where the first weights come from; drawn from the seed where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartSection>,
    /// How.
    pub training: TrainingSection,
    /// How ReLUs are removed before that (`sordino optimize`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimize: Option<OptimizeSection>,
}

fn one() -> u64 {
    1
}

/// What to learn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// Which set.
    pub set: DataKind,
    /// Where it is; `--data` overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The side that images of folders are resized to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<usize>,
    /// All training images, or all but the held-out ones.
    #[serde(default)]
    pub train_on: TrainOn,
    /// How many images are held out; a tenth of the training images where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<usize>,
    /// Sizes of the synthetic set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticSize>,
}

impl DataSection {
    /// What to open.
    pub fn request(&self) -> DataRequest {
        DataRequest { kind: self.set, side: self.side, synthetic: self.synthetic.unwrap_or_default() }
    }

    /// How many of so many training images are held out.
    pub fn held_out_of(&self, images: usize) -> usize {
        match self.train_on {
            TrainOn::All => 0,
            TrainOn::Split => self.held_out.unwrap_or(images / 10).min(images),
        }
    }
}

/// Which training images are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainOn {
    /// All but the held-out ones, on which the run is then tried.
    Split,
    /// All of them; for a result that no choice depends on.
    #[default]
    All,
}

/// Which ReLUs stay, scalar by scalar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskSection {
    /// A mask file made for this network.
    pub file: PathBuf,
}

/// Whom to learn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeacherSection {
    /// A run's folder, a checkpoint in it, or the file of a frozen model.
    pub checkpoint: PathBuf,
    /// Views of each image that it looks at, after which they come again with the answers it gave; new ones in every epoch
    /// where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub views: Option<NonZeroU32>,
}

impl TeacherSection {
    /// One that looks at new views in every epoch.
    pub fn new(checkpoint: impl Into<PathBuf>) -> Self {
        Self { checkpoint: checkpoint.into(), views: None }
    }
}

/// Where the first weights come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSection {
    /// A run's folder or a checkpoint in it, of a network with the same weights; its ReLUs may be others.
    pub checkpoint: PathBuf,
}

impl Recipe {
    /// The same with cells that it takes from files spelled out, so that it means the same when a file changes.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn with_cells_spelled(&self) -> Result<Self, ZooError> {
        let mut recipe = self.clone();
        if let Some(OptimizeSection::Sphynx(section)) = &mut recipe.optimize {
            **section = section.spelled()?;
        }
        Ok(recipe)
    }

    /// Reads a recipe from TOML text.
    ///
    /// # Errors
    /// When the text is no TOML, has an unknown key, or values that make no sense together.
    pub fn from_toml(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text).map_err(|error| RecipeError::syntax(&error))?;
        recipe.check_finite()?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// As for [`Self::from_toml`], and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, RecipeError> {
        if let Some(error) = ZooError::for_onnx(&path.to_string_lossy()) {
            return Err(error.into());
        }
        let text = read_text(path, MAX_FILE_BYTES).map_err(|error| FileError {
            action: "read the recipe",
            advice: "; expected a TOML file, such as recipes/quickstart.toml",
            ..error
        })?;
        Self::from_toml(&text)
            .map_err(|source| RecipeError::InFile { path: path.into(), source: Box::new(source) })
    }

    /// Writes the recipe with every default spelled out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a recipe holds only names, numbers, lists and tables")
    }

    /// Refuses `nan` and `inf`, which TOML can write and the JSON of a checkpoint cannot.
    fn check_finite(&self) -> Result<(), RecipeError> {
        let written = serde_json::to_value(self).expect("as for `to_toml`");
        not_finite(&written, "").map_or(Ok(()), |key| Err(RecipeError::NotFinite { key }))
    }

    /// Refuses values out of their ranges.
    pub(crate) fn check_ranges(&self) -> Result<(), RecipeError> {
        self.training.check()?;
        match self.optimize.as_ref().and_then(OptimizeSection::out_of_range) {
            Some((key, value, expected)) => Err(RecipeError::Value { key, value, expected }),
            None => Ok(()),
        }
    }

    /// Refuses values that make no sense, alone or together.
    fn check(&self) -> Result<(), RecipeError> {
        self.check_ranges()?;
        if self.training.loss.needs_teacher() && self.teacher.is_none() && self.optimize.is_none() {
            return Err(RecipeError::Together {
                reason: "training.loss.distillation needs a teacher: add [teacher] checkpoint = \"RUN\"",
            });
        }
        if self.teacher.is_some() && !self.training.loss.needs_teacher() && self.optimize.is_none() {
            return Err(RecipeError::Together {
                reason: "the teacher is not used: add [training.loss.distillation] or remove [teacher]",
            });
        }
        if self.data.synthetic.is_some() && self.data.set != DataKind::Synthetic {
            return Err(RecipeError::Together {
                reason: "data.synthetic belongs to set = \"synthetic\"; remove it or change the set",
            });
        }
        if self.data.synthetic.is_some_and(|size| !(8..=64).contains(&size.side) || size.training > 1_000_000)
        {
            return Err(RecipeError::Together {
                reason: "the synthetic set has sides from 8 to 64 and at most a million images",
            });
        }
        Ok(())
    }
}

/// The key of the first number that JSON writes as nothing; what a recipe leaves out is not written at all.
fn not_finite(value: &serde_json::Value, key: &str) -> Option<String> {
    match value {
        serde_json::Value::Null => Some(key.to_owned()),
        serde_json::Value::Array(items) => items.iter().find_map(|item| not_finite(item, key)),
        serde_json::Value::Object(items) => items.iter().find_map(|(inner, item)| {
            let key = if key.is_empty() { inner.clone() } else { format!("{key}.{inner}") };
            not_finite(item, &key)
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
