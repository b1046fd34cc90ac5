//! The rules of matching that hints change.

use crate::rank::WILD;
use crate::tables::comm::Comm;
use crate::tables::comms::Comms;
use crate::tables::hints::Hints;
use crate::tables::request::Key;

/// The rules that hints change, reached through the engine only once some communicator has been
/// given any: a program without them does not hold the code.
pub(crate) struct Rules {
    /// Returns what is promised against a receive that leaves its source or tag open.
    pub(crate) against: fn(&Comms<'_>, &Key) -> Hints,
    /// Returns true if a message in this context must be as long as its buffer.
    pub(crate) must_fit: fn(&Comms<'_>, u32) -> bool,
    /// Returns true if a message in this context may be sent before others to the same peer that
    /// wait already.
    pub(crate) may_overtake: fn(&Comms<'_>, u32) -> bool,
}

pub(crate) static RULES: Rules = Rules {
    against: |comms, key| {
        let source = if key.source == WILD { Hints::NO_ANY_SOURCE } else { Hints::empty() };
        let tag = if key.tag == WILD { Hints::NO_ANY_TAG } else { Hints::empty() };
        promised(comms, key.context) & (source | tag)
    },
    must_fit: |comms, context| promised(comms, context).contains(Hints::EXACT_LENGTH),
    may_overtake: |comms, context| promised(comms, context).contains(Hints::ALLOW_OVERTAKING),
};

/// Returns what was promised of the messages of a context; nothing of those of collectives.
fn promised(comms: &Comms<'_>, context: u32) -> Hints {
    let settings = comms.settings(context).filter(|_| !Comm::is_collective(context));
    settings.map_or(Hints::empty(), |settings| settings.hints)
}
