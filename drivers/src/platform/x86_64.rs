//! This module holds `unsafe` code: the time-stamp counter and the ports of the timer that it is
//! measured against, the core's own timer, and `hlt`.
//!
//! Every x86_64 core of the last fifteen years counts at a constant rate from power-on, in all
//! states of power. What the rate is, it does not say; the programmable interval timer, in every PC
//! since the first and in emulators, is the ruler. Neither HPET nor ACPI tables are needed. A core
//! that is to sleep while idle is woken by the timer of its local APIC, by an interrupt that does
//! nothing. Sources: Intel SDM volume 3, 18.17 (time-stamp counter), 11.4 and 11.5.4 (local APIC
//! and its timer), volume 1, 7.3.17 (`RDRAND`); Intel 8254 data sheet.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, _rdtsc};

use core::ptr::NonNull;

use aldis_hal::mmio::Mmio;
use aldis_hal::{Instant, Platform};

use super::{NAP_NS, SPINS, Scale, mix};

/// Ticks of the PIT in a second.
const PIT_HZ: u64 = 1_193_182;
/// Ticks of a measurement: 5 ms.
const SPAN_TICKS: u16 = 5966;
/// Counts until one is precise enough, at most; then the most precise of them is taken. An emulator
/// that is interrupted makes a count too long or too short, and it shows.
const MEASUREMENTS: u32 = 16;
/// The error that is allowed in a count that is precise enough: this part of it.
const DOUBT_PART: u64 = 200;
/// Looks at the PIT before it is taken for absent: seconds, where a look at a port takes a
/// microsecond.
const LOOKS_MAX: u32 = 10_000_000;

/// Data of the PIT's channel 0 and its command register. Channel 2 has a gate that can be closed,
/// but that is behind a port which some machines lack (QEMU's `microvm`).
const CHANNEL_0: u16 = 0x40;
const COMMAND: u16 = 0x43;
/// In [`COMMAND`]: channel 0, low byte then high byte, mode 0 (the output rises at the end of the
/// count).
const ONE_SHOT: u8 = 0b0011_0000;
/// In [`COMMAND`]: the next byte of channel 0 is its status; and in that the output, and how the
/// channel was commanded.
const STATUS: u8 = 0b1110_0010;
const OUTPUT: u8 = 1 << 7;
const COMMANDED: u8 = 0b0011_1111;

/// CPUID leaf 1, ECX: `rdrand` is there.
const HAS_RDRAND: u32 = 1 << 30;
/// The number of times that an empty random number generator is asked again: Intel SDM volume 1,
/// 7.3.17.1.
const RDRAND_TRIES: u32 = 10;

/// The time for which the core's timer is measured.
const TRIAL_NS: u64 = 1_000_000;

/// Registers of a local APIC, by their offsets: spurious interrupts, and in it that the APIC is on;
/// the timer's interrupt, and in it that it is masked; the timer's first and its current count, and
/// the clock's divisor, and in that none.
const SPURIOUS: usize = 0xF0;
const APIC_ON: u32 = 1 << 8;
const TIMER: usize = 0x320;
const MASKED: u32 = 1 << 16;
const FIRST_COUNT: usize = 0x380;
const CURRENT_COUNT: usize = 0x390;
const DIVISOR: usize = 0x3E0;
const UNDIVIDED: u32 = 0b1011;

/// The time-stamp counter as a platform. A clone is for another core of the machine, whose counter
/// began at the same time; it spins while idle until it is given [naps](Self::with_naps) of its
/// own.
#[derive(Debug)]
pub struct Tsc {
    scale: Scale,
    seed: u64,
    has_rdrand: bool,
    /// The register that starts this core's timer, and the ticks of a nap.
    alarm: Option<(Mmio<u32>, u32)>,
}

impl Clone for Tsc {
    fn clone(&self) -> Self {
        Self { alarm: None, ..*self }
    }
}

impl Tsc {
    /// Measures the counter against the PIT, which takes 5 ms, and up to 80 where it is disturbed.
    /// `None` if no PIT answers.
    ///
    /// # Safety
    /// The caller runs at privilege level 0 (or may use ports 0x40 and 0x43), and nothing else uses
    /// channel 0 of the PIT: it is left stopped.
    #[must_use]
    pub unsafe fn measured(seed: u64) -> Option<Self> {
        // SAFETY: as this function's own.
        let ticks = most_precise(|| unsafe { count() })?;
        let hz = ticks.saturating_mul(PIT_HZ) / u64::from(SPAN_TICKS);
        let has_rdrand = __cpuid(1).ecx & HAS_RDRAND != 0;
        Some(Self { scale: Scale::of_hz(hz)?, seed, has_rdrand, alarm: None })
    }

    /// Adds naps: while idle the core sleeps for at most 50 us at a time, or until any other
    /// interrupt. Takes a millisecond, to measure the timer of the core's local APIC, whose
    /// registers are mapped at `apic`; a timer that does not count gives no naps.
    ///
    /// # Safety
    /// The caller runs at privilege level 0 on the core that the platform stays on, interrupts are
    /// off (`RFLAGS.IF` clear), and nothing else uses the local APIC's timer. The gate of `vector`,
    /// whose low four bits are set, leads to code that writes the APIC's end of interrupt and
    /// returns. Interrupts are on during a nap: each other one that is not masked is the caller's.
    #[must_use]
    pub unsafe fn with_naps(mut self, apic: NonNull<u8>, vector: u8) -> Self {
        // SAFETY: registers of the local APIC, which the caller says are mapped there.
        let register = |offset| unsafe { Mmio::<u32>::new(apic.byte_add(offset).cast()) };
        register(SPURIOUS).write(APIC_ON | u32::from(vector));
        register(DIVISOR).write(UNDIVIDED);
        register(TIMER).write(MASKED | u32::from(vector));
        let mut first = register(FIRST_COUNT);
        let start = self.now();
        first.write(u32::MAX);
        let span_ns = loop {
            let span_ns = self.now().since(start);
            if span_ns >= TRIAL_NS {
                break span_ns;
            }
            core::hint::spin_loop();
        };
        let counted = u32::MAX - register(CURRENT_COUNT).read();
        first.write(0);
        register(TIMER).write(vector.into());
        let ticks = u64::from(counted).saturating_mul(NAP_NS).checked_div(span_ns).unwrap_or(0);
        self.alarm = u32::try_from(ticks).ok().filter(|ticks| *ticks > 0).map(|ticks| (first, ticks));
        self
    }
}

impl Platform for Tsc {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.scale.ns(counter()))
    }

    #[inline]
    fn relax(&mut self, idle: u32) {
        match &mut self.alarm {
            Some((first, ticks)) if idle >= SPINS => {
                first.write(*ticks);
                // SAFETY: returns at the latest with the timer's interrupt, which does nothing, by
                // the promise of `with_naps`; one that comes before `hlt` is taken behind it, since
                // `sti` takes effect an instruction later. The stack below is free.
                unsafe { asm!("sti", "hlt", "cli", options(nomem)) };
            }
            _ => core::hint::spin_loop(),
        }
    }

    fn entropy(&mut self) -> u64 {
        self.seed = mix(self.seed, counter());
        // SAFETY: asked only of a core that has the instruction.
        let random = if self.has_rdrand { unsafe { random() } } else { 0 };
        self.seed ^ random
    }
}

/// The time that something took, in ticks of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TickCount {
    ticks_min: u64,
    ticks_max: u64,
}

impl TickCount {
    const fn doubt(self) -> u64 {
        self.ticks_max.saturating_sub(self.ticks_min)
    }

    const fn is_precise(self) -> bool {
        self.doubt() < self.ticks_min / DOUBT_PART
    }
}

/// The ticks of a count that is precise enough, or else of the most precise one. `None` as soon as
/// there is none.
fn most_precise(mut count: impl FnMut() -> Option<TickCount>) -> Option<u64> {
    let mut best = count()?;
    for _ in 1..MEASUREMENTS {
        if best.is_precise() {
            break;
        }
        let next = count()?;
        if next.doubt() < best.doubt() {
            best = next;
        }
    }
    Some(best.ticks_min + best.doubt() / 2)
}

/// Ticks of the counter while the PIT counts [`SPAN_TICKS`].
///
/// # Safety
/// As [`Tsc::measured`].
unsafe fn count() -> Option<TickCount> {
    // SAFETY: the caller's promise covers these ports; no memory is touched.
    unsafe {
        output(COMMAND, ONE_SHOT);
        // Where no PIT is, all bits are set.
        if status() & COMMANDED != ONE_SHOT {
            return None;
        }
        let [low, high] = SPAN_TICKS.to_le_bytes();
        output(CHANNEL_0, low);
        let before = counter();
        output(CHANNEL_0, high);
        let after = counter();
        let mut last = after;
        for _ in 0..LOOKS_MAX {
            let look = counter();
            if status() & OUTPUT != 0 {
                let ticks_max = counter().wrapping_sub(before);
                return Some(TickCount { ticks_min: last.wrapping_sub(after), ticks_max });
            }
            last = look;
        }
        None
    }
}

/// The status of channel 0.
///
/// # Safety
/// As [`Tsc::measured`].
unsafe fn status() -> u8 {
    // SAFETY: the caller's promise covers these ports; no memory is touched.
    unsafe {
        output(COMMAND, STATUS);
        input(CHANNEL_0)
    }
}

#[inline]
fn counter() -> u64 {
    // SAFETY: reading the counter has no effect; a core on which it is forbidden is no bare metal.
    unsafe { _rdtsc() }
}

/// A random number of the core's own; zero if it has none left for now.
///
/// # Safety
/// The core has the instruction `rdrand`.
unsafe fn random() -> u64 {
    for _ in 0..RDRAND_TRIES {
        let (value, is_there): (u64, u8);
        // SAFETY: the caller's promise; nothing but two registers and the flags changes.
        unsafe {
            asm!("rdrand {value}", "setc {is_there}", value = out(reg) value, is_there = out(reg_byte) is_there,
                options(nomem, nostack));
        }
        if is_there != 0 {
            return value;
        }
    }
    0
}

/// Reads a byte from an I/O port.
///
/// # Safety
/// Reading this port is the caller's to do, at a privilege level that may.
#[must_use]
pub unsafe fn input(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's promise; no memory is touched.
    unsafe { asm!("in al, dx", out("al") value, in("dx") port, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// Writing this to the port is the caller's to do, at a privilege level that may.
pub unsafe fn output(port: u16, value: u8) {
    // SAFETY: the caller's promise; no memory is touched.
    unsafe { asm!("out dx, al", in("al") value, in("dx") port, options(nomem, nostack, preserves_flags)) };
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn chosen(counts: &[(u64, u64)]) -> Option<u64> {
        let mut counts = counts.iter().map(|&(ticks_min, ticks_max)| TickCount { ticks_min, ticks_max });
        most_precise(|| counts.next())
    }

    #[test]
    fn a_count_that_was_disturbed_is_not_taken() {
        assert_eq!(chosen(&[(10_000, 10_020)]), Some(10_010), "one is enough");
        // Interrupted behind the start, and before the end was seen.
        assert_eq!(chosen(&[(500, 10_010), (10_000, 90_000), (9_990, 10_010)]), Some(10_000));
        let all_disturbed: [_; MEASUREMENTS as usize] =
            core::array::from_fn(|at| (9_000 - at as u64, 11_000));
        assert_eq!(chosen(&all_disturbed), Some(10_000), "the most precise of them");
        assert_eq!(chosen(&[(500, 10_010)]), None, "the ruler is gone");
    }

    #[test]
    fn nothing_overflows() {
        let one = (u64::MAX, u64::MAX);
        assert_eq!(chosen(&[one]), Some(u64::MAX));
        assert_eq!(TickCount { ticks_min: 7, ticks_max: 3 }.doubt(), 0);
    }
}
