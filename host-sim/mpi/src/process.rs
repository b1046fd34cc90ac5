//! State of the process that all calls share: the endpoint, tables of objects, spare memory, and
//! the turn of the thread that works with them.

pub(crate) mod engine;
pub(crate) mod handles;
pub(crate) mod messages;
mod owned;
pub(crate) mod poster;
pub(crate) mod scope;
pub(crate) mod spare;
pub(crate) mod threads;

#[cfg(test)]
pub(crate) use owned::Alone;
pub(crate) use owned::Owned;
