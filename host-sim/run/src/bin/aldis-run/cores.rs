//! The choice of the cores that a rank is bound to.

use std::os::fd::{AsRawFd, OwnedFd};

use aldis_linux::platform::allowed_cores;
use aldis_sys::Errno;
use aldis_sys::file::read_to_string;
use aldis_sys::process::CpuSet;
use aldis_sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

use crate::messages::Binding;

/// The cores that the ranks of this launcher alone are bound to: names of sockets, of which the
/// system gives each to one process of the machine (of its network namespace) and takes it back
/// when that ends.
#[derive(Debug, Default)]
pub(crate) struct CoreClaim {
    _names: Vec<OwnedFd>,
}

impl CoreClaim {
    /// Claims these cores, or none of them if another launcher has claimed one.
    fn of(cores: impl Iterator<Item = usize>) -> Result<Self, Errno> {
        let name = |core: usize| {
            let name = UnixAddr::new_abstract(format!("aldis-core-{core}").as_bytes())?;
            let claim = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
            bind(claim.as_raw_fd(), &name)?;
            Ok(claim)
        };
        Ok(Self { _names: cores.map(name).collect::<Result<_, Errno>>()? })
    }
}

/// Returns the cores of the ranks of this node, set by set and round and round, or nothing if they
/// are not bound; and what keeps the launchers of other jobs from them.
pub(crate) fn of_ranks(binding: Binding, ranks: usize) -> (Vec<CpuSet>, CoreClaim) {
    let bound = match binding {
        Binding::Free => return Default::default(),
        Binding::Core => in_order().into_iter().map(|core| vec![core]).collect(),
        Binding::Share => shares(&physical(), ranks),
    };
    let claimed = match binding {
        Binding::Share => CoreClaim::of(bound.iter().flatten().copied()),
        _ => Ok(CoreClaim::default()),
    };
    claimed.map_or_else(
        |_| Default::default(),
        |claim| (bound.iter().map(|cores| set_of(cores)).collect(), claim),
    )
}

fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    // Numbers of cores that the system has told are within what a set holds.
    cores.iter().for_each(|core| set.set(*core).unwrap_or(()));
    set
}

/// Returns the hardware threads of each of `ranks` ranks, which has as many whole cores as any
/// other: those of a package one after the other. Nothing if a rank is alone, or there are fewer
/// cores than ranks.
fn shares(cores: &[Vec<usize>], ranks: usize) -> Vec<Vec<usize>> {
    match cores.len().checked_div(ranks) {
        Some(each) if each > 0 && ranks > 1 => {
            cores.chunks_exact(each).take(ranks).map(<[_]>::concat).collect()
        }
        _ => Vec::new(),
    }
}

/// The hardware threads of each physical core that the launcher may use, package by package.
fn physical() -> Vec<Vec<usize>> {
    let mut threads: Vec<_> =
        allowed_cores().into_iter().map(|core| (package(core), siblings(core), core)).collect();
    threads.sort_unstable();
    let of_one_core = threads.chunk_by(|(_, one, _), (_, other, _)| !one.is_empty() && one == other);
    of_one_core.map(|threads| threads.iter().map(|(.., core)| *core).collect()).collect()
}

/// The package of a hardware thread; that of all where the system does not say.
fn package(core: usize) -> u32 {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/physical_package_id");
    read_to_string(path).ok().and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// The hardware threads of the physical core of this one.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    members(read_to_string(path).unwrap_or_default().trim())
}

/// The cores that the launcher may use, one hardware thread of every physical core first.
pub(crate) fn in_order() -> Vec<usize> {
    let mut cores = allowed_cores();
    cores.sort_by_key(|&core| (turn(core), core));
    cores
}

/// Returns the number of hardware threads of the same physical core that come before this one.
fn turn(core: usize) -> usize {
    siblings(core).into_iter().filter(|&sibling| sibling < core).count()
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
    fn ranks_share_whole_cores_equally() {
        let cores = [vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(shares(&cores, 4), cores);
        assert_eq!(shares(&cores, 2), [vec![0, 4, 1, 5], vec![2, 6, 3, 7]]);
        assert_eq!(shares(&cores, 3), cores[..3], "the fourth is left to others");
        for ranks in [0, 1, 5] {
            assert!(shares(&cores, ranks).is_empty());
        }
    }

    #[test]
    fn a_core_is_claimed_by_one_launcher_at_a_time() {
        // No machine has these.
        let claim = |cores: &[usize]| CoreClaim::of(cores.iter().map(|core| 1 << 20 | core));
        let first = claim(&[1, 2]).unwrap();
        assert_eq!(claim(&[3, 2]).unwrap_err(), Errno::EADDRINUSE);
        let other = claim(&[3]).unwrap();
        drop(first);
        claim(&[1, 2]).unwrap();
        drop(other);
    }

    #[test]
    fn physical_cores_are_all_that_is_allowed() {
        let mut threads = physical().concat();
        threads.sort_unstable();
        assert_eq!(threads, allowed_cores());
    }

    #[test]
    fn no_core_is_lost_by_ordering() {
        let mut ordered = in_order();
        ordered.sort_unstable();
        assert_eq!(ordered, allowed_cores());
    }
}
