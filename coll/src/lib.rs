//! # aldis-coll: collectives
//!
//! An algorithm is a pure function that says which steps a rank takes in a round; one executor runs
//! every algorithm. This crate stands on [`aldis_kernel`] and knows of no transport: an algorithm
//! names ranks and ranges of elements, the executor turns them into requests of a kernel scope.
//! The terms are defined in `docs/glossary.md`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@barrier`], [`mod@bcast`] | one operation each: its calls and algorithms |
//! | [`mod@reduce`], [`mod@allreduce`], [`mod@scan`], [`mod@exscan`] | the same |
//! | [`mod@gather`], [`mod@scatter`], [`mod@allgather`] | on blocks |
//! | [`mod@alltoall`], [`mod@reduce_scatter`] | the same |
//! | [`hierarchy`] | algorithms within nodes and between them |
//! | [`mod@inter`] | collectives over two groups |
//! | [`neighbor`] | collectives among neighbours in a topology |
//! | [`dyn_op`] | reductions that are known at run time |
//! | [`layout`] | where blocks stand in memory |
//! | [`schedule`] | the form of an algorithm: [`Schedule`], [`Step`], [`Span`] |
//! | [`mod@shared`] | the algorithm `shared`: no messages, but control slots in a node's memory |
//! | [`collective`] | the executor: [`Collective`], in segments, several of them in flight |
//! | [`blocking_endpoint`] | the endpoints that a blocking collective can be called on |
//! | [`mod@comm`] | communicators of one and of two groups; grids and graphs of ranks |
//! | [`op`] | reductions as types: `Sum` on `f64` compiles, `BitAnd` on `f64` does not |
//! | [`catalog`] | every operation and algorithm by name |
//! | [`select`] | the cost model, and the choice by price or by name |
//! | [`explain`] | the reasons of a choice, as a table |
//! | [`rules`] | how calls are carried out, said outside of the program |
//! | [`draw`] | a schedule as text |
//!
//! ```
//! use aldis_coll::{allreduce, barrier, op::Sum, select::Call, Options};
//! use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
//!
//! fn norm<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     mine: f64,
//! ) -> Result<f64, Error> {
//!     let world = ep.world();
//!     let mut sum = [mine];
//!     allreduce(Sum, &mut sum, &mut [0.0]).run(ep, &world)?;
//!     barrier().run(&mut ep.within(core::time::Duration::from_secs(1)), &world)?;
//!     Ok(sum[0])
//! }
//!
//! println!("{}", Call::allreduce::<Sum, f64>(4, 4096, 512).explain(&Options::default()));
//! ```
//!
//! # Invariants
//!
//! * **Pure.** A schedule has no storage, does no I/O and knows no time. That is why it can be
//!   checked symbolically (`tests/symbolic`: every size to 64, every root, larger sizes sampled),
//!   priced, drawn and offloaded.
//! * **Same bits.** A floating-point reduction has the same bits on every rank: by algorithm, since
//!   all ranks evaluate the same expression (the checker compares expressions, not values), and by
//!   operation, since a NaN result is always the same NaN.
//! * **Any message with any scratch.** One element of scratch is enough; more makes fewer, larger
//!   segments, or more of them in flight.
//! * **Alike on all ranks:** the order of collective calls on a communicator, and in each call the
//!   operation, element type, count, root, scratch length and [`Options`]. What is not alike and
//!   shows is a typed error that tells both sides ([`Cause::UnlikeCall`], [`Cause::UnlikeLength`]),
//!   never memory touched that was not lent.
//! * No heap, no `unsafe`, no panic; a call of the executor does bounded work.
//!
//! # Absent on purpose
//!
//! Hidden scratch: the caller lends it, so the bound is the caller's. Tuning tables compiled in:
//! prices are an argument, and an algorithm can be named per call. Measuring at run time: ranks
//! would choose differently.
//!
//! # Limits
//!
//! [`IN_FLIGHT_MAX`] messages of a round in flight, a request slot of the storage each (most
//! algorithms have two, trees and those of radix 4 and 8 more); [`LANES`] segments of a call in
//! flight, where half of the request table is free; `u32` ranks; counts are `usize`.
//!
//! Numbers are not converted: on a communicator with ranks of both byte orders, collectives of
//! elements of more than a byte, and making communicators of all of them, are refused
//! ([`Cause::UnlikeOrder`]). Barriers and bytes work; [`comm::create_group`] makes communicators of
//! those who are alike. Datatypes are converted: [`alltoallw_typed`].
//!
//! # How to add a collective
//!
//! A new **algorithm** of an operation that is there:
//! 1. Write `src/algorithms/<operation>/<name>.rs`: a unit struct with [`Schedule`] and [`Priced`].
//!    Start with the source you take it from, write down why its results have the same bits on all
//!    ranks, and give [`Priced::work`] in closed form.
//! 2. Add it to `ALGORITHMS` in `src/algorithms/<operation>.rs`, and to the names that
//!    `src/<operation>.rs` makes public. From there it is selected, named, explained, broken in
//!    every way that must be found out, and checked on symbolic values for every size. The rules
//!    that it is held to are those of [`schedule`].
//! 3. Look at it, `cargo xtask schedule <operation> <name> --ranks 6 --bytes 64`, and let the
//!    checker say what is wrong with it: `cargo test -p aldis-coll --test symbolic <operation>`,
//!    then `cargo test -p aldis-coll`.
//! 4. Write its published rounds and bytes as a test in `tests/symbolic/main.rs`.
//!
//! A program can bring an algorithm of its own without touching this crate:
//! `Options::using(&MyRing)`.
//!
//! A new **operation**: its number in [`Operation`], a module like [`mod@bcast`] with its calls and
//! `ALGORITHMS` (like [`mod@gather`] if its data are blocks), a row in [`catalog::algorithms`]
//! and in [`catalog::COLLECTIVES`], what every rank must end with in the checker (`check_bcast` and
//! its like), and, if its buffers are more than data, scratch and input, a
//! [`Buffer`](schedule::Buffer) and memory lent for it in the executor.
//!
//! [`Cause::UnlikeCall`]: aldis_kernel::hal::Cause::UnlikeCall
//! [`Cause::UnlikeLength`]: aldis_kernel::hal::Cause::UnlikeLength
//! [`Cause::UnlikeOrder`]: aldis_kernel::hal::Cause::UnlikeOrder
//! [`Operation`]: aldis_kernel::hal::Operation
//! [`Schedule`]: schedule::Schedule
//! [`Priced`]: schedule::Priced
//! [`Priced::work`]: schedule::Priced::work
//! [`Step`]: schedule::Step
//! [`Span`]: schedule::Span
//! [`IN_FLIGHT_MAX`]: schedule::IN_FLIGHT_MAX
//! [`LANES`]: collective::LANES
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(test)]
extern crate std;

mod algorithms;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
mod block_call;
pub mod blocking_endpoint;
pub mod catalog;
pub mod collective;
pub mod comm;
mod contiguous;
pub mod draw;
pub mod dyn_op;
pub mod explain;
pub mod exscan;
pub mod gather;
pub mod hierarchy;
pub mod inter;
pub mod layout;
pub mod neighbor;
pub mod op;
mod phases;
pub mod reduce;
pub mod reduce_scatter;
mod route;
pub mod rules;
pub mod scan;
pub mod scatter;
pub mod schedule;
pub mod select;
pub mod shared;
mod tag;

pub use self::{
    allgather::{allgather, allgather_from, allgatherv, allgatherv_from},
    alltoall::{
        alltoall, alltoall_in_place, alltoallv, alltoallv_in_place, alltoallw, alltoallw_in_place,
        alltoallw_typed,
    },
    block_call::{BlockCall, InputBlocks},
    gather::{gather, gatherv},
    neighbor::{
        NeighborCall, neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv,
        neighbor_alltoallw, neighbor_alltoallw_typed,
    },
    reduce_scatter::{
        reduce_scatter, reduce_scatter_block, reduce_scatter_block_in_place, reduce_scatter_in_place,
    },
    scatter::{scatter, scatterv},
};
pub use allreduce::allreduce;
pub use barrier::barrier;
pub use bcast::bcast;
pub use collective::{
    Collective, SlotCollective, SlotDone, StartMode, Started, start_all, wait_all, wait_for,
};
pub use contiguous::{CallBy, ContiguousCall};
pub use exscan::exscan;
pub use reduce::{reduce, reduce_from};
pub use scan::scan;
pub use select::Options;
