//! Chapter 7: groups, contexts, communicators and caching.

mod between;
mod communicators;
mod groups;
mod hints;

use aldis_hal::{Platform, Transport};

use super::chapter::Case;

/// The cases of this chapter.
pub(super) fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    let mut cases = groups::cases();
    cases.extend(communicators::cases());
    cases.extend(between::cases());
    cases.extend(hints::cases());
    cases
}
