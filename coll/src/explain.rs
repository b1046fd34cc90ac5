//! The reasons of selection, as a table.

use core::fmt;

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint};

use crate::algorithms::{algorithms, priced};
use crate::route::{Beginning, Decision, Route, RouteFacts, RouteQuery};
use crate::rules::{InForce, Rules};
use crate::schedule::{Algorithm, Candidate};
use crate::select::{Call, CallSpec, Choice, Options, Plan, Selected, slots};
use crate::shared::SlotForm;

/// The reasons of selection, displayed as a table with one candidate a line.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    call: Call,
    /// The options as the caller gave them.
    given: Options,
    /// The rules that were asked.
    rules: InForce,
    decision: Decision,
    /// The answer to whether a communicator has control slots, if there is one.
    control_slots: Option<Result<(), Cause>>,
    /// The form of the route by them, if it is one.
    shared: Option<SlotForm>,
    /// True if two ranks pass the data sooner in a message.
    prefers_message: bool,
    /// True if one of two lends the data instead of chunks.
    is_lent: bool,
}

impl Explanation {
    /// By the options alone.
    fn new(call: Call, given: Options) -> Self {
        let rules = InForce::default();
        let decision = Decision::new(&call, algorithms(call.operation), &given, rules);
        let (control_slots, shared, prefers_message, is_lent) = (None, None, false, false);
        Self { call, given, rules, decision, control_slots, shared, prefers_message, is_lent }
    }

    /// Explains a blocking call on this communicator: by the rules that hold on it, and whether
    /// `shared` can be taken, and why not.
    #[must_use]
    pub fn on<T: Transport, P: Platform>(self, endpoint: &mut Endpoint<'_, T, P>, comm: &Comm) -> Self {
        let mut this = self.by(endpoint.rules(comm));
        let candidates = algorithms(self.call.operation);
        let spec = CallSpec { call: self.call, root: 0, kernel: None, candidates };
        let query = RouteQuery { spec, options: self.given, beginning: Beginning::Blocking };
        let slots = endpoint.slots(comm);
        let route = query.route_by(&mut this.decision, endpoint, comm);
        let shared = match route {
            Route::Slots(_, form) if slots.is_ok() => Some(form),
            _ => None,
        };
        let prefers_message = query.is_for_message(endpoint, comm);
        let is_lent = slots.is_ok_and(|shape| slots::is_lent(&self.call, &shape));
        Self { control_slots: Some(slots.map(drop)), shared, prefers_message, is_lent, ..this }
    }

    /// Explains the call on a communicator that has no rules of its own, where these hold
    /// everywhere.
    #[must_use]
    pub fn by_rules(self, rules: &'static Rules) -> Self {
        self.by(InForce::everywhere(rules))
    }

    fn by(self, rules: InForce) -> Self {
        let decision = Decision::new(&self.call, algorithms(self.call.operation), &self.given, rules);
        Self { rules, decision, ..self }
    }

    /// Returns true if the call is carried out by `shared`.
    pub const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The rules that are for the call and have not decided, and the one that has.
    fn rule_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(open) = self.given.open() else { return Ok(()) };
        for (origin, ruling) in self.rules.verdicts(&self.call, &open) {
            match ruling {
                Err(cause) => write!(f, "\n  {origin} passed over: {cause}")?,
                Ok(_) => return write!(f, "\n  decided by {origin}"),
            }
        }
        Ok(())
    }

    /// Writes what has named the algorithm: a rule, or the caller.
    fn named_by(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = &self.decision.rule {
            return write!(f, "; taken, named by {rule}");
        }
        f.write_str("; taken, named by the caller")
    }

    /// Writes that two levels are taken, which are priced where nodes are known.
    fn two_level_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.decision.options.choice, self.decision.selected) {
            (Choice::Auto, Ok(Selected { plan, ns })) if priced(plan.algorithm).is_none() => {
                write!(f, "\n  {:<20} {ns} ns: near and far messages, ", plan.algorithm.name())?;
                self.cut(f, plan)?;
                f.write_str("; taken, the cheapest")
            }
            _ => Ok(()),
        }
    }

    fn shared_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if slots::algorithm(self.call.operation).is_none() {
            return Ok(());
        }
        write!(f, "\n  {:<20} ", slots::NAME)?;
        match self.control_slots {
            Some(Err(Cause::Unreachable)) => return f.write_str("refused: a rank is on another node"),
            Some(Err(cause)) => return write!(f, "refused: {cause}"),
            _ if self.decision.options.fixes_bits(&self.call) => {
                return write!(f, "refused: {}", Cause::Irreproducible);
            }
            _ if slots::is_too_long(&self.call) => {
                return write!(
                    f,
                    "refused: only where all that a rank gives is up to {} bytes",
                    slots::SLOT_BYTES
                );
            }
            _ => write!(f, "{} ns: by control slots", self.call.shared_ns(&self.decision.options.prices))?,
        }
        if let Some(SlotForm::Chunks | SlotForm::ShortRun) = self.shared {
            f.write_str(if self.is_lent { ", lent and read by the other rank" } else { ", in chunks" })?;
        }
        if self.prefers_message {
            return f.write_str("; two ranks pass so much sooner in a message, as measured");
        }
        match (self.decision.options.choice, self.is_shared()) {
            (Choice::Auto, true) => f.write_str("; taken, the cheapest"),
            (Choice::Shared, true) => self.named_by(f),
            (Choice::Named(_), _) => f.write_str("; another was named"),
            (_, false) if self.control_slots.is_none() => f.write_str("; where all ranks are on one node"),
            _ => f.write_str("; not taken"),
        }
    }

    /// The plan taken.
    ///
    /// # Errors
    /// Why there is none.
    pub fn selected(&self) -> Result<Plan, Cause> {
        self.decision.selected.map(|selected| selected.plan)
    }

    /// Each candidate's predicted time in ns, or why it cannot be used.
    pub fn candidates(&self) -> impl Iterator<Item = (Algorithm, Result<u64, Cause>)> {
        algorithms(self.call.operation).iter().map(|&candidate| {
            let price = self.call.offer(candidate, &self.decision.options);
            (candidate as Algorithm, price.map(|priced| priced.ns))
        })
    }

    /// Returns true if the search has ended at one that costs hardly more than any can, before one
    /// that costs a little less.
    pub(crate) fn is_beaten(&self) -> bool {
        self.decision
            .selected
            .is_ok_and(|taken| self.candidates().any(|(_, price)| price.is_ok_and(|ns| ns < taken.ns)))
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
        let Selected { plan, ns } = match self.call.offer(candidate, &self.decision.options) {
            Ok(priced) => priced,
            Err(Cause::Unsupported) if !candidate.serves(self.call.size) => {
                return f.write_str("refused: not made for so many ranks");
            }
            Err(Cause::Unsupported) => {
                return f.write_str("refused: does not keep rank order and the operation does not commute");
            }
            Err(cause) => return write!(f, "refused: {cause}"),
        };
        let taken = self.selected();
        let is_taken = |plan: &Plan| plan.algorithm.name() == candidate.name();
        let plan = taken.ok().filter(is_taken).unwrap_or(plan);
        let work = plan.work(&self.call, candidate);
        write!(f, "{ns} ns: {} rounds, ", work.rounds)?;
        write!(f, "{} bytes sent, ", work.elements.saturating_mul(self.call.element_bytes.into()))?;
        self.cut(f, plan)?;
        let Ok(selected) = self.decision.selected else { return Ok(()) };
        match (is_taken(&selected.plan), self.decision.options.choice) {
            (true, Choice::Auto) if self.is_shared() => f.write_str("; the cheapest by messages"),
            (true, Choice::Auto) if self.is_beaten() => f.write_str("; taken, as cheap as nearly any can be"),
            (true, Choice::Auto) => f.write_str("; taken, the cheapest"),
            (true, _) => self.named_by(f),
            (false, Choice::Named(_) | Choice::Shared) => f.write_str("; another was named"),
            (false, Choice::Auto) if ns < selected.ns => {
                write!(f, "; not looked at, {} ns faster", selected.ns.saturating_sub(ns))
            }
            (false, Choice::Auto) => {
                write!(f, "; not taken, {} ns slower", ns.saturating_sub(selected.ns))
            }
        }
    }
}

impl Call {
    /// Every candidate with its predicted time and why it was or was not taken, to be displayed.
    pub fn explain(self, options: &Options) -> Explanation {
        Explanation::new(self, *options)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { operation, size, count, element_bytes, scratch, .. } = self.call;
        write!(f, "{operation} over {size} ranks, {count} elements of {element_bytes} bytes, ")?;
        write!(f, "scratch for {scratch} elements")?;
        algorithms(operation).iter().try_for_each(|&candidate| self.line(f, candidate))?;
        self.two_level_line(f)?;
        self.shared_line(f)?;
        self.rule_lines(f)?;
        match (self.decision.options.choice, self.decision.selected) {
            (Choice::Shared, _) => Ok(()),
            (_, Err(cause)) => write!(f, "\n  none: {cause}"),
            (Choice::Named(own), Ok(Selected { plan, .. })) if priced(own).is_none() => {
                write!(f, "\n  {:<20} no price: the program's own, ", own.name())?;
                self.cut(f, plan)?;
                self.named_by(f)
            }
            _ => Ok(()),
        }
    }
}
