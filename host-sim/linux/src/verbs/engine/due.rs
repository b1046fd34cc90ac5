//! Peers that a poll has to look at.

/// A set of peers by number.
pub(super) struct Due(Vec<u64>);

impl Due {
    /// An empty set of so many that there may be.
    pub(super) fn new(peers: usize) -> Self {
        Self(vec![0; peers.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, peer: usize) {
        if let Some(word) = self.0.get_mut(peer / 64) {
            *word |= 1 << (peer % 64);
        }
    }

    /// Takes the first that is not below `from`.
    pub(super) fn take(&mut self, from: usize) -> Option<usize> {
        let first = from / 64;
        for (at, word) in self.0.iter_mut().enumerate().skip(first) {
            let skipped = if at == first { from % 64 } else { 0 };
            let rest = *word & (u64::MAX << skipped);
            if rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                *word &= !(1 << bit);
                return Some(at * 64 + bit);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_in_order() {
        let mut due = Due::new(200);
        for peer in [130, 0, 63, 64, 199, 63, 200, 9999] {
            due.insert(peer);
        }
        assert_eq!(due.take(1), Some(63));
        let mut from = 0;
        let mut taken = Vec::new();
        while let Some(peer) = due.take(from) {
            taken.push(peer);
            from = peer + 1;
        }
        assert_eq!(taken, [0, 64, 130, 199, 200]);
        assert_eq!(due.take(0), None);
    }
}
