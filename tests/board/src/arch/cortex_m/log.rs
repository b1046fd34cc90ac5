//! This module holds `unsafe` code: defmt's contract with the carrier of its frames.
//!
//! Frames go to the semihosting console as they are made; `cargo xtask qemu` decodes them with the
//! image's table.

use core::cell::Cell;

use defmt::Encoder;

use super::semihosting;

/// The frame that is being written.
struct State {
    encoder: Cell<Encoder>,
    busy: Cell<bool>,
}

// SAFETY: the board has one core and takes no interrupts: nothing runs beside or within these
// functions.
unsafe impl Sync for State {}

static STATE: State = State { encoder: Cell::new(Encoder::new()), busy: Cell::new(false) };

impl State {
    /// Does something with the encoder.
    fn encode(&self, what: impl FnOnce(&mut Encoder)) {
        let mut encoder = self.encoder.replace(Encoder::new());
        what(&mut encoder);
        self.encoder.set(encoder);
    }
}

/// Carries frames to the console.
#[defmt::global_logger]
struct Carrier;

// SAFETY: frames do not interleave, as nothing interrupts; one that is begun within another stops
// the board.
unsafe impl defmt::Logger for Carrier {
    fn acquire() {
        if STATE.busy.replace(true) {
            super::exit(false);
        }
        STATE.encode(|encoder| encoder.start_frame(semihosting::write));
    }

    unsafe fn flush() {}

    unsafe fn release() {
        STATE.encode(|encoder| encoder.end_frame(semihosting::write));
        STATE.busy.set(false);
    }

    unsafe fn write(bytes: &[u8]) {
        STATE.encode(|encoder| encoder.write(bytes, semihosting::write));
    }
}
