//! This module holds `unsafe` code: what a board needs besides its boot code. The end of every
//! panic, two registers, and the memory that the cores share.
//!
//! The board is made up, and typical: cores that each see their own number and a common clock as
//! device registers, and the same stretch of memory at the same address.

use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use aldis_drivers::shm::{Lane, Region};
use aldis_hal::mmio::Mmio;
use aldis_hal::{Instant, Platform};

use crate::layout::{INBOX_BYTES, LANES_LEN, MESSAGE_BYTES_MAX, PEERS};

unsafe extern "C" {
    static mut core_number: u32;
    static mut microseconds: u32;
}

/// Never linked: `cargo xtask size` fails if something can reach it.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    crate::boot::stop()
}

/// The core's registers: the platform that the endpoint runs on.
pub(crate) struct Board {
    core: Mmio<u32>,
    clock: Mmio<u32>,
}

impl Board {
    /// The number of this core.
    pub(crate) fn core(&self) -> u32 {
        self.core.read()
    }
}

impl Platform for Board {
    /// Wraps after 71 minutes; a board with a longer life reads a second word.
    fn now(&self) -> Instant {
        Instant(u64::from(self.clock.read()) * 1_000)
    }

    fn relax(&mut self, _idle: u32) {
        core::hint::spin_loop();
    }

    fn entropy(&mut self) -> u64 {
        u64::from(self.clock.read()) << 8 | u64::from(self.core.read())
    }
}

/// A value that is handed out once.
struct Once<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `take` hands out one reference, once, and no other core sees this RAM.
unsafe impl<T> Sync for Once<T> {}

impl<T> Once<T> {
    const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    fn take(&'static self) -> Option<&'static mut T> {
        let first = !self.taken.swap(true, Ordering::Relaxed);
        // SAFETY: the swap lets one caller through, once.
        first.then(|| unsafe { &mut *self.value.get() })
    }
}

/// The parts of the firmware besides the endpoint's storage.
pub(crate) struct BoardParts {
    /// The registers.
    pub(crate) board: Board,
    /// The transport's state, as many entries as the geometry asks for.
    pub(crate) lanes: &'static mut [Lane],
    /// Room for one message.
    pub(crate) message: &'static mut [u8],
}

/// Everything, once.
pub(crate) fn take() -> Option<BoardParts> {
    static LANES: Once<[Lane; LANES_LEN]> = Once::new([const { Lane::EMPTY }; LANES_LEN]);
    static MESSAGE: Once<[u8; MESSAGE_BYTES_MAX]> = Once::new([0; MESSAGE_BYTES_MAX]);
    let (lanes, message) = (LANES.take()?, MESSAGE.take()?);
    let (core, clock) = (NonNull::new(&raw mut core_number)?, NonNull::new(&raw mut microseconds)?);
    // SAFETY: the linker script puts these at device registers, which are always there and share no
    // memory; each is made once, as `LANES` is taken once.
    let board = unsafe { Board { core: Mmio::new(core), clock: Mmio::new(clock) } };
    Some(BoardParts { board, lanes, message })
}

/// The inboxes of all cores, at the same address for each.
#[repr(C, align(64))]
struct Shared(UnsafeCell<[[u8; INBOX_BYTES]; PEERS]>);

// SAFETY: only `inbox` leads to it, whose regions keep the ring protocol.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".shared")]
static SHARED: Shared = Shared(UnsafeCell::new([[0; INBOX_BYTES]; PEERS]));

/// The inbox of core `owner`; `None` beyond the last.
pub(crate) fn inbox(owner: usize) -> Option<Region<'static>> {
    if owner >= PEERS {
        return None;
    }
    // SAFETY: `owner` is below `PEERS`, so the pointer stays within `SHARED`.
    let start = unsafe { SHARED.0.get().cast::<u8>().add(owner * INBOX_BYTES) };
    // SAFETY: static memory, aligned to 64 bytes as `INBOX_BYTES` is a multiple of it, used as an
    // inbox alone; all cores run this firmware and keep the protocol.
    NonNull::new(start).map(|start| unsafe { Region::new(start, INBOX_BYTES) })
}
