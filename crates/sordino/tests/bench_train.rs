//! `sordino bench train` and `sordino bench search` as a user sees them, on a machine without a GPU.
#![cfg(feature = "training")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_sordino");
    Command::new(program).args(["bench", "train"]).args(arguments).output().unwrap()
}

#[test]
fn a_step_is_measured_and_says_why_it_was_not_recorded() {
    let small =
        ["hrn-2x5x3x:m=2", "--side", "8", "--batch", "4", "--steps", "20", "--threads", "1", "--json"];
    for pipeline in ["on", "off"] {
        let output = bench(&[&small[..], &["--data-pipeline", pipeline]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let milliseconds = report["ms_per_step"].as_f64().unwrap();
        let images = report["images_per_s"].as_f64().unwrap();
        assert!((images * milliseconds - 4000.0).abs() < 1e-6 * 4000.0, "{report}");
        assert_eq!(report["recorded"], false);
        assert!(report["not_recorded"].as_str().unwrap().contains("GPUs only"), "{report}");
        assert!(report["first_loss"].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn devices_networks_and_teachers_that_are_not_there_are_refused() {
    for (arguments, expected) in [
        (&["resnet18", "--device", "tpu"][..], "expected cpu or cuda"),
        (&["resnet81"], "resnet18"),
        (&["resnet10:m=2", "--batch", "0"], "a batch of 0"),
    ] {
        let output = bench(arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_step_of_a_search_is_measured_and_its_operations_counted() {
    let operations = |strategy: &str| {
        let program = env!("CARGO_BIN_EXE_sordino");
        let size = ["--channels", "4", "--cells", "3", "--nodes", "2", "--side", "8", "--batch", "4"];
        let output = Command::new(program)
            .args(["bench", "search", "--steps", "10", "--threads", "1", "--json", "--strategy", strategy])
            .args(size)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["ms_per_step"].as_f64().unwrap() > 0.0, "{report}");
        let by_name = report["by_name"].as_object().unwrap();
        let total: u64 = by_name.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(report["operations"], total);
        assert!(by_name.keys().any(|name| name.contains("convolution")), "{report}");
        total
    };
    // Of second order there are five passes instead of two.
    assert!(operations("darts-second") > 2 * operations("darts"));
}
