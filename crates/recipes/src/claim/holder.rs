//! Who holds a claim: a process, named so that others on the same machine can look whether it is still there.

use std::fs;

use serde::{Deserialize, Serialize};

/// The process that holds a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its machine, for people.
    pub host: String,
    /// Its user, for people.
    #[serde(default)]
    pub user: String,
    /// Its job of Slurm, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the machine did: a number is given to other processes later.
    began: Option<u64>,
    /// The start of the machine and the table of processes that the number belongs to.
    machine: Option<String>,
    /// Counts up while it works.
    pub beat: u64,
    /// Whether it let go.
    pub released: bool,
}

impl Holder {
    /// The calling process.
    pub(super) fn of_this_process() -> Self {
        let pid = std::process::id();
        Self {
            host: line("/proc/sys/kernel/hostname").unwrap_or_else(|| "an unknown machine".to_owned()),
            user: std::env::var("USER").unwrap_or_default(),
            job: std::env::var("SLURM_JOB_ID").ok(),
            pid,
            began: began(pid),
            machine: machine(),
            beat: 0,
            released: false,
        }
    }

    /// Whether its number can be looked up here.
    pub(super) fn is_of_this_machine(&self) -> bool {
        self.machine.is_some() && self.began.is_some() && self.machine == machine()
    }

    /// Whether a process of its number began when it did.
    pub(super) fn is_running(&self) -> bool {
        began(self.pid) == self.began
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a holder is names and numbers")
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.user.is_empty() {
            write!(formatter, "{} on ", self.user)?;
        }
        write!(formatter, "{}, process {}", self.host, self.pid)?;
        match &self.job {
            Some(job) => write!(formatter, ", job {job}"),
            None => Ok(()),
        }
    }
}

/// When a process began; nothing where there is none, or no table of processes. A dead process whose parent has not asked
/// for it yet counts as gone.
fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields after it are numbered from 3.
    let mut fields = text.get(text.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    let began = fields.nth(18)?.parse().ok();
    if matches!(state, "Z" | "X") { None } else { began }
}

fn machine() -> Option<String> {
    let boot = line("/proc/sys/kernel/random/boot_id")?;
    let table = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", table.display()))
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
impl Holder {
    /// As a process of another machine would write it.
    pub(super) fn of_another_machine() -> Self {
        Self { host: "far".to_owned(), machine: Some("another start".to_owned()), ..Self::of_this_process() }
    }

    /// As a process that ended would have written it.
    pub(super) fn that_ended() -> Self {
        Self { began: Some(1), ..Self::of_this_process() }
    }
}
