//! One worker process for each device of this machine. They share the runs by claims of folders.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What makes a process see some GPUs alone.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What one worker computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerDevice {
    /// The processor.
    Cpu,
    /// The GPU of a number, of those that this process may see.
    Cuda(usize),
}

impl FromStr for WorkerDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        match (text, number) {
            ("cpu", _) => Ok(Self::Cpu),
            (_, Some(number)) => Ok(Self::Cuda(number)),
            _ => Err("expected devices such as cuda:0,cuda:1, or cpu".to_owned()),
        }
    }
}

impl WorkerDevice {
    /// What a worker is told: its `--device`, and the GPU that it may see. `visible` is what this process was told.
    fn worker(self, visible: Option<&str>) -> anyhow::Result<(&'static str, Option<String>)> {
        let Self::Cuda(number) = self else { return Ok(("cpu", None)) };
        let Some(visible) = visible else { return Ok(("cuda", Some(number.to_string()))) };
        let visible: Vec<&str> = visible.split(',').filter(|name| !name.is_empty()).collect();
        match visible.get(number) {
            Some(name) => Ok(("cuda", Some((*name).to_owned()))),
            None => bail!(
                "cuda:{number} is not there: {VISIBLE} shows {} GPUs to this process, numbered from 0",
                visible.len()
            ),
        }
    }
}

/// Starts a worker for each device and waits for all. What came of it is in the folders. Whether they were asked to stop.
pub(super) fn run(worker: &[OsString], devices: &[WorkerDevice]) -> anyhow::Result<bool> {
    let visible = std::env::var(VISIBLE).ok();
    let told: Vec<_> =
        devices.iter().map(|device| device.worker(visible.as_deref())).collect::<Result<_, _>>()?;
    let program = std::env::current_exe().context("cannot find the program that workers are started from")?;
    // A terminal's Ctrl-C reaches the workers, too; this process must be there to wait for them.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut workers: Vec<Child> = Vec::new();
    for (device, visible) in told {
        let mut command = Command::new(&program);
        command.args(worker).args(["--device", device]).stdin(Stdio::null()).stdout(Stdio::null());
        command.envs(visible.map(|visible| (VISIBLE, visible)));
        workers.push(command.spawn().context("cannot start a worker")?);
    }
    let numbers: Vec<_> = workers.iter().filter_map(|worker| i32::try_from(worker.id()).ok()).collect();
    let stop = signals.handle();
    let forwarding = std::thread::spawn(move || {
        let mut is_stopped = false;
        for signal in signals.forever() {
            is_stopped = true;
            if signal == SIGINT {
                continue;
            }
            for number in numbers.iter().filter_map(|number| rustix::process::Pid::from_raw(*number)) {
                // One that has ended needs no word.
                let _ = rustix::process::kill_process(number, rustix::process::Signal::TERM);
            }
        }
        is_stopped
    });
    let mut ended = Ok(());
    for worker in &mut workers {
        ended = ended.and(worker.wait().map(|_| ()));
    }
    stop.close();
    let is_stopped = forwarding.join().unwrap_or(false);
    ended?;
    Ok(is_stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_others_refused() {
        assert_eq!("cpu".parse(), Ok(WorkerDevice::Cpu));
        assert_eq!("cuda:3".parse(), Ok(WorkerDevice::Cuda(3)));
        for wrong in ["cuda", "cuda:", "cuda:x", "gpu:1", ""] {
            assert!(wrong.parse::<WorkerDevice>().unwrap_err().contains("cuda:0,cuda:1"), "{wrong}");
        }
    }

    #[test]
    fn each_worker_sees_its_own_gpu_of_those_that_the_scheduler_gave() {
        let seen = |number, visible| WorkerDevice::Cuda(number).worker(visible).unwrap();
        assert_eq!(seen(1, None), ("cuda", Some("1".to_owned())));
        assert_eq!(seen(0, Some("4,5")), ("cuda", Some("4".to_owned())));
        assert_eq!(seen(1, Some("4,GPU-8f3a")), ("cuda", Some("GPU-8f3a".to_owned())));
        assert_eq!(WorkerDevice::Cpu.worker(Some("4")).unwrap(), ("cpu", None));
        let error = WorkerDevice::Cuda(2).worker(Some("4,5")).unwrap_err().to_string();
        assert!(error.contains("cuda:2 is not there") && error.contains("2 GPUs"), "{error}");
        assert!(WorkerDevice::Cuda(0).worker(Some("")).is_err());
    }
}
