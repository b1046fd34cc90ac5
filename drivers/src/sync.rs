//! The atomics and cells that lock-free code is written with: `core`'s, or loom's model-checked
//! ones under `--cfg loom`, so that the very code that ships is the code that is explored.

#[cfg(all(feature = "memif", not(loom)))]
pub(crate) use core::sync::atomic::AtomicU16;
#[cfg(all(not(loom), target_has_atomic = "64"))]
use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU16, AtomicU32, Ordering, fence},
};

/// Memory that two processes take turns in, with loom's interface: an access is a closure over a
/// raw pointer.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Accesses the cell for reading.
    #[inline(always)]
    pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Accesses the cell for writing.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A 32-bit word that one side writes and the other reads; little-endian in memory on every
/// machine.
#[cfg_attr(not(loom), derive(Default))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// A word of its own, outside shared memory.
    #[cfg(loom)]
    pub(crate) fn new(value: u32) -> Self {
        Self(AtomicU32::new(value.to_le()))
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        u32::from_le(self.0.load(order))
    }

    /// Replaces the value; only the word's one writer calls this.
    #[inline(always)]
    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.0.store(value.to_le(), order);
    }
}

/// Words that several sides count in, each in the byte order of its machine: zero for none.
#[cfg(target_has_atomic = "32")]
impl Word {
    /// Replaces zero by a value. Returns false, with nothing changed, if another has.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn claim(&self, value: u32, order: Ordering) -> bool {
        self.0.compare_exchange(0, value.to_le(), order, Ordering::Relaxed).is_ok()
    }

    /// Adds to the value, modulo 2^32.
    pub(crate) fn add(&self, by: u32) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

impl Word {
    /// The word as it is in memory.
    pub(crate) fn raw(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Keeps a store before a load that follows it, as far as the compiler goes: the other side has a
/// barrier made in this one's stream of instructions. In models that is a barrier here too, if it
/// is `fenced`.
#[inline(always)]
pub(crate) fn light_fence(fenced: bool) {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    if fenced {
        fence(Ordering::SeqCst);
    }
    let _ = fenced;
}

/// 64 flags that several sides set and reset; little-endian in memory on every machine.
#[cfg(target_pointer_width = "64")]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Flags(AtomicU64);

#[cfg(target_pointer_width = "64")]
impl Flags {
    /// Flags of its own, outside shared memory.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The flags.
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        u64::from_le(self.0.load(order))
    }

    /// Sets flags.
    pub(crate) fn set(&self, flags: u64, order: Ordering) {
        self.0.fetch_or(flags.to_le(), order);
    }

    /// Resets flags.
    pub(crate) fn reset(&self, flags: u64, order: Ordering) {
        self.0.fetch_and(!flags.to_le(), order);
    }
}

/// The loads by which both words of a pair are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairLoads {
    /// Gives both.
    Whole,
    /// Gives each, and the first again, which must be the same. Exact for a writer that stores a
    /// value of the first word once.
    Checked,
    /// Gives each. May give words of two stores: a twin for the models.
    #[cfg(loom)]
    Unchecked,
}

/// Two neighbouring words that one side writes and others read, the first in the low half of a
/// value; little-endian in memory on every machine.
#[repr(C, align(8))]
pub(crate) struct WordPair {
    #[cfg(target_has_atomic = "64")]
    words: AtomicU64,
    #[cfg(not(target_has_atomic = "64"))]
    words: [Word; 2],
}

impl WordPair {
    /// The loads of this machine.
    pub(crate) const LOADS: PairLoads =
        if cfg!(target_has_atomic = "64") { PairLoads::Whole } else { PairLoads::Checked };

    /// The value of two words.
    #[inline(always)]
    pub(crate) const fn value(first: u32, second: u32) -> u64 {
        (second as u64) << 32 | first as u64
    }

    /// The value of both words at one time, or zero if they changed meanwhile.
    #[inline(always)]
    pub(crate) fn load_both(&self, loads: PairLoads, order: Ordering) -> u64 {
        if loads == PairLoads::Whole {
            return self.load(order);
        }
        let first = self.load(order) as u32;
        let second = (self.load(order) >> 32) as u32;
        if loads == PairLoads::Checked && self.load(order) as u32 != first {
            return 0;
        }
        Self::value(first, second)
    }
}

#[cfg(target_has_atomic = "64")]
impl WordPair {
    /// A pair of its own, outside shared memory.
    #[cfg(loom)]
    pub(crate) fn new(first: u32, second: u32) -> Self {
        Self { words: AtomicU64::new(Self::value(first, second).to_le()) }
    }

    /// The value; where a machine loads the words one by one, of no one time.
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        u64::from_le(self.words.load(order))
    }

    /// Replaces both words; only their one writer calls this.
    #[inline(always)]
    pub(crate) fn store(&self, first: u32, second: u32, order: Ordering) {
        self.words.store(Self::value(first, second).to_le(), order);
    }
}

#[cfg(not(target_has_atomic = "64"))]
impl WordPair {
    /// The value, of no one time.
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let [first, second] = &self.words;
        Self::value(first.load(order), second.load(order))
    }

    /// Replaces the second word and then the first; only their one writer calls this.
    pub(crate) fn store(&self, first: u32, second: u32, order: Ordering) {
        let [one, other] = &self.words;
        other.store(second, order);
        one.store(first, Ordering::Release);
    }
}
