//! # aldis-mpi: Aldis under unmodified MPI programs
//!
//! The C interface of MPI 5.0 with its standard ABI (MPI 5.0, chapter 20): a library
//! `libmpi_abi.so.1` that programs find at run time in place of any other implementation's. A thin
//! facade: semantics are those of `aldis-kernel` and `aldis-coll`; here are handles, C's types, and
//! what MPI has beside communication. `docs/mpi.md` tells how to use it and what is missing.
//!
//! From the bottom upwards, each of those below it only:
//!
//! | module | what it holds |
//! |---|---|
//! | `abi` | the constants, from `table/constants.txt`, and the one structure |
//! | `fault` | the reason why a call failed |
//! | `ffi` | the border to C: pointers become values and slices |
//! | `process` | the process's endpoint, tables of objects, one thread at a time (11.6) |
//! | `objects` | what handles stand for: communicators, groups, datatypes, operations, infos |
//! | `requests` | what is under way: requests, waiting, buffered sends |
//! | `calls` | the functions, by chapters |
//! | `export` | how a function gets its two names, `MPI_X` and `PMPI_X` |
//! | `signatures` | a check of each function's parameters, from `table/functions.txt` |
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

mod abi;
mod calls;
mod fault;
mod ffi;
mod objects;
mod process;
mod requests;
mod signatures;
