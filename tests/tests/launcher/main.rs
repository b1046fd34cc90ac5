//! `aldis-run` from the outside: what it says to wrong command lines, how jobs end, what is left of
//! them, what becomes of signals and output, and the example programs. And the same ranks under
//! process managers: one of the test's own, Hydra and Slurm.
//!
//! Every job has a watchdog: one that hangs is ended by SIGTERM, and the test fails with the
//! launcher's report of what every rank was doing.

mod agents;
mod cards;
mod command_line;
mod copies;
mod ends;
mod examples;
mod faults;
mod harness;
mod hosts;
mod hydra;
mod leftovers;
mod managers;
mod memif;
mod namespaces;
mod nodes;
mod output;
mod peer_rows;
mod plans;
mod rules;
mod signals;
mod sleep;
mod slurm;
mod strangers;
mod tls;
mod tree;
mod wireup;
mod xdp;
