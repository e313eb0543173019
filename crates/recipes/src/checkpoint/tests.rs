use super::*;
use crate::data::{SyntheticSize, synthetic};

const RECIPE: &str =
    "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 3\nbatch = 8\n";

fn example(epoch: u32) -> Checkpoint {
    let recipe = Recipe::from_toml(RECIPE).unwrap();
    let data = synthetic(&SyntheticSize { training: 1, test: 1, ..SyntheticSize::default() });
    let spec = recipe.network.build(data.training.shape, 10).unwrap();
    let mut state = State::new(recipe, &spec, data.training.classes.clone(), data.training.normalization());
    state.epoch = epoch;
    let numbers =
        |count: usize| (0..count).map(|index| (index as f32 + epoch as f32).sin()).collect::<Vec<_>>();
    let array = |shape: &[usize]| Array::from_floats(shape, &numbers(shape.iter().product()));
    let weights =
        [("a.weight", array(&[4, 3, 3])), ("b.weight", array(&[2000])), ("c", Array::from_integer(5))];
    let optimizer = [("momentum", array(&[7])), ("large", array(&[50, 30])), ("none", array(&[0]))];
    let owned = |(name, array): (&str, Array)| (name.to_owned(), array);
    Checkpoint {
        state,
        weights: weights.into_iter().map(owned).collect(),
        optimizer: optimizer.into_iter().map(owned).collect(),
        mask: Some(vec![1, 2, 3]),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_was_written_is_read_back() {
    let scratch = tempfile::tempdir().unwrap();
    for shard_bytes in [1 << 20, 4096, 300] {
        let checkpoint = example(2);
        let folder = checkpoint.save(scratch.path(), shard_bytes).unwrap();
        assert_eq!(Checkpoint::load(scratch.path(), Part::All).unwrap(), checkpoint);
        assert_eq!(Checkpoint::load(&folder, Part::All).unwrap(), checkpoint);
        let described = Checkpoint::load(&folder, Part::Description).unwrap();
        assert_eq!((&described.state, &described.mask), (&checkpoint.state, &checkpoint.mask));
        assert!(described.weights.is_empty() && described.optimizer.is_empty());
        let weights = Checkpoint::load(&folder, Part::Weights).unwrap();
        assert_eq!((weights.weights, weights.optimizer), (checkpoint.weights, Arrays::new()));
        for name in names(&folder).into_iter().filter(|name| name.ends_with("safetensors")) {
            let length = std::fs::metadata(folder.join(&name)).unwrap().len();
            assert!(length <= shard_bytes, "{name} of {length} bytes, shards of {shard_bytes}");
        }
    }
}

#[test]
fn only_the_last_checkpoint_stays() {
    let scratch = tempfile::tempdir().unwrap();
    example(1).save(scratch.path(), 4096).unwrap();
    let leftover = scratch.path().join("checkpoints/.writing-000009");
    std::fs::create_dir(&leftover).unwrap();
    std::fs::write(leftover.join("weights.safetensors"), "half").unwrap();
    example(10).save(scratch.path(), 4096).unwrap();
    assert_eq!(names(&scratch.path().join("checkpoints")), ["epoch-000010"]);
    assert_eq!(Checkpoint::load(scratch.path(), Part::Weights).unwrap().state.epoch, 10);
}

#[test]
fn a_checkpoint_of_the_same_epoch_is_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    example(1).save(scratch.path(), 4096).unwrap();
    let other = Checkpoint { optimizer: Arrays::new(), ..example(1) };
    other.save(scratch.path(), 4096).unwrap();
    assert_eq!(names(&scratch.path().join("checkpoints")), ["epoch-000001"]);
    assert_eq!(Checkpoint::load(scratch.path(), Part::All).unwrap(), other);
}

#[test]
fn a_full_disk_leaves_the_last_good_checkpoint() {
    let scratch = tempfile::tempdir().unwrap();
    example(1).save(scratch.path(), 4096).unwrap();
    let full = |path: &Path| match path.to_string_lossy().contains("optimizer") {
        true => std::fs::File::options().write(true).open("/dev/full"),
        false => store::create_file(path),
    };
    let error = example(2).save_with(scratch.path(), 4096, &full).unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(names(&scratch.path().join("checkpoints")), ["epoch-000001"]);
    assert_eq!(Checkpoint::load(scratch.path(), Part::All).unwrap(), example(1));
}

#[test]
fn damage_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = example(1).save(scratch.path(), 1 << 20).unwrap();
    let path = folder.join("weights.safetensors");
    let good = std::fs::read(&path).unwrap();
    let refusal = || Checkpoint::load(&folder, Part::All).unwrap_err().to_string();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    assert!(refusal().contains("weights.safetensors is damaged: its digest is another one"), "{}", refusal());
    std::fs::write(&path, &good[1..]).unwrap();
    assert!(refusal().contains("bytes instead of"), "{}", refusal());
    std::fs::remove_file(&path).unwrap();
    assert!(refusal().contains("cannot read"), "{}", refusal());
    std::fs::write(&path, &good).unwrap();
    let state = std::fs::read_to_string(folder.join("state.json")).unwrap();
    std::fs::write(folder.join("state.json"), state.replace("weights.safetensors", "../weights.safetensors"))
        .unwrap();
    assert!(refusal().contains("leads out of the checkpoint"), "{}", refusal());
    std::fs::write(folder.join("state.json"), state.replace("\"format\": 1", "\"format\": 7")).unwrap();
    assert!(refusal().contains("has format 7, this version reads 1"), "{}", refusal());
}

#[test]
fn figures_come_back_to_the_last_bit() {
    let scratch = tempfile::tempdir().unwrap();
    let mut checkpoint = example(1);
    let figures = (1..2000).map(|index| (format!("{index}"), (f64::from(index) * 0.7).sin().exp() / 3.0));
    checkpoint.state.accuracy = figures.collect();
    checkpoint.save(scratch.path(), 4096).unwrap();
    assert_eq!(Checkpoint::load(scratch.path(), Part::All).unwrap(), checkpoint);
}

#[test]
fn a_normalization_that_makes_no_numbers_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = example(1).save(scratch.path(), 4096).unwrap();
    let path = folder.join("state.json");
    let good: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let unusable = "a deviation above 0 for each of 3 channels";
    for (key, value, expected) in [
        ("deviation", serde_json::json!([0.0, 1.0, 1.0]), unusable),
        ("deviation", serde_json::json!([1.0, -1.0, 1.0]), unusable),
        ("deviation", serde_json::json!([1.0, 1.0]), unusable),
        ("mean", serde_json::json!([]), unusable),
        // Infinite as 32 bits, and then not to be written as JSON again.
        ("mean", serde_json::json!([-1e39, 0.5, 0.5]), "number out of range"),
    ] {
        let mut bad = good.clone();
        bad["state"]["normalization"][key] = value.clone();
        std::fs::write(&path, bad.to_string()).unwrap();
        let error = Checkpoint::load(&folder, Part::Description).unwrap_err().to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn a_recipe_that_no_file_could_hold_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = example(1).save(scratch.path(), 4096).unwrap();
    let path = folder.join("state.json");
    let mut bad: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    bad["state"]["recipe"]["training"]["batch"] = serde_json::json!(0);
    std::fs::write(&path, bad.to_string()).unwrap();
    let error = Checkpoint::load(&folder, Part::Description).unwrap_err().to_string();
    assert!(error.contains("its recipe has a value out of range") && error.contains("batch"), "{error}");
}

#[test]
fn an_empty_place_says_what_is_expected() {
    let scratch = tempfile::tempdir().unwrap();
    let error = Checkpoint::load(scratch.path(), Part::All).unwrap_err();
    assert!(error.to_string().contains("holds no checkpoint; expected a run's folder"), "{error}");
}

#[test]
fn a_folder_of_runs_names_them() {
    let scratch = tempfile::tempdir().unwrap();
    example(1).save(&scratch.path().join("trained"), 1 << 20).unwrap();
    example(1).save(&scratch.path().join("teacher"), 1 << 20).unwrap();
    let error = find(scratch.path()).unwrap_err().to_string();
    assert!(error.contains("/teacher, ") && error.ends_with("/trained"), "{error}");
}

#[test]
fn the_freezer_reads_the_weights() {
    let mut checkpoint = example(1);
    let spec = checkpoint.spec().unwrap();
    let weights = FloatWeights::random(&spec, 3);
    checkpoint.weights = Arrays::new();
    let error = checkpoint.float_weights(&spec).unwrap_err();
    assert!(matches!(error, CheckpointError::Weights(_)), "{error}");
    checkpoint.weights = arrays_of(&spec, &weights);
    assert_eq!(checkpoint.float_weights(&spec).unwrap(), weights);
}

/// The arrays of some weights, with the names and shapes that a safetensors file has.
fn arrays_of(spec: &NetworkSpec, weights: &FloatWeights) -> Arrays {
    use network::walk::Operation;
    use network::weights::LayerWeights;
    let mut arrays = Arrays::new();
    for step in spec.walk().steps() {
        let mut put = |part: &str, shape: &[usize], values: &[f32]| {
            arrays.insert(format!("{}.{part}", step.name), Array::from_floats(shape, values));
        };
        match (&step.operation, weights.layer(&step.name)) {
            (Operation::Conv(conv), Some(LayerWeights::Linear { weights, .. })) => {
                put("weight", &[conv.outputs, conv.inputs / conv.groups, conv.filter, conv.filter], weights);
            }
            (
                Operation::FullyConnected { inputs, outputs },
                Some(LayerWeights::Linear { weights, biases }),
            ) => {
                put("weight", &[*outputs, *inputs], weights);
                put("bias", &[*outputs], biases);
            }
            (_, Some(LayerWeights::BatchNorm { scale, shift, mean, variance })) => {
                for (part, values) in
                    [("weight", scale), ("bias", shift), ("running_mean", mean), ("running_var", variance)]
                {
                    put(part, &[values.len()], values);
                }
            }
            _ => {}
        }
    }
    arrays
}
