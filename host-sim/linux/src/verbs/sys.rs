//! The objects of libibverbs with their lifetimes: each holds those that it was made from, so that
//! it is freed before them, and memory that the device may touch is out of reach until the device
//! has given it back. The modules below are all the unsafe code that there is of verbs.

mod channel;
mod completions;
mod connection;
mod datagrams;
mod device;
mod direct;
mod flush;
mod pair;
mod rdmacm;
mod receives;
mod region;
mod slab;

use nix::errno::Errno;

use super::error::VerbsError;

pub(super) use self::channel::CompletionChannel;
pub(super) use self::completions::{BATCH, CompletionQueues, Completions, Done, Ending};
pub(super) use self::connection::Remote;
pub(super) use self::datagrams::{AddressHandle, Datagrams, Slots};
pub(super) use self::device::{Device, DeviceLimits, Domain};
pub(super) use self::direct::{
    DirectOperation, DirectOrder, DirectPair, DirectSpan, FlushRead, REQUESTS_OF_ORDER,
};
pub(super) use self::flush::{Flush, FlushKey};
pub(super) use self::pair::{PairShape, ReliablePair, SentKind};
pub(super) use self::rdmacm::{CmId, Events, LETTER_BYTES, ManagerEvent, ManagerEventKind, Offered};
pub(super) use self::receives::Receives;
pub(super) use self::region::{DeviceRegion, RegionKey};

/// Returns the error of a call that returns a pointer and has failed.
fn failed(call: &'static str) -> VerbsError {
    VerbsError::Call { call, errno: Errno::last() }
}

/// Returns the error of a call that returns its number, if it has failed.
fn check(call: &'static str, code: i32) -> Result<(), VerbsError> {
    if code == 0 { Ok(()) } else { Err(VerbsError::Call { call, errno: Errno::from_raw(code.abs()) }) }
}
