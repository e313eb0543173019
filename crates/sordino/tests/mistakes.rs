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
