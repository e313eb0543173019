//! Models as a user meets them: frozen, inspected, planned, verified, measured.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};

use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use sordino::network::inference_model::InferenceModel;
use sordino::network::walk::Operation;
use sordino::network::weights::{FloatWeights, LayerWeights};
use sordino::network::zoo;
use support::scratch::{ScratchFile, ScratchFolder};

/// Small enough for every test to run it in private.
const SMALL: [&str; 5] = ["resnet10:m=4", "--input", "16", "--classes", "10"];

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

/// What a verb prints on the small network with more flags; nothing may come on stderr, which is no terminal here.
fn stdout(verb: &[&str], flags: &[&str]) -> String {
    let output = sordino(&[verb, flags].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    String::from_utf8(output.stdout).unwrap()
}

fn json(verb: &[&str], flags: &[&str]) -> Value {
    serde_json::from_str(&stdout(verb, &[flags, &["--json"]].concat())).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn small(verb: &str) -> Vec<&str> {
    [&[verb], &SMALL[..]].concat()
}

#[test]
fn a_frozen_model_can_be_inspected_and_verified() {
    let file = ScratchFile::new("small.sordino");
    let flags = ["--cull", "1", "--thin", "2", "-o", file.path()];
    let frozen = json(&small("freeze"), &flags);
    assert_eq!(frozen["bytes"], std::fs::metadata(&file.0).unwrap().len());
    assert_eq!(frozen["weights"]["from"], "random");
    assert!(frozen["convolutions_after"].as_u64() <= frozen["convolutions_before"].as_u64());
    let rescales = frozen["rescales"].as_array().unwrap();
    let paid = rescales.iter().filter(|rescale| rescale["costs_round_trip"] == true).count() as u64;
    assert!(paid >= frozen["rescaling_round_trips"].as_u64().unwrap());

    let inspected = json(&["inspect", file.path()], &["--by", "layer"]);
    assert_eq!(inspected["relus"], frozen["relus"]);
    assert_eq!(inspected["relus"], json(&small("inspect"), &["--cull", "1", "--thin", "2"])["relus"]);
    assert_eq!(inspected["private"], Value::Null);
    for key in ["digest", "mean", "deviation"] {
        assert_eq!(inspected[key], frozen[key], "{key}");
    }
    assert_eq!(inspected["class_names"], json!([]));
    assert!(stdout(&["inspect", file.path()], &[]).contains("total"));

    let verified = json(&["verify", file.path()], &["-n", "3"]);
    assert_eq!(verified["images"], 3);
    assert_eq!(verified["matches_reference"], true);
    assert_eq!(verified["weights"]["from"], "model");
}

#[test]
fn freezing_says_that_weights_are_random() {
    let file = ScratchFile::new("random.sordino");
    let text = stdout(&small("freeze"), &["-o", file.path(), "--seed", "7"]);
    assert!(text.contains("random weights (seed 7), good for benchmarks alone"), "{text}");
    assert!(text.contains("after merging") && text.contains("calibration images"), "{text}");
}

/// The random weights of the small network as a safetensors file, as a trainer would write it.
fn safetensors(seed: u64) -> Vec<u8> {
    let spec = zoo::build(SMALL[0], 16, 10).unwrap();
    let weights = FloatWeights::random(&spec, seed);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    let mut put = |name: String, shape: Vec<usize>, numbers: &[f32]| {
        let start = data.len();
        data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    };
    for step in spec.walk().steps() {
        let name = &step.name;
        match (weights.layer(name), &step.operation) {
            (Some(LayerWeights::Linear { weights, biases }), operation) => {
                let shape = match operation {
                    Operation::Conv(conv) => {
                        vec![conv.outputs, conv.inputs / conv.groups, conv.filter, conv.filter]
                    }
                    _ => vec![biases.len(), weights.len() / biases.len()],
                };
                put(format!("{name}.weight"), shape, weights);
                // A tensor that the network does not have would be refused.
                if !matches!(operation, Operation::Conv(conv) if !conv.bias) {
                    put(format!("{name}.bias"), vec![biases.len()], biases);
                }
            }
            (Some(LayerWeights::BatchNorm { scale, shift, mean, variance }), _) => {
                let parts =
                    [("weight", scale), ("bias", shift), ("running_mean", mean), ("running_var", variance)];
                for (part, numbers) in parts {
                    put(format!("{name}.{part}"), vec![numbers.len()], numbers);
                }
            }
            (Some(LayerWeights::Slopes { .. }), _) => unreachable!("this network shares no signs"),
            (None, _) => {}
        }
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes(), &header[..], &data].concat()
}

#[test]
fn weights_come_from_a_file() {
    let (model, weights) = (ScratchFile::new("trained.sordino"), ScratchFile::new("w.safetensors"));
    std::fs::write(&weights.0, safetensors(3)).unwrap();
    let flags = ["-o", model.path(), "--force", "--weights", weights.path()];
    let pixels = ["--mean", "0.4914,0.4822,0.4465", "--deviation", "0.2470,0.2435,0.2616"];
    let from_file = json(&small("freeze"), &[&flags[..], &pixels].concat());
    let random = json(&small("freeze"), &["-o", model.path(), "--force", "--seed", "3"]);
    assert_eq!(from_file["weights"]["from"], "file");
    assert_eq!(from_file["digest"], random["digest"]);
    let text = stdout(&small("freeze"), &[&flags[..], &pixels].concat());
    assert!(!text.contains("random weights") && text.contains("calibrated on random images"), "{text}");
    assert!(text.contains("mean 0.4914, 0.4822, 0.4465 and deviation 0.247, 0.2435, 0.2616"), "{text}");
    let other = ["freeze", "resnet10:m=8", "-o", model.path(), "--force", "--weights", weights.path()];
    assert!(refusal(&other).contains("stem.conv1"));
    // Whoever does not say what training did to pixels hears what is taken for it.
    let notes = String::from_utf8(sordino(&[&small("freeze")[..], &flags].concat()).stderr).unwrap();
    assert!(
        notes.contains("mean 0.4914") && notes.contains("CIFAR-10's") && notes.contains("--mean"),
        "{notes}"
    );
}

/// A folder with pictures of several sizes and kinds, and one name per class.
struct Pictures(PathBuf);

impl Pictures {
    fn new(name: &str, count: u32) -> Self {
        let folder = std::env::temp_dir().join(format!("sordino-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for number in 0..count {
            let pixel = |x: u32, y: u32| Rgb([(x * 5 + number) as u8, (y * 7) as u8, (x * y) as u8]);
            let picture = RgbImage::from_fn(20 + 9 * number, 33, pixel);
            let extension = ["png", "jpg", "webp"][number as usize % 3];
            picture.save(folder.join(format!("{number}.{extension}"))).unwrap();
        }
        let names: Vec<_> = (0..10).map(|class| format!("thing {class}\n")).collect();
        std::fs::write(folder.join("names.txt"), names.concat()).unwrap();
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Pictures {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_users_images_calibrate_and_verify() {
    let pictures = Pictures::new("pictures", 4);
    let file = ScratchFile::new("pictures.sordino");
    let calibrated = json(&small("freeze"), &["-o", file.path(), "--calibrate", pictures.path()]);
    assert_eq!(calibrated["calibration_images"], 4);
    assert_eq!(calibrated["calibration"], json!({"from": "folder", "path": pictures.path()}));
    assert_eq!(calibrated["overflow_count"], 0);
    assert!(calibrated["least_room"].as_f64().unwrap() >= 1.0, "{calibrated}");
    let random = json(&small("freeze"), &["-o", file.path(), "--force"]);
    assert_eq!(random["calibration"], json!({"from": "random"}));

    let verified = json(&["verify", file.path()], &["--images", pictures.path()]);
    assert_eq!((&verified["images"], &verified["matches_reference"]), (&json!(4), &json!(true)));
    assert_eq!(verified["beyond_bound"], 0);
    let text = stdout(&["verify", file.path()], &["--images", pictures.path(), "-n", "1"]);
    assert!(text.starts_with("verified: yes, 1 of 1 equal the reference"), "{text}");
    assert!(text.contains(&format!("on 1 image of {}", pictures.path())), "{text}");
    assert!(!text.contains("the encryption left") && !text.contains("part at"), "{text}");
    let text = stdout(&["verify", file.path()], &["--images", pictures.path(), "-n", "1", "--verbose"]);
    assert!(text.contains("the statistical bound on that is") && text.contains("kept by all"), "{text}");
    let notes = pictures.0.join("names.txt");
    let message = refusal(&["verify", file.path(), "--images", notes.to_str().unwrap()]);
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn normalization_and_class_names_become_part_of_the_model() {
    let pictures = Pictures::new("names", 0);
    let (names, file) = (pictures.0.join("names.txt"), ScratchFile::new("names.sordino"));
    let names = names.to_str().unwrap();
    let freeze = ["freeze", "resnet10:m=4", "--input", "16", "-o", file.path(), "--force"];
    let flags = ["--class-names", names, "--mean", "0.5,0.25,0", "--deviation", "1,0.5,2"];
    let report = json(&freeze, &flags);
    assert_eq!(report["class_names"], true);
    assert_eq!((&report["mean"], &report["deviation"]), (&json!([0.5, 0.25, 0.0]), &json!([1.0, 0.5, 2.0])));
    let model = InferenceModel::load(&file.0).unwrap();
    assert_eq!((model.outline().classes, model.outline().class_name(3)), (10, Some("thing 3")));
    assert_eq!(model.outline().image.mean, [0.5, 0.25, 0.0]);
    assert_eq!(model.outline().image.deviation, [1.0, 0.5, 2.0]);
    assert_eq!(json(&["inspect", file.path()], &[])["class_names"][9], "thing 9");
    let text = stdout(&["inspect", file.path()], &[]);
    let digest = report["digest"].as_str().unwrap();
    for part in [digest, "mean 0.5, 0.25, 0 and", "classes: thing 0, thing 1, ", "and 5 more"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let blank = pictures.0.join("blank.txt");
    std::fs::write(&blank, "a\n\nc\n").unwrap();
    let escapes = pictures.0.join("escapes.txt");
    std::fs::write(&escapes, "a\nb\u{1b}[2J\n").unwrap();
    for (flags, part) in [
        (vec!["--class-names", escapes.to_str().unwrap()], "the name in line 2 of"),
        (
            vec!["--class-names", blank.to_str().unwrap()],
            "blank.txt is blank; expected a name for class 1 there",
        ),
        (vec!["--class-names", names, "--classes", "7"], "10 class names; expected one for each of 7"),
        (vec!["--class-names", "no-such-file"], "cannot read no-such-file"),
        (vec!["--mean", "0.5"], "expected one number for each of 3 channels"),
        (vec!["--deviation", "1,0,1"], "deviations above zero"),
        (vec!["--calibrate", "no-such-folder"], "cannot read no-such-folder"),
    ] {
        let message = refusal(&[&freeze[..], &flags].concat());
        assert_eq!(message.matches(part).count(), 1, "{flags:?}: {message}");
    }
}

#[test]
fn the_same_seed_gives_the_same_model() {
    let file = ScratchFile::new("seeded.sordino");
    let digest = |seed: &str| {
        json(&small("freeze"), &["-o", file.path(), "--force", "--relus", "500", "--seed", seed])["digest"]
            .clone()
    };
    let first = digest("1");
    assert_eq!(first, digest("1"));
    assert_ne!(first, digest("2"));
}

#[test]
fn verifying_names_the_first_layer_that_rounds_otherwise() {
    let flags = ["-n", "2", "--relus", "300"];
    let report = json(&small("verify"), &flags);
    assert_eq!(report["matches_reference"], true);
    let layers = report["first_differences"].as_array().unwrap();
    let images: u64 = layers.iter().map(|layer| layer["images"].as_u64().unwrap()).sum();
    assert_eq!(images, 2, "thousands of positions are rounded at random, so every image differs somewhere");
    let text = stdout(&small("verify"), &[&flags[..], &["--verbose"]].concat());
    assert!(text.contains("2 of 2 equal the reference"), "{text}");
    assert!(text.contains("first part at"), "{text}");
}

#[test]
fn the_plan_is_what_the_benchmark_measures() {
    let flags = ["--relus", "300"];
    let planned = json(&small("inspect"), &[&flags[..], &["--private"]].concat())["private"].clone();
    let verb = [&["bench"], &small("private")[..]].concat();
    let measured = json(&verb, &[&flags[..], &["--repeat", "1"]].concat());
    assert_eq!(measured["matches_reference"], true);
    for phase in ["set_up", "offline", "online"] {
        for count in ["bytes_up", "bytes_down", "rounds"] {
            assert_eq!(planned[phase][count], measured[phase][count], "{phase} {count}");
        }
    }
    assert_eq!(planned["relus"], 300);
    assert_eq!(planned["linearized"], measured["linearized"]);
    let layers = planned["layers"].as_array().unwrap();
    let sum = |key: &str| layers.iter().map(|layer| layer[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("truncation_bytes"), planned["truncation_bytes"].as_u64().unwrap());
    assert_eq!(sum("weight_bytes"), planned["memory"]["server_weights"].as_u64().unwrap());
}

#[test]
fn planned_time_follows_the_link() {
    let private =
        |flags: &[&str]| json(&small("inspect"), &[&["--private"], flags].concat())["private"].clone();
    let plan = private(&["--link", "1gbps,20ms"]);
    let online = &plan["online"];
    let bytes = (online["bytes_up"].as_u64().unwrap() + online["bytes_down"].as_u64().unwrap()) as f64;
    let expected = bytes * 8.0 / 1e9 + online["rounds"].as_f64().unwrap() * 0.010;
    let [times] = &plan["least_times"].as_array().unwrap()[..] else { panic!("one link was named") };
    assert!((times["online_s"].as_f64().unwrap() - expected).abs() < 1e-6);
    assert_eq!(private(&[])["least_times"].as_array().unwrap().len(), 2);
    let text = stdout(&small("inspect"), &["--private"]);
    for part in [
        "random weights",
        "least on lan",
        "predicted on wan",
        "lan: 10000 Mb/s, 0.2 ms round trip",
        "transformed weights",
        "after merging",
        "masks uniform modulo q",
        "MB of memory per prepared inference",
        "MB of the client's disk",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Nothing is said of the time of a phase that neither the link nor computing takes.
    let text = stdout(&small("inspect"), &["--private", "--link", "loopback"]);
    let set_up = text.lines().find(|line| line.starts_with("set-up")).unwrap();
    assert!(set_up.ends_with('-') && !text.contains(" 0.0 ms"), "{text}");
}

#[test]
fn a_frozen_model_is_frozen_anew_with_narrower_rings_and_the_same_weights() {
    let [wide, narrow] = ["wide.sordino", "narrow.sordino"].map(ScratchFile::new);
    let culled = ["--cull", "1", "--thin", "2,3", "-o", wide.path(), "--max-ring-bits", "62"];
    let before = json(&small("freeze"), &culled);
    let photographs = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/photographs");
    let flags = ["-o", narrow.path(), "--activation-bits", "10", "--calibrate", photographs];
    let after = json(&["freeze", wide.path()], &[&flags[..], &["--max-ring-bits", "32"]].concat());
    assert_eq!((&after["weights"]["from"], &after["relus"]), (&json!("model"), &before["relus"]));
    assert!(before["widest_ring_bits"].as_u64() > Some(32) && after["widest_ring_bits"].as_u64() <= Some(32));
    let weights = |file: &ScratchFile| {
        let model = InferenceModel::load(&file.0).unwrap();
        model.layers().iter().map(|layer| layer.weights.clone()).collect::<Vec<_>>()
    };
    assert_eq!(weights(&wide), weights(&narrow));
    assert_eq!(json(&["verify", narrow.path()], &["-n", "1"])["matches_reference"], true);
    let message = refusal(&[
        "freeze",
        wide.path(),
        "-o",
        "x.sordino",
        "--activation-bits",
        "24",
        "--calibrate",
        photographs,
        "--max-ring-bits",
        "24",
    ]);
    assert!(message.contains("at most 24 were asked for"), "{message}");
}

#[test]
fn a_wider_margin_holds_larger_values() {
    let file = ScratchFile::new("margin.sordino");
    let room = |margin: &[&str]| {
        let report = json(&small("freeze"), &[&["-o", file.path(), "--force"], margin].concat());
        (report["margin"].as_f64().unwrap(), report["least_room"].as_f64().unwrap())
    };
    let (usual, wide) = (room(&[]), room(&["--margin", "8"]));
    assert_eq!((usual.0, wide.0), (2.0, 8.0));
    assert!(wide.1 >= 2.0 * usual.1, "{usual:?} {wide:?}");
    assert_eq!(json(&["verify", file.path()], &["-n", "1"])["matches_reference"], true);
}

/// The shipped signet: counted as what it is, and equal to the reference in private.
#[test]
fn the_shipped_model_with_shared_signs_runs_in_private() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/signet-lean-cifar100.sordino");
    let inspected = json(&["inspect", file], &[]);
    assert_eq!((&inspected["comparisons"], &inspected["gated_values"]), (&json!(13_056), &json!(39_168)));
    let photograph = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/photographs/goldfish.jpg");
    let images = ScratchFolder::new("photograph");
    std::fs::copy(photograph, images.at("goldfish.jpg")).unwrap();
    let verified = json(&["verify", file], &["--images", &images.at("")]);
    assert_eq!((&verified["images"], &verified["matches_reference"]), (&json!(1), &json!(true)));
    for report in [&inspected, &verified] {
        assert!(report.get("relus").is_none() && report.get("relus_of").is_none(), "{report}");
    }
    let text = stdout(&["inspect", file], &["--private"]);
    assert!(text.contains("comparisons") && text.contains("gated values"), "{text}");
    assert!(!text.contains("ReLUs"), "{text}");
}

#[test]
fn models_and_networks_are_told_apart() {
    let file = ScratchFile::new("apart.sordino");
    stdout(&small("freeze"), &["-o", file.path()]);
    for (arguments, part) in [
        (vec!["freeze", "resnet10:m=4", "-o", "model.bin"], "ends in .sordino"),
        (vec!["verify", file.path(), "--cull", "1"], "name the network it came from"),
        (vec!["verify", file.path(), "--outline", "coarse"], "name the network it came from"),
        (vec!["verify", file.path(), "--calibrate", "."], "name the network it came from"),
        (vec!["inspect", file.path(), "--input", "8"], "name the network it came from"),
        (vec!["inspect", file.path(), "--export", "x.toml"], "cannot be turned back"),
        (vec!["inspect", "missing.sordino"], "missing.sordino is not usable"),
        (vec!["inspect", "resnet10:m=4", "--weights", "w.safetensors"], "goes with --private"),
        (vec!["inspect", "resnet10:m=4", "--link", "lan"], "--private"),
        (vec!["freeze", "resnet10:m=4", "-o", "x.sordino", "--weights", "no.safetensors"], "no.safetensors"),
        (vec!["freeze", "resnet10:m=4", "-o", "x.sordino", "--weight-bits", "9"], "choose 8 or 12"),
        (vec!["freeze", "resnet10:m=4", "-o", "x.sordino", "--activation-bits", "25"], "activation bits"),
        (vec!["freeze", "resnet10:m=4", "-o", "x.sordino", "--max-ring-bits", "63"], "widest ring of 63"),
        (vec!["freeze", "resnet10:m=4", "-o", "x.sordino", "--margin", "0.5"], "margin of 0.5"),
        (vec!["verify", file.path(), "--margin", "4"], "name the network it came from"),
        (
            vec!["freeze", file.path(), "-o", "x.sordino", "--weight-bits", "12"],
            "weights and classes are fixed",
        ),
        (vec!["freeze", file.path(), "-o", "x.sordino", "--record"], "`sordino evaluate` tries a model"),
        (vec!["freeze", file.path(), "-o", "x.sordino"], "name them with --activation-bits"),
        (
            vec!["freeze", file.path(), "-o", "x.sordino", "--activation-bits", "10"],
            "--data DIR or --calibrate DIR",
        ),
        (vec!["verify", "resnet10:m=4", "-n", "0"], "a whole number from 1 on"),
    ] {
        let message = refusal(&arguments);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn freezing_replaces_no_file_unasked_and_its_own_input_never() {
    let scratch = ScratchFolder::new("replaced");
    let (old, other) = (scratch.at("old.sordino"), scratch.at("other.sordino"));
    stdout(&small("freeze"), &["-o", &old]);
    let bytes = std::fs::read(&old).unwrap();
    let message = refusal(&[&small("freeze")[..], &["-o", &old, "--seed", "2"]].concat());
    assert!(message.contains("old.sordino exists") && message.contains("--force"), "{message}");
    std::os::unix::fs::symlink("old.sordino", &other).unwrap();
    let photographs = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/photographs");
    let narrow = ["--activation-bits", "4", "--calibrate", photographs, "--force"];
    for output in [&old, &other] {
        let message = refusal(&[&["freeze", &old, "-o", output], &narrow[..]].concat());
        assert!(message.contains("is what is read"), "{message}");
    }
    assert_eq!(std::fs::read(&old).unwrap(), bytes);
    stdout(&small("freeze"), &["-o", &old, "--seed", "2", "--force"]);
    assert_ne!(std::fs::read(&old).unwrap(), bytes);
}

#[test]
fn a_damaged_model_is_refused() {
    let file = ScratchFile::new("damaged.sordino");
    stdout(&small("freeze"), &["-o", file.path()]);
    let mut bytes = std::fs::read(&file.0).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file.0, bytes).unwrap();
    assert!(refusal(&["verify", file.path()]).contains("is not usable"));
    assert!(refusal(&["inspect", file.path(), "--private"]).contains("is not usable"));
}
