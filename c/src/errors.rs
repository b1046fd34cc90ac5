//! Causes as the numbers of `aldis.h`.

use core::ffi::CStr;

use aldis_hal::Cause;

/// A result of `aldis.h`.
pub(crate) const OK: i32 = 0;
pub(crate) const ARGUMENT: i32 = -1;
pub(crate) const MEMORY: i32 = -2;
pub(crate) const TIMEOUT: i32 = -3;
const TRUNCATED: i32 = -4;
const RANK: i32 = -5;
const TAG: i32 = -6;
pub(crate) const FULL: i32 = -7;
const PEER: i32 = -8;
const ABORTED: i32 = -9;
pub(crate) const MISSING: i32 = -10;
pub(crate) const CARD: i32 = -11;
const PROTOCOL: i32 = -12;
const UNLIKE: i32 = -13;
pub(crate) const STALE: i32 = -14;
const OTHER: i32 = -15;

/// The number of a cause.
pub(crate) const fn number(cause: Cause) -> i32 {
    match cause {
        Cause::TimedOut => TIMEOUT,
        Cause::Truncated { .. } => TRUNCATED,
        Cause::RankOutOfRange { .. } => RANK,
        Cause::TagOutOfRange { .. } => TAG,
        Cause::Full(_) => FULL,
        Cause::TooSmall { .. } => MEMORY,
        Cause::PeerDead | Cause::PeerLeft | Cause::Unreachable => PEER,
        Cause::Aborted { .. } | Cause::PeerAborted { .. } => ABORTED,
        Cause::Device | Cause::TooBig { .. } => CARD,
        Cause::Malformed(_) | Cause::Incompatible | Cause::Corrupt { .. } => PROTOCOL,
        Cause::UnlikeCall { .. } | Cause::UnlikeLength { .. } | Cause::UnlikeOrder => UNLIKE,
        Cause::Stale => STALE,
        Cause::Unaligned { .. } | Cause::LengthMismatch { .. } => ARGUMENT,
        _ => OTHER,
    }
}

/// The name of a number.
pub(crate) const fn text(number: i32) -> &'static CStr {
    match number {
        OK => c"no error",
        ARGUMENT => c"an argument that cannot be",
        MEMORY => c"too little memory",
        TIMEOUT => c"the time-out passed first",
        TRUNCATED => c"the message is longer than the buffer",
        RANK => c"a rank outside the job",
        TAG => c"a tag out of range",
        FULL => c"a table is full",
        PEER => c"the peer is dead, has left, or cannot be reached",
        ABORTED => c"the job was aborted",
        MISSING => c"not all ranks were found in time",
        CARD => c"no such card, or it cannot carry the messages",
        PROTOCOL => c"the protocol was broken",
        UNLIKE => c"unlike collective calls",
        STALE => c"a request that is over",
        OTHER => c"another error",
        _ => c"no error of aldis.h",
    }
}
