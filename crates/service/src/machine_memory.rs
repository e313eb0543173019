//! How much memory this process may have: that of the machine, or what its control groups allow, whichever is less.

use std::fs;
use std::path::{Path, PathBuf};

/// The least of all limits, in bytes; none where the system does not tell.
pub(crate) fn available() -> Option<u64> {
    available_in(Path::new("/"))
}

/// The same, in a folder that holds `proc` and `sys`.
fn available_in(root: &Path) -> Option<u64> {
    let of_machine = of_machine(root);
    let of_groups = groups(root).iter().flat_map(|group| of_group(group)).min();
    of_machine.into_iter().chain(of_groups).min()
}

fn of_machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// The folders of this process' control groups and of all groups around them. In a container the path may be one that is
/// not mounted there; the groups that are bound it all the same.
fn groups(root: &Path) -> Vec<PathBuf> {
    let mounts = root.join("sys/fs/cgroup");
    let Ok(text) = fs::read_to_string(root.join("proc/self/cgroup")) else { return Vec::new() };
    let mut folders = Vec::new();
    for line in text.lines() {
        // number:controllers:path, where version 2 has the number 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let mounted: &[&str] = if number == "0" && controllers.is_empty() {
            &["", "unified"]
        } else if controllers.split(',').any(|controller| controller == "memory") {
            &["memory"]
        } else {
            &[]
        };
        for mount in mounted {
            let mount = mounts.join(mount);
            let own = Path::new(path.trim_start_matches('/'));
            folders.extend(own.ancestors().map(|group| mount.join(group)));
        }
    }
    folders
}

/// What a group says, in the words of either version. One without a limit says "max", or a number beyond all memory.
fn of_group(folder: &Path) -> impl Iterator<Item = u64> {
    let names = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    names.into_iter().filter_map(read).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 8 GiB with these files.
    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:   1 kB\n");
        for (path, text) in files.iter().chain([&meminfo]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available_in(root.path())
    }

    #[test]
    fn without_groups_it_is_the_machines() {
        assert_eq!(machine(&[]), Some(8 * GIB));
        assert_eq!(machine(&[("proc/self/cgroup", "0::/\n")]), Some(8 * GIB));
        assert_eq!(available_in(Path::new("/nowhere")), None);
    }

    #[test]
    fn the_least_limit_of_all_groups_around_counts_in_version_2() {
        let own = ("proc/self/cgroup", "0::/system.slice/sordino.service\n");
        let group = |name: &str| format!("sys/fs/cgroup/system.slice/{name}");
        let max = (&group("sordino.service/memory.max")[..], "max\n");
        let around = &group("memory.max")[..];
        let high = (&group("sordino.service/memory.high")[..], "2147483648\n");
        assert_eq!(machine(&[own, max]), Some(8 * GIB));
        assert_eq!(
            machine(&[own, max, (around, "4294967296\n")]),
            Some(4 * GIB),
            "that of a group around it"
        );
        assert_eq!(machine(&[own, max, (around, "4294967296\n"), high]), Some(2 * GIB), "the softer limit");
        assert_eq!(
            machine(&[own, ("sys/fs/cgroup/memory.max", "1073741824")]),
            Some(GIB),
            "that of a container"
        );
        let other = &group("other.service/memory.max")[..];
        assert_eq!(machine(&[own, (other, "1024")]), Some(8 * GIB), "another group's");
    }

    #[test]
    fn version_1_and_a_path_that_is_not_mounted() {
        let own = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n");
        let unlimited = ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(machine(&[own, unlimited]), Some(8 * GIB));
        let limit = ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "3221225472\n");
        assert_eq!(machine(&[own, limit]), Some(3 * GIB));
        let mounted = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        assert_eq!(machine(&[own, mounted]), Some(GIB));
        let of_cpu = ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1024\n");
        assert_eq!(machine(&[own, of_cpu]), Some(8 * GIB), "the path of another controller");
    }
}
