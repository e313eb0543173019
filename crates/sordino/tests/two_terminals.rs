//! `sordino serve` and `sordino classify` as a user runs them: two processes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use support::processes::{Folder, Server, sordino, text};

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
    assert!(notes.contains("tiny: 3 images: ") && notes.contains(" s and the link\n"), "{notes}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let images = report["images"].as_array().unwrap();
    assert_eq!(images.len(), 3);
    for image in images {
        let best = image["best"].as_array().unwrap();
        assert_eq!(best.len(), 5);
        assert!(best[0]["name"].as_str().unwrap().starts_with("kind "));
        assert!(best[0]["logit"].as_f64().unwrap() >= best[4]["logit"].as_f64().unwrap());
        let probabilities: Vec<_> = best.iter().map(|guess| guess["probability"].as_f64().unwrap()).collect();
        assert!(probabilities.is_sorted_by(|more, less| more >= less), "{probabilities:?}");
        assert!(probabilities[0] >= 0.1 && probabilities.iter().sum::<f64>() < 1.0, "{probabilities:?}");
    }
    let output = server.classify(&folder.path("images"), &["--fingerprint", &server.fingerprint]);
    let answers = text(&output.stdout);
    assert!(answers.starts_with("  probability     logit  class\n"), "{answers}");
    assert_eq!(answers.matches("%  ").count(), 3 * 5, "{answers}");
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

/// A terminal: what programs write to, and where it can be read.
fn terminal() -> (File, File) {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&reader).unwrap();
    unlockpt(&reader).unwrap();
    let name = ptsname(&reader, Vec::new()).unwrap().into_string().unwrap();
    (OpenOptions::new().read(true).write(true).open(name).unwrap(), File::from(reader))
}

#[test]
fn on_a_terminal_answers_have_lines_of_their_own() {
    let folder = Folder::new("terminal");
    let server = Server::start(&folder, &[]);
    let (terminal, mut reader) = terminal();
    let mut command = server.client("classify");
    command.arg(folder.path("images")).args(["--fingerprint", &server.fingerprint]).env("TERM", "xterm");
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut client = command.spawn().unwrap();
    // The command holds the terminal, too, whose end is that of its last holder.
    drop(command);
    let mut said = Vec::new();
    // Linux says that a terminal is gone by an error.
    let _ = reader.read_to_end(&mut said);
    assert!(client.wait().unwrap().success());
    let said = text(&said);
    assert!(said.contains("offline "), "a bar was shown: {said:?}");
    // Each bar wipes the line; what is left of a line when it ends is no bar.
    for line in said.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let shown = line.rsplit("\u{1b}[2K").next().unwrap();
        assert!(!shown.contains(" left  "), "{line:?}");
    }
    assert_eq!(said.matches(".png\r\n").count(), 3, "{said:?}");
}

#[test]
fn files_whose_names_are_no_text_are_answered_in_whole_documents() {
    let folder = Folder::new("names");
    let server = Server::start(&folder, &[]);
    let name = OsStr::from_bytes(b"n\xffme");
    let (image, prepared) = (folder.0.join(name).with_extension("png"), folder.0.join(name));
    std::fs::copy(folder.path("images/0.png"), &image).unwrap();
    let said = |command: &mut Command| {
        let output = command.arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let known = ["--fingerprint", server.fingerprint.as_str()];
    let key = folder.path("key");
    let report = said(server.client("classify").arg(&image).args(known));
    assert!(report["images"][0]["file"].as_str().unwrap().ends_with("n\u{fffd}me.png"), "{report}");
    let output = server.classify(&image, &[known[0], known[1], "--json-lines"]);
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "{}", text(&output.stderr));
    let report =
        said(server.client("prepare").args(known).arg("-o").arg(&prepared).arg("--key-file").arg(&key));
    assert!(report["file"].as_str().unwrap().ends_with("n\u{fffd}me"), "{report}");
    for verb in [&["list"][..], &["discard", "--local-only"]] {
        let report = said(sordino().arg("prepared").args(verb).arg(&prepared).arg("--key-file").arg(&key));
        assert!(report[0]["file"].as_str().unwrap().ends_with("n\u{fffd}me"), "{report}");
    }
}

#[test]
fn a_name_cannot_command_the_terminal() {
    let folder = Folder::new("escapes");
    let server = Server::start(&folder, &[]);
    let known = ["--fingerprint", server.fingerprint.as_str(), "--skip-bad"];
    std::fs::copy(folder.path("images/0.png"), folder.path("images/\u{1b}[2J\nok.png")).unwrap();
    std::fs::write(folder.path("images/\u{1b}[2Jbad.png"), "no image").unwrap();
    let output = server.classify(&folder.path("images"), &known);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let (said, notes) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("\u{fffd}[2J\u{fffd}ok.png\n") && notes.contains("\u{fffd}[2Jbad.png"), "{said}");
    assert!(!said.contains('\u{1b}') && !notes.contains('\u{1b}'));
    let (file, key) = (folder.path("\u{1b}[2Jtonight"), folder.path("key"));
    let mut command = server.client("prepare");
    command.args(&known[..2]).arg("-o").arg(&file).arg("--key-file").arg(&key);
    let prepared = command.output().unwrap();
    let listed =
        sordino().args(["prepared", "list"]).arg(&file).arg("--key-file").arg(&key).output().unwrap();
    for output in [prepared, listed] {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("\u{fffd}[2Jtonight") && !output.stdout.contains(&0x1b));
    }
}

#[test]
fn what_a_model_sends_every_client_once_is_kept() {
    let folder = Folder::new("cache");
    let server = Server::start(&folder, &[]);
    let (image, cache) = (folder.path("images/0.png"), folder.path("cache"));
    let ask = |server: &Server, flags: &[&str]| {
        let output = server
            .classify(&image, &[&["--fingerprint", server.fingerprint.as_str(), "--json"], flags].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        ["bytes_up", "bytes_down", "predicted_bytes"].map(|name| report[name].as_u64().unwrap())
    };
    let keeping = ["--cache", cache.to_str().unwrap()];
    let first = ask(&server, &keeping);
    let again = ask(&server, &keeping);
    assert_eq!(again[0], first[0]);
    assert!(again[1] < first[1], "{again:?} {first:?}");
    assert_eq!(first[2] - again[2], first[1] - again[1], "it was foreseen");
    assert_eq!(ask(&server, &["--no-cache"]), first);
    // What is damaged is fetched again, and mended.
    let kept = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&kept, b"something else").unwrap();
    assert_eq!((ask(&server, &keeping), ask(&server, &keeping)), (first, again));
    // The server's folder has the salt, so a restart changes nothing.
    server.stop();
    assert_eq!(ask(&Server::start(&folder, &[]), &keeping), again);
}

#[test]
fn a_cache_of_no_use_is_said_once_and_costs_no_answer() {
    let folder = Folder::new("no-cache");
    let server = Server::start(&folder, &[]);
    let image = folder.path("images/0.png");
    let file = folder.path("images/1.png");
    let flags = ["--fingerprint", &server.fingerprint, "--cache", file.to_str().unwrap()];
    let output = server.classify(&image, &flags);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("1.png is no folder; --cache takes one"), "{words}");
    // Files may have half a kilobyte.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_sordino"), "classify"]);
    command.arg(&image).args(["--server", &server.address, "--fingerprint", &server.fingerprint, "--cache"]);
    let output = command.arg(folder.path("cache")).output().unwrap();
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(words.matches("note: nothing can be kept in").count(), 1, "{words}");
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
    let memory = refusal(&[&known[..], &["--max-memory", "1"]].concat(), &image);
    assert!(memory.contains("raise --max-memory"), "{memory}");
    let key = folder.path("key");
    std::fs::write(&key, "0".repeat(64)).unwrap();
    rustix::fs::chmod(&key, rustix::fs::Mode::RUSR).unwrap();
    let prepared = ["--key-file", key.to_str().unwrap(), "--prepared", image.to_str().unwrap()];
    let other = refusal(&[&known[..], &prepared].concat(), &image);
    assert!(other.contains("is no file of prepared inferences; expected one that"), "{other}");
    let missing = refusal(&known, &folder.path("nothing.png"));
    assert!(missing.contains("does not exist"), "{missing}");
    let wrong = sordino()
        .args(["serve", "none.sordino", "--listen", "127.0.0.1:0", "--state"])
        .arg(&folder.0)
        .output();
    let wrong = wrong.unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("none.sordino is not usable"));
}

#[test]
fn who_wants_other_relus_or_another_model_is_told_so_on_both_sides() {
    let folder = Folder::new("relus");
    let image = folder.path("images/0.png");
    for (served, asked, why) in [
        ("exact", "fast", "the server rounds ReLUs to nearest, this client expects by shares"),
        ("fast", "exact", "the server rounds ReLUs by shares, this client expects to nearest"),
    ] {
        let server = Server::start(&folder, &["--relu", served]);
        let known = ["--fingerprint", server.fingerprint.as_str()];
        let refused = |flags: &[&str]| {
            let output = server.classify(&image, &[&known[..], flags].concat());
            assert_eq!(output.status.code(), Some(2));
            text(&output.stderr)
        };
        let words = refused(&["--relu", asked]);
        assert!(words.contains(why) && words.contains("ask without --relu"), "{words}");
        refused(&["--expect-weights", &"0".repeat(64)]);
        refused(&["--max-memory", "10K"]);
        let (_, log) = server.stop();
        for reason in [why, "expects another model", "needs more memory than this client gives"] {
            assert!(log.contains(reason), "{reason}: {log}");
        }
        assert!(!log.contains("this side failed"), "{log}");
    }
}

#[test]
fn the_packaged_configuration_is_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/serve.toml");
    let settings = sordino::service::Settings::load(&path).unwrap();
    assert_eq!(settings.reveal, Some(sordino::service::settings::Revealed::Class));
    assert!(settings.models.contains_key("chest"));
}
