//! Chapter 5: datatypes, and section 3.3 for what a sender's and a receiver's have to do with each
//! other.

mod constructors;
mod messages;
mod packing;

use aldis_hal::{Platform, Transport};
pub(super) use messages::attach;

use super::chapter::Case;

/// The cases of this chapter.
pub(super) fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    let mut cases = packing::cases();
    cases.extend(constructors::cases());
    cases.extend(messages::cases());
    cases
}
