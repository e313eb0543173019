//! Sweeps that several workers share, as a user meets them: plan, parts, claims, signals, Slurm.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::process::{Command, Output};

use serde_json::Value;
use support::scratch::ScratchFolder;

const RECIPE: &str = "[data]\nset = \"synthetic\"\nsynthetic = { side = 16, training = 200, test = 50 }\n[network]\n\
    name = \"resnet10:m=2\"\n[training]\nepochs = 2\nbatch = 50\n[optimize]\nmethod = \"deepreduce\"\norder = \"3,2,4,1\"\n";
const SWEEP: &str = "recipes = [\"a.toml\"]\nbudgets = [\"50%\", \"20%\"]\nseeds = [1, 2]\n";

/// A folder with a sweep of four runs and two teachers.
fn place(name: &str) -> ScratchFolder {
    let scratch = ScratchFolder::new(name);
    scratch.write("a.toml", RECIPE);
    scratch.write("sweep.toml", SWEEP);
    scratch
}

fn command(place: &ScratchFolder, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sordino"));
    command.current_dir(place.at("")).args(["sweep", "sweep.toml", "--out", "runs"]).args(more);
    command.env_remove("SLURM_JOB_ID");
    command
}

fn sweep(place: &ScratchFolder, more: &[&str]) -> Output {
    command(place, more).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_plan_names_teachers_first_and_what_needs_them() {
    let place = place("sweep-plan");
    let plan: Vec<Value> = serde_json::from_slice(&sweep(&place, &["--plan", "--json"]).stdout).unwrap();
    let kinds: Vec<_> = plan.iter().map(|job| job["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["teacher", "teacher", "deepreduce", "deepreduce", "deepreduce", "deepreduce"]);
    assert_eq!(plan[2]["name"], "a-50-percent-seed1");
    assert_eq!(plan[2]["needs"], plan[0]["name"]);
    assert_eq!(plan[3]["needs"], plan[1]["name"]);
    assert!(plan.iter().all(|job| job["gpu_minutes"].as_f64().unwrap() > 0.0));
    let part: Vec<Value> =
        serde_json::from_slice(&sweep(&place, &["--plan", "--json", "--shard", "2/4"]).stdout).unwrap();
    let names: Vec<_> = part.iter().map(|job| &job["name"]).collect();
    assert_eq!(names, [&plan[1]["name"], &plan[3]["name"]]);
}

#[test]
fn what_cannot_be_chosen_is_refused_with_what_to_do() {
    let place = place("sweep-refusals");
    let refusal = |more: &[&str]| {
        let output = sweep(&place, more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        text(&output.stderr)
    };
    assert!(refusal(&["--only", "a-50-percent-seed3", "--plan"]).contains("the nearest name is"));
    assert!(refusal(&["--shard", "4/3"]).contains("such as 1/3"));
    assert!(refusal(&["--devices", "gpu0"]).contains("cuda:0,cuda:1"));
    assert!(refusal(&["--gres", "gpu:1"]).contains("add --slurm"));
    place.write("sweep.toml", "recipes = [\"mine.onnx\"]");
    assert!(refusal(&["--plan"]).contains("mine.onnx is an ONNX file"));
}

#[test]
fn a_sweep_that_nobody_began_is_watched_as_queued() {
    let place = place("sweep-watch");
    let output = sweep(&place, &["--watch", "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let note = text(&output.stderr);
    assert!(note.contains("the folder runs does not exist yet") && note.contains("--out"), "{note}");
    std::fs::create_dir(place.at("runs")).unwrap();
    assert_eq!(text(&sweep(&place, &["--watch", "--json"]).stderr), "");
    assert!(rows.len() == 6 && rows.iter().all(|row| row["state"] == "queued"), "{rows:?}");
}

#[cfg(feature = "training")]
mod with_the_trainer {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Stdio;

    const MACHINE: [&str; 4] = ["--device", "cpu", "--threads", "1"];

    fn front(place: &ScratchFolder) -> String {
        std::fs::read_to_string(place.at("runs/front.json")).unwrap()
    }

    fn made(place: &ScratchFolder, more: &[&str]) -> String {
        let output = sweep(place, &[&MACHINE, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    }

    fn trainings(said: &str) -> usize {
        said.matches("epoch 2/2:").count()
    }

    #[test]
    fn parts_of_a_sweep_and_several_workers_come_to_the_front_of_one_process() {
        let one = place("sweep-one");
        assert_eq!(trainings(&made(&one, &[])), 6);
        assert_eq!(trainings(&made(&one, &[])), 0, "what is done is not done again");

        let parts = place("sweep-parts");
        let first = made(&parts, &["--shard", "1/2"]);
        let second = made(&parts, &["--shard", "2/2"]);
        assert_eq!((trainings(&first), trainings(&second)), (3, 3));
        assert_eq!(front(&one), front(&parts));

        let workers = place("sweep-devices");
        let output = sweep(&workers, &["--devices", "cpu,cpu", "--threads", "1"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(trainings(&text(&output.stderr)), 6);
        assert_eq!(front(&one), front(&workers));
        let rows: Vec<Value> =
            serde_json::from_slice(&sweep(&workers, &["--watch", "--json"]).stdout).unwrap();
        assert!(rows.iter().all(|row| row["state"] == "done" && row["accuracy"].is_f64()), "{rows:?}");
    }

    /// A program that notes how it was called and answers with a number.
    fn stand_in(place: &ScratchFolder, name: &str, answer: &str) {
        let path = place.at(&format!("bin/{name}"));
        std::fs::create_dir_all(place.at("bin")).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >> called\n{answer}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn sigterm_leaves_a_checkpoint_and_has_slurm_run_the_job_again() {
        let one = place("sweep-unstopped");
        made(&one, &["--only", "a-50-percent-seed1"]);
        let place = place("sweep-stopped");
        stand_in(&place, "scontrol", "exit 0");
        let mut command = command(&place, &[&MACHINE, ["--only", "a-50-percent-seed1"].as_slice()].concat());
        command.env("SLURM_JOB_ID", "17").env("PATH", format!("{}:/usr/bin:/bin", place.at("bin")));
        let mut worker = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(worker.stderr.take().unwrap()).lines();
        said.next().unwrap().unwrap();
        let number = rustix::process::Pid::from_child(&worker);
        rustix::process::kill_process(number, rustix::process::Signal::TERM).unwrap();
        let said: Vec<String> = said.map(Result::unwrap).collect();
        assert_eq!(worker.wait().unwrap().code(), Some(0), "{said:?}");
        assert!(said.iter().any(|line| line.contains("with a checkpoint")), "{said:?}");
        assert_eq!(std::fs::read_to_string(place.at("called")).unwrap(), "scontrol requeue 17\n");
        assert!(!Path::new(&place.at("runs/a-50-percent-seed1/records.json")).exists());
        made(&place, &["--only", "a-50-percent-seed1"]);
        assert_eq!(front(&one), front(&place));
    }

    #[test]
    fn teachers_are_submitted_before_arrays_that_wait_for_them() {
        let place = place("sweep-slurm");
        let submit = |more: &[&str]| {
            let mut command = command(&place, &[&["--slurm"], more].concat());
            command.env("PATH", format!("{}:/usr/bin:/bin", place.at("bin"))).output().unwrap()
        };
        stand_in(&place, "sbatch", "[ \"$1\" = --version ] || grep -c . called");
        stand_in(&place, "scancel", "");
        let output = submit(&["--gres", "gpu:1", "--json"]);
        let submitted: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let after: Vec<_> = submitted.iter().map(|group| group["after"].as_str()).collect();
        let jobs: Vec<_> = submitted.iter().map(|group| group["job"].as_str()).collect();
        assert_eq!(after, [None, jobs[0], None, jobs[2]]);
        let runs = submitted[1]["runs"].as_array().unwrap();
        assert_eq!(runs, &["a-50-percent-seed1", "a-20-percent-seed1"]);
        let script = std::fs::read_to_string(submitted[1]["script"].as_str().unwrap()).unwrap();
        assert!(
            script.contains("#SBATCH --array=1-2\n") && script.contains("#SBATCH --gres=gpu:1\n"),
            "{script}"
        );

        // The second one is refused: the first one is taken back.
        std::fs::remove_file(place.at("called")).unwrap();
        let refuse = "[ \"$1\" = --version ] && exit 0; [ $(grep -c . called) -gt 2 ] && { echo 'no such partition' >&2; exit 1; }; echo 5";
        stand_in(&place, "sbatch", refuse);
        let output = submit(&["--partition", "nowhere"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            said.contains("no such partition") && said.contains("sinfo") && said.contains("cancelled: 5"),
            "{said}"
        );
        assert!(std::fs::read_to_string(place.at("called")).unwrap().ends_with("scancel 5\n"));

        let mut command = command(&place, &["--slurm"]);
        let said = text(&command.env("PATH", "/nowhere").output().unwrap().stderr);
        assert!(said.contains("there is no sbatch") && said.contains("--shard"), "{said}");
    }
}
