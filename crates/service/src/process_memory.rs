//! What a server asks of the system: no core dump of its memory, no page of it in swap, as many open files as it may have.

use std::fmt;

/// What the system granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// No core dump holds this memory, and no other process of the user may read it.
    pub is_undumpable: bool,
    /// No page goes to swap, neither today's nor later ones.
    pub is_locked: bool,
}

impl fmt::Display for Protection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dumps = if self.is_undumpable { "no core dumps" } else { "core dumps could not be forbidden" };
        let swap = if self.is_locked {
            "memory locked"
        } else {
            "memory not locked: raise the limit of locked memory to unlimited, or encrypt swap"
        };
        write!(formatter, "{dumps}; {swap}")
    }
}

/// Asks for both, as far as the system allows.
///
/// Memory is locked only where there is no limit to that (`ulimit -l`, `LimitMEMLOCK=` of systemd): under a limit, later
/// allocations would fail one day instead of going to swap.
#[cfg(target_os = "linux")]
pub fn protect() -> Protection {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let has_no_core = setrlimit(Resource::Core, none).is_ok();
    let is_undumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok() && has_no_core;
    let unlimited = Rlimit { current: None, maximum: None };
    // Who may raise the limit does; for the others it stays what it is.
    let may_lock =
        getrlimit(Resource::Memlock).current.is_none() || setrlimit(Resource::Memlock, unlimited).is_ok();
    // On fault: what was only reserved takes no memory.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Protection { is_undumpable, is_locked: may_lock && mlockall(flags).is_ok() }
}

/// Other systems are asked for nothing.
#[cfg(not(target_os = "linux"))]
pub fn protect() -> Protection {
    Protection { is_undumpable: false, is_locked: false }
}

/// Raises the number of files, and so of connections, that may be open at once to the most that the system allows without
/// further rights; says how many that are. None where there is no limit, or none is known.
#[cfg(target_os = "linux")]
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where the system does not, what was there stays.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current
}

/// Other systems are asked for nothing.
#[cfg(not(target_os = "linux"))]
pub fn raise_open_files() -> Option<u64> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn as_many_files_as_may_be_are_allowed() {
        let most = getrlimit(Resource::Nofile).maximum;
        let fewer = most.unwrap_or(1 << 20) - 1;
        setrlimit(Resource::Nofile, Rlimit { current: Some(fewer), maximum: most }).unwrap();
        assert_eq!(raise_open_files(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, most);
    }
}
