//! `Nic`: frames, the contract below an Ethernet transport. Virtio-net, a serial line, an SPI bus,
//! an interface of Linux (AF_PACKET, TAP) and the simulator's wire are `Nic`s. The reliable
//! protocol turns one into a [`Transport`](crate::Transport).
//!
//! Descriptors are borrowed, after smoltcp's token device: a received frame is read in place and
//! its descriptor returns to the device when the token drops; a transmit token is a frame of the
//! device to be filled and sent.

use bitflags::bitflags;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mac(pub [u8; 6]);

/// The state of a link: whether frames can pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LinkState {
    /// No carrier.
    Down,
    /// Carrier.
    Up,
}

bitflags! {
    /// Checksums that the device computes or checks by itself.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Offload: u8 {
        /// IPv4 header checksum on transmit.
        const IPV4_TX = 1 << 0;
        /// IPv4 header checksum on receive.
        const IPV4_RX = 1 << 1;
        /// UDP checksum on transmit.
        const UDP_TX = 1 << 2;
        /// UDP checksum on receive.
        const UDP_RX = 1 << 3;
    }
}

defmt_bits!(Offload);

/// Bytes of the addresses and the EtherType, which an [MTU](Nic::mtu) does not count.
pub const MAC_HEADER_BYTES: usize = 14;

/// A received frame, without preamble and check sequence. Dropping it returns the descriptor.
pub trait RxFrame {
    /// The frame from the destination address on.
    fn bytes(&self) -> &[u8];

    /// Checksums of this frame that the device vouches for, besides those that it checks of
    /// [all frames](Nic::offload).
    #[inline]
    fn checked(&self) -> Offload {
        Offload::empty()
    }
}

/// A frame that lies in memory of the device's driver, whose descriptor is free when it is read.
impl RxFrame for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A frame to be sent. Dropping it without [`send`](Self::send) or [`send_more`](Self::send_more)
/// returns the descriptor and sends nothing.
pub trait TxFrame {
    /// The frame's bytes, as long as was asked for.
    fn bytes(&mut self) -> &mut [u8];
    /// Hands the frame to the device; it may still be lost on the wire.
    fn send(self);
    /// Sends like [`send`](Self::send), but the device need not be told before the next
    /// [`flush`](Nic::flush), which the caller makes soon: frames that leave together cost one
    /// doorbell, call of a system or index that another core reads.
    #[inline]
    fn send_more(self)
    where
        Self: Sized,
    {
        self.send();
    }
}

/// A device that sends and receives Ethernet frames without blocking.
pub trait Nic {
    /// A borrowed received frame.
    type Rx<'a>: RxFrame
    where
        Self: 'a;
    /// A borrowed frame to fill.
    type Tx<'a>: TxFrame
    where
        Self: 'a;

    /// The next received frame, if one is there.
    fn receive(&mut self) -> Option<Self::Rx<'_>>;
    /// A frame of `len` bytes to fill, if a descriptor is free and `len` is at most MTU and
    /// [`MAC_HEADER_BYTES`].
    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>>;
    /// Has the device send what it was not told of yet ([`TxFrame::send_more`]). A device that
    /// lends the frames of another hands it on. What is not flushed leaves with the next frame that
    /// is sent, or the next look for one that came.
    #[inline]
    fn flush(&mut self) {}
    /// The largest payload of a frame, in bytes.
    fn mtu(&self) -> usize;
    /// The device's address.
    fn mac(&self) -> Mac;
    /// The state of the link.
    fn link(&self) -> LinkState;
    /// Checksums it takes over.
    fn offload(&self) -> Offload {
        Offload::empty()
    }
}
