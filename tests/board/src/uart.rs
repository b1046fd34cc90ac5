//! The 16550: the serial line of PCs, and of most boards that have none of their own kind. National
//! Semiconductor PC16550D.

use core::convert::Infallible;
use core::fmt;

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};

/// Its eight registers, wherever they are.
pub(crate) trait Registers {
    /// Reads a register.
    fn read(&self, register: u16) -> u8;
    /// Writes a register.
    fn write(&mut self, register: u16, value: u8);
}

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const FORMAT: u16 = 3;
const STATUS: u16 = 5;

/// In [`FORMAT`]: 8 bits, no parity, one stop bit; the divisor shows in the first two registers.
const EIGHT_BITS: u8 = 0b11;
const DIVISOR: u8 = 1 << 7;
/// In [`FIFO`]: on, both cleared, and told of as late as can be, which makes emulators fill it.
const FIFO_ON: u8 = 0b1100_0111;
/// In [`STATUS`]: a byte has come; the transmitter takes bytes.
const HAS_BYTE: u8 = 1 << 0;
const TAKES_BYTE: u8 = 1 << 5;

/// A serial line at 115,200 baud, polled.
pub(crate) struct Uart<R>(R);

impl<R: Registers> Uart<R> {
    /// Sets it up.
    pub(crate) fn new(mut registers: R) -> Self {
        registers.write(INTERRUPTS, 0);
        registers.write(FORMAT, DIVISOR);
        // The highest rate of the usual crystal.
        registers.write(DATA, 1);
        registers.write(INTERRUPTS, 0);
        registers.write(FORMAT, EIGHT_BITS);
        registers.write(FIFO, FIFO_ON);
        // The sender was told to wait when the bytes before us filled the line's one place, and
        // emulators say that there is room again when a byte is read, not when all are cleared.
        registers.read(DATA);
        Self(registers)
    }

    /// Returns true if its registers keep what is written to them: where none is, all bits are set.
    pub(crate) fn is_there(&self) -> bool {
        self.0.read(FORMAT) == EIGHT_BITS
    }

    fn has(&self, flag: u8) -> bool {
        self.0.read(STATUS) & flag != 0
    }
}

impl<R> ErrorType for Uart<R> {
    type Error = Infallible;
}

impl<R: Registers> ReadReady for Uart<R> {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.has(HAS_BYTE))
    }
}

impl<R: Registers> Read for Uart<R> {
    /// Reads what has come, at least a byte.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        let mut count = 0;
        for byte in bytes {
            while count == 0 && !self.has(HAS_BYTE) {
                core::hint::spin_loop();
            }
            if !self.has(HAS_BYTE) {
                break;
            }
            *byte = self.0.read(DATA);
            count += 1;
        }
        Ok(count)
    }
}

impl<R: Registers> WriteReady for Uart<R> {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.has(TAKES_BYTE))
    }
}

impl<R: Registers> Write for Uart<R> {
    /// A byte, when the transmitter takes one.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let Some(byte) = bytes.first() else { return Ok(0) };
        while !self.has(TAKES_BYTE) {
            core::hint::spin_loop();
        }
        self.0.write(DATA, *byte);
        Ok(1)
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<R: Registers> fmt::Write for Uart<R> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.write_all(b"\r").map_err(|_| fmt::Error)?;
            }
            self.write_all(&[byte]).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}
