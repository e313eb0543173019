//! The server's process, and a folder that goes away with it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use inference::connection::Fingerprint;

use super::samples::ShippedModel;
use crate::commands::servant::Servant;
use crate::commands::serve::Greeting;

/// How long the server may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the server still runs.
const WAITING_PAUSE: Duration = Duration::from_millis(200);
/// How much of the server's log an error shows.
const LOG_LINES: usize = 10;

/// `sordino serve` with one model, on loopback, with an identity of its own that ends with it.
pub(super) struct DemoServer {
    address: String,
    page: Option<SocketAddr>,
    fingerprint: Fingerprint,
    servant: Servant,
}

impl DemoServer {
    /// With the page for browsers at an address, where one is given.
    pub(super) fn start(model: &ShippedModel, web: Option<&str>) -> anyhow::Result<Self> {
        let servant = Servant::new("sordino-demo-")?;
        let folder = servant.folder();
        let file = folder.join("model.sordino");
        fs::write(&file, &model.bytes).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = command(&model.name, &file, folder)?;
        web.iter().for_each(|address| {
            command.args(["--web", address, "--web-compare"]);
        });
        servant.start(&mut command)?;
        let output = servant.with_child(|child| child.stdout.take())?;
        let output = output.context("the server's output was piped")?;
        match Greeting::read(output, false, web.is_some()) {
            Some(Greeting { address, fingerprint, page, .. }) => {
                Ok(Self { address: address.to_string(), page, fingerprint, servant })
            }
            None => bail!("the server ended before it was ready; its log:\n{}", last_lines(folder)),
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Where the page is.
    pub(super) fn page(&self) -> Option<SocketAddr> {
        self.page
    }

    /// Waits until the server ends by itself, which it should not.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        loop {
            if let Some(status) = self.servant.with_child(Child::try_wait)?? {
                bail!("the server ended with {status}; its log:\n{}", self.log());
            }
            thread::sleep(WAITING_PAUSE);
        }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The end of what the server said.
    pub(super) fn log(&self) -> String {
        last_lines(self.servant.folder())
    }

    /// Ends the server as its operator would, and waits for it.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        let Some(mut child) = self.servant.take_child() else { return Ok(()) };
        child.stdin.take();
        let ended = wait(&mut child);
        if ended.is_err() {
            // Both fail only where it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        let status = ended?;
        ensure!(status.success(), "the server ended with {status}; its log:\n{}", self.log());
        Ok(())
    }
}

fn wait(child: &mut Child) -> anyhow::Result<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if start.elapsed() > PATIENCE => bail!("the server did not end when told to"),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn command(name: &str, file: &Path, folder: &Path) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = Command::new(program);
    command.arg("serve").arg(format!("{name}={}", file.display()));
    command.args(["--listen", "127.0.0.1:0", "--store", "none", "--grace", "1", "--until-stdin-ends"]);
    command.arg("--state").arg(folder.join("state"));
    command.stdout(Stdio::piped()).stderr(File::create(folder.join("log"))?);
    Ok(command)
}

fn last_lines(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
