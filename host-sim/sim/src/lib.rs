//! # aldis-sim: Aldis in one process, under virtual time
//!
//! The simulator: the unchanged kernel, protocols and collectives on virtual nodes in one process,
//! under virtual time. One seed is one history, on every run and machine. Beside it stand
//! predictions for collective schedules ([`whatif`]) and a switch of frames for emulators
//! ([`switch`]), with the tools `aldis-sim`, `aldis-whatif`, `aldis-schedule` and `aldis-switch`.
//!
//! A rank's program is an ordinary blocking function over an [`Endpoint`](aldis_kernel::Endpoint);
//! one that is generic over transport and platform runs here and on shared memory from the same
//! source:
//!
//! ```
//! use aldis_sim::{SimConfig, Outcome, simulate};
//! use aldis_kernel::hal::{Platform, Transport};
//! use aldis_kernel::{Endpoint, Rank, Tag};
//!
//! fn program<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
//!     let world = ep.world();
//!     let next = Rank((world.rank().0 + 1) % world.size());
//!     let previous = Rank((world.rank().0 + world.size() - 1) % world.size());
//!     let mut token = [0_u32];
//!     ep.sendrecv(&world, &[world.rank().0], next, Tag(0), &mut token, previous, Tag(0))?;
//!     if token[0] == previous.0 { Ok(()) } else { Err("a wrong token".into()) }
//! }
//!
//! for seed in 0..20 {
//!     let report = simulate(&SimConfig::new(seed, 5), |ep| program(ep)).unwrap();
//!     assert_eq!(report.failure, None, "{report}");
//! }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`], [`topology`] | what a run is: seed, ranks, wiring, network, fault profile |
//! | `faults`, `plan` | what can go wrong; what goes wrong in a run, drawn from its seed |
//! | `world`, `queue` | virtual time: nodes, links, lives and deaths, and what happens next |
//! | `node`, `transport` | [`SimPlatform`] and [`SimTransport`], a rank's view of its node |
//! | `messages`, `nic` | a node's end of the wire of messages; its card on that of frames |
//! | `virtual_node`, `run` | a rank from start to end; all of them, a coroutine each |
//! | `report`, `record` | how a run went, the command that repeats it, and a trace for a browser |
//! | `space_time` | a picture of a run |
//! | `shrink`, `finding` | a smaller run that fails too; all that is told of a failure |
//! | `watch`, `ledger`, [`oracle`] | what is checked: messages, accounts, matching |
//! | [`workloads`] | programs to run, each of which knows what must come out |
//! | `storage`, `links`, [`random`] | small storages by size of the job; numbers from the seed |
//! | `stack` | the stacks of ranks, of which there may be more than a process has mappings |
//! | [`whatif`] | collective schedules in virtual time under a cost model |
//! | [`switch`] | a switch of Ethernet frames on unix sockets, with faults |
//! | [`command_line`] | what the tools are told |
//! | `src/bin` | `aldis-sim`, `aldis-whatif`, `aldis-schedule` (draws), `aldis-switch` |
//!
//! # Two wires, and what goes wrong
//!
//! On [`Wire::Messages`] the kernel uses an ordered and reliable transport with little room,
//! and deaths are told. On [`Wire::Frames`] it uses the [`Ethernet`](aldis_drivers::ethernet)
//! transport and a [`SimNic`], whose frames get lost, come twice, damaged, late or in another
//! order, or one way only; deaths are found out. Each run draws which kinds of [`RunFault`] it has
//! ([`faults()`], [`SimConfig::only`]). All have healed after 4 virtual ms but for a crash; a node
//! that boots again ([`Profile::Restart`]) has a new epoch and begins its program anew.
//!
//! # What is checked
//!
//! Workloads know every byte that each receive must bring, so lost, doubled, overtaking or damaged
//! messages show; when a program is over nothing may be left in its endpoint's queues; and some
//! virtual seconds after the last fault has healed everything must be over, or the report lists
//! what each rank is doing. Where a node dies, programs may end with what follows from that, and
//! may wait for any rank for ever, but for none that is gone. Below all that an observer sees
//! every message go into a transport and come out: once, in order, and within the credits. A rank
//! whose program is over must have all places of its peers free; in half of the runs, drawn by
//! seed, the ranks then wait for each other until nothing is under way, their accounts of credit
//! must agree, and no request slot may be in use.
//!
//! # How time passes
//!
//! A node's program takes no virtual time by itself. Each message that it sends or takes costs its
//! overhead, each look at the clock a little. [`relax`](aldis_kernel::hal::Platform::relax) ends
//! its turn until something arrives or a nap is over; so does a second fruitless poll. A program
//! that does none of these for ever stops the simulation.
//!
//! # Deliberately absent
//!
//! Threads, wall clocks, addresses and hash maps in anything that decides. Loss and damage on the
//! wire of messages: it keeps its promise of order and delivery, as the contract of
//! [`Transport`](aldis_kernel::hal::Transport) says.
//!
//! # Limits
//!
//! [`RANKS_MAX`] ranks, as far as there is memory: every rank has a full kernel, of which the rows
//! for peers are the larger part. [`SimConfig::active`] says how many, and on the wire of frames
//! how many links of the Ethernet transport there are; a row for every rank makes memory grow with
//! their square. On the wire of frames a job has at most [`FRAME_RANKS_MAX`]: there each rank is
//! told where every other is.

pub mod command_line;
pub mod config;
mod faults;
mod finding;
mod ledger;
mod links;
mod messages;
mod nic;
mod node;
pub mod oracle;
mod plan;
mod queue;
pub mod random;
mod record;
mod report;
mod run;
mod shrink;
mod space_time;
mod stack;
mod storage;
pub mod switch;
pub mod topology;
mod transport;
mod virtual_node;
mod watch;
pub mod whatif;
pub mod workloads;
mod world;

pub use config::{ACTIVE_MIN, Network, Profile, SimConfig, Wire};
pub use faults::{RunFault, VirtualSpan, Ways};
pub use finding::{Finding, check};
pub use ledger::{Imbalance, LostCredits, Overfull};
pub use links::FRAME_RANKS_MAX;
pub use nic::SimNic;
pub use node::SimPlatform;
pub use plan::faults;
pub use random::Random;
pub use record::{Record, chrome_trace};
pub use report::{Report, RunFailure, RunProgress};
pub use run::{simulate, simulate_nodes, simulate_watched};
pub use shrink::{Shrunk, shrink};
pub use space_time::{View, space_time};
pub use storage::{RANKS_MAX, Room};
pub use topology::Topology;
pub use transport::{SimSlot, SimTransport};
pub use virtual_node::{Leftovers, Outcome, SimEndpoint, VirtualNode};
pub use watch::{Invariant, Violation};
pub use world::Totals;

/// The programs of the manual, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/simulator.md")]
struct Manual;
