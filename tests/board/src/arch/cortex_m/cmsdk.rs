//! This module holds `unsafe` code: the registers of the APB UART of Arm's Cortex-M System Design
//! Kit, 4.3.

use core::convert::Infallible;
use core::fmt;
use core::ptr::NonNull;

use aldis_hal::mmio::Mmio;
use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};

/// Offsets of the registers.
const DATA: usize = 0;
const STATE: usize = 4;
const CONTROL: usize = 8;
const DIVISOR: usize = 16;

/// In [`STATE`]: the transmitter is busy; a byte has come.
const TX_FULL: u32 = 1 << 0;
const RX_FULL: u32 = 1 << 1;
/// In [`CONTROL`]: both directions, no interrupts.
const ENABLE: u32 = 0b11;
/// The fastest: 1.5 Mbaud at 25 MHz.
const DIVISOR_MIN: u32 = 16;

/// A serial line with room for one byte each way, polled.
pub(crate) struct Uart {
    registers: Option<[Mmio<u32>; 2]>,
}

impl Uart {
    /// The one at this address of the board, turned on.
    pub(crate) fn new(address: usize) -> Self {
        let register = |offset| {
            let register = NonNull::new(core::ptr::with_exposed_provenance_mut(address + offset))?;
            // SAFETY: the addresses that this module's parent names are those of such devices,
            // where no memory is.
            Some(unsafe { Mmio::<u32>::new(register) })
        };
        let turned_on = || {
            register(DIVISOR)?.write(DIVISOR_MIN);
            register(CONTROL)?.write(ENABLE);
            Some([register(DATA)?, register(STATE)?])
        };
        Self { registers: turned_on() }
    }

    fn state(&self) -> u32 {
        self.registers.as_ref().map_or(0, |[_, state]| state.read())
    }
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl ReadReady for Uart {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.state() & RX_FULL != 0)
    }
}

impl Read for Uart {
    /// Reads what has come, at least a byte.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        let mut count = 0;
        for byte in bytes {
            while count == 0 && self.state() & RX_FULL == 0 {
                core::hint::spin_loop();
            }
            if self.state() & RX_FULL == 0 {
                break;
            }
            *byte = self.registers.as_ref().map_or(0, |[data, _]| data.read() as u8);
            count += 1;
        }
        Ok(count)
    }
}

impl WriteReady for Uart {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.state() & TX_FULL == 0)
    }
}

impl Write for Uart {
    /// A byte, when the transmitter takes one.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let Some(byte) = bytes.first() else { return Ok(0) };
        while self.state() & TX_FULL != 0 {
            core::hint::spin_loop();
        }
        if let Some([data, _]) = &mut self.registers {
            data.write(u32::from(*byte));
        }
        Ok(1)
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}
