//! The cores that the measured ranks are pinned to.

use anyhow::{Context, Result, bail};

/// Two distinct physical cores of those that this process may use.
pub(crate) fn two() -> Result<[usize; 2]> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading which cores may be used")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("");
    let allowed = parse(list.trim());
    let Some(&first) = allowed.first() else { bail!("no core may be used: {list:?}") };
    let siblings =
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list"))
            .map_or_else(|_| vec![first], |text| parse(text.trim()));
    match allowed.iter().find(|core| !siblings.contains(core)) {
        Some(&second) => Ok([first, second]),
        None => bail!("a latency between processes needs two physical cores; only core {first} may be used"),
    }
}

/// The cores that were asked for, or [two] of the first.
///
/// # Errors
/// Not two, or one twice; a machine that has no two.
pub(crate) fn choose(named: &[usize]) -> Result<[usize; 2]> {
    match *named {
        [] => two(),
        [one, other] if one != other => Ok([one, other]),
        _ => bail!("--cores: name two cores that are not the same, such as 0,1"),
    }
}

/// A core for each rank, round and round.
pub(crate) fn of_ranks(two: [usize; 2], ranks: usize) -> Vec<usize> {
    two.into_iter().cycle().take(ranks).collect()
}

/// `0-2,5` as 0, 1, 2, 5.
fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<usize>().ok()?..=high.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse("3"), [3]);
        assert_eq!(parse(""), [0_usize; 0]);
    }

    #[test]
    fn cores_are_two_or_refused() {
        assert_eq!(choose(&[3, 1]).unwrap(), [3, 1]);
        assert!([&[1, 1][..], &[1], &[0, 1, 2]].iter().all(|named| choose(named).is_err()));
    }

    #[test]
    fn ranks_share_cores_evenly() {
        assert_eq!(of_ranks([1, 3], 4), [1, 3, 1, 3]);
    }
}
