//! The interface that a board must implement, and the boards.

use core::fmt::Write;

use aldis_drivers::pci::{AddressWindow, ConfigurationAccess, PciRoot};
use aldis_drivers::virtio::VirtioSlots;
use aldis_hal::Platform;
use embedded_io::{Read, ReadReady, WriteReady};

#[cfg(not(target_arch = "arm"))]
use crate::cores::SharedPlace;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod cortex_m;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use self::aarch64 as board;
#[cfg(target_arch = "arm")]
use self::cortex_m as board;
#[cfg(target_arch = "riscv64")]
use self::riscv64 as board;
#[cfg(target_arch = "x86_64")]
use self::x86_64 as board;

/// A board, once its boot code has made a stack and cleared `.bss`: it hands itself to
/// [`rank::main`](crate::rank::main).
///
/// Besides, its module has two functions that work at any time, also in a panic: `console()` gives
/// where text goes, and `exit(success)` ends the emulator, or halts.
pub(crate) trait Machine: Sized + 'static {
    /// Time, and what to do while idle.
    type Clock: Platform;

    /// A serial line.
    type Serial: Read + ReadReady + embedded_io::Write + WriteReady;

    /// The way to the configuration of PCI devices.
    type Access: ConfigurationAccess;

    /// The command line, if the board was given one.
    fn command_line(&self) -> Option<&'static str>;

    /// The clock, once; `None` if it does not run.
    fn clock(&mut self) -> Option<Self::Clock>;

    /// Starts another core, which goes to [`cores::main`](crate::cores::main) with its number on a
    /// stack of its own. Returns false if there is none of this number.
    #[cfg(not(target_arch = "arm"))]
    fn start_core(&mut self, core: u32) -> bool;

    /// The clock of another core, made on it, once the first core has its own; or another clock of
    /// the first, which rests by one of them at a time.
    #[cfg(not(target_arch = "arm"))]
    fn core_clock(core: u32) -> Option<Self::Clock>;

    /// The place of the endpoint that all cores share, where they do.
    #[cfg(not(target_arch = "arm"))]
    fn shared_endpoint() -> &'static SharedPlace<Self>;

    /// The serial line that joins it to other ranks, besides the console's.
    fn serial(&mut self) -> Option<Self::Serial>;

    /// Its PCI bus, if it has one.
    fn pci(&mut self) -> Option<Pci<Self::Access>>;

    /// Returns the places of virtio devices that are behind no bus.
    fn slots(&self) -> Option<VirtioSlots>;
}

/// A PCI bus and, where no firmware has placed what the devices have, addresses for it.
pub(crate) struct Pci<A: ConfigurationAccess> {
    /// Its root.
    pub(crate) root: PciRoot<A>,
    /// Addresses that are mapped for registers.
    pub(crate) registers: AddressWindow,
    /// Addresses that are mapped for memory of a device that is shared with others.
    pub(crate) memory: AddressWindow,
}

/// Buses that are looked at: there are no bridges.
pub(crate) const BUSES: u8 = 1;

/// Returns the console to which text goes.
pub(crate) fn console() -> impl Write {
    board::console()
}

/// Ends the emulator, or halts.
pub(crate) fn exit(success: bool) -> ! {
    board::exit(success)
}
