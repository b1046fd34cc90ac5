//! The memory that a segment may take: what the machine, the control groups and the limits of the
//! user leave. And the cache that a core has of its own.

use std::path::{Path, PathBuf};

use aldis_sys::file::read_to_string;
use aldis_sys::limits::{Resource, getrlimit};

/// The largest file that the user may make, and so the largest segment, in bytes.
pub(crate) fn file_bytes_max() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Bytes of addresses that the user's limit leaves this process (`ulimit -v`).
pub(crate) fn addresses_left() -> u64 {
    let limit = getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |(soft, _)| soft);
    let used = read_to_string("/proc/self/status").ok().and_then(|text| bytes_of("VmSize:", &text));
    limit.saturating_sub(used.unwrap_or(0))
}

/// Bytes that can be taken for segments now: the least of the kernel's `MemAvailable` and what each
/// control group of this process leaves. A source that cannot be read sets no bound.
pub(crate) fn available_bytes() -> u64 {
    let machine = read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| bytes_of("MemAvailable:", &text))
        .unwrap_or(u64::MAX);
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().flat_map(folders).filter_map(|folder| left_in(&folder)).min();
    machine.min(group.unwrap_or(u64::MAX))
}

/// The cache of a core's own where Linux tells of none.
const CORE_CACHE_BYTES: usize = 1 << 20;

/// Bytes of the second-level cache, which a core mostly has of its own: as Linux tells of the first
/// core.
pub(crate) fn core_cache_bytes() -> usize {
    let told = (0..4).find_map(|index| {
        let text = |name| read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
        let is_second = text("level").ok()?.trim() == "2";
        is_second.then(|| text("size").ok()).flatten().and_then(|size| cache_bytes(&size))
    });
    told.unwrap_or(CORE_CACHE_BYTES)
}

/// A size such as `512K`, in bytes.
fn cache_bytes(text: &str) -> Option<usize> {
    text.trim()
        .strip_suffix('K')?
        .parse::<usize>()
        .ok()?
        .checked_mul(1024)
        .filter(|bytes| (1..1 << 30).contains(bytes))
}

/// A line such as `MemAvailable:  123 kB` of `/proc/meminfo`, in bytes.
fn bytes_of(name: &str, text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of the control groups that bound this process's memory, its own and those above it,
/// from a line of `/proc/self/cgroup`: `0::/path` of version 2, `4:memory:/path` of version 1.
fn folders(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let root = match controllers {
        "" => "/sys/fs/cgroup",
        _ if controllers.split(',').any(|one| one == "memory") => "/sys/fs/cgroup/memory",
        _ => return Vec::new(),
    };
    let above = Path::new(path.trim_start_matches('/')).ancestors();
    above.map(|path| Path::new(root).join(path)).collect()
}

/// Returns the bytes that a control group leaves: its limit less what it uses, files apart that can
/// be dropped at once. `None` without limit.
fn left_in(folder: &Path) -> Option<u64> {
    let text = |name: &str| read_to_string(folder.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let droppable = text("memory.stat").map_or(0, |stat| inactive_file(&stat));
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

/// The line `inactive_file 123` of `memory.stat`; in version 1 the one that counts groups below
/// too.
fn inactive_file(stat: &str) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok())
    };
    value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        assert_eq!(bytes_of("MemAvailable:", "MemTotal: 9 kB\nMemAvailable:     7 kB\n"), Some(7 * 1024));
        assert_eq!(bytes_of("MemAvailable:", "MemTotal: 9 kB\n"), None);
        assert_eq!(bytes_of("MemAvailable:", "MemAvailable: many kB\n"), None);
    }

    #[test]
    fn sizes_of_caches_are_read_in_bytes() {
        assert_eq!(["512K\n", "2048K", "1M", "K", "0K", ""].map(cache_bytes), {
            [Some(512 << 10), Some(2 << 20), None, None, None, None]
        });
        assert!(core_cache_bytes() > 0);
    }

    #[test]
    fn groups_above_count_too() {
        let paths =
            |line: &str| folders(line).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(paths("0::/a/b"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(paths("4:memory:/x"), ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory/"]);
        assert!(paths("5:cpu,cpuacct:/x").is_empty() && paths("nonsense").is_empty());
    }

    #[test]
    fn files_that_can_be_dropped_are_no_use_of_memory() {
        assert_eq!(inactive_file("inactive_file 5\nactive_file 7\n"), 5);
        assert_eq!(inactive_file("inactive_file 5\ntotal_inactive_file 50\n"), 50);
        assert_eq!(inactive_file("inactive_files 5\n"), 0);
    }

    #[test]
    fn something_is_available() {
        assert!(available_bytes() > 1 << 20);
    }
}
