//! The schedule that is looked at, and its simulation.

use aldis_coll::alltoall::InPlace;
use aldis_coll::catalog::COLLECTIVES;
use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::{Algorithm, Candidate};
use aldis_coll::select::{Call, Choice, Options as Selection, Plan, Prices};
use aldis_coll::shared;
use aldis_hal::Operation;
use aldis_sim::whatif::{LogGp, Outcome, Run, ScheduleNetwork, Topology, Trace};

use crate::cli::Options;

/// A schedule and what happens when it is simulated.
pub(crate) struct Study {
    /// The operation as the user called it, which for a v-variant is not the algorithm's own.
    pub(crate) operation: Operation,
    pub(crate) candidate: Candidate,
    pub(crate) run: Run,
    pub(crate) plan: Plan,
    pub(crate) outcome: Outcome,
    pub(crate) trace: Trace,
    /// By the closed form, ns.
    pub(crate) closed_form_ns: u64,
}

impl Study {
    pub(crate) fn of(options: &Options) -> Result<Self, String> {
        let Options { ranks, element_bytes, root, .. } = *options;
        let operation = operation(&options.operation)?;
        if root >= ranks {
            return Err(format!("--root {root}: there is no such rank among {ranks}"));
        }
        let count = if operation == Operation::Barrier { 0 } else { elements(options)? };
        let scratch = options.scratch.map_or(usize::MAX, |bytes| {
            usize::try_from(bytes / u64::from(element_bytes)).unwrap_or(usize::MAX)
        });
        let call = Call { operation, size: ranks, count, element_bytes, scratch, commutes: true };
        let prices = options.prices.prices();
        let candidate = named(&call, &options.algorithm, prices)?;
        let run = Run { root, scratch, ..Run::new(candidate, ranks).with_data(count, element_bytes) };
        let named = |error| format!("{operation} by {} over {ranks} ranks: {error}", candidate.name());
        let plan = run.plan().map_err(|error| {
            if candidate.serves(ranks) {
                named(error.to_string())
            } else {
                named("it is not made for so many".into())
            }
        })?;
        let mut trace = Trace::default();
        let outcome = run.traced(&network(&prices), &mut trace).map_err(|error| named(error.to_string()))?;
        let closed_form_ns = prices.of(&plan.work(&call, candidate), element_bytes);
        Ok(Self { operation, candidate, run, plan, outcome, trace, closed_form_ns })
    }

    /// Segments.
    pub(crate) fn segments(&self) -> usize {
        self.plan.segments(self.run.count)
    }
}

/// A network on which a message costs what the prices say: o, L and G are theirs, and nothing else
/// keeps an interface busy.
fn network(prices: &Prices) -> ScheduleNetwork {
    let ps = |ns: u32| u64::from(ns) * 1000;
    let of_byte = |per_kib_ns: u32| ps(per_kib_ns).div_ceil(1024);
    let cost = LogGp {
        latency_ps: ps(prices.message.latency_ns),
        hop_ps: 0,
        overhead_ps: ps(prices.message.overhead_ns),
        gap_ps: 0,
        byte_ps: of_byte(prices.message.per_kib_ns),
        local_byte_ps: of_byte(prices.local_per_kib_ns),
    };
    ScheduleNetwork::new(cost, Topology::Crossbar)
}

fn operation(name: &str) -> Result<Operation, String> {
    let found = COLLECTIVES.into_iter().find(|operation| operation.to_string() == name);
    found.ok_or_else(|| {
        let known: Vec<String> = COLLECTIVES.iter().map(ToString::to_string).collect();
        format!("no operation is called `{name}`; known: {}", known.join(", "))
    })
}

fn elements(options: &Options) -> Result<usize, String> {
    let (bytes, element_bytes) = (options.bytes, u64::from(options.element_bytes));
    let whole = bytes.is_multiple_of(element_bytes).then_some(bytes / element_bytes);
    whole.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| {
        format!("--bytes {bytes}: no whole number of elements of {element_bytes}; see --element-bytes")
    })
}

/// Every schedule of an operation: those that selection chooses from, and that of the all-to-all in
/// place.
fn known(operation: Operation) -> impl Iterator<Item = Candidate> {
    let in_place = (operation == Operation::Alltoall).then_some(&InPlace as Candidate);
    algorithms(operation).iter().copied().chain(in_place)
}

/// The algorithm of this name, or the one that selection takes.
fn named(call: &Call, name: &str, prices: Prices) -> Result<Candidate, String> {
    let operation = call.operation;
    let of = |name: &str| known(operation).find(|known| known.name() == name);
    if name == shared::NAME && Choice::named(operation, name).is_ok() {
        return Err(format!("`{name}` of {operation} sends no messages: there is no schedule to draw"));
    }
    if name != "auto" {
        return of(name).ok_or_else(|| {
            let known: Vec<&str> = known(operation).map(|known| known.name()).collect();
            format!("no {operation} algorithm is called `{name}`; known: auto, {}", known.join(", "))
        });
    }
    let selection = Selection { prices, ..Selection::default() };
    let selected = call.select(algorithms(operation), &selection);
    let taken: Algorithm = selected.map_err(|cause| format!("{operation}: {cause}"))?.plan.algorithm;
    of(taken.name()).ok_or_else(|| format!("{operation}: nothing is known of {}", taken.name()))
}
