//! Files of captured frames: no two ranks of a machine write to one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aldis_linux::ethernet::CardsChoice;

use crate::hosts::{HostPlace, Share};
use crate::options::{Options, TransportName};

/// The file that any number of ranks may write to.
const NO_FILE: &str = "/dev/null";

/// The ranks of a program, with their card and folder.
struct CapturingRanks<'a> {
    ranks: u32,
    card: Option<&'a CardsChoice>,
    folder: Option<&'a Path>,
}

impl Options {
    /// The reason why the files of captured frames cannot be, if ranks of these hosts would write
    /// over each other's.
    pub(crate) fn capture_fault(&self, shares: &[Share]) -> Option<String> {
        let opens_cards = match self.meant_transport() {
            TransportName::Ethernet => true,
            TransportName::ShmEthernet => shares.len() > 1,
            _ => false,
        };
        let mut rank = 0_u32;
        let mut writers: BTreeMap<(Option<&str>, PathBuf), u32> = BTreeMap::new();
        for program in self.capturing().filter(|_| opens_cards) {
            for own in rank..rank.saturating_add(program.ranks) {
                let machine = machine(shares, own);
                for path in program.files(own) {
                    let told = path.display().to_string();
                    if let Some(other) = writers.insert((machine, path), own).filter(|_| told != NO_FILE) {
                        return Some(format!(
                            "ranks {other} and {own} would write their frames to one file, {told}; have the rank's \
                             number in its name, %r: such as pcap=/tmp/%r.pcap"
                        ));
                    }
                }
            }
            rank = rank.saturating_add(program.ranks);
        }
        None
    }

    /// The programs, by their ranks.
    fn capturing(&self) -> impl Iterator<Item = CapturingRanks<'_>> {
        let others: u32 = self.others.iter().map(|part| part.plan.ranks).sum();
        let ranks = self.plan.ranks.saturating_sub(others);
        let first = CapturingRanks { ranks, card: self.nic.as_ref(), folder: self.wdir.as_deref() };
        let others = self.others.iter().map(|part| CapturingRanks {
            ranks: part.plan.ranks,
            card: part.nic.as_ref().or(self.nic.as_ref()),
            folder: part.wdir.as_deref(),
        });
        core::iter::once(first).chain(others)
    }
}

impl CapturingRanks<'_> {
    /// The files of one of them.
    fn files(&self, rank: u32) -> impl Iterator<Item = PathBuf> {
        let cards = self.card.map(|card| card.of_rank(rank));
        let both = cards.map(|CardsChoice { first, second }| [Some(first), second]);
        let paths = both.into_iter().flatten().flatten().filter_map(|card| card.capture);
        paths.map(|path| self.folder.unwrap_or(Path::new("")).join(path))
    }
}

/// The name of the machine of a rank; `None` for this one.
fn machine(shares: &[Share], rank: u32) -> Option<&str> {
    let of_rank = |share: &&Share| (share.first..share.first.saturating_add(share.ranks)).contains(&rank);
    match &shares.iter().find(of_rank)?.place {
        HostPlace::Machine(name) => Some(name),
        HostPlace::Here | HostPlace::Apart(_) | HostPlace::Namespace(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use std::ffi::OsString;

    use super::*;
    use crate::programs::{self, ProgramPart};

    fn fault(line: &str) -> Option<String> {
        let line = format!("aldis-run {line}");
        let mut parts = programs::split(line.split(' ').map(OsString::from)).into_iter();
        let mut options = Options::try_parse_from(parts.next().unwrap()).unwrap();
        options.join(parts.map(|part| ProgramPart::try_parse_from(part).unwrap()).collect()).unwrap();
        options.shares().err()
    }

    #[test]
    fn ranks_that_would_write_over_each_other_are_told() {
        for (line, ranks) in [
            ("-n 2 --transport ethernet --nic packet:v%r,pcap=/a a", "ranks 0 and 1 "),
            ("-n 3 --transport ethernet --nic packet:v%r+packet:w%r,pcap=/a a", "ranks 0 and 1 "),
            ("-n 4 --host a:1,b:1,c:2 --nic packet:e,pcap=/a a", "ranks 2 and 3 "),
            ("-n 2 --host netns:a,netns:b --nic packet:e,pcap=/a a", "ranks 0 and 1 "),
            (
                "-n 1 --transport ethernet --nic packet:a,pcap=/0 a : -n 1 --nic packet:b,pcap=/0 b",
                "ranks 0 and 1 ",
            ),
            (
                "-n 1 --transport ethernet --nic packet:a,pcap=/1 a : -n 1 --nic packet:b,pcap=/%r b",
                "ranks 0 and 1 ",
            ),
        ] {
            let told = fault(line).unwrap_or_default();
            assert!(
                told.contains(ranks) && told.contains("%r: such as pcap=/tmp/%r.pcap"),
                "{line}: {told:?}"
            );
        }
        for line in [
            "-n 2 --transport ethernet --nic packet:v%r,pcap=/tmp/%r a",
            "-n 2 --host a,b --nic packet:e,pcap=/a a",
            "-n 2 --nic packet:e,pcap=/a a",
            "-n 2 --transport ethernet --nic packet:e,pcap=/dev/null a",
            "-n 1 --wdir /a --transport ethernet --nic packet:e,pcap=x a : -n 1 --wdir /b b",
        ] {
            assert_eq!(fault(line), None, "{line}");
        }
    }
}
