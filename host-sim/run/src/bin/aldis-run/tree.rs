//! The tree of agents: who starts whose.
//!
//! The launcher starts the agents of the first hosts, as many as the fan-out says, each of these
//! those of as many others, and so on, so that no process has more than so many pipes however many
//! hosts there are. Hosts of other machines stand below each other, and so do those of this one:
//! a namespace of this machine cannot be entered from another.

use aldis_run::hosts::{HostPlace, Share};

/// The host whose agent starts the agent of each host; `None` if the launcher does, or needs none.
pub(crate) fn starters(shares: &[Share], fanout: u32) -> Vec<Option<usize>> {
    let mut starters = vec![None; shares.len()];
    let is_afar = |place: &HostPlace| matches!(place, HostPlace::Machine(_));
    let is_near = |place: &HostPlace| matches!(place, HostPlace::Apart(_) | HostPlace::Namespace(_));
    grow(&mut starters, &places(shares, is_afar), fanout as usize);
    grow(&mut starters, &places(shares, is_near), fanout as usize);
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
    fn machines_and_namespaces_of_this_one_do_not_start_each_other() {
        let apart = [None, None, None, Some(1), Some(2), Some(3)];
        assert_eq!(tree("localhost,a,netns:x,b,local:y,c", 1), apart);
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
