//! The server's process of `bench load`, and what is seen of it from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, ensure};
use inference::connection::Fingerprint;
use network::inference_model::InferenceModel;

use crate::commands::bench::party::peak_memory_of;
use crate::commands::bench::private::write_model;
use crate::commands::servant::Servant;
use crate::commands::serve::Greeting;

/// How often the server is asked how much it has promised.
const LOOK: Duration = Duration::from_millis(200);
/// How long it may take to answer that.
const PATIENCE: Duration = Duration::from_secs(5);
/// Seconds of silence that the server endures: so many handshakes at once take their time.
const SILENCE: &str = "120";

pub(super) struct ServerProcess {
    servant: Servant,
    pub(super) address: String,
    pub(super) fingerprint: Fingerprint,
    metrics: SocketAddr,
}

impl ServerProcess {
    pub(super) fn start(
        model: &InferenceModel,
        running: NonZeroUsize,
        clients: usize,
        limit: u64,
    ) -> anyhow::Result<Self> {
        let servant = Servant::new("sordino-load-")?;
        let model = write_model(model, &servant)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(&model).args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
        command.args(["--store", "none", "--timeout", SILENCE]).arg("--state").arg(servant.folder());
        command.arg("--until-stdin-ends");
        command.args(["--max-running", &running.to_string(), "--max-clients", &clients.to_string()]);
        command.args(["--max-memory", &limit.to_string()]);
        // All clients here have one address.
        for flag in ["connections", "running", "memory"] {
            command.arg(format!("--client-{flag}=0"));
        }
        command.args(["--sessions-per-hour", "0", "--preparations-per-hour", "0", "--answers-per-hour", "0"]);
        servant.start(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let output = servant.with_child(|child| child.stdout.take())?;
        let output = output.context("the server's output was piped")?;
        let greeting = Greeting::read(output, true, false);
        let greeting = greeting.context("the server's process ended before it was ready")?;
        std::fs::remove_file(&model)?;
        let metrics = greeting.metrics.context("metrics were asked for")?;
        let (address, fingerprint) = (greeting.address.to_string(), greeting.fingerprint);
        Ok(Self { servant, address, fingerprint, metrics })
    }

    /// Looks at what it promises until told to stop.
    pub(super) fn watch(&self) -> anyhow::Result<Watch> {
        let (metrics, is_over) = (self.metrics, Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let look = move || {
            let mut most = None;
            while !over.load(Ordering::Acquire) {
                most = most.max(promised(metrics));
                thread::sleep(LOOK);
            }
            most
        };
        let thread = thread::Builder::new().spawn(look)?;
        Ok(Watch { is_over, thread })
    }

    /// The most memory it ever held, where the system tells.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let id = self.servant.with_child(|child| child.id()).ok()?;
        peak_memory_of(&id.to_string())
    }

    /// Ends it and waits for that.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        let mut child = self.servant.take_child().context("the server's process runs")?;
        // To it this is a SIGTERM.
        child.stdin.take();
        ensure!(child.wait()?.success(), "the server's process did not end well");
        Ok(())
    }
}

pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<u64>>,
}

impl Watch {
    /// The most it had promised whenever it was looked at.
    pub(super) fn finish(self) -> Option<u64> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().ok().flatten()
    }
}

fn promised(metrics: SocketAddr) -> Option<u64> {
    let mut socket = TcpStream::connect_timeout(&metrics, PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("sordino_promised_memory_bytes "))?;
    line.parse::<f64>().ok().map(|bytes| bytes as u64)
}
