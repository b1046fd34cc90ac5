//! The choice of the core that a rank is pinned to.

use aldis_linux::platform::allowed_cores;
use aldis_sys::file::read_to_string;

/// The cores that the launcher may use, one hardware thread of every physical core first.
pub(crate) fn in_order() -> Vec<usize> {
    let mut cores = allowed_cores();
    cores.sort_by_key(|&core| (turn(core), core));
    cores
}

/// Returns the number of hardware threads of the same physical core that come before this one.
fn turn(core: usize) -> usize {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = read_to_string(path).unwrap_or_default();
    members(list.trim()).into_iter().filter(|&sibling| sibling < core).count()
}

/// The kernel's list format: `0-3,8,10-11`.
fn members(list: &str) -> Vec<usize> {
    let bounds = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    bounds.flat_map(|(first, last)| first..=last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(members("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(members("5"), [5]);
        assert!(members("").is_empty());
    }

    #[test]
    fn no_core_is_lost_by_ordering() {
        let mut ordered = in_order();
        ordered.sort_unstable();
        assert_eq!(ordered, allowed_cores());
    }
}
