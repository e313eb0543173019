//! `sordino serve` and `sordino classify` as a user runs them: two processes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use support::tiny_model;

fn sordino() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sordino"))
}

struct Folder(PathBuf);

impl Folder {
    /// A folder with a model and three images.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sordino-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("images")).unwrap();
        let names = (0..10).map(|class| format!("kind {class}")).collect();
        tiny_model(1).with_class_names(names).unwrap().save(&folder.join("tiny.sordino")).unwrap();
        for number in 0..3_u8 {
            let pixels =
                image::RgbImage::from_fn(20, 16, |x, y| image::Rgb([x as u8 * 9, y as u8 * 9, number * 90]));
            pixels.save(folder.join(format!("images/{number}.png"))).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server {
    child: Child,
    address: String,
    fingerprint: String,
}

impl Server {
    fn start(folder: &Folder, flags: &[&str]) -> Self {
        let mut child = sordino()
            .arg("serve")
            .arg(folder.path("tiny.sordino"))
            .args(["--listen", "127.0.0.1:0", "--state"])
            .arg(folder.path("state"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |key: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(key).unwrap_or_else(|| panic!("{line:?} begins with {key}")).trim().to_owned()
        };
        let address = value("listening");
        assert_eq!(value("models"), "tiny");
        value("reveals");
        let fingerprint = value("fingerprint");
        Self { child, address, fingerprint }
    }

    fn classify(&self, images: &Path, flags: &[&str]) -> Output {
        sordino().arg("classify").arg(images).args(["--server", &self.address]).args(flags).output().unwrap()
    }

    /// Ends it as systemd does; gives its exit code and log.
    fn stop(mut self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What the system says of a running server. Unlimited locking is asked for and granted to some users only.
#[test]
#[cfg(target_os = "linux")]
fn a_server_leaves_no_core_dump_and_stays_out_of_swap_where_it_may() {
    let folder = Folder::new("memory");
    let server = Server::start(&folder, &[]);
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", server.child.id())).unwrap();
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let limits = read("limits");
    assert_eq!(value(&limits, "Max core file size"), "0");
    let may_lock = value(&limits, "Max locked memory") == "unlimited";
    let is_locked = value(&read("status"), "VmLck:") != "0";
    let (_, log) = server.stop();
    assert_eq!(log.contains("memory locked"), is_locked, "{log}");
    assert!(!is_locked || may_lock, "{limits}");
    assert!(log.contains("no core dumps"), "{log}");
}

#[test]
fn a_folder_of_images_is_classified_and_the_server_ends_cleanly() {
    let folder = Folder::new("two-terminals");
    let server = Server::start(&folder, &["--log-json"]);
    let output = server.classify(&folder.path("images"), &["--fingerprint", &server.fingerprint, "--json"]);
    let notes = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains("3 images") && notes.contains("Mb/s") && notes.contains("at least"), "{notes}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let images = report["images"].as_array().unwrap();
    assert_eq!(images.len(), 3);
    for image in images {
        let best = image["best"].as_array().unwrap();
        assert_eq!(best.len(), 5);
        assert!(best[0]["name"].as_str().unwrap().starts_with("kind "));
        assert!(best[0]["logit"].as_f64().unwrap() >= best[4]["logit"].as_f64().unwrap());
    }
    // The commitment stays the same, so that a client can insist on it; another is refused.
    let weights = report["weight_commitment"].as_str().unwrap();
    let first = folder.path("images/0.png");
    let expect = |digest: &str| {
        server.classify(&first, &["--fingerprint", &server.fingerprint, "--expect-weights", digest])
    };
    assert_eq!(expect(weights).status.code(), Some(0));
    let refused = expect(&"0".repeat(64));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("the server's model is another"));
    let fingerprint = server.fingerprint.clone();
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["level"].is_string(), "{line}");
    }
    assert!(log.contains("\"images\":3") && log.contains("all clients are gone"), "{log}");
    let again = Server::start(&folder, &["--reveal", "class"]);
    assert_eq!(again.fingerprint, fingerprint, "the identity survives");
    let output = again.classify(&first, &["--fingerprint", &fingerprint]);
    let answer = text(&output.stdout);
    assert!(answer.contains("  kind ") && answer.contains("reveals the class alone"), "{answer}");
}

#[test]
fn nobody_is_trusted_silently_and_mistakes_are_sentences() {
    let folder = Folder::new("trust");
    let server = Server::start(&folder, &[]);
    let image = folder.path("images/0.png");
    let refusal = |flags: &[&str], image: &Path| {
        let output = server.classify(image, flags);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    let stranger = refusal(&[], &image);
    assert!(stranger.contains(&format!("--fingerprint {}", server.fingerprint)), "{stranger}");
    let other = refusal(&["--fingerprint", &"0".repeat(64)], &image);
    assert!(other.contains("ask the operator"), "{other}");
    let known = ["--fingerprint", server.fingerprint.as_str()];
    let model = refusal(&[&known[..], &["--model", "brain"]].concat(), &image);
    assert!(model.contains("there is no model brain here; choose with --model one of tiny"), "{model}");
    let memory = refusal(&[&known[..], &["--max-memory", "10K"]].concat(), &image);
    assert!(memory.contains("raise the limit"), "{memory}");
    let missing = refusal(&known, &folder.path("nothing.png"));
    assert!(missing.contains("is no file and no folder"), "{missing}");
    let wrong = sordino()
        .args(["serve", "none.sordino", "--listen", "127.0.0.1:0", "--state"])
        .arg(&folder.0)
        .output();
    let wrong = wrong.unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("none.sordino is not usable"));
}

#[test]
fn the_packaged_configuration_is_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/serve.toml");
    let config = sordino::service::config::Config::load(&path).unwrap();
    assert_eq!(config.reveal.as_deref(), Some("class"));
    assert!(config.models.contains_key("chest"));
}
