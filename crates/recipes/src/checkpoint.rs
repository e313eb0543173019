//! A run on disk: written atomically, sharded, checked by digest.
//!
//! ```text
//! RUN/log.jsonl                                what happened
//! RUN/checkpoints/epoch-000012/
//!     state.json                               epoch, recipe, network, classes, normalization; length and digest of each file
//!     weights-1-of-2.safetensors ...           what the network is: all that evaluating and freezing need
//!     optimizer-1-of-2.safetensors ...         what only going on needs
//!     mask.sordino-mask                        which ReLUs stay, where not all do
//! ```
//!
//! A checkpoint is written beside the others under a hidden name, brought to disk, and only then gets its name; older ones
//! go afterwards. So whenever the process dies, the last good one is there. Tensors are named as
//! [`network::weights::FloatWeights`] reads them, so a checkpoint needs no tensor library to be frozen.

mod error;
mod shard;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use network::mask::ActivationMask;
use network::shape::Shape;
use network::spec::NetworkSpec;
use network::weights::{FloatWeights, NamesMap};
use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::data::Normalization;
use crate::recipe::Recipe;

pub use error::CheckpointError;
pub use store::find;

/// Arrays by name.
pub type Arrays = BTreeMap<String, Array>;

/// The version of the format.
const FORMAT: u32 = 1;
/// Small enough to travel.
pub const DEFAULT_SHARD_MIB: u64 = 15;
const MASK_FILE: &str = "mask.sordino-mask";

/// How far a run is, and all that must be known to go on, to evaluate or to freeze.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The version of the format.
    pub format: u32,
    /// Epochs that are done.
    pub epoch: u32,
    /// Steps that are done.
    pub step: u64,
    /// The recipe, with every default spelled out.
    pub recipe: Recipe,
    /// The network, reduced, as TOML.
    pub network: String,
    /// The size of an image.
    pub input: Shape,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// How pixels become numbers.
    pub normalization: Normalization,
    /// What the weights of the last epoch do, once the run has ended: the set's name and the accuracy from 0 to 1.
    pub accuracy: BTreeMap<String, f64>,
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// How far the run is.
    pub state: State,
    /// What the network is.
    pub weights: Arrays,
    /// What only going on needs; empty where only the weights were read.
    pub optimizer: Arrays,
    /// Which ReLUs stay; all of them where absent.
    pub mask: Option<Vec<u8>>,
}

/// How much of a checkpoint to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What describing the network needs: no weights.
    Description,
    /// What evaluating and freezing need.
    Weights,
    /// What going on needs.
    All,
}

impl State {
    /// A state of the present format.
    pub fn new(
        recipe: Recipe,
        spec: &NetworkSpec,
        classes: Vec<String>,
        normalization: Normalization,
    ) -> Self {
        Self {
            format: FORMAT,
            epoch: 0,
            step: 0,
            recipe,
            network: spec.to_toml(),
            input: spec.draft().input,
            classes,
            normalization,
            accuracy: BTreeMap::new(),
        }
    }
}

/// `state.json`: the state and what must be found beside it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    state: State,
    files: Vec<FileEntry>,
    /// Tensors that no shard holds whole: their shapes. Their pieces are called `NAME#0`, `NAME#1` and so on.
    pieces: BTreeMap<String, Vec<usize>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: String,
    bytes: u64,
    /// BLAKE3.
    digest: String,
}

impl Checkpoint {
    /// Writes the checkpoint into a run's folder and removes older ones; its own folder is returned.
    ///
    /// # Errors
    /// When the disk is full or cannot be written; nothing half-written is left under a checkpoint's name then, and the
    /// last good one stays.
    pub fn save(&self, run: &Path, shard_bytes: u64) -> Result<PathBuf, CheckpointError> {
        self.save_with(run, shard_bytes, &store::create_file)
    }

    fn save_with(
        &self,
        run: &Path,
        shard_bytes: u64,
        create: &store::Create,
    ) -> Result<PathBuf, CheckpointError> {
        let mut pieces = BTreeMap::new();
        let mut files = shard::pack("weights", &self.weights, shard_bytes, &mut pieces)?;
        files.extend(shard::pack("optimizer", &self.optimizer, shard_bytes, &mut pieces)?);
        files.extend(self.mask.as_ref().map(|mask| (MASK_FILE.to_owned(), mask.clone())));
        let entry = |(name, bytes): &(String, Vec<u8>)| FileEntry {
            name: name.clone(),
            bytes: bytes.len() as u64,
            digest: blake3::hash(bytes).to_hex().to_string(),
        };
        let manifest =
            Manifest { state: self.state.clone(), files: files.iter().map(entry).collect(), pieces };
        let text = serde_json::to_vec_pretty(&manifest)
            .expect("a manifest holds only names, numbers, lists and tables");
        files.push((store::MANIFEST.to_owned(), text));
        store::write(run, self.state.epoch, &files, create)
    }

    /// Reads a checkpoint: the folder of one, or a run's folder, whose last good one is taken.
    ///
    /// # Errors
    /// When there is none, or a file of it is missing or damaged.
    pub fn load(path: &Path, part: Part) -> Result<Self, CheckpointError> {
        let folder = find(path)?;
        let manifest = store::read_manifest(&folder)?;
        if manifest.state.format != FORMAT {
            return Err(CheckpointError::Format {
                path: folder,
                expected: FORMAT,
                came: manifest.state.format,
            });
        }
        manifest.state.recipe.check_ranges().map_err(|error| CheckpointError::Damaged {
            path: folder.join(store::MANIFEST),
            reason: format!("its recipe has a value out of range: {error}"),
        })?;
        let mut checkpoint =
            Self { state: manifest.state, weights: Arrays::new(), optimizer: Arrays::new(), mask: None };
        for entry in &manifest.files {
            let is_weights = entry.name.starts_with("weights");
            let is_wanted = match part {
                Part::Description => entry.name == MASK_FILE,
                Part::Weights => is_weights || entry.name == MASK_FILE,
                Part::All => true,
            };
            if !is_wanted {
                continue;
            }
            let bytes = store::read_checked(&folder, entry)?;
            if entry.name == MASK_FILE {
                checkpoint.mask = Some(bytes);
                continue;
            }
            let into = if is_weights { &mut checkpoint.weights } else { &mut checkpoint.optimizer };
            shard::unpack(&folder.join(&entry.name), &bytes, into)?;
        }
        if part == Part::Description {
            return Ok(checkpoint);
        }
        shard::join(&folder, &mut checkpoint.weights, &manifest.pieces)?;
        shard::join(&folder, &mut checkpoint.optimizer, &manifest.pieces)?;
        Ok(checkpoint)
    }

    /// The network.
    ///
    /// # Errors
    /// When it is none.
    pub fn spec(&self) -> Result<NetworkSpec, CheckpointError> {
        NetworkSpec::from_toml(&self.state.network)
            .map_err(|source| CheckpointError::Network(Box::new(source)))
    }

    /// Which ReLUs stay.
    ///
    /// # Errors
    /// When it is another network's mask, or none.
    pub fn mask(&self, spec: &NetworkSpec) -> Result<Option<ActivationMask>, CheckpointError> {
        let read = |bytes: &Vec<u8>| ActivationMask::from_bytes(bytes, spec);
        self.mask.as_ref().map(read).transpose().map_err(|source| CheckpointError::Mask(Box::new(source)))
    }

    /// The weights as the freezer takes them.
    ///
    /// # Errors
    /// When they are not those of the network.
    pub fn float_weights(&self, spec: &NetworkSpec) -> Result<FloatWeights, CheckpointError> {
        let bytes = shard::to_safetensors(&self.weights)?;
        FloatWeights::from_safetensors(spec, &NamesMap::default(), &bytes)
            .map_err(|source| CheckpointError::Weights(Box::new(source)))
    }

    /// What names the weights: BLAKE3 of all of them.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (name, array) in &self.weights {
            hasher.update(name.as_bytes());
            hasher.update(&(array.bytes.len() as u64).to_le_bytes());
            hasher.update(&array.bytes);
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests;
