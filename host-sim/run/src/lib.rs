//! # aldis-run: the launcher of jobs on Linux
//!
//! The input of the launcher `aldis-run` is read and checked here: its command line, host files and
//! variables. The program itself is `src/bin/aldis-run`: it starts the ranks of a job, on this
//! machine and by agents on others, brings them together, and ends them together.
//!
//! | module | what it holds |
//! |---|---|
//! | [`command_line`] | words to options, or to help |
//! | `captures` | files of captured frames, one a rank |
//! | [`options`] | the options of a job and of its first program |
//! | [`programs`] | several programs in one job |
//! | [`hosts`] | where ranks run, and which ranks each host gets |
//! | [`tcp_options`] | what is said about TCP |
//!
//! # Invariants
//!
//! * **Nothing stays behind.** Ranks die with their launcher (`PR_SET_PDEATHSIG`), and what they
//!   share has no name.
//! * **No silent death.** A rank that ends in any way but by leaving ends the job within a second,
//!   with a report of what every rank was doing, read from the status boards.
//!
//! # Deliberately absent
//!
//! Threads: the launcher is one `poll(2)` loop. Reaching a peer that died: the job is ended.

mod captures;
pub mod command_line;
pub mod hosts;
pub mod options;
pub mod programs;
pub mod tcp_options;
