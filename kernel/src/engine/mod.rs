//! The engine: the state of an endpoint without its transport and platform, and what sends,
//! delivers and matches messages on it.

pub(crate) mod buffered;
pub(crate) mod contacts;
pub(crate) mod delivery;
pub(crate) mod direct;
pub(crate) mod fast_path;
pub(crate) mod loss;
pub(crate) mod matching;
pub(crate) mod overflow;
pub(crate) mod recall;
pub(crate) mod reception;
pub(crate) mod rendezvous;
pub(crate) mod rules;
pub(crate) mod send_queue;
pub(crate) mod staging;
pub(crate) mod stale;
pub(crate) mod state;
pub(crate) mod typed;
pub(crate) mod wire;
