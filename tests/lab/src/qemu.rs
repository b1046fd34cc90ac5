//! `cargo xtask qemu`: jobs whose ranks are firmware in emulators, Linux processes, or both, joined
//! by a switch.
//!
//! Read top-down: `cli` is what the user types, `job` plays one job, `machine` says how an
//! emulator is started, `programs` builds what runs in it and beside it, `defmt` reads what a
//! microcontroller logs, `rank` is what is known of one rank, `report` judges and tells,
//! `check` compares jobs with what they should say.

mod bridge;
mod check;
mod cli;
mod defmt;
mod demo;
mod job;
mod machine;
mod programs;
mod rank;
mod report;

pub use check::{images, step};
pub use cli::QemuCommand;
pub(crate) use machine::{Arch, emulator, mac};
