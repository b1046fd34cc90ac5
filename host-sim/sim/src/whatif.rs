//! The time that a collective schedule would take on a machine of so many nodes and such a network.
//!
//! The schedules are pure functions, so no message has to be sent and no kernel run to see how they
//! behave: [`Run`] walks every rank through its rounds in virtual time under the LogGP cost model
//! of a [`ScheduleNetwork`]. In a release build one message takes 130 to 270 ns of real time and
//! one rank about 100 bytes, so that 65,536 ranks take 0.2 s and 6 MiB.
//!
//! ```
//! use aldis_coll::barrier::Dissemination;
//! use aldis_sim::whatif::{LogGp, Run, ScheduleNetwork, Topology};
//!
//! let network = ScheduleNetwork::new(LogGp::CLUSTER, Topology::Crossbar);
//! let outcome = Run::new(&Dissemination, 1024).on(&network)?;
//! // ceil(log2 1024) rounds of o + L + o.
//! assert_eq!(outcome.time_ps, 10 * LogGp::CLUSTER.message_ps(0));
//! assert_eq!(outcome.messages, 10 * 1024);
//! # Ok::<(), aldis_sim::whatif::RunError>(())
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`cost`] | the LogGP parameters |
//! | [`topology`] | who is how far from whom, and over which shared links |
//! | [`network`] | both together, slow nodes, contention |
//! | [`run`] | the simulation |
//! | [`watch`] | what happens in it: messages, local work, the critical path |
//!
//! # The model
//!
//! LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with the conventions of `LogGOPSim`
//! (Hoefler, Schneider, Lumsdaine 2010): a message of k bytes costs the sender's processor `o`,
//! then (k-1) `G` on its way out, `L` on the way, and the receiver's processor `o`. A network
//! interface begins a message `g + (k-1) G` after the one before, in each direction. `L` is that of
//! the shortest way and grows by a constant for each switch or node more.
//!
//! A rank goes through its rounds as the executor of `aldis-coll` does: it posts the round's
//! messages in order, waits for all of them, then carries out the local steps. It cuts the data
//! into as many segments as the scratch asks for, one after another: segments in flight together
//! are not simulated. A send is complete once its last byte has left. Messages between two ranks
//! match in order.
//!
//! # Deliberately absent
//!
//! Protocols: rendezvous handshakes, copies of unexpected messages, acknowledgements and credits.
//! What they cost shows where the real kernel is run.

pub mod cost;
pub mod network;
pub mod run;
pub mod watch;

pub use crate::topology::{self, Topology};
pub use cost::LogGp;
pub use network::ScheduleNetwork;
pub use run::{Outcome, Run, RunError};
pub use watch::Trace;
