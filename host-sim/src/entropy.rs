//! UNSAFE: one system call. Random numbers for job keys and epochs.

use nix::libc;

/// 64 random bits from the kernel. Where the kernel has none to give (it has, from a moment after boot), the
/// process id and the clock stand in: still different between processes, which is all that is asked of them.
pub fn random() -> u64 {
    let mut word = [0_u8; 8];
    // SAFETY: the pointer and the length are those of `word`; the call writes nowhere else.
    let got = unsafe { libc::getrandom(word.as_mut_ptr().cast(), word.len(), libc::GRND_NONBLOCK) };
    if got == 8 {
        return u64::from_ne_bytes(word);
    }
    let mixed = crate::platform::monotonic_ns() ^ u64::from(std::process::id()).rotate_left(40);
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_differ() {
        assert_ne!(super::random(), super::random());
    }
}
