//! A process that writes checkpoints is killed at random moments; the last good one is always there.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sordino_recipes::array::Array;
use sordino_recipes::checkpoint::{self, Arrays, Checkpoint, Part, State};
use sordino_recipes::data::{SyntheticSize, synthetic};
use sordino_recipes::random::Stream;
use sordino_recipes::recipe::Recipe;

const FOLDER: &str = "SORDINO_TEST_RUN_FOLDER";
const KILLS: usize = 25;

/// Every number of a checkpoint follows from its epoch, so that a mixture of two would be found.
fn checkpoint(epoch: u32) -> Checkpoint {
    let text = "[data]\nset = \"synthetic\"\n[network]\nname = \"resnet10:m=2\"\n[training]\nepochs = 9\nbatch = 8\n";
    let recipe = Recipe::from_toml(text).unwrap();
    let set = synthetic(&SyntheticSize { training: 1, test: 1, ..SyntheticSize::default() }).training;
    let spec = recipe.network.build(set.shape, 10).unwrap();
    let mut state = State::new(recipe, &spec, set.classes.clone(), set.normalization());
    state.epoch = epoch;
    let array = |name: &str| Array::from_floats(&[100_000], &vec![epoch as f32; 100_000]).named(name);
    Checkpoint {
        state,
        weights: [array("a"), array("b")].into_iter().collect::<Arrays>(),
        optimizer: [array("c"), array("d")].into_iter().collect::<Arrays>(),
        mask: None,
    }
}

trait Named {
    fn named(self, name: &str) -> (String, Array);
}

impl Named for Array {
    fn named(self, name: &str) -> (String, Array) {
        (name.to_owned(), self)
    }
}

/// The process that is killed: it goes on after the last checkpoint, and never ends.
#[test]
#[ignore = "run by the other test as a process of its own"]
fn write_for_ever() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let done =
        checkpoint::find(&folder).map_or(0, |path| Checkpoint::load(&path, Part::All).unwrap().state.epoch);
    for epoch in done + 1.. {
        checkpoint(epoch).save(&folder, 1 << 20).unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let folder = std::env::temp_dir().join(format!("sordino-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut stream = Stream::new("kills", 1);
    let mut last = 0;
    for _ in 0..KILLS {
        kill_after(&folder, Duration::from_millis(u64::from(stream.below(60))));
        let found = Checkpoint::load(&folder, Part::All).unwrap();
        assert!(found.state.epoch > last, "epoch {} after {last}", found.state.epoch);
        assert_eq!(found, checkpoint(found.state.epoch));
        last = found.state.epoch;
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// SIGKILL some time after the process wrote its first checkpoint: no destructor runs, no buffer is flushed.
fn kill_after(folder: &Path, time: Duration) {
    let before = checkpoint::find(folder).ok();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "write_for_ever", "--ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while checkpoint::find(folder).ok().is_none_or(|found| before.as_ref() == Some(&found)) {
        assert!(child.try_wait().unwrap().is_none(), "the process ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
}
