//! `sordino serve` and its clients as a user runs them: processes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use super::tiny_model;

/// The program, with a cache that is not the user's.
pub(crate) fn sordino() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sordino"));
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env_remove("SORDINO_SERVER").env_remove("SORDINO_FINGERPRINT");
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder that goes away with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// An empty one.
    pub(crate) fn empty(name: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("sordino-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// With a model of a few hundred ReLUs and three images.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Self::empty(name);
        std::fs::create_dir_all(folder.path("images")).unwrap();
        let names = (0..10).map(|class| format!("kind {class}")).collect();
        tiny_model(1).with_class_names(names).unwrap().save(&folder.path("tiny.sordino")).unwrap();
        for number in 0..3_u8 {
            let pixels =
                image::RgbImage::from_fn(20, 16, |x, y| image::Rgb([x as u8 * 9, y as u8 * 9, number * 90]));
            pixels.save(folder.path(&format!("images/{number}.png"))).unwrap();
        }
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server's process, killed with the test at the latest.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) fingerprint: String,
}

impl Server {
    /// Serves the folder's own model.
    pub(crate) fn start(folder: &Folder, flags: &[&str]) -> Self {
        Self::start_model(&folder.path("tiny.sordino"), &folder.path("state"), flags, Stdio::piped())
    }

    /// Serves a model and keeps what survives it in a folder.
    pub(crate) fn start_model(model: &Path, state: &Path, flags: &[&str], log: Stdio) -> Self {
        let mut command = sordino();
        command.arg("serve").arg(model).args(["--listen", "127.0.0.1:0", "--state"]).arg(state).args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |key: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(key).unwrap_or_else(|| panic!("{line:?} begins with {key}")).trim().to_owned()
        };
        let address = value("listening");
        value("models");
        value("reveals");
        let fingerprint = value("fingerprint");
        Self { child, address, fingerprint }
    }

    /// A client's command for this server, whose fingerprint is not named yet.
    pub(crate) fn client(&self, verb: &str) -> Command {
        let mut command = sordino();
        command.arg(verb).args(["--server", &self.address]);
        command
    }

    pub(crate) fn classify(&self, images: &Path, flags: &[&str]) -> Output {
        self.client("classify").arg(images).args(flags).output().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as systemd does; gives its exit code and log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut log = String::new();
        if let Some(mut output) = self.child.stderr.take() {
            output.read_to_string(&mut log).unwrap();
        }
        (self.child.wait().unwrap().code(), log)
    }

    /// Ends it as the kernel does when memory is short: at once, wherever it is.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that does not outlive a test that failed.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
