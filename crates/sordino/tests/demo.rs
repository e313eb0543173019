//! `sordino demo` as a new user runs it: two processes, photographs, a table; nothing left behind, by benchmarks neither.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::processes::Ended;
use support::tiny_model;

/// A folder for what the demo writes; it must be empty afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sordino-demo-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("temporary")).unwrap();
        tiny_model(1).save(&folder.join("tiny.sordino")).unwrap();
        Self(folder)
    }

    fn demo(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sordino"));
        command.arg("demo").env("TMPDIR", self.0.join("temporary"));
        command
    }

    fn tiny(&self) -> PathBuf {
        self.0.join("tiny.sordino")
    }

    fn left_behind(&self) -> usize {
        std::fs::read_dir(self.0.join("temporary")).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn the_shipped_model_answers_about_photographs_as_in_the_clear() {
    let folder = Folder::new("shipped");
    let output = folder.demo().args(["--json", "-n", "3"]).output().unwrap();
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&report), ["images", "model", "relus", "relus_of"]);
    assert_eq!(report["model"], "hybrenet-26k-cifar100");
    assert_eq!((&report["relus"], &report["relus_of"]), (&26_112.into(), &93_184.into()));
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    assert!(readme.contains("cargo run --release -p sordino -- demo\n"));
    let images = report["images"].as_array().unwrap();
    assert_eq!(images.len(), 3);
    for image in images {
        let expected = [
            "bytes",
            "class",
            "equal_to_plaintext",
            "expected",
            "file",
            "max_logit_difference",
            "offline_s",
            "online_ms",
        ];
        assert_eq!(keys(image), expected);
        assert_eq!(image["equal_to_plaintext"], true);
        assert_eq!(image["class"], image["expected"], "the first three are easy ones");
        assert!(image["bytes"].as_u64().unwrap() > 2_000_000);
        assert!(image["max_logit_difference"].as_f64().unwrap() < 1.0);
        assert!(image["online_ms"].as_f64().unwrap() > 0.0 && image["offline_s"].as_f64().unwrap() > 0.0);
        let (file, class) = (image["file"].as_str().unwrap(), image["class"].as_str().unwrap());
        let row = format!("\n{file:25}  {class:13}  {class:13} ");
        assert!(readme.contains(&row), "the README shows {row:?}");
    }
    assert_eq!(folder.left_behind(), 0);
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn own_models_and_images_come_as_a_table() {
    let folder = Folder::new("own");
    let image = folder.0.join("mine.png");
    image::RgbImage::from_fn(20, 16, |x, y| image::Rgb([x as u8 * 9, y as u8 * 9, 90])).save(&image).unwrap();
    let output = folder.demo().arg(&image).arg("--model").arg(folder.tiny()).output().unwrap();
    assert_code(&output, 0);
    let table = text(&output.stdout);
    for part in ["tiny: ", "mine.png", "yes", "1 of 1 are those of the network in the clear", "Next:"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("what a person would say"), "nobody said what it shows: {table}");
    assert_eq!(folder.left_behind(), 0);
}

#[test]
fn refusals_name_the_reason_and_leave_nothing_behind() {
    let folder = Folder::new("refusals");
    let damaged = folder.0.join("damaged.sordino");
    std::fs::write(&damaged, b"SRDNMODL").unwrap();
    let damaged = damaged.to_str().unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--model", "7k"], "no model called \"7k\""),
        (&["--model", damaged], "end too early"),
        (&["missing.png"], "missing.png does not exist"),
        (&["-n", "0"], "invalid value"),
    ];
    for (arguments, expected) in cases {
        let output = folder.demo().args(arguments).output().unwrap();
        assert_code(&output, 2);
        let message = text(&output.stderr);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert_eq!(folder.left_behind(), 0);
}

/// A demo that is interrupted once its server has written its identity.
fn interrupted(folder: &Folder) -> Child {
    let child = folder.demo().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let state = || {
        let scratch = std::fs::read_dir(folder.0.join("temporary")).unwrap().next()?.unwrap().path();
        Some(scratch.join("state")).filter(|state| state.exists())
    };
    wait_until(|| state().is_some());
    child
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never happened");
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(target_os = "linux")]
fn children_of(process: u32) -> Vec<u32> {
    let tasks = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(tasks).unwrap_or_default();
    children.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Whether a process is gone, or ended and not yet noticed by whoever inherited it.
#[cfg(target_os = "linux")]
fn has_ended(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with(['Z', 'X']))
}

#[cfg(target_os = "linux")]
#[test]
fn control_c_ends_the_server_and_removes_the_folder() {
    let folder = Folder::new("interrupted");
    let mut child = interrupted(&folder);
    let servers = children_of(child.id());
    assert_eq!(servers.len(), 1);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(has_ended(servers[0]));
    assert_eq!(folder.left_behind(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_server_ends_even_when_the_demo_is_killed() {
    let folder = Folder::new("killed");
    let mut child = interrupted(&folder);
    let servers = children_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| has_ended(servers[0]));
}

/// Nobody else may read anything in a folder.
#[cfg(target_os = "linux")]
fn expect_private(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        // It may be gone again.
        if let Ok(found) = entry.metadata() {
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077,
                0,
                "others may read {}",
                entry.path().display()
            );
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_benchmark_shows_its_model_to_nobody_and_leaves_nothing_behind() {
    let folder = Folder::new("bench");
    let temporary = folder.0.join("temporary");
    let network = ["resnet20:m=4", "--input", "16", "--classes", "10"];
    let ways: [&[&str]; 2] =
        [&["private", "--repeat", "100000"], &["load", "--clients", "300", "--running", "1"]];
    for way in ways {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sordino"));
        command.args(["bench", way[0]]).args(network).args(&way[1..]).env("TMPDIR", &temporary);
        let mut bench = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let bench = &mut bench.0;
        let mut servers = Vec::new();
        wait_until(|| {
            expect_private(&temporary);
            servers = children_of(bench.id());
            !servers.is_empty()
        });
        for _ in 0..100 {
            expect_private(&temporary);
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(bench.try_wait().unwrap(), None, "it is in the middle of its work");
        let id = rustix::process::Pid::from_child(bench);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        assert!(!bench.wait().unwrap().success());
        assert_eq!(folder.left_behind(), 0, "files are left behind by {way:?}");
        wait_until(|| servers.iter().all(|server| !Path::new(&format!("/proc/{server}")).exists()));
    }
}
