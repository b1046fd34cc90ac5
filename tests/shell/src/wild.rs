//! Wild seeds: ranges that are drawn from the commit, so that each commit is tried where none
//! before it was, and the same commit always in the same places. What fails there is a bug to mend,
//! as with the fixed seeds beside them.

use core::fmt;

use crate::workspace;

/// The text that stands for the commit where git has none to tell.
const NO_COMMIT: &str = "no commit";

/// A range of seeds that the commit determines, not a user.
pub struct Wild {
    /// The first seed: far from the fixed ones, and below 2^48.
    pub from: u64,
    commit: String,
}

impl Wild {
    /// Draws the seeds of a step from the commit that is checked out.
    pub fn of(step: &str) -> Self {
        let commit = workspace::git(&["rev-parse", "HEAD"]);
        Self::from_commit(&commit.map_or_else(|_| NO_COMMIT.into(), |commit| commit.trim().to_owned()), step)
    }

    /// Draws them from a commit: FNV-1a of both names, then the finalizer of SplitMix64 (Steele,
    /// Lea and Flood 2014).
    fn from_commit(commit: &str, step: &str) -> Self {
        let names = commit.bytes().chain([0]).chain(step.bytes());
        let mut hash = names.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self { from: 1 << 32 | (hash ^ (hash >> 31)) >> 16, commit: commit.to_owned() }
    }
}

impl fmt::Display for Wild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, commit } = self;
        if commit == NO_COMMIT {
            return write!(
                f,
                "wild seeds from {from}, the same in every run without a commit (git tells none)"
            );
        }
        write!(f, "wild seeds from {from}, of commit {}", commit.get(..12).unwrap_or(commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_and_a_step_have_seeds_of_their_own_and_always_the_same() {
        let from = |commit: &str, step| Wild::from_commit(commit, step).from;
        assert_eq!(from("8b06780", "simulator"), from("8b06780", "simulator"));
        assert_ne!(from("8b06780", "simulator"), from("8b06781", "simulator"));
        assert_ne!(from("8b06780", "simulator"), from("8b06780", "conformance"));
        for number in 0..1000 {
            let from = from(&number.to_string(), "simulator");
            assert!((1 << 32..1 << 48).contains(&from), "{from}");
        }
    }

    #[test]
    fn a_checkout_without_a_commit_says_so() {
        let told = Wild::from_commit(NO_COMMIT, "simulator").to_string();
        assert!(told.contains("git tells none"), "{told}");
        let told = Wild::from_commit("0123456789abcdef", "simulator").to_string();
        assert!(told.ends_with("of commit 0123456789ab"), "{told}");
    }
}
