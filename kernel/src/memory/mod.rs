//! Memory: the user's, which requests retain for a time, and the storage of an endpoint with the
//! rule for its sizes.

pub(crate) mod buffer;
pub(crate) mod sizes;
pub mod sizing;
pub mod storage;
