//! `sordino optimize` and `sordino sweep` as a user meets them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Output};

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let optimize = |method, rest: &[&str]| {
        refusal(&[&["optimize", method, "--data", "synthetic", "--network", "resnet10:m=4"], rest].concat())
    };
    let text = optimize("snl", &["--budget", "0"]);
    assert!(text.contains("budget of zero") && text.contains("at least one"), "{text}");
    let text = optimize("snl", &["--budget", "5000"]);
    assert!(text.contains("4864 ReLUs") && text.contains("smaller budget"), "{text}");
    let text = optimize("deepreshape", &["--budget", "5000"]);
    assert!(text.contains("4864 ReLUs"), "{text}");
    let text = optimize("snl", &["--budget", "25%", "--teacher", "/nowhere/run"]);
    assert!(text.contains("no teacher at /nowhere/run") && text.contains("sordino train"), "{text}");
    let text = optimize("l1-pruning", &["--budget", "50%"]);
    assert!(text.contains("at least 3284 ReLUs") && text.contains("--stream"), "{text}");
    let text = optimize("snl", &["--budget", "lots"]);
    assert!(text.contains("25%"), "{text}");
    let text = optimize("snl", &[]);
    assert!(text.contains("--budget"), "{text}");
    let text = refusal(&["sweep", "/nowhere/sweep.toml"]);
    assert!(text.contains("/nowhere/sweep.toml"), "{text}");
}

#[test]
fn a_plan_needs_no_trainer() {
    let plan = |rest: &[&str]| answer(&[&["optimize"], rest, &["--data", "synthetic", "--plan"]].concat());
    let text = plan(&["deepreshape", "--network", "resnet18", "--budget", "13056"]);
    assert!(text.starts_with("the synthetic set: images of 16x16 pixels, 10 classes\n"), "{text}");
    // Images of 16x16 have a quarter of the ReLUs of 32x32: Table 5's row of 52.2K.
    assert!(text.contains("hrn-2x5x3x:m=16 (cull 1, thin 2+3+4)") && text.contains("13,056"), "{text}");
    let text = plan(&["deepreduce", "--network", "resnet18", "--budget", "25%"]);
    assert!(text.contains("S1 alone") && text.contains("S4 alone"), "{text}");
    let text = plan(&["snl", "--network", "resnet10:m=4", "--budget", "25%"]);
    assert!(text.contains("from 4,864 ReLUs to 1,216"), "{text}");
    let text = plan(&["l1-pruning", "--network", "resnet10:m=4", "--budget", "80%"]);
    assert!(
        text.contains("resnet10:m=4 (4 layers pruned to 29 channels)") && text.contains("3,888"),
        "{text}"
    );
    let text = plan(&["l1-pruning", "--network", "resnet10:m=4", "--budget", "80%", "--ranking", "network"]);
    assert!(text.contains("from 4,864 ReLUs to 3,891 or a little fewer"), "{text}");
}

#[test]
fn the_runs_of_a_sweep_are_listed() {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/snl-resnet18-50k.toml");
    let text = answer(&["sweep", recipe, "--plan"]);
    assert!(text.starts_with("snl-resnet18-50k: snl, budget 50000, seed 1, "), "{text}");
    assert!(text.ends_with(" GPU minutes\n"), "{text}");
}

#[test]
fn the_sweeps_that_ship_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/sweeps");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let listed =
        |file: std::path::PathBuf| answer(&["sweep", file.to_str().unwrap(), "--plan"]).lines().count();
    let counts: Vec<_> = files.map(listed).collect();
    assert!(counts.len() >= 3 && counts.iter().all(|count| *count > 1), "{counts:?}");
}

/// Each run of a sweep comes to the same, alone or beside others.
#[cfg(feature = "training")]
#[test]
fn runs_of_a_sweep_beside_each_other_do_not_disturb_each_other() {
    let folder = std::env::temp_dir().join(format!("sordino-sweep-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let recipe = "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 1\nbatch = 100\n\
                  [optimize]\nmethod = \"deepreduce\"\nbudget = \"50%\"\norder = \"3,2,4,1\"\n";
    std::fs::write(folder.join("a.toml"), recipe).unwrap();
    let sweep = folder.join("sweep.toml");
    std::fs::write(&sweep, "recipes = [\"a.toml\"]\nseeds = [1, 2, 3]\n").unwrap();
    let accuracies = |out: &str, parallel: &str| -> Vec<serde_json::Value> {
        let out = folder.join(out);
        let fixed = ["--device", "cpu", "--threads", "1", "--parallel", parallel, "--out"];
        answer(&[&["sweep", sweep.to_str().unwrap()], fixed.as_slice(), &[out.to_str().unwrap()]].concat());
        assert!(out.join("front.json").is_file());
        let records = |seed: u8| std::fs::read(out.join(format!("a-seed{seed}/records.json"))).unwrap();
        (1..=3).map(|seed| serde_json::from_slice(&records(seed)).unwrap()).collect()
    };
    let of = |found: &[serde_json::Value]| -> Vec<_> {
        found.iter().map(|it| it["records"][0]["float_accuracy"].as_f64().unwrap()).collect()
    };
    let (alone, beside) = (of(&accuracies("alone", "1")), of(&accuracies("beside", "3")));
    assert_eq!(alone, beside);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A run that cannot be made is named at the end; the others are made.
#[cfg(feature = "training")]
#[test]
fn a_run_that_fails_does_not_keep_a_sweep_from_the_others() {
    let folder = std::env::temp_dir().join(format!("sordino-sweep-failure-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let recipe = "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 1\nbatch = 100\n\
                  [optimize]\nmethod = \"deepreduce\"\nbudget = \"50%\"\norder = \"3,2,4,1\"\n";
    std::fs::write(folder.join("a.toml"), recipe).unwrap();
    let sweep = folder.join("sweep.toml");
    std::fs::write(&sweep, "recipes = [\"a.toml\"]\nbudgets = [800000, 1000]\n").unwrap();
    let out = folder.join("out");
    for parallel in ["1", "2"] {
        let fixed = ["--device", "cpu", "--threads", "1", "--parallel", parallel, "--out"];
        let output = sordino(
            &[&["sweep", sweep.to_str().unwrap()], fixed.as_slice(), &[out.to_str().unwrap()]].concat(),
        );
        let (table, errors) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(table.starts_with("1 results"), "{table}");
        assert!(
            // Two runs and the teacher that they share.
            errors.contains("smaller budget") && errors.contains("1 of 3 runs failed: a-800000"),
            "{errors}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Optimizes a small network to a part of its ReLUs and freezes it; the model file and its ReLUs.
#[cfg(feature = "training")]
fn optimized(method: &str, part: &str, more: &[&str], out: &str) -> (String, u64) {
    let json =
        |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&answer(arguments)).unwrap() };
    let fixed = ["--network", "resnet10:m=2", "--budget", part, "--data", "synthetic", "--epochs", "2"];
    let machine = ["--device", "cpu", "--threads", "1", "--out", out, "--json"];
    let found = json(&[&["optimize", method], fixed.as_slice(), more, &machine].concat());
    let record = &found["records"][0];
    assert_eq!((record["relus_before"].as_u64(), record["recipe"]["seed"].as_u64()), (Some(2432), Some(1)));
    let model = format!("{out}/model.sordino");
    let frozen = json(&["freeze", record["checkpoint"].as_str().unwrap(), "-o", &model, "--json"]);
    assert_eq!(frozen["relus"], record["relus"]);
    (model, frozen["relus"].as_u64().unwrap())
}

/// What each method makes of a network runs in private as it runs in the clear.
#[cfg(feature = "training")]
#[test]
fn optimized_networks_run_in_private_as_their_references() {
    let folder = std::env::temp_dir().join(format!("sordino-optimize-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    // The first one trains the teacher of all.
    let teacher = folder.join("snl-0").join("teacher").to_str().unwrap().to_owned();
    // With the most ReLUs that may be left. Masks meet the budget exactly, pixel by pixel; the others come as near as their
    // channels or stages allow.
    let teacher = ["--teacher", &teacher];
    let with_teacher = |more: &[&'static str]| -> Vec<&str> { [more, &teacher].concat() };
    let methods = [
        ("snl", "25%", vec!["--search-epochs", "3"], 608..=608),
        ("snl", "25%", with_teacher(&["--search-epochs", "3", "--channels"]), 1..=608),
        ("senet", "25%", with_teacher(&["--search-epochs", "1"]), 608..=608),
        ("deepreduce", "25%", with_teacher(&["--probe-epochs", "1"]), 1..=608),
        ("deepreshape", "25%", with_teacher(&["--keep-network"]), 1..=608),
        ("l1-pruning", "75%", with_teacher(&["--no-distillation"]), 1812..=1824),
        ("l1-pruning", "50%", with_teacher(&["--stream", "--ranking", "network"]), 936..=1216),
    ];
    for (index, (method, part, more, expected)) in methods.into_iter().enumerate() {
        let out = folder.join(format!("{method}-{index}"));
        let (model, relus) = optimized(method, part, &more, out.to_str().unwrap());
        assert!(expected.contains(&relus), "{method} {more:?}: {relus}");
        let verified = answer(&["verify", &model, "-n", "2", "--json"]);
        let verified: serde_json::Value = serde_json::from_str(&verified).unwrap();
        assert_eq!(verified["matches_reference"], true, "{method}");
        assert_eq!(verified["images"], 2);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Signs that several values share, half of them dropped by SNL: frozen, evaluated and run in private. Nothing calls them ReLUs.
#[cfg(feature = "training")]
#[test]
fn shared_signs_that_were_masked_run_in_private_as_their_reference() {
    let folder = std::env::temp_dir().join(format!("sordino-masked-signs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let out = folder.to_str().unwrap();
    let json =
        |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&answer(arguments)).unwrap() };
    // As in the guide, with fewer epochs.
    let network = ["--network", "signet:stream=8+16+32+32,depths=1+1+1+1", "--budget", "1K"];
    let signs = ["--mask-signs", "50%"];
    let short = ["--epochs", "2", "--search-epochs", "3", "--mask-epochs", "1"];
    let machine = ["--data", "synthetic", "--device", "cpu", "--threads", "1", "--out", out];
    let line = [&["optimize", "shared-signs"], network.as_slice(), &signs, &short, &machine].concat();
    let found = json(&[line.as_slice(), &["--json"]].concat());
    let masked = &found["records"][1];
    assert_eq!((&masked["comparisons"], &masked["gated_values"]), (&510.into(), &3060.into()));
    let (model, checkpoint) = (format!("{out}/model.sordino"), masked["checkpoint"].as_str().unwrap());
    let text = answer(&["evaluate", checkpoint, "--device", "cpu"]);
    assert!(text.contains("510 comparisons and 3,060 gated values"), "{text}");
    let frozen = json(&["freeze", checkpoint, "-o", &model, "--json"]);
    assert_eq!((&frozen["comparisons"], &frozen["gated_values"]), (&510.into(), &3060.into()));
    for relus in ["fast", "exact"] {
        let verified = json(&["verify", &model, "-n", "2", "--relu", relus, "--json"]);
        assert_eq!((&verified["matches_reference"], &verified["images"]), (&true.into(), &2.into()));
    }
    let again = answer(&line);
    assert!(again.contains("510 comparisons and 3,060 gated values") && !again.contains("ReLU"), "{again}");
    assert!(again.contains(&format!("next: sordino freeze {out}/masked/")), "{again}");
    std::fs::remove_dir_all(&folder).unwrap();
}
