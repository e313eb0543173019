//! What whoever errs is told: wrong certificates, keys, models, sizes and sets of images, each with what to do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use support::processes::{Folder, Server, sordino, text};
use support::scratch::ScratchFolder;

/// A certificate for `localhost` and its key, as PEM.
fn certificate(is_ca: rcgen::IsCa) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.is_ca = is_ca;
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Writes a secret as its owner should.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// What a command says on stderr that ends with this exit code.
fn words(command: &mut Command, code: i32) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words}");
    words
}

fn refusal(command: &mut Command) -> String {
    words(command, 2)
}

#[test]
fn an_authoritys_own_certificate_is_warned_of_and_the_client_hears_what_to_do() {
    let folder = Folder::new("authority");
    let (cert, key) = (folder.path("chain.pem"), folder.path("key.pem"));
    let (chain, own) = certificate(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    write(&cert, &chain);
    write(&key, &own);
    let server = Server::start(&folder, &["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let image = folder.path("images/0.png");
    let mut command = sordino();
    command.args(["classify", "--server", &format!("localhost:{port}"), "--ca"]).arg(&cert).arg(&image);
    let said = refusal(&mut command);
    assert!(said.contains("an authority's own (CA:TRUE)") && said.contains("--fingerprint"), "{said}");
    assert!(!said.contains("speaks something else"), "{said}");
    let pinned = server.classify(&image, &["--fingerprint", &server.fingerprint]);
    assert_eq!(pinned.status.code(), Some(0), "{}", text(&pinned.stderr));
    // What is no certificate is named.
    let said = refusal(server.client("classify").arg(&image).args(["--ca", "/etc/passwd"]));
    assert!(said.contains("/etc/passwd is not usable"), "{said}");
    let (_, log) = server.stop();
    assert!(log.contains("WARN") && log.contains("an authority's own (CA:TRUE)"), "{log}");
}

#[test]
fn a_prepared_file_knows_its_model_and_a_wrong_key_is_named() {
    let folder = Folder::new("prepared");
    let server = Server::start(&folder, &[]);
    let (file, key, other) = (folder.path("v.prepared"), folder.path("key"), folder.path("other.key"));
    let image = folder.path("images/0.png");
    let known = ["--fingerprint", server.fingerprint.as_str()];
    let mut prepare = server.client("prepare");
    prepare.args(known).arg("-o").arg(&file).arg("--key-file").arg(&key);
    words(&mut prepare, 0);
    write(&other, &"0".repeat(64));
    let classify = |key: &Path, more: &[&str]| {
        let mut command = server.client("classify");
        command.arg(&image).args(known).arg("--prepared").arg(&file).arg("--key-file").arg(key).args(more);
        command
    };
    let said = refusal(&mut classify(&key, &["--model", "brain"]));
    assert!(said.contains("was prepared for tiny, and --model says brain; leave --model out"), "{said}");
    let said = refusal(&mut classify(&other, &[]));
    assert!(said.contains("other.key was tried") && said.contains("--key-file"), "{said}");
    assert!(said.contains("the key does not open"), "{said}");
    words(&mut classify(&key, &["--model", "tiny"]), 0);
}

#[test]
fn the_environment_names_server_and_fingerprint_and_flags_win() {
    let folder = Folder::new("environment");
    let server = Server::start(&folder, &[]);
    let classify = |fingerprint: &str, more: &[&str]| {
        let mut command = sordino();
        command.args(["classify"]).arg(folder.path("images/0.png")).args(more);
        command.env("SORDINO_SERVER", &server.address).env("SORDINO_FINGERPRINT", fingerprint);
        command
    };
    words(&mut classify(&server.fingerprint, &[]), 0);
    let zeros = "0".repeat(64);
    assert!(refusal(&mut classify(&zeros, &[])).contains("ask the operator"));
    words(&mut classify(&zeros, &["--fingerprint", &server.fingerprint]), 0);
    assert!(refusal(&mut classify(&zeros, &["--server", "127.0.0.1:1"])).contains("127.0.0.1:1"));
    assert!(refusal(&mut classify("here", &[])).contains("SORDINO_FINGERPRINT is not usable"));
    // An authority that was named is asked, and the variable is not.
    let said = refusal(&mut classify(&server.fingerprint, &["--ca", "/etc/passwd"]));
    assert!(said.contains("/etc/passwd is not usable"), "{said}");
    // An empty one is none.
    assert!(refusal(&mut classify("", &[])).contains("Compare this with what `sordino serve` printed"));
}

#[test]
fn an_image_comes_from_a_pipe_and_a_folder_says_what_it_left_out() {
    let folder = Folder::new("pipe");
    let server = Server::start(&folder, &[]);
    let known = ["--fingerprint", server.fingerprint.as_str(), "--json"];
    let piped = |named: &str| -> Value {
        let mut cat = Command::new("cat");
        let mut cat = cat.arg(folder.path("images/0.png")).stdout(Stdio::piped()).spawn().unwrap();
        let mut command = server.client("classify");
        let output = command.arg(named).args(known).stdin(cat.stdout.take().unwrap()).output().unwrap();
        cat.wait().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    for named in ["-", "/dev/stdin"] {
        assert_eq!(piped(named)["images"][0]["file"], named);
    }
    fs::rename(folder.path("images/0.png"), folder.path("images/0.jfif")).unwrap();
    fs::rename(folder.path("images/1.png"), folder.path("images/1")).unwrap();
    fs::write(folder.path("images/notes.txt"), "no image").unwrap();
    fs::create_dir(folder.path("images/inner")).unwrap();
    let output = server.classify(&folder.path("images"), &known);
    let notes = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains("3 images taken; left out: 1 file that is no image"), "{notes}");
    assert!(notes.contains("notes.txt") && notes.contains("1 folder, whose"), "{notes}");
    for (flag, value, expected) in [
        ("--top", "0", "from 1 on"),
        ("--timeout", "0", "from 1 on"),
        ("--threads", "0", "expected at least 1, came 0"),
        ("--threads", "1000000", "expected at most"),
    ] {
        let said = refusal(server.client("classify").arg("-").args(known).args([flag, value]));
        assert!(said.contains(expected), "{flag} {value}: {said}");
    }
}

#[test]
fn a_server_says_how_much_memory_it_needs_and_which_file_is_no_key() {
    let folder = Folder::new("memory");
    let serve = |state: &str, more: &[&str]| {
        let mut command = sordino();
        command.arg("serve").arg(folder.path("tiny.sordino")).args(["--listen", "127.0.0.1:0", "--state"]);
        command.arg(folder.path(state)).args(more).arg("--until-stdin-ends");
        command
    };
    let said = refusal(&mut serve("state", &["--max-memory", "50M"]));
    assert!(said.contains("more than the 52.4 MB of --max-memory"), "{said}");
    let enough = said.split("allow --max-memory ").nth(1).unwrap().split(',').next().unwrap();
    words(&mut serve("state", &["--max-memory", enough]), 0);
    let less = format!("{}M", enough.strip_suffix('M').unwrap().parse::<u64>().unwrap() - 1);
    refusal(&mut serve("state", &["--max-memory", &less]));
    let said = refusal(&mut serve("other", &["--store-key", "/etc/passwd"]));
    assert!(said.contains("/etc/passwd holds no key") && !said.contains("chmod"), "{said}");
    let key = folder.path("key.pem");
    write(&key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let cert = folder.path("chain.pem");
    write(&cert, &certificate(rcgen::IsCa::NoCa).0);
    let said =
        refusal(&mut serve("state", &["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()]));
    assert!(said.contains("key.pem is encrypted") && said.contains("openssl pkey"), "{said}");
}

/// Runs a verb on data; its exit code, stdout and stderr.
fn data(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = sordino().args(arguments).output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn packing_refuses_what_checking_does() {
    let scratch = ScratchFolder::new("pack");
    let (images, out) = (scratch.at("images"), scratch.at("packed"));
    fs::create_dir_all(scratch.0.join("images/cat")).unwrap();
    fs::write(scratch.0.join("images/cat/x.jpg"), "text").unwrap();
    let (code, _, said) = data(&["data", "pack", &images, "-o", &out]);
    assert_eq!(code, Some(2));
    assert!(said.contains("none of 1 images can be used") && said.contains("x.jpg"), "{said}");
    assert_eq!(data(&["data", "check", &images]).0, Some(1));
    let photograph =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/photographs/apple.jpg")).unwrap();
    fs::write(scratch.0.join("images/cat/whole.jpg"), &photograph).unwrap();
    fs::write(scratch.0.join("images/cat/cut.jpg"), &photograph[..photograph.len() / 2]).unwrap();
    let (code, found, _) = data(&["data", "check", &images]);
    assert_eq!(code, Some(1));
    assert!(
        found.contains("2 of 3 images cannot be used") && found.contains("ends before its picture"),
        "{found}"
    );
    let (code, said, _) = data(&["data", "pack", &images, "-o", &out, "--skip-bad"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 training image and 0 test images in 1 file,"), "{said}");
    assert!(said.contains("2 files left out:") && said.contains("cut.jpg is no usable image"), "{said}");
    let (code, _, said) = data(&["data", "pack", &images, "-o", &out, "--skip-bad"]);
    assert!(code == Some(2) && said.contains("holds a packed set") && said.contains("--force"), "{said}");
    assert_eq!(data(&["data", "pack", &images, "-o", &out, "--skip-bad", "--force"]).0, Some(1));
}

#[test]
fn a_folder_of_two_sets_is_refused_by_every_verb_that_reads_it() {
    let scratch = ScratchFolder::new("two-sets");
    for folder in ["cifar-100-binary", "tiny-imagenet-200/train", "tiny-imagenet-200/val"] {
        fs::create_dir_all(scratch.0.join(folder)).unwrap();
    }
    let files = ["cifar-100-binary/train.bin", "cifar-100-binary/test.bin"];
    for file in files.into_iter().chain(["tiny-imagenet-200/val/val_annotations.txt"]) {
        File::create(scratch.0.join(file)).unwrap();
    }
    let parent = scratch.at("");
    let (code, found, _) = data(&["data", "check", &parent]);
    assert!(code == Some(1) && found.contains("2 sets; name the folder of one"), "{found}");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/hybrenet-13k-cifar100.sordino");
    let (packed, gone) = (scratch.at("packed"), scratch.at("gone"));
    for arguments in [&["data", "pack", &parent, "-o", &packed][..], &["evaluate", model, "--data", &parent]]
    {
        let (code, _, said) = data(arguments);
        assert!(code == Some(2) && said.contains("holds 2 sets"), "{said}");
        assert!(
            said.contains("CIFAR-100, binary release, in") && said.contains("Tiny ImageNet, as"),
            "{said}"
        );
    }
    let (_, _, said) = data(&["evaluate", model, "--data", &gone]);
    assert!(said.contains("gone does not exist"), "{said}");
    let (_, _, said) = data(&["evaluate", model, "--data", &parent, "--device", "cuda"]);
    assert!(said.contains("computed on integers by the processor"), "{said}");
}
