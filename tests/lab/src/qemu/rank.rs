//! The state of one rank while it runs, and what came of it.

use core::time::Duration;
use std::process::ExitStatus;

use super::machine::Arch;

/// The beginning of a rank's last word.
const VERDICT: &str = "verdict: ";
/// The beginning of the first line of a rank that tells which life it is in.
pub(super) const EPOCH: &str = "info: epoch ";
/// Lines that are shown of a rank that is missing.
const LAST_LINES: usize = 4;

/// A rank as its launcher sees it.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) number: usize,
    pub(super) arch: Arch,
    /// The lines that it said.
    pub(super) lines: Vec<String>,
    /// Bytes behind the last line's end.
    partial: Vec<u8>,
    /// The status with which it ended, and the time of its end.
    pub(super) ended: Option<(ExitStatus, Duration)>,
}

impl Rank {
    pub(super) const fn new(number: usize, arch: Arch) -> Self {
        Self { number, arch, lines: Vec::new(), partial: Vec::new(), ended: None }
    }

    /// Takes what it has said, and returns the lines that are complete now.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Vec<String> {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let complete = core::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&complete);
        let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        self.lines.extend(lines.iter().cloned());
        lines
    }

    /// Returns the label in front of its lines.
    pub(super) fn label(&self) -> String {
        format!("[rank {} {}]", self.number, self.arch.name())
    }

    /// Its verdict: the last one, should it have said several.
    pub(super) fn verdict(&self) -> Option<&str> {
        self.lines.iter().rev().find_map(|line| line.strip_prefix(VERDICT))
    }

    /// The result that is to be the same on all ranks, if the program has one.
    pub(super) fn digest(&self) -> Option<&str> {
        self.verdict()?.split(' ').find_map(|word| word.strip_prefix("digest="))
    }

    /// The life that its board is in, if the board tells it.
    pub(super) fn epoch(&self) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(EPOCH))
    }

    /// A count of its transport, from the line that tells of its frames.
    pub(super) fn frames(&self, name: &str) -> Option<u64> {
        let line = self.lines.iter().rev().find_map(|line| line.strip_prefix("frames: "))?;
        let mut words = line.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name)?.1.parse().ok()
    }

    /// Returns what is wrong with it, in words; `None` if nothing is. A good word alone does not
    /// count, nor does a good code.
    pub(super) fn fault(&self) -> Option<String> {
        let label = self.label();
        let Some((status, _)) = self.ended else {
            return Some(format!("{label} is missing; {}", self.last_words()));
        };
        let good = self.arch.good_code();
        match (self.verdict(), status.code()) {
            (Some(verdict), Some(code)) if verdict.starts_with("OK") && code == good => None,
            (Some(verdict), _) if verdict.starts_with("OK") => {
                Some(format!("{label} said {verdict:?} and ended with {status} where code {good} is good"))
            }
            (Some(verdict), _) => Some(format!("{label} {verdict}")),
            (None, _) => Some(format!("{label} ended with {status} and no verdict; {}", self.last_words())),
        }
    }

    fn last_words(&self) -> String {
        if self.lines.is_empty() {
            return "it said nothing".into();
        }
        let first = self.lines.len().saturating_sub(LAST_LINES);
        format!("its last words: {}", self.lines[first..].join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn rank(arch: Arch, said: &str, code: i32) -> Rank {
        let mut rank = Rank::new(3, arch);
        rank.hear(said.as_bytes());
        rank.ended = Some((ExitStatus::from_raw(code << 8), Duration::ZERO));
        rank
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        let mut rank = Rank::new(0, Arch::Host);
        assert_eq!(rank.hear(b"verdict: OK "), [""; 0]);
        assert_eq!(rank.hear(b"heat digest=00ff\r\nmo"), ["verdict: OK heat digest=00ff"]);
        assert_eq!(rank.digest(), Some("00ff"));
        assert_eq!(rank.hear(b"re\n"), ["more"]);
    }

    #[test]
    fn a_good_rank_says_so_and_ends_so() {
        assert_eq!(rank(Arch::X86_64, "verdict: OK heat\n", 33).fault(), None);
        assert_eq!(rank(Arch::Aarch64, "verdict: OK heat\n", 0).fault(), None);
        for (arch, said, code, told) in [
            // A triple fault ends a PC with code 0.
            (Arch::X86_64, "verdict: OK heat\n", 0, "where code 33 is good"),
            (Arch::X86_64, "", 33, "no verdict; it said nothing"),
            (Arch::Host, "verdict: FAILED recv\n", 1, "[rank 3 host] FAILED recv"),
            (Arch::Host, "one\ntwo\n", 1, "its last words: one | two"),
        ] {
            let fault = rank(arch, said, code).fault().unwrap();
            assert!(fault.contains(told), "{fault}");
        }
        assert!(Rank::new(1, Arch::Riscv64).fault().unwrap().contains("[rank 1 riscv64] is missing"));
    }

    #[test]
    fn counts_of_frames_are_found_by_name() {
        let rank = rank(Arch::Host, "frames: received=5 stale=7\nverdict: OK x\n", 0);
        assert_eq!((rank.frames("stale"), rank.frames("sent")), (Some(7), None));
    }
}
