//! `cargo xtask verbs`: Linux's own RDMA stack without a device. Guests with the distribution's
//! kernel run soft RoCE (`rdma_rxe`), and in them whatever uses verbs.
//!
//! Read top-down: `cli` is what the user types, `pingpong` measures the stack itself,
//! `session` plays guests from boot to their last word, `console` reads what they say,
//! `guest` says how one is started and what it does first. `cards` plays a guest of another kind,
//! with network cards on PCI and an IOMMU, which ranks drive. What a guest is made of: `image`
//! packs it as a `cpio` archive, from the programs and `libraries` of `packages` and from the
//! kernel's modules.

mod cards;
mod cli;
mod console;
mod cpio;
mod guest;
mod image;
mod libraries;
mod modules;
mod packages;
mod pingpong;
mod session;
mod transport;

pub use cards::pci_cards;
pub use cli::VerbsCommand;
pub(crate) use transport::features;
pub use transport::{FEATURE, can_build, step, step_in_full};
