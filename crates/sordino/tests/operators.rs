//! What operators and their users do with running processes: new certificates and models, folders of images, quotas,
//! Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sordino::client::{ClientError, ConnectOptions, PrivateClient};
use sordino::inference::client::Answer;
use sordino::inference::connection::{CertifiedKey, Trust};
use sordino::network::image::Image;
use sordino::network::inference_model::InferenceModel;
use sordino::network::reference::bound::{self, ReluRounding};

use support::processes::{Ended, Folder, Server, sordino, text};
use support::tiny_model;

/// Who takes longer hangs.
const HANGS: Duration = Duration::from_secs(120);

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANGS, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A certificate for `localhost` and its key, as PEM.
fn certificate(not_after: (i32, u8, u8)) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(not_after.0, not_after.1, not_after.2);
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Writes a secret as its owner should.
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn flags<'a>(cert: &'a Path, key: &'a Path) -> [&'a str; 4] {
    ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()]
}

/// What a server logs, as it comes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn of(server: &mut Server) -> Self {
        let log = Self::default();
        let (lines, noted) = (BufReader::new(server.child.stderr.take().unwrap()).lines(), log.clone());
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                noted.0.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        log
    }

    fn count(&self, word: &str) -> usize {
        self.0.lock().unwrap().lines().filter(|line| line.contains(word)).count()
    }

    fn wait_for(&self, word: &str, count: usize) {
        wait_until(&format!("{count} times {word:?}"), || self.count(word) >= count);
    }
}

fn connect(server: &Server, fingerprint: &str) -> Result<PrivateClient, ClientError> {
    let trust = Trust::Fingerprint(fingerprint.parse().unwrap());
    PrivateClient::connect(&server.address, ConnectOptions::new(trust))
}

/// As far as rounding allows.
fn is_answer_of(model: &InferenceModel, answer: &Answer, image: &Image) -> bool {
    let Answer::Logits(logits) = answer else { panic!("logits were asked for") };
    bound::allows(model, image, logits, ReluRounding::Stochastic).unwrap()
}

#[test]
fn a_signal_brings_new_certificates_and_models_and_drops_no_session() {
    let folder = Folder::new("reload");
    let (cert, key, model) = (folder.path("chain.pem"), folder.path("key.pem"), folder.path("tiny.sordino"));
    let pems = [certificate((2090, 1, 1)), certificate((2091, 1, 1))];
    let fingerprints = pems.clone().map(|(chain, key)| {
        CertifiedKey::from_pem(chain.as_bytes(), key.as_bytes()).unwrap().fingerprint().to_string()
    });
    let install = |(chain, own): &(String, String)| {
        write(&cert, chain);
        write(&key, own);
    };
    install(&pems[0]);
    let mut server = Server::start(&folder, &flags(&cert, &key));
    let log = Log::of(&mut server);
    assert_eq!(server.fingerprint, fingerprints[0]);
    let image = Image::random(tiny_model(1).outline().input, 1);
    let mut early = connect(&server, &fingerprints[0]).unwrap();
    early.prepare(1).unwrap();

    install(&pems[1]);
    tiny_model(2).save(&model).unwrap();
    signal(&server.child, Signal::HUP);
    log.wait_for("reloaded; sessions under way", 1);
    // Who was there before goes on with what it had, and may begin anew with it.
    for _ in 0..2 {
        assert!(is_answer_of(&tiny_model(1), &early.classify(&image).unwrap(), &image));
    }
    let mut late = connect(&server, &fingerprints[1]).unwrap();
    assert!(is_answer_of(&tiny_model(2), &late.classify(&image).unwrap(), &image));
    assert!(connect(&server, &fingerprints[0]).is_err(), "the old certificate is shown no more");

    // Files that cannot be used change nothing.
    std::fs::write(&model, "no model").unwrap();
    signal(&server.child, Signal::HUP);
    log.wait_for("not reloaded", 1);
    tiny_model(1).save(&model).unwrap();
    write(&key, &pems[0].1);
    signal(&server.child, Signal::HUP);
    log.wait_for("not reloaded", 2);
    assert_eq!(
        (log.count("tiny.sordino is not usable"), log.count("is not that of the certificate")),
        (1, 1)
    );
    let mut later = connect(&server, &fingerprints[1]).unwrap();
    assert!(is_answer_of(&tiny_model(2), &later.classify(&image).unwrap(), &image));

    // Certificates alone: the models are not read into memory twice.
    install(&pems[0]);
    signal(&server.child, Signal::HUP);
    log.wait_for("reloaded; sessions under way", 2);
    let mut last = connect(&server, &fingerprints[0]).unwrap();
    assert!(is_answer_of(&tiny_model(1), &last.classify(&image).unwrap(), &image));
    drop((early, late, later, last));
    let (code, _) = server.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn a_key_of_another_certificate_and_an_old_certificate_are_said_at_the_start() {
    let folder = Folder::new("certificates");
    let (cert, key) = (folder.path("chain.pem"), folder.path("key.pem"));
    let (chain, own) = certificate((2021, 1, 1));
    write(&cert, &chain);
    write(&key, &certificate((2090, 1, 1)).1);
    let mut command = sordino();
    command.arg("serve").arg(folder.path("tiny.sordino")).args(["--listen", "127.0.0.1:0", "--state"]);
    let output = command.arg(folder.path("state")).args(flags(&cert, &key)).output().unwrap();
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("chain.pem and ") && words.contains("key.pem are not usable"), "{words}");
    assert!(words.contains("the private key is not that of the certificate"), "{words}");
    assert!(!words.contains("peer"), "{words}");

    write(&key, &own);
    let (code, log) = Server::start(&folder, &flags(&cert, &key)).stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("WARN") && log.contains("the certificate has expired"), "{log}");
}

/// What a server says that does not start with these flags.
fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = sordino();
    command.arg("serve").arg(folder.path("tiny.sordino")).args(["--listen", "127.0.0.1:0", "--state"]);
    let mut child = command
        .arg(folder.path("state"))
        .args(arguments)
        .arg("--until-stdin-ends")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{words}");
    words
}

#[test]
fn settings_under_which_nobody_is_served_are_refused() {
    let folder = Folder::new("zeros");
    let file = folder.path("serve.toml");
    for (setting, why) in [("max-clients", "no client could connect"), ("timeout", "no client is that fast")]
    {
        std::fs::write(&file, format!("{setting} = 0\n")).unwrap();
        let flag = format!("--{setting}");
        for arguments in [&["--config", file.to_str().unwrap()][..], &[&flag, "0"]] {
            let words = refused(&folder, arguments);
            assert!(words.contains(&format!("{setting} is 0: {why}")), "{words}");
        }
    }
}

#[test]
fn answers_in_plain_are_refused_where_clients_need_certificates() {
    let folder = Folder::new("compared");
    let (file, own) = (folder.path("serve.toml"), certificate((2100, 1, 1)));
    let authority = folder.path("clients.pem");
    std::fs::write(&authority, own.0).unwrap();
    std::fs::write(&file, format!("client-ca = {authority:?}\n")).unwrap();
    let page = ["--web", "127.0.0.1:0", "--web-compare"];
    let told = [["--client-ca", authority.to_str().unwrap()], ["--config", file.to_str().unwrap()]];
    for told in told {
        let words = refused(&folder, &[&page[..], &told].concat());
        assert!(words.contains("--web-compare") && words.contains("--client-ca"), "{words}");
    }
}

fn images(folder: &Folder, count: usize) -> PathBuf {
    let many = folder.path("many");
    std::fs::create_dir_all(&many).unwrap();
    for number in 0..count {
        std::fs::copy(folder.path("images/0.png"), many.join(format!("{number:03}.png"))).unwrap();
    }
    many
}

#[test]
fn answers_are_printed_as_they_come_and_stay_when_the_server_dies() {
    let folder = Folder::new("as-they-come");
    let many = images(&folder, 1600);
    for form in ["--json-lines", "--json"] {
        let mut server = Server::start(&folder, &[]);
        let mut command = server.client("classify");
        command.arg(&many).args(["--fingerprint", &server.fingerprint, "--timeout", "20", form]);
        let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(client.stdout.take().unwrap());
        let mut said = String::new();
        if form == "--json-lines" {
            // The first answer is here while most images wait.
            output.read_line(&mut said).unwrap();
        } else {
            let mut line = String::new();
            let mut notes = BufReader::new(client.stderr.as_mut().unwrap());
            while !line.contains("1,600 images") {
                line.clear();
                notes.read_line(&mut line).unwrap();
            }
            thread::sleep(Duration::from_millis(1500));
        }
        server.kill();
        output.read_to_string(&mut said).unwrap();
        let mut words = String::new();
        client.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(client.wait().unwrap().code(), Some(2), "{words}");
        assert!(words.contains("of 1600 images were classified"), "{words}");
        let answers: Vec<Value> = match form {
            "--json" => {
                let report: Value = serde_json::from_str(&said).unwrap();
                assert!(report["failure"].as_str().unwrap().contains("peer"), "{report}");
                report["images"].as_array().unwrap().clone()
            }
            _ => said.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        };
        assert!(words.contains(&format!("{} of 1600", answers.len())), "{} answers, {words}", answers.len());
        assert!(form == "--json" || (16..1600).contains(&answers.len()), "{} answers", answers.len());
        assert!(answers.iter().all(|image| image["best"].as_array().unwrap().len() == 5));
    }
}

const NO_QUOTAS: [&str; 4] = ["--preparations-per-hour", "0", "--answers-per-hour", "0"];

#[test]
fn a_client_that_is_interrupted_says_what_is_known() {
    let folder = Folder::new("interrupted");
    let many = images(&folder, 1600);
    let server = Server::start(&folder, &[&NO_QUOTAS[..], &["--prepared-per-client", "100000"]].concat());
    let (key, file) = (folder.path("key"), folder.path("tonight.prepared"));
    let interrupted = |command: &mut Command, sign: &str, by: Signal| {
        command.args(["--fingerprint", &server.fingerprint]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = Ended(command.spawn().unwrap());
        let mut notes = BufReader::new(client.0.stderr.take().unwrap());
        let mut words = String::new();
        while !words.contains(sign) {
            assert_ne!(notes.read_line(&mut words).unwrap(), 0, "{words}");
        }
        thread::sleep(Duration::from_millis(1000));
        signal(&client.0, by);
        let mut said = String::new();
        client.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        notes.read_to_string(&mut words).unwrap();
        (client.0.wait().unwrap().code(), said, words)
    };
    for number in [Signal::INT, Signal::TERM] {
        let mut command = server.client("classify");
        let (code, said, words) = interrupted(command.arg(&many).arg("--json"), "1,600 images", number);
        assert_eq!(code, Some(2), "{words}");
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["failure"], "stopped by Ctrl-C or SIGTERM");
        let known = report["images"].as_array().unwrap().len();
        assert!((1..1600).contains(&known) && words.contains(&format!("{known} of 1600")), "{words}");
    }
    let mut command = server.client("prepare");
    command.args(["-n", "4000", "--key-file"]).arg(&key).arg("-o").arg(&file);
    let (code, _, words) = interrupted(&mut command, "of disk here", Signal::INT);
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("of 4,000 inferences are in") && words.contains("can be used"), "{words}");
    let mut command = server.client("classify");
    command.arg(folder.path("images/0.png")).args(["--fingerprint", &server.fingerprint, "--key-file"]);
    let output = command.arg(&key).arg("--prepared").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (_, log) = server.stop();
    assert!(!log.contains("the session broke"), "{log}");
}

#[test]
fn a_second_interrupt_ends_a_client_at_once() {
    let folder = Folder::new("twice");
    let server = Server::start(&folder, &NO_QUOTAS);
    let mut command = server.client("classify");
    command.arg(images(&folder, 1600)).args(["--fingerprint", &server.fingerprint]);
    let mut client = Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut notes = BufReader::new(client.0.stderr.take().unwrap());
    let mut words = String::new();
    while !words.contains("1,600 images") {
        assert_ne!(notes.read_line(&mut words).unwrap(), 0, "{words}");
    }
    thread::sleep(Duration::from_millis(500));
    // So that nothing under way comes to its end.
    signal(&server.child, Signal::STOP);
    thread::sleep(Duration::from_millis(200));
    signal(&client.0, Signal::INT);
    while !words.contains("once more stops at once") {
        assert_ne!(notes.read_line(&mut words).unwrap(), 0, "{words}");
    }
    signal(&client.0, Signal::TERM);
    assert_eq!(client.0.wait().unwrap().code(), Some(128 + Signal::TERM.as_raw()));
}

#[test]
fn a_silent_server_is_waited_for_as_long_as_was_said() {
    let folder = Folder::new("silent");
    let server = Server::start(&folder, &NO_QUOTAS);
    let mut command = server.client("classify");
    command.arg(images(&folder, 1600)).args(["--fingerprint", &server.fingerprint, "--timeout", "1"]);
    let mut client = Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut notes = BufReader::new(client.0.stderr.take().unwrap());
    let mut words = String::new();
    while !words.contains("1,600 images") {
        assert_ne!(notes.read_line(&mut words).unwrap(), 0, "{words}");
    }
    signal(&server.child, Signal::STOP);
    notes.read_to_string(&mut words).unwrap();
    assert_eq!(client.0.wait().unwrap().code(), Some(2), "{words}");
    assert!(words.contains("silent for 1 second, or slower than") && words.contains("--timeout"), "{words}");
}

#[test]
fn a_server_that_takes_few_images_at_once_answers_a_folder() {
    let folder = Folder::new("batches");
    let many = images(&folder, 20);
    let server = Server::start(&folder, &["--max-prepared", "3"]);
    let known = ["--fingerprint", server.fingerprint.as_str(), "--json"];
    let output = server.classify(&many, &known);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("goes on with 2 at a time"), "{words}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["images"].as_array().unwrap().len(), 20);
    // Who knows it asks for no more.
    let output = server.classify(&many, &[&known[..], &["--batch", "3"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stderr).contains("at a time"));
    let (_, log) = server.stop();
    assert_eq!(log.lines().filter(|line| line.contains("use some first")).count(), 3, "{log}");
    // One at a time is the least.
    let server = Server::start(&folder, &["--answers-per-hour", "5", "--store", "none"]);
    let known = ["--fingerprint", server.fingerprint.as_str(), "--json"];
    let output = server.classify(&many, &known);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("5 of 20 images were classified") && words.contains("in an hour"), "{words}");
}

#[test]
fn a_client_has_a_key_of_its_own_and_opens_what_an_earlier_one_sealed() {
    let folder = Folder::new("own-key");
    let server = Server::start(&folder, &[]);
    let home = folder.path("home");
    let run = |arguments: &[&str], file: &Path| {
        let mut command = sordino();
        command.args(arguments).arg(file).env("HOME", &home).env_remove("XDG_STATE_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let prepare = ["prepare", "--server", &server.address, "--fingerprint", &server.fingerprint];
    let (early, late) = (folder.path("early"), folder.path("late"));
    run(&[&prepare[..], &["-o"]].concat(), &early);
    let key = home.join(".local/state/sordino/client-prepared.key");
    // As it was called when servers and clients shared it.
    std::fs::rename(&key, key.with_file_name("prepared.key")).unwrap();
    run(&["prepared", "list"], &early);
    assert!(!key.exists());
    run(&[&prepare[..], &["-o"]].concat(), &late);
    assert!(key.exists());
    for file in [&early, &late] {
        run(&["prepared", "list"], file);
        run(&["prepared", "discard", "--local-only"], file);
    }
}

#[test]
fn bad_images_are_named_or_skipped_and_counted() {
    let folder = Folder::new("skip-bad");
    std::fs::write(folder.path("images/bad.png"), "no image").unwrap();
    let photograph = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/photographs/apple.jpg");
    let photograph = std::fs::read(photograph).unwrap();
    std::fs::write(folder.path("images/whole.jpg"), &photograph).unwrap();
    std::fs::write(folder.path("images/cut.jpg"), &photograph[..photograph.len() / 2]).unwrap();
    let server = Server::start(&folder, &[]);
    let classify = |more: &[&str]| {
        let known = ["--fingerprint", server.fingerprint.as_str()];
        server.classify(&folder.path("images"), &[&known[..], more].concat())
    };
    let output = classify(&[]);
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words}");
    assert!(words.contains("2 of 6 images cannot be used; --skip-bad passes over such:\n  "), "{words}");
    let lines: Vec<_> = words.lines().skip_while(|line| !line.contains("2 of 6")).skip(1).collect();
    assert_eq!(lines.len(), 2, "{words}");
    assert!(
        lines[0].contains("bad.png is not usable: ") && lines[1].contains("cut.jpg is not usable: "),
        "{words}"
    );
    let output = classify(&["--skip-bad", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["images"].as_array().unwrap().len(), 4);
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2);
    assert!(skipped.iter().all(|image| image["error"].as_str().unwrap().contains("is not usable")));
    let output = classify(&["--skip-bad"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).ends_with("2 of 6 images could not be used and were skipped.\n"));
}

#[test]
fn preparing_asks_first_and_what_is_discarded_frees_the_quota() {
    let folder = Folder::new("quota");
    let server = Server::start(&folder, &["--prepared-per-client", "3"]);
    let key = ["--key-file".to_owned(), folder.path("key").to_str().unwrap().to_owned()];
    let run = |verb: &[&str], more: &[&str]| -> Output {
        let mut command = sordino();
        command.args(verb).args(["--server", &server.address, "--fingerprint", &server.fingerprint]);
        command.args(&key).args(more).output().unwrap()
    };
    let file = folder.path("tonight.prepared");
    let path = file.to_str().unwrap();
    let refused = |count: &str| {
        let output = run(&["prepare", "-n", count], &["-o", path]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert!(!file.exists());
        text(&output.stderr)
    };
    let words = refused("5");
    assert!(words.contains("the server takes 3 more") && words.contains("of disk here"), "{words}");
    assert!(refused("0").contains("0 is not in 1.."));
    let output = run(&["prepare", "-n", "2"], &["-o", path]);
    let words = text(&output.stderr);
    assert!(output.status.success() && words.contains("the server has 0 of yours, takes 3 more"), "{words}");

    let list = |more: &[&str]| -> Value {
        let mut command = sordino();
        let output = command.args(["prepared", "list", "--json"]).args(&key).args(more).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let here = list(&[folder.0.to_str().unwrap()]);
    assert_eq!(
        (here.as_array().unwrap().len(), &here[0]["left"], &here[0]["expired"]),
        (1, &2.into(), &0.into())
    );
    assert_eq!((&here[0]["model"], &here[0]["at_server"]), (&"tiny".into(), &Value::Null));
    let there = ["--server", &server.address, "--fingerprint", &server.fingerprint, path];
    assert_eq!(list(&there)[0]["at_server"], 2);
    // One is used: it is gone on both sides.
    let image = folder.path("images/0.png");
    let output = run(&["classify", image.to_str().unwrap()], &["--prepared", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((&list(&there)[0]["left"], &list(&there)[0]["at_server"]), (&1.into(), &1.into()));

    // One that cannot be read hides no other.
    write(&folder.path("broken.prepared"), &text(&std::fs::read(&file).unwrap()[..8]).repeat(20));
    let mut command = sordino();
    command.args(["prepared", "list", folder.0.to_str().unwrap()]).args(&key);
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tonight.prepared") && said.contains("format version"), "{said}");
    let listed: Value = serde_json::from_slice(&command.arg("--json").output().unwrap().stdout).unwrap();
    assert!(listed[0]["error"].as_str().unwrap().contains("format version"), "{listed}");
    assert_eq!((&listed[0]["left"], &listed[1]["left"]), (&Value::Null, &1.into()));
    std::fs::remove_file(folder.path("broken.prepared")).unwrap();

    // A key is made to prepare alone.
    let other = folder.path("other.key");
    for verb in ["list", "discard"] {
        let mut command = sordino();
        let output = command.args(["prepared", verb, path, "--key-file"]).arg(&other).output().unwrap();
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains("there is no key at") && words.contains("`sordino prepare` made"), "{words}");
        assert!(!other.exists());
    }

    // A copy is as good as the file to be rid of it.
    let copy = folder.path("copy");
    std::fs::rename(&file, &copy).unwrap();
    assert!(refused("3").contains("the server takes 2 more"));
    let output = run(&["prepared", "discard", copy.to_str().unwrap()], &[]);
    let said = text(&output.stdout);
    assert!(said.contains("1 inference is gone here, 1 at the server"), "{said} {}", text(&output.stderr));
    assert!(!copy.exists());
    let output = run(&["prepare", "-n", "3"], &["-o", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Without a server the file alone goes.
    let mut command = sordino();
    let output = command.args(["prepared", "discard", "--local-only", path]).args(&key).output().unwrap();
    assert!(text(&output.stdout).contains("3 inferences are gone here"), "{}", text(&output.stderr));
    assert!(refused("1").contains("the server takes 0 more"));
}
