//! Cards of other ecosystems as a [`Nic`], and a `Nic` as a card of theirs: `smoltcp::phy::Device`
//! (feature `smoltcp`) and `embassy_net_driver::Driver` (feature `embassy`).
//!
//! | from | to | by |
//! |---|---|---|
//! | `smoltcp::phy::Device` | [`Nic`] | [`ForeignNic`] over `SmoltcpDevice` |
//! | `embassy_net_driver::Driver` | [`Nic`] | [`ForeignNic`] over `EmbassyDriver` |
//! | `memif::Memif` (feature `memif`), of DPDK and VPP | [`Nic`] | [`ForeignNic`] |
//! | [`Nic`] | both | `NicDevice` |
//!
//! Their devices lend a frame for the time of a call, and a `Nic` for as long as its token lives;
//! theirs hand out a token to answer with each frame that comes, and a `Nic` has one token at a
//! time. So a frame is copied once on its way, into memory that the caller lends: room for one
//! frame of each direction.
//!
//! # Deliberately absent
//!
//! Wake-ups. A `Nic` is polled: `NicDevice` has an executor's task wake at once when there is
//! nothing, and [`ForeignNic`] takes no wake-up from a driver.
//!
//! [`Nic`]: aldis_hal::Nic

#[cfg(feature = "embassy")]
mod embassy;
mod foreign;
#[cfg(any(feature = "embassy", feature = "smoltcp"))]
mod nic_device;
#[cfg(feature = "smoltcp")]
mod smoltcp;

#[cfg(test)]
#[cfg(all(not(loom), feature = "embassy", feature = "smoltcp"))]
mod tests;

#[cfg(feature = "embassy")]
pub use embassy::EmbassyDriver;
pub use foreign::{ForeignDevice, ForeignNic, ForeignSend};
#[cfg(any(feature = "embassy", feature = "smoltcp"))]
pub use nic_device::{NicDevice, NicReceived, NicSend};
#[cfg(feature = "smoltcp")]
pub use smoltcp::SmoltcpDevice;
