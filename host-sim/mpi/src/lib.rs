//! # aldis-mpi: Aldis under unmodified MPI programs
//!
//! The C interface of MPI 5.0 with its standard ABI (MPI 5.0, chapter 20): a library
//! `libmpi_abi.so.1` that programs find at run time in place of any other implementation's. A thin
//! facade: semantics are those of `aldis-kernel` and `aldis-coll`; here are handles, C's types, and
//! what MPI has beside communication. `docs/mpi.md` tells how to use it and what is missing.
//!
//! | module | what it holds |
//! |---|---|
//! | `abi`, `signatures` | constants, and a check of functions' parameters, from `table/*.txt` |
//! | `unsupported` | functions that only say that they are not supported |
//! | `fault` | the reason why a call failed |
//! | `ffi` | the border to C: pointers become values and slices |
//! | `export` | how a function gets its two names, `MPI_X` and `PMPI_X` |
//! | `process` | the process's endpoint, tables of objects, one thread at a time (11.6) |
//! | `errors` | error classes, codes, strings, handlers (chapter 9) |
//! | `environment` | starting, ending, versions, clocks, memory (chapters 9 and 11) |
//! | `communicators`, `groups` | chapter 7 |
//! | `from_groups` | communicators of groups without a common one (7.4.2, 7.6.2) |
//! | `making` | communicators that are made while other things go on |
//! | `messages`, `requests`, `status` | chapter 3; requests of the program's are of chapter 13 |
//! | `partitioned` | chapter 4 |
//! | `datatypes` | chapter 5 |
//! | `collectives`, `operations` | chapter 6; collectives among neighbours are of chapter 8 |
//! | `topologies` | chapter 8 |
//! | `tools` | 15.3 |
//! | `info` | chapter 10 |
//!
//! # Invariants
//!
//! * A function is in the table; its Rust has the table's parameters, or it does not compile.
//! * A function of large counts (`_c`) is the implementation, the function without the suffix calls
//!   it.
//! * Nothing is printed but what an error handler that ends the job says, once.
//!
//! # Limits
//!
//! Sizes of the endpoint's storage as in `process::engine`.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod export;
mod freed_comms;

mod abi;
mod attributes;
mod buffers;
mod collectives;
mod communicators;
mod constructors;
mod datatypes;
mod environment;
mod errors;
mod fault;
mod ffi;
mod from_groups;
mod groups;
mod info;
#[cfg(target_arch = "x86_64")]
mod long_double;
mod making;
mod messages;
mod operations;
mod packing;
mod partitioned;
mod predefined;
mod process;
mod requests;
mod signatures;
mod status;
mod tools;
mod topologies;
mod unsupported;
mod used_types;
