//! What a run needs before its first step.

use std::path::Path;

use network::inference_model::InferenceModel;
use network::mask::ActivationMask;
use network::shape::Shape;
use network::spec::NetworkSpec;
use recipes::checkpoint::{self, Arrays, Checkpoint, Part, State};
use recipes::data::{self, DataPair, Dataset, HELD_OUT_SEED, Normalization, held_out_split};
use recipes::file::FileError;
use recipes::recipe::{MaskSection, Recipe, TrainOn};

use super::options::learn_options;
use super::{LEARNING, RunError};
use crate::assemble::{AssembleOptions, FrozenNetwork, TrainableNetwork};
use crate::learn::{DeviceImages, ImageSet, Learner, Teacher};
use crate::tensor::Device;

/// The checkpoint to go on after; nothing for a new run.
pub(super) fn earlier(recipe: &Recipe, folder: &Path, resume: bool) -> Result<Option<Checkpoint>, RunError> {
    let found = checkpoint::find(folder).ok();
    let Some(found) = found else {
        // Nothing to go on after is no error: an interrupted run may not have come to its first checkpoint.
        return Ok(None);
    };
    if !resume {
        let epoch = Checkpoint::load(&found, Part::Weights)?.state.epoch;
        return Err(RunError::Exists { folder: folder.into(), epoch });
    }
    let checkpoint = Checkpoint::load(&found, Part::All)?;
    if let Some(differences) = recipe.differences(&checkpoint.state.recipe) {
        return Err(RunError::OtherRecipe { folder: folder.into(), differences });
    }
    Ok(Some(checkpoint))
}

/// Refuses recipes that do not see the same batches, or ask another teacher.
pub(super) fn must_go_together<'a>(mut recipes: impl Iterator<Item = &'a Recipe>) -> Result<(), RunError> {
    let Some(first) = recipes.next() else { return Ok(()) };
    for other in recipes {
        let (one, two) = (&first.training, &other.training);
        let alike = [
            ("seed", first.seed == other.seed),
            ("data", first.data == other.data),
            ("teacher", first.teacher == other.teacher),
            ("training.epochs", one.epochs == two.epochs),
            ("training.batch", one.batch == two.batch),
            ("training.precision", one.precision == two.precision),
            ("training.augmentation", one.augmentation == two.augmentation),
        ];
        if let Some((key, _)) = alike.into_iter().find(|(_, is_alike)| !is_alike) {
            return Err(RunError::Apart { key });
        }
    }
    Ok(())
}

/// The folder of the run; nothing else is written before everything else is known to be good.
pub(super) fn make_folder(folder: &Path) -> Result<(), RunError> {
    Ok(std::fs::create_dir_all(folder).map_err(FileError::on("make the folder", folder))?)
}

/// The images of a run, divided as its recipe says.
pub(crate) struct Images {
    pub(crate) training: Dataset,
    pub(crate) held_out: Option<Dataset>,
    pub(super) test: Dataset,
}

impl Images {
    pub(crate) fn open(recipe: &Recipe, directory: Option<&Path>) -> Result<Self, RunError> {
        let section = &recipe.data;
        let directory = directory.or(section.directory.as_deref());
        let DataPair { training, test } = data::open(&section.request(), directory)?;
        let batch = recipe.training.batch;
        let (training, held_out) = match section.train_on {
            TrainOn::All => (training, None),
            TrainOn::Split => {
                let count = section.held_out_of(training.len());
                let (kept, held_out) = held_out_split(&training.labels, count, HELD_OUT_SEED);
                (training.subset(&kept), Some(training.subset(&held_out)))
            }
        };
        if training.len() < batch {
            return Err(RunError::TooFew { images: training.len(), batch });
        }
        Ok(Self { training, held_out, test })
    }

    pub(super) fn trial_on_device(&self, device: Device) -> Result<(&'static str, DeviceImages), RunError> {
        let (name, set) = match &self.held_out {
            Some(set) => ("held-out", set),
            None => ("test", &self.test),
        };
        Ok((name, DeviceImages::new(&image_set(set), device)?))
    }

    /// The state of a run that has not begun.
    pub(crate) fn state(&self, recipe: &Recipe, spec: &NetworkSpec) -> State {
        State::new(recipe.clone(), spec, self.training.classes.clone(), self.training.normalization())
    }

    /// Refuses other names of classes, where there are names.
    fn must_have_classes(&self, names: &[String], path: &Path) -> Result<(), RunError> {
        match self.training.classes.iter().zip(names).find(|(ours, theirs)| ours != theirs) {
            None => Ok(()),
            Some((ours, theirs)) => Err(RunError::OtherData {
                path: path.into(),
                expected: format!("a class {ours:?}"),
                came: format!("{theirs:?} in its place"),
            }),
        }
    }

    /// Refuses images of another size.
    fn must_have_shape(&self, shape: Shape, path: &Path) -> Result<(), RunError> {
        match self.training.shape == shape {
            true => Ok(()),
            false => Err(RunError::OtherData {
                path: path.into(),
                expected: format!("pixels of {}", self.training.shape),
                came: format!("pixels of {shape}"),
            }),
        }
    }

    /// Refuses a checkpoint of other images.
    pub(crate) fn must_match(&self, state: &State, path: &Path) -> Result<(), RunError> {
        let refuse =
            |expected: String, came: String| Err(RunError::OtherData { path: path.into(), expected, came });
        let set = &self.training;
        if set.classes.len() != state.classes.len() {
            return refuse(
                format!("{} classes", set.classes.len()),
                format!("{} classes", state.classes.len()),
            );
        }
        self.must_have_classes(&state.classes, path)?;
        self.must_have_shape(state.input, path)?;
        if set.normalization() != state.normalization {
            let words = |Normalization { mean, deviation }: &Normalization| {
                format!("a mean of {mean:?} and a deviation of {deviation:?}")
            };
            return refuse(words(&set.normalization()), words(&state.normalization));
        }
        Ok(())
    }
}

/// A set as the trainer takes it.
pub(crate) fn image_set(set: &Dataset) -> ImageSet<'_> {
    ImageSet {
        shape: set.shape,
        classes: set.classes.len(),
        images: &set.images,
        labels: &set.labels,
        mean: &set.mean,
        deviation: &set.deviation,
    }
}

/// Whose teacher a learner has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Its own.
    First,
    /// The first one's.
    Fellow,
}

/// A learner at its first step, or where an earlier checkpoint left it.
pub(super) fn learner(
    recipe: &Recipe,
    spec: &NetworkSpec,
    images: &Images,
    earlier: Option<&Checkpoint>,
    device: Device,
    place: Place,
) -> Result<Learner, RunError> {
    let options = assemble_options(recipe, device);
    let mut network = TrainableNetwork::new(spec, &options, device)?;
    if let Some(mask) = read_mask(recipe, spec)? {
        network.set_mask(&mask)?;
    }
    match (earlier, &recipe.start) {
        (Some(earlier), _) => network.load_arrays(&learning_weights(earlier))?,
        (None, Some(start)) => {
            network.load_arrays(&Checkpoint::load(&start.checkpoint, Part::Weights)?.weights)?
        }
        (None, None) => {}
    }
    let teacher = recipe.teacher.as_ref().filter(|_| place == Place::First).map(|teacher| {
        let failed =
            |source| RunError::Teacher { path: teacher.checkpoint.clone(), source: Box::new(source) };
        self::teacher(&teacher.checkpoint, images, &options, device).map_err(failed)
    });
    let set = DeviceImages::new(&image_set(&images.training), device)?;
    let (teacher, options) = (teacher.transpose()?, learn_options(recipe));
    let mut learner = match place {
        Place::First => Learner::taught(network, teacher, options, set)?,
        Place::Fellow => Learner::fellow(network, options, set)?,
    };
    if let Some(earlier) = earlier {
        let state: Arrays =
            earlier.optimizer.clone().into_iter().filter(|(name, _)| !name.starts_with(LEARNING)).collect();
        learner.restore(&state)?;
    }
    Ok(learner)
}

/// Whoever is at a path: the network of a checkpoint, or a frozen model.
pub(crate) fn teacher(
    path: &Path,
    images: &Images,
    options: &AssembleOptions,
    device: Device,
) -> Result<Teacher, RunError> {
    if path.is_file() {
        let model =
            InferenceModel::load(path).map_err(|source| RunError::Model { path: path.into(), source })?;
        let outline = model.outline();
        images.must_have_classes(&outline.class_names, path)?;
        images.must_have_shape(outline.input, path)?;
        let normalization = (images.training.mean.as_slice(), images.training.deviation.as_slice());
        let network = FrozenNetwork::new(&model, normalization, options.precision, device)?;
        return Ok(Teacher::Frozen(Box::new(network)));
    }
    let checkpoint = Checkpoint::load(path, Part::Weights)?;
    images.must_match(&checkpoint.state, path)?;
    let options = AssembleOptions { auxiliary_head: false, ..options.clone() };
    Ok(Teacher::Network(Box::new(trained(&checkpoint, &checkpoint.spec()?, options, device)?)))
}

pub(crate) fn assemble_options(recipe: &Recipe, device: Device) -> AssembleOptions {
    AssembleOptions {
        initialization: recipe.training.initialization,
        seed: recipe.seed,
        precision: device.computes_in(recipe.training.precision),
        auxiliary_head: recipe.training.auxiliary_head.is_some(),
    }
}

/// The weights that learn: those beside the averages, where there are averages.
fn learning_weights(checkpoint: &Checkpoint) -> Arrays {
    let learning = checkpoint
        .optimizer
        .iter()
        .filter_map(|(name, array)| name.strip_prefix(LEARNING).map(|name| (name.to_owned(), array.clone())));
    let learning: Arrays = learning.collect();
    if learning.is_empty() { checkpoint.weights.clone() } else { learning }
}

/// The network of a checkpoint.
pub(crate) fn trained(
    checkpoint: &Checkpoint,
    spec: &NetworkSpec,
    options: AssembleOptions,
    device: Device,
) -> Result<TrainableNetwork, RunError> {
    let mut network = TrainableNetwork::new(spec, &options, device)?;
    if let Some(mask) = checkpoint.mask(spec)? {
        network.set_mask(&mask)?;
    }
    network.load_arrays(&checkpoint.weights)?;
    Ok(network)
}

fn read_mask(recipe: &Recipe, spec: &NetworkSpec) -> Result<Option<ActivationMask>, RunError> {
    let read = |section: &MaskSection| ActivationMask::from_file(&section.file, spec);
    Ok(recipe.mask.as_ref().map(read).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folders of recipes that are meant for one call, each beside its teacher.
    #[test]
    fn students_that_ship_together_go_together() {
        let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let own = |folder: &str| Path::new("runs").join(folder).join("teacher");
        let ships = Path::new("models/hybrenet-52k-cifar100.sordino").to_owned();
        let folders = [
            ("frontier", "", own("frontier"), 13),
            ("ablations", "", own("ablations"), 9),
            ("tiny-imagenet", "", own("tiny-imagenet"), 3),
            ("deepreduce-table-4", "", Path::new("runs/resnet18-cifar100").to_owned(), 10),
            // Each with views of its own: they run in two processes.
            ("long", "signet-52k", own("frontier"), 1),
            ("long", "wide-13k", own("frontier"), 1),
            ("processor", "deepreduce-", ships, 3),
        ];
        for (folder, prefix, expected_teacher, expected) in folders {
            let mut students = Vec::new();
            for entry in std::fs::read_dir(recipes.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if !entry.file_name().to_string_lossy().starts_with(prefix) {
                    continue;
                }
                let path = entry.path();
                let recipe = Recipe::from_file(&path).unwrap();
                // A method's search is a call of its own.
                if path.ends_with("teacher.toml") || recipe.optimize.is_some() {
                    continue;
                }
                let teacher = recipe.teacher.as_ref().map(|teacher| teacher.checkpoint.clone());
                assert_eq!(teacher.as_ref(), Some(&expected_teacher), "{}", path.display());
                students.push(recipe);
            }
            assert_eq!(students.len(), expected, "{folder}");
            must_go_together(students.iter()).unwrap();
        }
    }
}
