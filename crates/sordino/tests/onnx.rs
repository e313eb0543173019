//! A network from an ONNX file as a user meets it: inspected, frozen, verified, refused.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::{Rgb, RgbImage};
use serde_json::Value;
use sordino::image_files::load_images;
use sordino::network::inference_model::ImageFormat;
use sordino::network::reference::float;
use sordino::onnx::{ImportOptions, import_file};
use tempfile::TempDir;

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = sordino(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// A folder with a model that PyTorch exported, some images, and room for more.
struct Trial {
    folder: TempDir,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/onnx_model/torch-bottleneck-script");
        std::fs::copy(model, folder.path().join("bottleneck.onnx")).unwrap();
        std::fs::create_dir(folder.path().join("images")).unwrap();
        for number in 0..6_u32 {
            let pixel = |x: u32, y: u32| Rgb([(x * 31) as u8, (y * 29) as u8, (number * 40 + x * y) as u8]);
            let image = RgbImage::from_fn(8, 8, pixel);
            image.save(folder.path().join(format!("images/{number}.png"))).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The logits of the imported network, as another framework would save them.
    fn logits(&self) -> Vec<Vec<f32>> {
        let path = PathBuf::from(self.path("bottleneck.onnx"));
        let network = import_file(&path, &ImportOptions::default()).unwrap().network;
        let images = load_images(Path::new(&self.path("images")), network.input(), None).unwrap();
        let format = ImageFormat::usual(3);
        let run = |image| float::run(&network, network.weights(), None, &format.normalize(image)).unwrap();
        images.iter().map(|image| run(image).logits().to_vec()).collect()
    }
}

#[test]
fn an_exported_network_is_frozen_inspected_and_verified() {
    let trial = Trial::new();
    let (model, images, frozen) =
        (trial.path("bottleneck.onnx"), trial.path("images"), trial.path("b.sordino"));
    let report = json(&["freeze", &model, "--calibrate", &images, "-o", &frozen]);
    assert_eq!(report["network"], "bottleneck");
    assert_eq!(report["weights"]["from"], "onnx");
    assert_eq!(report["overflow_count"], 0);
    let inspected = json(&["inspect", &model, "--by", "layer"]);
    assert_eq!(inspected["relus"], report["relus"]);
    assert_eq!(inspected["classes"], 5);
    let private = json(&["inspect", &model, "--private"]);
    assert!(private["private"].is_object());
    for named in [&frozen, &model] {
        let verified = json(&["verify", named, "-n", "2"]);
        assert_eq!(verified["matches_reference"], true);
    }
}

#[test]
fn relu_layers_are_dropped_by_stage_name_and_number() {
    let trial = Trial::new();
    let model = trial.path("bottleneck.onnx");
    let all = json(&["inspect", &model, "--by", "layer"]);
    let layers = all["layers"].as_array().unwrap();
    let relus: Vec<&Value> = layers.iter().filter(|layer| layer["relus"].as_u64() > Some(0)).collect();
    let name = relus.last().unwrap()["name"].as_str().unwrap();
    let count = |flags: &[&str]| json(&[&["inspect", &model], flags].concat())["relus"].as_u64().unwrap();
    let total = count(&[]);
    let dropped = relus.last().unwrap()["relus"].as_u64().unwrap();
    assert_eq!(count(&["--cull", name]), total - dropped);
    assert!(count(&["--cull", "1"]) < total);
    assert!(count(&["--cull", "1"]) < count(&["--cull", "1", "--keep-stem"]));
    assert_eq!(count(&["--relus", "10"]), 10);
    let frozen = trial.path("few.sordino");
    let report = json(&["freeze", &model, "--relus", "10", "-o", &frozen]);
    assert_eq!(report["relus"], 10);
    assert_eq!(json(&["verify", &frozen, "-n", "1"])["matches_reference"], true);
    let message = refusal(&["inspect", &model, "--cull", "no-such-layer"]);
    assert!(message.contains("has no ReLU layer \"no-such-layer\"") && message.contains(name), "{message}");
    assert!(refusal(&["inspect", &model, "--cull", "9"]).contains("stage 9"));
    assert!(refusal(&["inspect", "resnet18", "--cull", "layer1"]).contains("--cull layer1 is no stage"));
}

#[test]
fn the_users_own_logits_are_confirmed_or_denied() {
    let trial = Trial::new();
    let (model, images) = (trial.path("bottleneck.onnx"), trial.path("images"));
    let mut logits = trial.logits();
    let expect = trial.path("logits.json");
    let flags = ["verify", &model, "--images", &images, "--calibrate", &images, "--expect", &expect];
    std::fs::write(&expect, serde_json::to_vec(&logits).unwrap()).unwrap();
    let plain = json(&[&flags[..], &["--plain"]].concat());
    assert!(plain["float_difference"].as_f64().unwrap() < 1e-5);
    assert_eq!((&plain["images"], plain["network"].as_str()), (&Value::from(6), Some("bottleneck")));
    let whole = json(&flags);
    assert_eq!(whole["matches_reference"], true);
    assert_eq!(whole["expected"]["images"], 6);
    logits[2][1] += 1.0;
    std::fs::write(&expect, serde_json::to_vec(&logits).unwrap()).unwrap();
    let output = sordino(&[&flags[..], &["--plain"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("ANOTHER NETWORK"));
    logits.pop();
    std::fs::write(&expect, serde_json::to_vec(&logits).unwrap()).unwrap();
    assert!(refusal(&flags).contains("expected one row for each of 6 images"));
}

#[test]
fn flags_that_do_not_fit_are_refused_with_what_to_do() {
    let trial = Trial::new();
    let model = trial.path("bottleneck.onnx");
    assert!(refusal(&["inspect", &model, "--thin", "1"]).contains("--thin changes blocks"));
    assert!(refusal(&["inspect", &model, "--classes", "7"]).contains("leave --weights and --classes out"));
    assert!(refusal(&["inspect", &model, "--export", "x.toml"]).contains("no blocks to write"));
    assert!(refusal(&["inspect", &model, "--input", "16"]).contains("images of that size"));
    assert!(refusal(&["inspect", &model, "--cull", "1", "--relus", "5"]).contains("name one of them"));
    assert!(refusal(&["design", "deepreduce", &model, "--criticality", "1"]).contains("frozen as it is"));
    let frozen = trial.path("b.sordino");
    let message = refusal(&["freeze", &model, "--mean", "123,116,103", "-o", &frozen]);
    assert!(message.contains("divide each number by 255"), "{message}");
    let other = trial.path("other.onnx");
    std::fs::write(&other, b"hello").unwrap();
    assert!(refusal(&["inspect", &other]).contains("other.onnx is not usable"));
    // What is taken for granted about pixels concerns who freezes; who only counts layers is not bothered.
    let notes = |arguments: &[&str]| String::from_utf8(sordino(arguments).stderr).unwrap();
    assert_eq!(notes(&["inspect", &model]), "");
    let both = notes(&["freeze", &model, "-o", &frozen]);
    assert!(
        both.contains("note: pixels are normalized with the usual mean and deviation of CIFAR"),
        "{both}"
    );
    let one = notes(&["freeze", &model, "-o", &frozen, "--force", "--mean", "0.5,0.5,0.5"]);
    assert!(one.contains("the usual deviation of CIFAR") && one.contains("(--mean, --deviation)"), "{one}");
    assert!(
        refusal(&["serve", &model, "--state", &trial.path("state")]).contains("`sordino freeze` makes one")
    );
}
