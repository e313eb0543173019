//! `sordino bench train` as a user sees it, on a machine without a GPU.
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
