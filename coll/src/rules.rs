//! Rules: how calls are carried out, said outside of the program, by operation, ranks and bytes.
//!
//! What decides is, in this order: the call ([`Options`] that name an algorithm), the rules of its
//! communicator ([`set_on`]), those of the endpoint ([`set`]; `aldis-run --coll-rules` sets them),
//! the cost model. Of a list the first rule that is for a call decides, if its algorithm can carry
//! the call out; else the next one that is for it.
//! [`Explanation::on`](crate::explain::Explanation::on) says which one it was, and why others were
//! passed over.
//!
//! ```
//! use aldis_coll::rules::{self, Extent, Rule, Rules};
//! use aldis_coll::{allreduce, select::Choice};
//! use aldis_kernel::{Comm, Endpoint, Error, hal::{Operation, Platform, Transport}};
//!
//! static MINE: [Rule; 2] = [
//!     Rule {
//!         operation: Some(Operation::Allreduce),
//!         bytes: Extent { least: 1 << 20, most: u64::MAX },
//!         choice: Choice::Named(&allreduce::Ring),
//!         ..Rule::AUTO
//!     },
//!     Rule { operation: Some(Operation::Allreduce), reproducible: true, ..Rule::AUTO },
//! ];
//! static RULES: Rules = Rules::new("MINE", &MINE);
//!
//! fn tune<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     comm: &Comm,
//! ) -> Result<(), Error> {
//!     rules::set_on(ep, comm, Some(&RULES))
//! }
//! ```
//!
//! **Alike on all ranks**, as everything that selection looks at: the launcher reads a file once
//! and gives every rank the same text. A rule sees only what is alike on all ranks of a call, so it
//! is not asked about bytes in operations on blocks of unlike lengths.

use core::fmt;
use core::num::{NonZeroU64, NonZeroUsize};

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Tuning};

use crate::algorithms::algorithms;
use crate::schedule::alike;
use crate::select::{Call, Choice, Options, Selected, SlotPreference, slots};

/// The most rules that a list from outside may have: what bounds the look at them in a call.
pub const RULES_MAX: usize = 256;

/// Numbers from one to another, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Extent {
    /// The first.
    pub least: u64,
    /// The last.
    pub most: u64,
}

impl Extent {
    /// All numbers.
    pub const ALL: Self = Self { least: 0, most: u64::MAX };

    /// Returns true if a number is one of them.
    pub const fn contains(&self, number: u64) -> bool {
        self.least <= number && number <= self.most
    }
}

/// A rule about how some calls are carried out.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Calls of this operation; of every one if there is none.
    pub operation: Option<Operation>,
    /// On communicators of so many ranks.
    pub ranks: Extent,
    /// With so many bytes of data, of a block in an operation on blocks. Calls on blocks of unlike
    /// lengths, where ranks know of unlike bytes, are meant by [`Extent::ALL`] only.
    pub bytes: Extent,
    /// The choice by which they are carried out. `Shared` is for blocking calls where there are
    /// control slots, others are left to the cost model.
    pub choice: Choice,
    /// In segments of at most so many bytes, but of an element at least.
    pub segment_bytes: Option<NonZeroU64>,
    /// With [reproducible](Options::reproducible) results.
    pub reproducible: bool,
    /// The line of the file it is from; 0 for none.
    pub line: u32,
}

impl Rule {
    /// The cost model for every call.
    pub const AUTO: Self = Self {
        operation: None,
        ranks: Extent::ALL,
        bytes: Extent::ALL,
        choice: Choice::Auto,
        segment_bytes: None,
        reproducible: false,
        line: 0,
    };

    /// Returns true if it is for this call.
    fn is_for(&self, call: &Call) -> bool {
        let bytes = slots::bytes(call);
        let of_unlike = alike(call.operation) != call.operation;
        self.operation.is_none_or(|operation| operation == call.operation)
            && self.ranks.contains(call.size.into())
            && (self.bytes == Extent::ALL || !of_unlike && self.bytes.contains(bytes))
    }

    /// Elements of a segment, if it says how long one is.
    fn segment(&self, call: &Call) -> Option<NonZeroUsize> {
        let elements = self.segment_bytes?.get().checked_div(call.element_bytes.into()).unwrap_or(u64::MAX);
        NonZeroUsize::new(usize::try_from(elements).unwrap_or(usize::MAX).max(1))
    }

    /// Applies the rule to a call that leaves the choice open.
    fn applied(&self, call: &Call, open: &Options) -> Result<Ruling, Cause> {
        let reproducible = self.reproducible || open.reproducible;
        let own = Options {
            choice: self.choice,
            reproducible,
            segment: self.segment(call).or(open.segment),
            ..*open
        };
        let is_shared = matches!(self.choice, Choice::Shared);
        let options = if is_shared { Options { choice: Choice::Auto, ..own } } else { own };
        let selected = call.select(algorithms(call.operation), &options)?;
        if selected.plan.algorithm.crosses() {
            return Err(Cause::Unsupported);
        }
        let preference = match own.slot_preference(call, &Ok(selected)) {
            SlotPreference::Never if is_shared => return Err(Cause::Unsupported),
            SlotPreference::Named if slots::is_too_long(call) => return Err(slots::too_long(call)),
            SlotPreference::Named => SlotPreference::IfThere,
            preference => preference,
        };
        Ok(Ruling { options, selected, preference })
    }
}

/// The result of applying a rule to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruling {
    /// The call's, with what the rule says.
    pub(crate) options: Options,
    pub(crate) selected: Selected,
    pub(crate) preference: SlotPreference,
}

/// A list of rules with a name.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    name: &'static str,
    list: &'static [Rule],
}

impl Rules {
    /// Names a list of rules, in this order; `name` is the file that they are from, or whatever
    /// else a user knows them by.
    pub const fn new(name: &'static str, list: &'static [Rule]) -> Self {
        Self { name, list }
    }

    /// The rules in their order.
    pub const fn list(&self) -> &'static [Rule] {
        self.list
    }
}

/// Replaces the rules for every communicator of an endpoint. Alike on all ranks, and between
/// collectives.
pub fn set<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>, rules: Option<&'static Rules>) {
    endpoint.set_tuning(rules.map(|rules| rules as Tuning));
}

/// Replaces the rules for one communicator. Alike on all its ranks, and between collectives; a
/// duplicate has none.
///
/// # Errors
/// [`Cause::Stale`] for a communicator that was freed.
pub fn set_on<T: Transport, P: Platform>(
    endpoint: &mut Endpoint<'_, T, P>,
    comm: &Comm,
    rules: Option<&'static Rules>,
) -> Result<(), Error> {
    endpoint.set_comm_tuning(comm, rules.map(|rules| rules as Tuning))
}

/// The rules that hold for a call: its communicator's, then all communicators'.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InForce([Option<&'static Rules>; 2]);

impl InForce {
    /// The rules of an endpoint.
    pub(crate) fn of(tuning: [Option<Tuning>; 2]) -> Self {
        Self(tuning.map(|tuning| tuning.and_then(|tuning| tuning.downcast_ref())))
    }

    /// All communicators'.
    pub(crate) const fn everywhere(rules: &'static Rules) -> Self {
        Self([None, Some(rules)])
    }

    /// The rules for a call, each with what it makes of it.
    pub(crate) fn verdicts(
        self,
        call: &Call,
        open: &Options,
    ) -> impl Iterator<Item = (Origin, Result<Ruling, Cause>)> {
        let rules = self.0.into_iter().zip([true, false]).filter_map(|(rules, own)| Some((rules?, own)));
        rules.flat_map(move |(&Rules { name, list }, own)| {
            let meant = (1..).zip(list).filter(move |(_, rule)| rule.is_for(call));
            meant.map(move |(number, rule)| {
                (Origin { name, number, line: rule.line, own }, rule.applied(call, open))
            })
        })
    }

    /// Returns the ruling that decides about a call which leaves the choice open, if any rule does.
    pub(crate) fn ruling(self, call: &Call, open: &Options) -> Option<(Origin, Ruling)> {
        self.verdicts(call, open).find_map(|(origin, ruling)| Some((origin, ruling.ok()?)))
    }
}

/// The place of a rule in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    name: &'static str,
    /// In its list, from 1.
    number: u32,
    line: u32,
    /// In the communicator's own.
    own: bool,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { name, number, line, own } = self;
        f.write_str(if own { "the communicator's " } else { "" })?;
        match line {
            0 => write!(f, "rule {number} of {name}"),
            line => write!(f, "rule {name}:{line}"),
        }
    }
}

#[cfg(test)]
mod tests;
