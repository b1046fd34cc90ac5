//! The tree of agents: who starts whose.
//!
//! The launcher starts the agents of the first hosts, as many as the fan-out says, each of these
//! those of as many others, and so on, so that no process has more than so many pipes however many
//! hosts there are. Other machines stand below each other, so do namespaces of this machine, which
//! cannot be entered from another, and so does what is apart on it without one.

use aldis_run::hosts::{HostPlace, Share};

/// The host whose agent starts the agent of each host; `None` if the launcher does, or needs none.
pub(crate) fn starters(shares: &[Share], fanout: u32) -> Vec<Option<usize>> {
    let mut starters = vec![None; shares.len()];
    let is_afar = |place: &HostPlace| matches!(place, HostPlace::Machine(_));
    let is_namespace = |place: &HostPlace| matches!(place, HostPlace::Namespace(_));
    let is_apart = |place: &HostPlace| matches!(place, HostPlace::Apart(_));
    for wanted in [places(shares, is_afar), places(shares, is_namespace), places(shares, is_apart)] {
        grow(&mut starters, &wanted, fanout as usize);
    }
    starters
}

fn places(shares: &[Share], is_wanted: impl Fn(&HostPlace) -> bool) -> Vec<usize> {
    let wanted = shares.iter().enumerate().filter(|(_, share)| is_wanted(&share.place));
    wanted.map(|(place, _)| place).collect()
}

/// Makes a tree of these places: the first ones have none above them, each other one that of its
/// place by the fan-out.
fn grow(starters: &mut [Option<usize>], places: &[usize], fanout: usize) {
    for (number, place) in places.iter().enumerate() {
        let above = (number / fanout.max(1)).checked_sub(1).and_then(|above| places.get(above));
        if let (Some(above), Some(starter)) = (above, starters.get_mut(*place)) {
            *starter = Some(*above);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(hosts: &str, fanout: u32) -> Vec<Option<usize>> {
        let listed = aldis_run::hosts::list(hosts).unwrap();
        let ranks = listed.len() as u32;
        starters(&aldis_run::hosts::share_out(ranks, &listed).unwrap(), fanout)
    }

    #[test]
    fn few_hosts_are_started_by_the_launcher() {
        assert_eq!(tree("localhost,a,b,netns:x", 3), [None; 4]);
    }

    #[test]
    fn more_hosts_are_started_by_those_before_them() {
        let two = [None, None, Some(0), Some(0), Some(1), Some(1), Some(2)];
        assert_eq!(tree("a,b,c,d,e,f,g", 2), two);
        assert_eq!(tree("a,b,c,d", 1), [None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn hosts_of_one_kind_start_each_other_and_no_others() {
        let kinds = [None, None, None, Some(1), None, Some(2), Some(3), Some(4)];
        assert_eq!(tree("localhost,a,netns:x,b,local:y,netns:z,c,local:w", 1), kinds);
    }

    #[test]
    fn nobody_starts_more_than_the_fan_out_or_stands_deeper_than_its_logarithm() {
        let hosts = (0..300).map(|host| format!("h{host}")).collect::<Vec<_>>().join(",");
        let starters = tree(&hosts, 4);
        for host in (0..300).map(Some).chain([None]) {
            assert!(starters.iter().filter(|starter| **starter == host).count() <= 4);
        }
        let depth = |host: usize| core::iter::successors(Some(host), |at| starters[*at]).count();
        assert_eq!((0..300).map(depth).max(), Some(4), "4 + 16 + 64 + 256 places");
    }
}
