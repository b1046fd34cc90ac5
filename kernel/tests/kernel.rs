//! The kernel by its public interface, over the loopback transport and the rig of `tests/kit`: one
//! program, so that what all of it is built from is compiled and linked once.

mod attributes;
mod buffers;
mod communicators;
mod contacts;
mod datatype;
mod desertion;
mod detached;
mod direct;
mod endings;
mod future;
mod groups;
mod hints;
mod lengths;
mod matched;
mod matched_random;
mod modes;
mod overflow;
mod partitioned;
mod pending;
mod persistent;
mod point_to_point;
mod policies;
mod random;
mod recall;
mod refusals;
mod staging;
mod typed;
mod view;
mod waiting;
