//! Messages of datatypes (MPI 4.1 sections 3.2, 3.3 and 5.1): packed from memory and unpacked into
//! memory, whatever the protocol, and what their labels tell.

mod kept;
mod labels;
mod local;
#[path = "../datatype/naive.rs"]
mod naive;
mod parts;
mod random;
#[path = "../datatype/recipes.rs"]
mod recipes;
#[path = "../rig/mod.rs"]
mod rig;
mod sends;
mod waits;
mod widths;
