//! Random numbers for job keys, nonces and epochs.

use core::fmt;

use aldis_sys::Errno;
use aldis_sys::random::{self, GRND_NONBLOCK};

/// The system has no random numbers to give. Keys that stood in for them could be foretold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoEntropy {
    /// The error of `getrandom`; `None` if it gave too few bytes.
    pub errno: Option<Errno>,
}

impl fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system has no random numbers: getrandom ")?;
        match self.errno {
            // Known only until the machine has started.
            Some(Errno::EAGAIN) => f.write_str("is not ready; try again once the machine has started"),
            Some(errno) => write!(f, "failed: {}; is it forbidden (seccomp)?", errno.desc()),
            None => f.write_str("gave too few"),
        }
    }
}

impl core::error::Error for NoEntropy {}

/// Returns 64 random bits from the kernel.
///
/// # Errors
/// [`NoEntropy`] where the call is forbidden, or has nothing to give.
pub fn random() -> Result<u64, NoEntropy> {
    let mut word = [0; 8];
    fill(&mut word).map(|()| u64::from_ne_bytes(word))
}

/// Fills `bytes` with random bits from the kernel.
///
/// # Errors
/// [`NoEntropy`] where the call is forbidden, or has nothing to give.
pub fn fill(bytes: &mut [u8]) -> Result<(), NoEntropy> {
    fill_by(getrandom, bytes)
}

/// Returns 64 bits that differ between processes and calls, for names: those of the kernel, or the
/// clock and the process id. They can be foretold where the kernel has none.
pub fn distinct() -> u64 {
    random().unwrap_or_else(|_| {
        let mixed = crate::platform::monotonic_ns() ^ u64::from(std::process::id()).rotate_left(40);
        mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

/// Asks the kernel; returns how many bytes there were. A machine that has just started and has
/// nothing to draw them from is waited for: a kernel that is asked so makes some of its own jitter,
/// within about a second (Linux 5.4 and newer).
fn getrandom(bytes: &mut [u8]) -> Result<usize, Errno> {
    match random::getrandom(bytes, GRND_NONBLOCK) {
        Err(Errno::EAGAIN) => random::getrandom(bytes, 0),
        answer => answer,
    }
}

fn fill_by(
    mut source: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    bytes: &mut [u8],
) -> Result<(), NoEntropy> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source(rest) {
            Ok(0) => return Err(NoEntropy { errno: None }),
            Ok(got) => done += got,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(NoEntropy { errno: Some(errno) }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(random(), random());
        assert_ne!(distinct(), distinct());
    }

    #[test]
    fn a_source_that_gives_little_is_asked_again() {
        let mut answers = [Ok(3), Err(Errno::EINTR), Ok(1), Ok(4)].into_iter();
        let source = |rest: &mut [u8]| {
            let got = answers.next().unwrap()?;
            rest[..got].fill(got as u8);
            Ok(got)
        };
        let mut word = [0; 8];
        assert_eq!(fill_by(source, &mut word), Ok(()));
        assert_eq!(word, [3, 3, 3, 1, 4, 4, 4, 4]);
    }

    #[test]
    fn a_source_that_has_nothing_is_an_error() {
        for (answer, errno) in [(Ok(0), None), (Err(Errno::EAGAIN), Some(Errno::EAGAIN))] {
            assert_eq!(fill_by(|_| answer, &mut [0; 8]), Err(NoEntropy { errno }));
        }
    }
}
