//! Training as a user meets it: a recipe, a run that may be interrupted, a report, a frozen model, refusals.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::scratch::ScratchFolder;

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_folder_is_checked_before_anything_is_trained_on_it() {
    let scratch = ScratchFolder::new("data");
    let output = sordino(&["data", "check", &scratch.at("nothing")]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("does not exist") && text.contains("https://www.cs.toronto.edu"), "{text}");
    let record = [vec![0, 7], vec![0; 3072]].concat();
    std::fs::write(scratch.at("train.bin"), &record).unwrap();
    std::fs::write(scratch.at("test.bin"), &record).unwrap();
    let output = sordino(&["data", "check", &scratch.at(""), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["set"].as_str(), report["usable"].as_bool()), (Some("cifar100"), Some(false)));
}

#[test]
fn a_report_needs_a_run_and_a_place() {
    let scratch = ScratchFolder::new("report");
    let text = refusal(&["report", &scratch.at("nothing")]);
    assert!(text.contains("expected the folder of a run or a log"), "{text}");
    scratch.write("log.jsonl", "");
    let text = refusal(&["report", &scratch.at(""), "-o", "/dev/full"]);
    assert!(text.contains("cannot write /dev/full") && text.contains("No space left"), "{text}");
    assert_eq!(sordino(&["report", &scratch.at("")]).status.code(), Some(0));
    assert!(Path::new(&scratch.at("report.html")).is_file());
}

#[test]
fn an_empty_folder_is_no_checkpoint_to_freeze() {
    let scratch = ScratchFolder::new("freeze");
    let text = refusal(&["freeze", &scratch.at(""), "-o", &scratch.at("m.sordino")]);
    assert!(text.contains("holds no checkpoint"), "{text}");
    let text = refusal(&["freeze", "resnet18", "--accuracy-images", "5", "-o", &scratch.at("m.sordino")]);
    assert!(text.contains("--accuracy-images belongs to a run's folder"), "{text}");
    assert!(!Path::new(&scratch.at("m.sordino")).exists());
}

#[cfg(not(feature = "training"))]
#[test]
fn a_build_without_the_trainer_says_how_to_get_one() {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/quickstart.toml");
    for arguments in [&["train", recipe], &["evaluate", "runs/quickstart"]] {
        assert!(refusal(arguments).contains("--features training"));
    }
}

#[test]
fn what_is_no_recipe_is_refused_with_what_to_do() {
    let scratch = ScratchFolder::new("no-recipe");
    let path = scratch.at("recipe.toml");
    std::fs::write(&path, [0x08, 0xff, 0xfe]).unwrap();
    let text = refusal(&["train", &path]);
    let expected = "recipe.toml; expected a TOML file, such as recipes/quickstart.toml";
    assert!(text.contains(expected) && text.contains("it is no text"), "{text}");
    for verb in ["train", "sweep"] {
        let text = refusal(&[verb, "mine.onnx"]);
        assert!(text.contains("mine.onnx is an ONNX file") && text.contains("export it again"), "{text}");
    }
}

#[cfg(feature = "training")]
mod with_the_trainer {
    use super::*;
    use std::process::Stdio;
    use std::time::Duration;

    use recipes::checkpoint::{Checkpoint, Part};
    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;

    /// A few steps of a tiny network.
    const SHORT: &str = "[data]\nset = \"synthetic\"\nsynthetic = { side = 16, training = 96, test = 32 }\n\
        [network]\nname = \"hrn-2x5x3x:m=2\"\nthin = [1, 2]\n[training]\nepochs = 4\nbatch = 32\ncheckpoint_every = 1\n\
        ema = 0.9\noptimizer = { kind = \"sgd\", nesterov = true }\n\
        augmentation = { crop_padding = 2, flip = true, cutout = 4 }\n";

    fn json(arguments: &[&str]) -> Value {
        let output = sordino(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn train(recipe: &str, out: &str, more: &[&str]) -> Value {
        json(
            &[&["train", recipe, "--out", out, "--device", "cpu", "--threads", "1", "--json"], more].concat(),
        )
    }

    /// Starts a verb that learns, asks it to stop once its log has a line, and gives how it ended and what it said.
    fn interrupted(arguments: &[&str], log: &str) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sordino"));
        let mut child = command.args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        while std::fs::read_to_string(log).map_or(true, |text| !text.contains("\"loss\"")) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was asked to");
            std::thread::sleep(Duration::from_millis(5));
        }
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(id, Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn ctrl_c_stops_after_the_epoch_with_a_checkpoint() {
        let scratch = ScratchFolder::new("ctrl-c");
        // Checkpoints only at the end, and far more epochs than there is time for.
        let long = SHORT
            .replace("epochs = 4", "epochs = 100000")
            .replace("checkpoint_every = 1", "checkpoint_every = 100000");
        let (recipe, run) = (scratch.write("long.toml", &long), scratch.at("run"));
        let train = ["train", &recipe, "--out", &run, "--device", "cpu", "--threads", "1"];
        let (code, said) = interrupted(&train, &scratch.at("run/log.jsonl"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("once more stops at once") && said.contains("with --resume goes on"), "{said}");
        let epoch = Checkpoint::load(Path::new(&run), Part::Description).unwrap().state.epoch;
        assert!(epoch >= 1);
    }

    #[test]
    fn a_search_that_was_stopped_goes_on() {
        let scratch = ScratchFolder::new("stopped-search");
        let out = scratch.at("out");
        let search =
            ["optimize", "sphynx", "--budget", "5000", "--device", "cpu", "--threads", "1", "--out", &out];
        let search =
            [&search[..], &["--only-search", "--cell-epochs", "100000", "--locations", "thirds"]].concat();
        let (code, said) = interrupted(&search, &scratch.at("out/cells/cells.jsonl"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("not done; the same command goes on"), "{said}");
        assert!(Checkpoint::load(Path::new(&scratch.at("out/cells")), Part::Description).is_ok());
    }

    #[test]
    fn the_quickstart_learns_and_freezes_without_loss() {
        let scratch = ScratchFolder::new("quickstart");
        let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes/quickstart.toml");
        let run = scratch.at("run");
        let outcome = json(&[
            "train",
            recipe.to_str().unwrap(),
            "--out",
            &run,
            "--device",
            "cpu",
            "--threads",
            "2",
            "--json",
        ]);
        let trained = outcome["results"][0]["accuracy"].as_f64().unwrap();
        assert!(trained > 0.95, "accuracy {trained}");
        let tried = json(&["evaluate", &run, "--device", "cpu", "--json"]);
        let again = tried["results"][0]["accuracy"].as_f64().unwrap();
        assert!((again - trained).abs() < 1e-9, "{again} after {trained}");
        let model = scratch.at("model.sordino");
        let frozen = json(&["freeze", &run, "-o", &model, "--json"]);
        let accuracy = &frozen["accuracy"];
        let (float, integer) = (accuracy["float"].as_f64().unwrap(), accuracy["integer"].as_f64().unwrap());
        assert_eq!(accuracy["images"], 1000);
        assert!((float - trained).abs() < 0.002, "the plain executor says {float}, training {trained}");
        assert!((integer - float).abs() <= 0.005, "integer {integer}, float {float}");
        assert_eq!(accuracy["overflows"], 0);
        let page = json_free(&["report", &run]);
        assert!(std::fs::read_to_string(page.trim()).unwrap().contains("<polyline"));
    }

    fn json_free(arguments: &[&str]) -> String {
        let output = sordino(arguments);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn an_interrupted_run_goes_on_to_the_same_bits() {
        let scratch = ScratchFolder::new("resume");
        let whole = scratch.write("whole.toml", SHORT);
        train(&whole, &scratch.at("whole"), &[]);
        // A run that was killed after some epochs is one whose last checkpoint is of an earlier epoch.
        let mut child = Command::new(env!("CARGO_BIN_EXE_sordino"))
            .args(["train", &whole, "--out", &scratch.at("parts"), "--device", "cpu", "--threads", "1"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let first = Path::new(&scratch.at("parts")).join("checkpoints");
        while std::fs::read_dir(&first).map_or(0, Iterator::count) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = child.kill();
        child.wait().unwrap();
        train(&whole, &scratch.at("parts"), &["--resume"]);
        let load = |name: &str| Checkpoint::load(Path::new(&scratch.at(name)), Part::All).unwrap();
        let (one, other) = (load("whole"), load("parts"));
        assert_eq!(one.weights, other.weights);
        assert_eq!(one.optimizer, other.optimizer);
        assert_eq!(one.state, other.state);
        assert_eq!(one.state.epoch, 4);
        // A finished run goes on to itself.
        train(&whole, &scratch.at("parts"), &["--resume"]);
        assert_eq!(load("parts").weights, one.weights);
    }

    /// On the synthetic shapes, with merged branches to be; the run says what it compares and gates, and is no model yet.
    #[test]
    fn a_network_with_shared_signs_learns_and_is_frozen() {
        let scratch = ScratchFolder::new("signs");
        let name = "\"signet:signs=0+2+4,values=4,stream=4+8+8,depths=1+1+1,branches=yes\"";
        let text = SHORT.replace("\"hrn-2x5x3x:m=2\"\nthin = [1, 2]", name);
        let outcome = train(&scratch.write("signs.toml", &text), &scratch.at("run"), &[]);
        let comparisons = 2 * 64 + 4 * 16;
        assert_eq!(
            (&outcome["comparisons"], &outcome["gated_values"]),
            (&comparisons.into(), &(3 * comparisons).into())
        );
        let log = std::fs::read_to_string(scratch.at("run/log.jsonl")).unwrap();
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let losses: Vec<f64> = events.filter_map(|event| event["loss"].as_f64()).collect();
        assert!(losses.len() == 4 && losses[3] < losses[0], "{losses:?}");
        let text = json_free(&["evaluate", &scratch.at("run"), "--device", "cpu"]);
        assert!(text.contains("192 comparisons and 576 gated values"), "{text}");
        let frozen = json(&["freeze", &scratch.at("run"), "-o", &scratch.at("m.sordino"), "--json"]);
        assert_eq!(frozen["comparisons"], comparisons);
        assert_eq!(frozen["gated_values"], 3 * comparisons);
        assert_eq!((frozen.get("relus"), &frozen["overflow_count"]), (None, &0.into()));
    }

    /// Two students of one teacher, with other networks, rates, losses and averages: their bits are those of lonely runs.
    #[test]
    fn recipes_trained_together_become_what_they_become_alone() {
        let scratch = ScratchFolder::new("together");
        let teacher = scratch.write("teacher.toml", &SHORT.replace("epochs = 4", "epochs = 1"));
        train(&teacher, &scratch.at("teacher"), &[]);
        let taught = format!(
            "{SHORT}[teacher]\ncheckpoint = \"{}\"\n[training.loss.distillation]\n",
            scratch.at("teacher")
        );
        let one = format!("{taught}kind = \"kd\"\n");
        let other = format!("{taught}kind = \"dkd\"\nbeta = 2.0\nwarm_up_epochs = 2.0\n")
            .replace("ema = 0.9\n", "")
            .replace("nesterov = true", "weight_decay = 1e-3")
            .replace("\"hrn-2x5x3x:m=2\"\nthin = [1, 2]", "\"signet:signs=0+2+4,stream=4+8+8,depths=1+1+1\"");
        let (one, other) = (scratch.write("one.toml", &one), scratch.write("other.toml", &other));
        train(&one, &scratch.at("alone/one"), &[]);
        train(&other, &scratch.at("alone/other"), &[]);
        let together = train(&one, &scratch.at("together"), &[&other]);
        assert_eq!(together.as_array().map(Vec::len), Some(2));
        for name in ["one", "other"] {
            let load =
                |folder: &str| Checkpoint::load(&scratch.0.join(folder).join(name), Part::All).unwrap();
            let (alone, together) = (load("alone"), load("together"));
            assert_eq!(alone.weights, together.weights, "{name}");
            assert_eq!(alone.optimizer, together.optimizer, "{name}");
            assert_eq!(alone.state, together.state, "{name}");
        }
        let text = std::fs::read_to_string(&one).unwrap();
        let larger = scratch.write("larger.toml", &text.replace("batch = 32", "batch = 48"));
        let text = refusal(&["train", &one, &larger, "--out", &scratch.at("apart"), "--device", "cpu"]);
        assert!(text.contains("differ in training.batch"), "{text}");
        let text = refusal(&["train", &one, &one, "--out", &scratch.at("apart"), "--device", "cpu"]);
        assert!(text.contains("two recipes would write to"), "{text}");
    }

    /// The file of a frozen model teaches as the run that it was frozen from does, also when its answers are kept.
    #[test]
    fn a_frozen_model_teaches() {
        let scratch = ScratchFolder::new("frozen-teacher");
        let teacher = scratch.write("teacher.toml", SHORT);
        train(&teacher, &scratch.at("teacher"), &[]);
        let file = scratch.at("teacher.sordino");
        json_free(&["freeze", &scratch.at("teacher"), "--activation-bits", "14", "-o", &file]);
        let learn = |name: &str, teacher: &str, views: &str| {
            let recipe = format!(
                "{SHORT}[teacher]\ncheckpoint = \"{teacher}\"\n{views}[training.loss.distillation]\nkind = \"kd\"\n"
            );
            let recipe = scratch.write(&format!("{name}.toml"), &recipe);
            train(&recipe, &scratch.at(name), &[]);
            let log = std::fs::read_to_string(scratch.0.join(name).join("log.jsonl")).unwrap();
            let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            events.filter_map(|event| event["loss"].as_f64()).collect::<Vec<f64>>()
        };
        let run = learn("by-run", &scratch.at("teacher"), "");
        let model = learn("by-file", &file, "");
        assert_eq!((run.len(), model.len()), (4, 4));
        for (run, model) in run.iter().zip(&model) {
            assert!((run - model).abs() < 0.02 * run, "{run} {model}");
        }
        let views = |teacher: &str, name: &str| learn(name, teacher, "views = 2\n");
        let (run, model) = (views(&scratch.at("teacher"), "views-by-run"), views(&file, "views-by-file"));
        for (run, model) in run.iter().zip(&model) {
            assert!((run - model).abs() < 0.02 * run, "{run} {model}");
        }
        let other = scratch.write("other.sordino", "no model");
        let recipe_of = |path: &str| std::fs::read_to_string(path).unwrap();
        let recipe = recipe_of(&scratch.at("by-file.toml")).replace(&file, &other);
        let recipe = scratch.write("by-other.toml", &recipe);
        let text = refusal(&["train", &recipe, "--out", &scratch.at("by-other"), "--device", "cpu"]);
        assert!(
            text.contains("other.sordino cannot be used") && text.contains("`sordino freeze` wrote"),
            "{text}"
        );
        let larger = recipe_of(&scratch.at("by-file.toml")).replace("side = 16", "side = 24");
        let larger = scratch.write("larger.toml", &larger);
        let text = refusal(&["train", &larger, "--out", &scratch.at("larger"), "--device", "cpu"]);
        assert!(text.contains("pixels of 3x16x16, the images have pixels of 3x24x24"), "{text}");
        // SNL begins with its teacher's weights, and those of a file are folded and rounded.
        let snl = ["optimize", "snl", "--budget", "100", "--teacher", &file, "--out", &scratch.at("snl")];
        let text = refusal(&[&snl[..], &["--network", "hrn-2x5x3x:m=2"]].concat());
        assert!(text.contains("frozen model") && text.contains("--start"), "{text}");
    }

    /// One network learns so fast that its loss is no number any more; the other learns on.
    #[test]
    fn a_run_that_fails_does_not_end_those_beside_it() {
        let scratch = ScratchFolder::new("beside");
        let plain = SHORT.replace("ema = 0.9\n", "");
        let fast = format!("{plain}schedule = {{ kind = \"constant\", learning_rate = 100.0 }}\n")
            .replace("nesterov = true", "weight_decay = 1.0");
        let (good, fast) = (scratch.write("good.toml", &plain), scratch.write("fast.toml", &fast));
        let out = scratch.at("out");
        let output = sordino(&["train", &fast, &good, "--out", &out, "--device", "cpu", "--threads", "1"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("fast: failed:") && text.contains("1 of 2 runs failed"), "{text}");
        assert_eq!(Checkpoint::load(&scratch.0.join("out/good"), Part::Weights).unwrap().state.epoch, 4);
    }

    #[test]
    fn bad_input_is_refused_and_leaves_nothing() {
        let scratch = ScratchFolder::new("bad");
        let out = scratch.at("run");
        let refused = |text: &str| {
            refusal(&["train", &scratch.write("r.toml", text), "--out", &out, "--device", "cpu"])
        };
        assert!(refused(&SHORT.replace("epochs", "epoch")).contains("did you mean `epochs`?"));
        assert!(refusal(&["train", &scratch.at("none.toml")]).contains("cannot read the recipe"));
        let cifar = SHORT
            .replace("\"synthetic\"\nsynthetic = { side = 16, training = 96, test = 32 }", "\"cifar100\"");
        assert!(refused(&cifar).contains("say which with --data DIR"));
        let taught = "[teacher]\ncheckpoint = \"TEACHER\"\n[training.loss.distillation]\nkind = \"kd\"\n";
        let text = refused(&format!("{SHORT}{taught}"));
        assert!(
            text.contains("teacher TEACHER cannot be used") && text.contains("holds no checkpoint"),
            "{text}"
        );
        assert!(!Path::new(&out).join("checkpoints").exists() && !Path::new(&out).join("log.jsonl").exists());
    }

    #[test]
    fn a_teacher_of_other_classes_is_refused() {
        let scratch = ScratchFolder::new("teacher");
        let recipe = scratch.write("teacher.toml", &SHORT.replace("epochs = 4", "epochs = 1"));
        train(&recipe, &scratch.at("teacher"), &[]);
        // The same images with two classes less.
        for class in 0..8 {
            for part in ["train", "test"] {
                let folder = scratch.0.join(format!("data/{part}/class {class}"));
                std::fs::create_dir_all(&folder).unwrap();
                for number in 0..8 {
                    image::RgbImage::new(16, 16).save(folder.join(format!("{number}.png"))).unwrap();
                }
            }
        }
        let text = format!(
            "[data]\nset = \"folder\"\nside = 16\n[network]\nname = \"hrn-2x5x3x:m=2\"\n[teacher]\ncheckpoint = \"{}\"\n\
             [training]\nepochs = 1\nbatch = 8\n[training.loss.distillation]\nkind = \"dkd\"\n",
            scratch.at("teacher")
        );
        let recipe = scratch.write("student.toml", &text);
        let arguments =
            ["train", &recipe, "--data", &scratch.at("data"), "--out", &scratch.at("s"), "--device", "cpu"];
        let text = refusal(&arguments);
        assert!(text.contains("10 classes, the images have 8 classes"), "{text}");
        let twice =
            ["train", &scratch.at("teacher.toml"), "--out", &scratch.at("teacher"), "--device", "cpu"];
        assert!(refusal(&twice).contains("already holds a run (epoch 1); go on with --resume"));
    }
}
