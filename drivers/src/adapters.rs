//! Cards of other ecosystems as a [`Nic`]: `smoltcp::phy::Device` (feature `smoltcp`),
//! `embassy_net_driver::Driver` (feature `embassy`) and `axdriver_net::NetDriverOps` of the
//! unikernel ArceOS (feature `arceos`); and a `Nic` as a card of the first two.
//!
//! | from | to | by |
//! |---|---|---|
//! | `smoltcp::phy::Device` | [`Nic`] | [`ForeignNic`] over `SmoltcpDevice` |
//! | `embassy_net_driver::Driver` | [`Nic`] | [`ForeignNic`] over `EmbassyDriver` |
//! | `axdriver_net::NetDriverOps` | [`Nic`] | [`ForeignNic`] over `ArceosDriver` |
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
//! nothing, and [`ForeignNic`] takes no wake-up from a driver. A `Nic` for the network stack of
//! ArceOS: its drivers hand out buffers of a heap by raw pointers, and its stack is smoltcp.
//!
//! [`Nic`]: aldis_hal::Nic

#[cfg(feature = "arceos")]
mod arceos;
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

#[cfg(feature = "arceos")]
pub use arceos::ArceosDriver;
#[cfg(feature = "embassy")]
pub use embassy::EmbassyDriver;
pub use foreign::{ForeignDevice, ForeignNic, ForeignSend};
#[cfg(any(feature = "embassy", feature = "smoltcp"))]
pub use nic_device::{NicDevice, NicReceived, NicSend};
#[cfg(feature = "smoltcp")]
pub use smoltcp::SmoltcpDevice;
