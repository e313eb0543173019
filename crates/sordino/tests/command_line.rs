//! The command line as a user meets it: results, JSON, refusals, exit codes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::scratch::{ScratchFile, ScratchFolder};

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

/// The message of a refusal, which must come on stderr with exit code 2 and leave stdout empty.
fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn inspect_prints_the_promised_json() {
    let report = json(&["inspect", "resnet18", "--json"]);
    assert_eq!(report["relus"], 557_056);
    assert_eq!(report["maxpools"], 0);
    assert_eq!(report["macs"], 555_468_800);
    assert_eq!(report["parameters"], 11_220_132);
    let stages = report["stages"].as_array().unwrap();
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["stem", "1", "2", "3", "4", "head"]);
    for key in ["relus", "macs", "parameters"] {
        let sum: u64 = stages.iter().map(|stage| stage[key].as_u64().unwrap()).sum();
        assert_eq!(sum, report[key].as_u64().unwrap(), "{key}");
    }
}

#[test]
fn culling_or_thinning_drops_the_stem_unless_told_otherwise() {
    let relus =
        |arguments: &[&str]| json(&[&["inspect", "resnet18", "--json"], arguments].concat())["relus"].clone();
    assert_eq!(relus(&["--cull", "1"]), 229_376);
    assert_eq!(relus(&["--cull", "1", "--keep-stem"]), 294_912);
    assert_eq!(relus(&["--drop-stem"]), 491_520);
    assert_eq!(relus(&["--cull", "1,4", "--thin", "2,3", "--width", "0.5"]), 49_152);
    assert_eq!(relus(&["--cull", "1,4", "--thin", "2,3", "--resolution", "0.5"]), 24_576);
    let reused = ["inspect", "hrn-2x5x3x:m=16", "--cull", "1", "--thin", "2,3,4", "--reuse", "4", "--json"];
    assert_eq!(json(&reused)["relus"], 13_056);
}

#[test]
fn relus_are_kept_by_count_or_part() {
    for (kept, relus) in [("50000", 50_000), ("50K", 50_000), ("50,000", 50_000), ("25%", 139_264), ("0", 0)]
    {
        assert_eq!(json(&["inspect", "resnet18", "--relus", kept, "--json"])["relus"], relus, "{kept}");
    }
    assert!(refusal(&["inspect", "resnet18", "--relus", "half"]).contains("is no budget"));
    assert!(
        stdout(&["design", "sphynx", "--budget", "50,000"]).contains("up to 3% more or less than 50,000")
    );
}

#[test]
fn input_size_and_classes_can_be_chosen() {
    let report = json(&["inspect", "resnet18", "--input", "64", "--classes", "200", "--json"]);
    assert_eq!(report["relus"], 2_228_224);
    assert_eq!(report["stages"][5]["parameters"], 512 * 200 + 200);
}

#[test]
fn details_add_up_whatever_their_grain() {
    for (grain, key) in [("block", "blocks"), ("layer", "layers")] {
        let report = json(&["inspect", "sphynx:c=5,d=5", "--by", grain, "--json"]);
        let sum: u64 =
            report[key].as_array().unwrap().iter().map(|line| line["macs"].as_u64().unwrap()).sum();
        assert_eq!(sum, report["macs"].as_u64().unwrap());
        assert!(stdout(&["inspect", "sphynx:c=5,d=5", "--by", grain]).contains("total"));
    }
}

#[test]
fn the_table_shows_a_bar_per_stage() {
    let text = stdout(&["inspect", "resnet18"]);
    let first = text.lines().find(|line| line.starts_with("1 ")).unwrap();
    assert!(first.contains("262,144") && first.contains("████████████████"), "{first}");
}

/// Comparisons and gated values stand apart on every line, and nothing is called ReLUs.
#[test]
fn shared_signs_are_shown_as_comparisons_and_gated_values() {
    let report = json(&["inspect", "signet", "--by", "layer", "--json"]);
    assert_eq!((&report["comparisons"], &report["gated_values"]), (&26_112.into(), &78_336.into()));
    assert_eq!(report["macs"], 445_089_792);
    let lines = ["stages", "layers"].map(|key| report[key].as_array().unwrap().clone()).concat();
    for line in &lines {
        assert!(line["comparisons"].is_u64() && line["gated_values"].is_u64(), "{line}");
    }
    assert!(!report.to_string().contains("relus"));
    let text = stdout(&["inspect", "signet"]);
    assert!(!text.contains("ReLU"), "{text}");
    let total = text.lines().find(|line| line.starts_with("total")).unwrap();
    assert!(total.contains("26,112") && total.contains("78,336") && total.contains("445"), "{total}");
    let culled = stdout(&["inspect", "signet", "--cull", "4"]);
    assert!(culled.contains("of the 26,112 comparisons of the network as named"), "{culled}");
    // Slopes alone share no sign.
    assert_eq!(json(&["inspect", "signet:values=1", "--json"])["relus"], 26_112);
    let networks = json(&["zoo", "--json"])["networks"].clone();
    let signet = networks.as_array().unwrap().iter().find(|network| network["name"] == "signet").unwrap();
    assert_eq!(signet["gated_values"], 78_336);
}

#[test]
fn the_book_shows_what_its_command_prints() {
    let page = std::fs::read_to_string(repository().join("docs/src/guide/first-steps.md")).unwrap();
    assert!(page.contains("-- inspect hrn-2x5x3x:m=16 --cull 1 --thin 2,3,4\n"));
    assert!(page.contains(&stdout(&["inspect", "hrn-2x5x3x:m=16", "--cull", "1", "--thin", "2,3,4"])));
}

#[test]
fn a_typo_gets_the_nearest_name() {
    let message = refusal(&["inspect", "resnt18"]);
    assert!(
        message.contains("no network called \"resnt18\"") && message.contains("\"resnet18\""),
        "{message}"
    );
}

#[test]
fn refusals_say_what_was_expected() {
    let cases: [(&[&str], &str); 19] = [
        (&["inspect", "resnet18", "--cull", "5"], "stages 1 to 4"),
        (&["inspect", "resnet18", "--cull", "2", "--thin", "2"], "both culled and thinned"),
        (&["inspect", "resnet18", "--width", "nan"], "above 0"),
        (&["inspect", "resnet18", "--reuse", "3"], "do not divide by 3"),
        (&["inspect", "resnet18", "--input", "0"], "3x0x0"),
        (&["inspect", "missing.toml"], "cannot read missing.toml"),
        (&["design", "deepreduce", "resnet18", "--criticality", "1,1"], "every stage once"),
        (&["design", "hybrenet", "--criticality", &seventy_stages()], "at most 16 stages"),
        (&["design", "hybrenet", "--baseline", "vgg16", "--criticality", "3,2,4,1,5"], "3 or 4 stages"),
        (&["design", "hybrenet", "--through", "depth", "--criticality", "3,2,4,1,5"], "3 or 4 stages"),
        (&["design", "sphynx", "--budget", "18446744073709551615", "--input", "2147483648"], "3x2147483648x"),
        (&["design", "sphynx", "--budget", "50000", "--input", "0"], "3x0x0"),
        (
            &["design", "capacity", "--first", "5", "--second", "0", "--budget", "1"],
            "both hidden layers need neurons",
        ),
        (&["design", "capacity", "--first", "5", "--second", "4", "--budget", "10"], "only 9 neurons"),
        (&["inspect", "resnet6", "--reuse", "4"], "no ReLU layer that could be reused"),
        (&["inspect", "darts", "--reuse", "4"], "cannot reuse ReLUs"),
        (&["inspect", "signet", "--reuse", "4"], "shares signs between channels"),
        (&["inspect", "resnet18:m=30", "--reuse", "4", "--reuse-scope", "all"], "the stem has 30 channels"),
        (&["inspect", "resnet18", "--mask", "/dev/zero"], "too many for a mask of resnet18"),
    ];
    for (arguments, expected) in cases {
        let message = refusal(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert_eq!(message.matches(expected).count(), 1, "said twice: {message}");
    }
}

#[test]
fn a_file_of_another_kind_is_told_from_what_was_expected() {
    let photograph = repository().join("crates/sordino/assets/photographs/apple.jpg");
    let photograph = photograph.to_str().unwrap();
    let message = refusal(&["inspect", photograph]);
    assert!(
        message.contains("is no text; expected a network's name") && message.contains(".onnx"),
        "{message}"
    );
    let message = refusal(&["serve", "resnet18"]);
    assert!(message.contains("there is no file resnet18; name one made by `sordino freeze`"), "{message}");
    let state = ScratchFolder::new("no-address");
    let model = repository().join("models/hybrenet-26k-cifar100.sordino");
    let message =
        refusal(&["serve", model.to_str().unwrap(), "--listen", "7441", "--state", &state.at("state")]);
    assert!(message.contains("write HOST:PORT, such as 127.0.0.1:7441"), "{message}");
}

#[test]
fn what_would_be_ignored_or_empty_is_refused() {
    let model = repository().join("models/hybrenet-26k-cifar100.sordino");
    let model = model.to_str().unwrap();
    let message = refusal(&["serve", &format!("={model}")]);
    assert!(message.contains("write NAME=FILE"), "{message}");
    let message = refusal(&["serve", model, "--web-compare"]);
    assert!(message.contains("add --web ADDRESS"), "{message}");
    for verb in [&["demo"][..], &["verify", "resnet18"]] {
        let message = refusal(&[verb, &["-n", "0"]].concat());
        assert!(message.contains("expected a whole number from 1 on"), "{message}");
    }
}

#[test]
fn a_result_that_cannot_be_written_says_where() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sordino")).arg("zoo").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cannot be written to standard output"), "{message}");
}

fn seventy_stages() -> String {
    (1..=70).map(|stage| stage.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn a_name_unlike_all_others_gets_no_suggestion() {
    assert!(!refusal(&["inspect", "foo"]).contains("nearest"));
}

#[test]
fn a_file_cannot_command_the_terminal() {
    let file = ScratchFile::new("escapes.toml");
    let good = std::fs::read_to_string(repository().join("networks/resnet18.toml")).unwrap();
    for bad in ["name = \"\\u001b[2Jresnet18\"", "\"\\u001b[2Jname\" = \"resnet18\"", "\u{1b}[2J = 1"] {
        std::fs::write(file.path(), good.replacen("name = \"resnet18\"", bad, 1)).unwrap();
        assert!(!refusal(&["inspect", file.path()]).contains('\u{1b}'), "{bad:?}");
    }
}

#[test]
fn stages_named_twice_are_thinned_once() {
    let relus = |stages: &str| json(&["inspect", "vgg16", "--thin", stages, "--json"])["relus"].clone();
    assert_eq!(relus("3,3"), relus("3"));
}

#[test]
fn layouts_of_reuse_differ_in_work_on_all_layers_too() {
    for network in ["resnet18", "wrn-16x8"] {
        for thin in ["", "1,2,3"] {
            let macs = |groups: &str| {
                let mut arguments = vec![
                    "inspect",
                    network,
                    "--reuse",
                    "4",
                    "--reuse-scope",
                    "all",
                    "--reuse-groups",
                    groups,
                ];
                arguments.extend(if thin.is_empty() {
                    vec!["--json"]
                } else {
                    vec!["--thin", thin, "--json"]
                });
                json(&arguments)["macs"].clone()
            };
            assert_ne!(macs("three"), macs("equal"), "{network} thinned {thin:?}");
        }
    }
}

#[test]
fn a_broken_file_is_refused_with_its_place() {
    let file = ScratchFile::new("broken.toml");
    let good = std::fs::read_to_string(repository().join("networks/resnet18.toml")).unwrap();
    std::fs::write(file.path(), good.replacen("out = 128, filter = 1", "out = 127, filter = 1", 1)).unwrap();
    let message = refusal(&["inspect", file.path()]);
    assert!(message.contains("stage 2, block 1: the branches end at 128x16x16 and"), "{message}");
    std::fs::write(file.path(), "name = ").unwrap();
    assert!(refusal(&["inspect", file.path()]).contains("line 1"));
}

#[test]
fn an_exported_network_can_be_inspected_again() {
    let file = ScratchFile::new("exported.toml");
    let made = json(&["inspect", "wrn-16x8", "--thin", "1,2,3", "--export", file.path(), "--json"]);
    let read = json(&["inspect", file.path(), "--json"]);
    assert_eq!(made, read);
    assert_eq!(read["network"], "wrn-16x8 (thin 1+2+3)");
    assert_eq!(json(&["inspect", file.path(), "--classes", "10", "--json"])["classes"], 10);
}

#[test]
fn a_mask_file_lowers_the_counts() {
    use sordino::network::mask::{ActivationMask, SiteMask};
    let spec = sordino::network::zoo::build("resnet18", 32, 100).unwrap();
    let mut masks = vec![SiteMask::KeepAll; spec.walk().sites().len()];
    masks[0] = SiteMask::DropAll;
    let file = ScratchFile::new("mask");
    std::fs::write(file.path(), ActivationMask::new(&spec, masks).unwrap().to_bytes()).unwrap();
    let report = json(&["inspect", "resnet18", "--mask", file.path(), "--json"]);
    assert_eq!((report["relus"].as_u64(), report["stages"][0]["relus"].as_u64()), (Some(491_520), Some(0)));
    assert!(refusal(&["inspect", "resnet34", "--mask", file.path()]).contains("another network"));
}

#[test]
fn the_networks_that_ship_are_those_of_the_zoo() {
    use sordino::network::spec::NetworkSpec;
    use sordino::network::zoo;
    for entry in std::fs::read_dir(repository().join("networks")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue; // maps of tensor names
        }
        let spec = NetworkSpec::from_file(&path).unwrap();
        let draft = spec.draft();
        let named = zoo::build(&draft.name, draft.input.height, draft.classes);
        assert_eq!(named.as_ref(), Ok(&spec), "{}", path.display());
    }
}

#[test]
fn design_answers_the_papers_questions() {
    let answer =
        json(&["design", "hybrenet", "--baseline", "resnet18", "--criticality", "3,2,4,1", "--json"]);
    assert_eq!(answer["solutions"], serde_json::json!(["5x5x3x", "5x7x2x", "6x6x2x", "7x5x2x"]));
    let text = stdout(&["design", "hybrenet", "--criticality", "3,4,2,1"]);
    assert!(text.contains("5x9x2x, beta >= 9"), "{text}");
    let listed = json(&["design", "deepreduce", "resnet18", "--criticality", "3,2,4,1", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 15);
    assert_eq!(json(&["design", "sphynx", "--budget", "50000", "--json"]).as_array().unwrap().len(), 5);
    assert!(stdout(&["design", "hybrenet", "--through", "depth"]).contains("1+3+7+9"));
    // SNL's example: of 10,000 ReLUs, 15% of the first layer and half of the second.
    let layers = ["design", "capacity", "--first", "50000", "--second", "5000", "--budget"];
    let kept = &json(&[&layers[..], &["10000", "--json"]].concat())["kept"];
    assert_eq!((&kept[0]["first"], &kept[0]["second"]), (&7500.into(), &2500.into()));
    assert!(kept[0]["linearized"].as_f64() > kept[1]["linearized"].as_f64());
}

#[test]
fn counts_that_do_not_exist_are_not_printed_as_zero() {
    for m in ["0", "5000"] {
        let answer = json(&["design", "hybrenet", "--m", m, "--json"]);
        let family = &answer["families"][0];
        assert!(family["relus"].is_null() && family["impossible"].is_string(), "{family}");
        let text = stdout(&["design", "hybrenet", "--m", m]);
        assert!(text.contains("cannot be built") && text.contains("5x5x3x      -"), "{text}");
    }
}

#[test]
fn a_baseline_may_be_a_file() {
    let file = repository().join("networks/resnet18.toml");
    let solutions =
        |baseline: &str| json(&["design", "hybrenet", "--baseline", baseline, "--json"])["solutions"].clone();
    assert_eq!(solutions(file.to_str().unwrap()), solutions("resnet18"));
}

#[test]
fn small_budgets_cull_the_first_stage_only_where_it_is_the_least_critical() {
    assert!(stdout(&["design", "hybrenet"]).contains("to be culled"));
    let text = stdout(&["design", "hybrenet", "--criticality", "3,2,1,4", "--baseline", "resnet34"]);
    assert!(!text.contains("to be culled"), "{text}");
    let text = stdout(&["design", "hybrenet", "--criticality", "4,3,2,1"]);
    assert!(text.contains("5x5x5x, beta >= 5, gamma >= 5"), "{text}");
}

#[test]
fn sphynx_choices_can_be_inspected() {
    let choices = json(&["design", "sphynx", "--budget", "100000000", "--json"]);
    let choices = choices.as_array().unwrap();
    assert!((1..=12).contains(&choices.len()));
    let name = choices[0]["network"].as_str().unwrap();
    assert_eq!(json(&["inspect", name, "--json"])["relus"], choices[0]["relus"]);
}

#[test]
fn a_question_without_an_answer_exits_with_1() {
    let output = sordino(&["design", "sphynx", "--budget", "10"]);
    assert_eq!(output.status.code(), Some(1));
    let output = sordino(&["design", "hybrenet", "--max-factor", "3"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn every_verb_that_prints_a_result_has_json() {
    assert!(json(&["zoo", "--json"])["networks"].as_array().unwrap().len() > 30);
    assert_eq!(json(&["doctor", "--json"])["architecture"], std::env::consts::ARCH);
}

#[test]
fn completions_and_manual_pages_are_made() {
    assert!(stdout(&["completions", "bash"]).contains("_sordino"));
    assert!(stdout(&["man"]).contains(".TH sordino"));
}

#[test]
fn the_cpu_ceiling_shows_in_the_doctor() {
    let output = Command::new(env!("CARGO_BIN_EXE_sordino"))
        .args(["doctor", "--json"])
        .env("SORDINO_CPU", "portable")
        .output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert!(report["features"].as_array().unwrap().iter().all(|feature| feature["enabled"] == false));
}

#[test]
fn shared_signs_in_private_are_counted_as_comparisons_and_gated_values() {
    let name = "signet:signs=0+2+4,stream=4+8+8,depths=1+1+1";
    let report = json(&["inspect", name, "--private", "--json"]);
    let comparisons = 2 * 256 + 4 * 64;
    let private = &report["private"];
    assert_eq!(private["comparisons"], comparisons);
    assert_eq!(private.get("relus"), None);
    assert_eq!(private["gated_values"], 3 * comparisons);
    let layers = private["layers"].as_array().unwrap();
    assert!(layers.iter().all(|layer| layer.get("relus").is_none() && layer["gated_values"].is_u64()));
    let text = stdout(&["inspect", name, "--private"]);
    assert!(text.contains("comparisons  gated values") && !text.contains("ReLUs  linearized"), "{text}");
}
