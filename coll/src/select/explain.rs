//! What selection thought, as a table.

use core::fmt;

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint};

use super::{Call, Choice, Options, Plan, Selected, Shares, algorithms, is_far, priced};
use crate::schedule::{Algorithm, Candidate};
use crate::shared;

/// What selection thought, displayed as a table with one candidate a line.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    pub(super) call: Call,
    pub(super) options: Options,
    pub(super) selected: Result<Selected, Cause>,
    /// Whether a communicator's control lines can do it, if there is one.
    pub(super) lines: Option<Result<(), Cause>>,
}

impl Explanation {
    /// The same for a blocking call on this communicator: whether `shared` can be taken, and why not.
    #[must_use]
    pub fn on<T: Transport, P: Platform>(self, endpoint: &mut Endpoint<'_, T, P>, comm: &Comm) -> Self {
        let lines = endpoint.lines(comm).map(drop);
        if is_far(lines) {
            let options = self.options.for_far();
            let selected = self.call.select(algorithms(self.call.operation), &options);
            return Self { lines: Some(lines), options, selected, ..self };
        }
        Self { lines: Some(lines), ..self }
    }

    /// Whether the call is carried out by `shared`.
    pub fn is_shared(&self) -> bool {
        let shares = self.options.shares(&self.call, &self.selected);
        shares != Shares::Never && self.lines == Some(Ok(()))
    }

    fn shared_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if shared::algorithm(self.call.operation).is_none() {
            return Ok(());
        }
        write!(f, "\n  {:<20} ", shared::NAME)?;
        match self.lines {
            Some(Err(Cause::Unreachable)) => return f.write_str("refused: a rank is on another node"),
            Some(Err(cause)) => return write!(f, "refused: {cause}"),
            _ => write!(f, "{} ns: by control lines", self.call.shared_ns(&self.options.prices))?,
        }
        match (self.options.choice, self.is_shared()) {
            (Choice::Auto, true) => f.write_str("; taken, the cheapest"),
            (Choice::Shared, true) => f.write_str("; taken, named by the caller"),
            (Choice::Named(_), _) => f.write_str("; another was named"),
            (_, false) if self.lines.is_none() => f.write_str("; where all ranks are on one node"),
            _ => f.write_str("; not taken"),
        }
    }

    /// The plan taken.
    ///
    /// # Errors
    /// Why there is none.
    pub fn selected(&self) -> Result<Plan, Cause> {
        self.selected.map(|selected| selected.plan)
    }

    /// Each candidate's predicted time in ns, or why it cannot be used.
    pub fn candidates(&self) -> impl Iterator<Item = (Algorithm, Result<u64, Cause>)> {
        algorithms(self.call.operation).iter().map(|&candidate| {
            let price = self.call.price(candidate, &self.options);
            (candidate as Algorithm, price.map(|priced| priced.ns))
        })
    }

    fn cut(&self, f: &mut fmt::Formatter<'_>, plan: Plan) -> fmt::Result {
        write!(f, "segments of {} ({}", plan.segment, plan.segments(self.call.count))?;
        match plan.lanes() {
            1 => f.write_str(")"),
            lanes => write!(f, ", {lanes} at once)"),
        }
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, candidate: Candidate) -> fmt::Result {
        write!(f, "\n  {:<20} ", candidate.name())?;
        let Selected { plan, ns } = match self.call.price(candidate, &self.options) {
            Ok(priced) => priced,
            Err(Cause::Unsupported) if !candidate.serves(self.call.size) => {
                return f.write_str("refused: not made for so many ranks");
            }
            Err(Cause::Unsupported) => {
                return f.write_str("refused: does not keep rank order and the operation does not commute");
            }
            Err(cause) => return write!(f, "refused: {cause}"),
        };
        let work = plan.work(&self.call, candidate);
        write!(f, "{ns} ns: {} rounds, ", work.rounds)?;
        write!(f, "{} bytes sent, ", work.elements.saturating_mul(self.call.element_bytes.into()))?;
        self.cut(f, plan)?;
        let Ok(selected) = self.selected else { return Ok(()) };
        match (selected.plan.algorithm.name() == candidate.name(), self.options.choice) {
            (true, Choice::Auto) if self.is_shared() => f.write_str("; the cheapest by messages"),
            (true, Choice::Auto) => f.write_str("; taken, the cheapest"),
            (true, _) => f.write_str("; taken, named by the caller"),
            (false, Choice::Named(_) | Choice::Shared) => f.write_str("; another was named"),
            (false, Choice::Auto) => {
                write!(f, "; not taken, {} ns slower", ns.saturating_sub(selected.ns))
            }
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { operation, size, count, element_bytes, scratch, .. } = self.call;
        write!(f, "{operation} over {size} ranks, {count} elements of {element_bytes} bytes, ")?;
        write!(f, "scratch for {scratch} elements")?;
        algorithms(operation).iter().try_for_each(|&candidate| self.line(f, candidate))?;
        self.shared_line(f)?;
        match (self.options.choice, self.selected) {
            (Choice::Shared, _) => Ok(()),
            (_, Err(cause)) => write!(f, "\n  none: {cause}"),
            (Choice::Named(own), Ok(Selected { plan, .. })) if priced(own).is_none() => {
                write!(f, "\n  {:<20} no price: the program's own, ", own.name())?;
                self.cut(f, plan)?;
                f.write_str("; taken, named by the caller")
            }
            _ => Ok(()),
        }
    }
}
