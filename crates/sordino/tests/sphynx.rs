//! Sphynx as a user meets it: cells as files, budgets that cannot be met, a search that is killed and goes on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::process::{Command, Output};

use support::scratch::ScratchFolder;

const CELLS: &str = "normal = [\n  [{ op = \"skip\", from = 0 }, { op = \"conv3\", from = 1 }],\n  [{ op = \"dilated5\", \
                     from = 0 }, { op = \"average\", from = 2 }],\n]\nreduce = [\n  [{ op = \"conv3\", from = 0 }, { op = \
                     \"conv5\", from = 1 }],\n  [{ op = \"skip\", from = 2 }, { op = \"dilated3\", from = 1 }],\n]\n";

fn sordino(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sordino")).args(arguments).output().unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = sordino(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn cells_of_a_file_are_inspected_or_refused() {
    let scratch = ScratchFolder::new("cells");
    let network = |file: &str| format!("sphynx:c=5,d=5,cells={file}");
    let good = scratch.write("good.toml", CELLS);
    let text = answer(&["inspect", &network(&good)]);
    assert!(text.contains("25,600"), "{text}");
    let refused = |from: &str, to: &str| {
        assert!(CELLS.contains(from));
        refusal(&["inspect", &network(&scratch.write("bad.toml", &CELLS.replacen(from, to, 1)))])
    };
    let text = refused("from = 2", "from = 3");
    assert!(text.contains("normal cell: node 3 reads node 3") && text.contains("cycle"), "{text}");
    let text = refused("dilated5", "dilated7");
    assert!(text.contains("\"dilated7\"") && text.contains("did you mean dilated"), "{text}");
    let text = refused(", { op = \"conv5\", from = 1 }", "");
    assert!(text.contains("reduce cell: node 2 has 1 edges; expected 2"), "{text}");
    let text = refusal(&["inspect", &network(&scratch.at("none.toml"))]);
    assert!(text.contains("none.toml"), "{text}");
}

#[test]
fn a_budget_that_no_network_meets_is_refused() {
    let optimize = |rest: &[&str]| refusal(&[&["optimize", "sphynx", "--data", "synthetic"], rest].concat());
    let text = optimize(&["--budget", "500"]);
    assert!(text.contains("500 ReLUs or fewer") && text.contains("768"), "{text}");
    let text = optimize(&["--network", "sphynx:values=2", "--budget", "500"]);
    assert!(text.contains("500 comparisons or fewer") && !text.contains("ReLU"), "{text}");
    let text = optimize(&["--budget", "25%"]);
    assert!(text.contains("give a count"), "{text}");
    let text = optimize(&["--budget", "9K", "--locations", "published"]);
    assert!(text.contains("thirds"), "{text}");
    let text = optimize(&["--budget", "6.4K", "--cells", "mine"]);
    assert!(text.contains("published, search"), "{text}");
    let text = optimize(&["--budget", "6.4K", "--cells", "/nowhere/cells.toml"]);
    assert!(text.contains("/nowhere/cells.toml"), "{text}");
    let text = optimize(&["--budget", "6.4K", "--network", "resnet18"]);
    assert!(text.contains("resnet18 is none of its networks"), "{text}");
}

#[test]
fn a_plan_says_what_would_be_searched_and_trained() {
    let plan = |rest: &[&str]| answer(&[&["optimize", "sphynx", "--plan"], rest].concat());
    let text = plan(&["--data", "synthetic", "--budget", "6.4K"]);
    assert!(text.contains("search of cells, darts, 4 nodes"), "{text}");
    assert!(text.contains("search of locations for 5 cells") && text.contains("training c=5 d=5"), "{text}");
    let text =
        plan(&["--data", "synthetic", "--budget", "6.4K", "--cells", "published", "--locations", "thirds"]);
    assert!(!text.contains("search of"), "{text}");
    assert!(text.contains("ReLUs") && !text.contains("gated"), "{text}");
    let found = ["--cells", "published", "--locations", "thirds"];
    let sharing = ["--data", "synthetic", "--budget", "6.4K", "--network", "sphynx:values=2"];
    let text = plan(&[&sharing[..], &found].concat());
    assert!(
        text.contains("comparisons") && text.contains("gated values") && !text.contains("ReLUs"),
        "{text}"
    );
    assert_eq!(text.matches("6,400").count(), 2, "as many values follow a sign as decide: {text}");
}

#[cfg(feature = "training")]
mod with_the_trainer {
    use super::*;
    use serde_json::Value;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    /// All parts of Sphynx, each as small as it can be.
    const SMALL: &str = "[data]\nset = \"synthetic\"\nsynthetic = { side = 8, training = 160, test = 40 }\n\
        [network]\nname = \"sphynx\"\n\
        [training]\nepochs = 2\nbatch = 20\nclip = 5.0\ndrop_path = 0.1\ninitialization = \"uniform\"\n\
        [optimize]\nmethod = \"sphynx\"\nbudget = 400\nchannels = 2\ndepth = 3\n\
        further = [{ budget = 800, cells = \"published\", locations = \"thirds\" }]\n\
        [optimize.cell_search]\nnodes = 2\nchannels = 2\ndepth = 3\nepochs = 6\nbatch = 20\ncheckpoint_every = 1\nscore_rate = 0.02\n\
        [optimize.location_search]\nepochs = 2\nbatch = 20\ncheckpoint_every = 1\ngrid_epochs = 1\n";

    fn arguments<'a>(recipe: &'a str, out: &'a str) -> Vec<&'a str> {
        let machine = ["--device", "cpu", "--threads", "1", "--json", "--out", out];
        [&["optimize", "sphynx", "--recipe", recipe], machine.as_slice()].concat()
    }

    #[test]
    fn a_killed_search_goes_on_and_what_it_finds_runs_in_private() {
        let scratch = ScratchFolder::new("search");
        let recipe = scratch.write("small.toml", SMALL);
        let (whole, killed) = (scratch.at("whole"), scratch.at("killed"));
        let found: Value = serde_json::from_str(&answer(&arguments(&recipe, &whole))).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sordino"))
            .args(arguments(&recipe, &killed))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let log = std::path::Path::new(&killed).join("cells/cells.jsonl");
        let began = Instant::now();
        let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        while lines() < 2 && began.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let again: Value = serde_json::from_str(&answer(&arguments(&recipe, &killed))).unwrap();
        assert_eq!(found["cells"], again["cells"]);
        let accuracies = |found: &Value| -> Vec<f64> {
            let records = found["records"].as_array().unwrap();
            records.iter().map(|record| record["float_accuracy"].as_f64().unwrap()).collect()
        };
        assert_eq!(accuracies(&found).len(), 2);
        assert_eq!(accuracies(&found), accuracies(&again));
        let records = &found["records"];
        assert_eq!(
            (records[0]["relus"].as_u64(), records[0]["relus_before"].as_u64()),
            (Some(384), Some(384))
        );
        assert!(records[1]["relus"].as_u64().unwrap() <= 800);
        let grid: Value =
            serde_json::from_str(&std::fs::read_to_string(format!("{whole}/locations/grid.json")).unwrap())
                .unwrap();
        assert_eq!(grid.as_array().unwrap().len(), 3);

        // What was found is a network like any other.
        let cells = format!("sphynx:c=2,d=3,reduce=0+1,cells={whole}/cells/cells.toml");
        assert!(answer(&["inspect", &cells, "--input", "8", "--classes", "10"]).contains("384"));
        let model = scratch.at("model.sordino");
        answer(&["freeze", records[0]["checkpoint"].as_str().unwrap(), "-o", &model, "--json"]);
        let verified: Value =
            serde_json::from_str(&answer(&["verify", &model, "-n", "2", "--json"])).unwrap();
        assert_eq!(verified["matches_reference"], true);
        let page = std::fs::read_to_string(answer(&["report", &whole]).trim()).unwrap();
        assert!(
            page.contains("The normal cell") && page.contains("Chances of places"),
            "no page of a search"
        );

        // Another recipe does not go on in this folder.
        let other = scratch.write("other.toml", &SMALL.replace("epochs = 6", "epochs = 7"));
        let text = refusal(&arguments(&other, &whole));
        assert!(text.contains("cell_search.epochs was 6 and is 7 now"), "{text}");
    }
}
