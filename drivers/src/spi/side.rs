//! The two sides of a bus.

use core::convert::Infallible;

use embedded_hal::digital::{ErrorType, InputPin, OutputPin, PinState};
use embedded_hal::spi::SpiDevice;

use super::exchange::{Came, FrameExchange};

/// A side of a bus: who exchanges blocks, and when. Implemented by [`Controller`] and
/// [`Peripheral`].
pub trait Side {
    /// Exchanges a block, if there is reason to and it can be done at once; whether the next one
    /// may follow right behind. `block` has the agreed length, and its contents are free to be
    /// overwritten.
    #[doc(hidden)]
    fn step(&mut self, exchange: &mut FrameExchange<'_>, block: &mut [u8]) -> bool;
}

/// The pin of a bus without one: the peripheral may want attention at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoPin;

impl ErrorType for NoPin {
    type Error = Infallible;
}

impl InputPin for NoPin {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(false)
    }
}

impl OutputPin for NoPin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The side with the clock. It exchanges a block when it has something to send, when a frame has
/// come in part, or when the peripheral's pin is high: without a pin each time that it is asked for
/// a frame.
#[derive(Debug)]
pub struct Controller<D, A = NoPin> {
    device: D,
    attention: A,
}

impl<D: SpiDevice, A: InputPin> Controller<D, A> {
    /// The peripheral that `device` selects, and the pin by which it asks for attention, active
    /// high; or [`NoPin`].
    pub const fn new(device: D, attention: A) -> Self {
        Self { device, attention }
    }
}

impl<D: SpiDevice, A: InputPin> Side for Controller<D, A> {
    fn step(&mut self, exchange: &mut FrameExchange<'_>, block: &mut [u8]) -> bool {
        // A pin that cannot be read says nothing: it is as if there were none.
        if !exchange.wants() && !self.attention.is_high().unwrap_or(true) {
            return false;
        }
        exchange.prepare(block);
        if self.device.transfer_in_place(block).is_err() {
            exchange.fail();
            return false;
        }
        // The peripheral had loaded nothing, or the bus is bad. The same block again does no harm:
        // it has the same number.
        if exchange.take(block) != Came::New {
            return false;
        }
        exchange.is_out();
        true
    }
}

/// An SPI unit of a board in peripheral mode: a block is loaded, and the controller clocks it out
/// against its own whenever it likes. Usually a DMA channel each way and the interrupt of the
/// select line's rising edge.
pub trait BlockPort {
    /// If the loaded block has been exchanged: the other side's is copied to `block`, once.
    fn take(&mut self, block: &mut [u8]) -> bool;
    /// Loads the block for the next exchange. Only called when none is loaded.
    fn load(&mut self, block: &[u8]);
}

/// The side that is clocked. Its pin is high while it has something to send.
#[derive(Debug)]
pub struct Peripheral<P, A = NoPin> {
    port: P,
    attention: A,
    loaded: bool,
}

impl<P: BlockPort, A: OutputPin> Peripheral<P, A> {
    /// A unit with nothing loaded, and the pin that asks the controller for attention, active high;
    /// or [`NoPin`].
    pub const fn new(port: P, attention: A) -> Self {
        Self { port, attention, loaded: false }
    }
}

impl<P: BlockPort, A: OutputPin> Side for Peripheral<P, A> {
    fn step(&mut self, exchange: &mut FrameExchange<'_>, block: &mut [u8]) -> bool {
        let exchanged = self.loaded && self.port.take(block);
        if exchanged {
            // It cannot be called back: if it was damaged on its way, its frame is lost.
            exchange.is_out();
            exchange.take(block);
        }
        if exchanged || !self.loaded {
            exchange.prepare(block);
            self.port.load(block);
            self.loaded = true;
        }
        // A pin that cannot be set costs latency: the controller asks now and then.
        let _ = self.attention.set_state(PinState::from(exchange.wants()));
        exchanged
    }
}
