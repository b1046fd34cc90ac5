//! The border to C: the only place where pointers of C are followed.
//!
//! A [`Ptr`] is what a C program gives to a function of MPI: null, or a place that is good until
//! the call returns, and a result of a nonblocking call until that is complete. Functions of the
//! interface are `unsafe` for Rust (`export`): that their arguments are as the standard has them is
//! the program's promise. What can be checked is: no null pointer is followed.
//!
//! # How memory is reached
//!
//! * **Results and arguments**: read and written by value through [`Ptr`], arrays of them through
//!   [`Array`]. There is never a reference to them, so it does no harm if a program gives one array
//!   twice, or looks at it from a function that is called meanwhile.
//! * **Data** are a [`Region`]: bytes by address and length, of the program (`objects::datatypes`)
//!   or of the library (`process::spare`). A region promises nothing. Only [`Region::bytes`] and
//!   [`Region::shown`] make references, at the moment when they are handed to the kernel or copied,
//!   and their caller knows that the memory is there and left alone. The kernel keeps none.
//!   What overlaps by a program's mistake is refused (`MPI_ERR_BUFFER`) where both would be
//!   references.
//! * **The library's objects** ([`extend`], [`extend_mut`]): their owner is kept with the
//!   operation in a field that is dropped after what works on them, or the operation holds a count.
//!
//! The kernel takes memory for as long as its scope, which here is the process: hence `'static`.
//! The standard (MPI 5.0, 2.3 and 3.7.2) has the program keep a buffer until the operation on it is
//! complete, or freed if it is persistent, and leave it alone if it is received into.

mod pointer;
mod region;

pub(crate) mod allocation;
pub(crate) mod callback;

pub(crate) use pointer::{Array, Ptr};
pub(crate) use region::{Address, Region, extend, extend_mut, too_many};
