//! # aldis-linux: Aldis on Linux
//!
//! The floor that turns the `no_std` house below into processes on a machine: shared-memory
//! segments, wire-up, and the rank's way in. A program that takes part is this long:
//!
//! ```no_run
//! use aldis_kernel::{Rank, Tag};
//!
//! fn main() -> std::process::ExitCode {
//!     aldis_linux::run(|ep| {
//!         let world = ep.world();
//!         let next = Rank((world.rank().0 + 1) % world.size());
//!         let previous = Rank((world.rank().0 + world.size() - 1) % world.size());
//!         let mut token = [0_u32];
//!         ep.sendrecv(&world, &[world.rank().0], next, Tag(0), &mut token, previous, Tag(0))?;
//!         println!("rank {} heard from rank {}", world.rank(), token[0]);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! and `aldis-run -n 4 PROGRAM` starts four of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`run`](run()) | `main` of a rank: join, run, leave, report |
//! | [`job`] | the rank's side of the wire-up, also with storage of one's own |
//! | [`wireup`] | the local socket: messages, descriptors, deadlines |
//! | [`pmi`] | the same under a process manager: Hydra, Slurm |
//! | [`segment`], [`board`] | anonymous shared memory and the status board at its start |
//! | [`shape`], [`storage`] | how large everything is |
//! | [`lazy`] | tables as large as memory |
//! | [`arena`] | memory that long messages are sent from with one copy and without the system |
//! | [`cma`], [`copier`] | copies between processes by the system, and their permissions |
//! | [`calibration`] | what two ranks measure together when they join |
//! | [`distance`] | how far apart the cores of ranks are, if that is given |
//! | [`transport`] | loopback, shared memory and TCP, verbs or a card, put together |
//! | [`cores`] | ranks that are threads of one process |
//! | [`tcp`] | a rank's connections to ranks of other machines |
//! | [`network`] | TCP, or frames of a card: one of the two |
//! | [`ethernet`] | the same over frames of an interface, without TCP/IP |
//! | `verbs` | the same over RDMA: feature `verbs`, docs/verbs.md |
//! | [`platform`] | clock, idle policy, entropy, notes |
//! | [`output`] | what the tools print: all of it, or an error |
//! | [`coll_rules`] | rules for collectives as text, the same for every rank |
//!
//! # Invariants
//!
//! * **Nothing stays behind.** Segments are memfds and sockets are pairs: neither has a name. Ranks
//!   die with their launcher (`PR_SET_PDEATHSIG`). `kill -9` of everything leaves nothing.
//!   (Only `aldis-switch` needs names, for emulators to find it: they stand in a folder that is
//!   made for the job.)
//! * **No silent death.** A rank that ends in any way but by leaving ends the job within a second,
//!   with a report of what every rank was doing, read from the status boards.
//! * **Nothing received is believed.** Segments are checked for size, seals and label before they
//!   are mapped for use; wire-up messages are bounded and typed; everything has a deadline.
//! * `unsafe` only in modules that say so in their first line.
//!
//! # Deliberately absent
//!
//! Threads (a rank is what the program makes it; but see [`cores`]), files. Reaching a peer that
//! died: the launcher ends the job.
//!
//! # Limits
//!
//! [`JOB_RANKS_MAX`](shape::JOB_RANKS_MAX) ranks of a job. The segments' memory of a node is
//! proportional to its ranks, see [`shape`]; each rank maps all of them.

pub mod arena;
pub mod board;
pub mod calibration;
pub mod cma;
pub mod coll_rules;
pub mod copier;
pub mod cores;
pub mod distance;
pub mod entropy;
mod environment;
mod error;
pub mod ethernet;
pub mod job;
pub mod lazy;
mod memory;
pub mod network;
pub mod output;
pub mod paged;
pub mod peer_bytes;
pub mod peer_rows;
pub mod platform;
pub mod pmi;
mod run;
pub mod segment;
pub mod shape;
mod sleeper;
pub mod storage;
pub mod tcp;
pub mod transport;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod wireup;

pub use arena::ShmArena;
pub use error::JoinError;
pub use job::Job;
pub use platform::HostPlatform;
pub use run::{Abort, run, run_with};
pub use transport::{Far, HostEndpoint, HostShm, HostTransport};
