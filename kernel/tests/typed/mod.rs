//! Messages of datatypes (MPI 4.1 sections 3.2, 3.3 and 5.1): packed from memory and unpacked into
//! memory, whatever the protocol, and what their labels tell.

mod direct;
mod kept;
mod labels;
mod local;
mod parts;
mod plain;
mod random;
mod sends;
mod waits;
mod widths;
