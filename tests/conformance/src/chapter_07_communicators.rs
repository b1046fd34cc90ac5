//! Chapter 7: groups, contexts, communicators and caching.

mod attributes;
mod between;
mod between_messages;
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
    cases.extend(between_messages::cases());
    cases.extend(attributes::cases());
    cases.extend(hints::cases());
    cases
}
