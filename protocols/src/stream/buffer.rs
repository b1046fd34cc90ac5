//! A few bytes that are filled at the end and taken from the front.

/// At most `N` bytes, below 256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SmallBuffer<const N: usize> {
    bytes: [u8; N],
    len: u8,
    taken: u8,
}

impl<const N: usize> SmallBuffer<N> {
    pub(super) const fn new() -> Self {
        const { assert!(N < 256) };
        Self { bytes: [0; N], len: 0, taken: 0 }
    }

    /// Returns its contents.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(usize::from(self.taken)..usize::from(self.len)).unwrap_or_default()
    }

    /// Adds the bytes, or none of them: false if there is no room.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let (start, end) = (usize::from(self.len), usize::from(self.len).saturating_add(bytes.len()));
        let Some(room) = self.bytes.get_mut(start..end) else { return false };
        room.copy_from_slice(bytes);
        self.len = end as u8;
        true
    }

    /// Takes so many bytes from the front, at most what is there.
    pub(super) fn take(&mut self, count: usize) {
        let left = usize::from(self.len - self.taken.min(self.len));
        self.taken += count.min(left) as u8;
        if self.taken == self.len {
            *self = Self::new();
        }
    }
}
