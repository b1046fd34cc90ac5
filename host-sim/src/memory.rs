//! How much memory a segment may take: what the machine, the control group and the limits of the user leave.

use std::fs::read_to_string;

use nix::sys::resource::{Resource, getrlimit};

/// Bytes that can be taken for segments now: the least of the kernel's `MemAvailable`, what the control group
/// leaves, and the largest file the user may make. A source that cannot be read sets no bound.
pub(crate) fn available_bytes() -> u64 {
    let file_size = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft);
    let machine =
        read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text)).unwrap_or(u64::MAX);
    machine.min(control_group_bytes().unwrap_or(u64::MAX)).min(file_size)
}

/// The line `MemAvailable:  123 kB` of `/proc/meminfo`, in bytes.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What `memory.max` of this process's own (version 2) control group leaves.
fn control_group_bytes() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = format!("/sys/fs/cgroup{own}");
    let number = |name: &str| read_to_string(format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:     7 kB\n"), Some(7 * 1024));
        assert_eq!(mem_available("MemTotal: 9 kB\n"), None);
        assert_eq!(mem_available("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn something_is_available() {
        assert!(available_bytes() > 1 << 20);
    }
}
