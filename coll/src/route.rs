//! The way in which a call is carried out on a communicator: decided here, and nowhere else.
//!
//! Blocking, nonblocking and persistent calls ask, explanations ask, and so does MPI's C interface,
//! which makes these calls. In this order the answer depends on
//!
//! | question | answered by |
//! |---|---|
//! | which algorithm, at which price? | the first rule that holds for the call, else its options |
//! | are control slots preferred? | by name, by price, or never ([`SlotPreference`]) |
//! | can they carry out what is begun like this? | [`Beginning`] |
//! | has the communicator any, and do they hold the data? | the kernel's control slots |
//! | is a rank on another node? | they as well: prices are those of far messages then |
//! | are two levels cheaper? | the ranks of a node: [`Options::node`], else the transport |
//!
//! A blocking call of few bytes asks [`Options::tries_slots`] first, which gives the same answer
//! before anything is priced or looked up. Where that is yes the call is made in the slots at once;
//! [`RouteQuery::route`] is asked for what they decline.
//!
//! All ranks of a communicator find the same route: what it depends on they have alike.

use aldis_kernel::hal::shared_control::ControlSlotsShape;
use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Scope, Tuning};

use crate::algorithms::{algorithms, hierarchy};
use crate::layout::Layout;
use crate::rules::{InForce, Origin, Ruling};
use crate::schedule::{Candidate, Instance};
use crate::select::{
    Call, CallSpec, Choice, Options, Plan, Selected, SlotPreference, is_far, reduces, slots,
};
use crate::shared::{GivenBlocks, NeighborExchange, Neighbors, Portions, SlotForm, StartedRole, Task};

/// The way in which a call is carried out.
pub(crate) enum Route<'m> {
    /// By control slots, in this role: they hold all that a rank gives, or they announce it and it
    /// passes in the chunks beside them.
    Slots(StartedRole<'m>, SlotForm),
    /// By messages, as planned here.
    Messages(Plan),
    /// Not at all, for this cause.
    Refused(Cause),
}

/// The data of a call, as control slots hold them.
#[derive(Clone, Copy)]
pub(crate) enum SlotData<'m> {
    /// Not told: the call was declined by slots, or is not for them.
    Untold,
    /// A stretch of so many bytes.
    Stretch(usize),
    /// So many bytes, divided into blocks, and the memory that the rank gives if that is not its
    /// data.
    Blocks(usize, Layout<'m>, Option<GivenBlocks<'m>>),
    /// Blocks of one length for neighbours in a grid, and what is given.
    Neighbors(Neighbors<'m>, GivenBlocks<'m>),
}

impl Route<'_> {
    /// Returns the plan of its messages.
    ///
    /// # Errors
    /// Why there are none.
    #[inline]
    pub(crate) fn messages(self) -> Result<Plan, Cause> {
        match self {
            Self::Messages(plan) => Ok(plan),
            Self::Refused(cause) => Err(cause),
            Self::Slots(..) => Err(Cause::Unsupported),
        }
    }
}

/// The time at which a collective starts that a call begins in a scope, and how it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StartMode {
    /// At once; ranks may do other things before they wait for it.
    Nonblocking,
    /// At once, by ranks each of which drives all the collectives that it has started whenever it
    /// waits for anything: by control slots, if what every rank gives stands in one, or in the
    /// chunks beside them before others have read any, and every rank knows so; else by messages. A
    /// communicator has slots for some collectives at a time; those that are started beyond wait
    /// for the first, and a test or wait of one alone may end with [`Cause::Full`] meanwhile, after
    /// which it goes on.
    Driven,
    /// At once, and every rank waits for it as soon as it has started it: it takes the path of the
    /// blocking call, by control slots where that does, and messages where these say that blocks
    /// are longer. Calls over two groups, and those among neighbours that are in no grid or have
    /// blocks of unlike lengths, take messages, and so no rank may
    /// [`run`](crate::NeighborCall::run) one instead. A rank that starts it can drive what else is
    /// under way while it waits, as a blocking call does not.
    Waited,
    /// When [`Collective::start`](crate::Collective::start) is called, any number of times.
    Persistent,
    /// Like that, on a communicator that it has to itself: no rank calls another collective there,
    /// so every start is by control slots where one that is [driven](Self::Driven) would be.
    Dedicated,
}

impl StartMode {
    /// Returns true if its call only makes it.
    pub(crate) const fn is_persistent(self) -> bool {
        matches!(self, Self::Persistent | Self::Dedicated)
    }

    /// Returns true if it goes by control slots where every rank knows that they hold it: `None` if
    /// it does not, else true if ranks do other things while it is under way.
    const fn takes_slots(self) -> Option<bool> {
        match self {
            Self::Waited => Some(false),
            Self::Driven | Self::Dedicated => Some(true),
            Self::Nonblocking | Self::Persistent => None,
        }
    }
}

/// The way in which a call is begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// By its call, which returns when it is over.
    Blocking,
    /// Like that, once [`Options::tries_slots`] was asked and the slots, if it said yes, were
    /// found to be for something else, or have left a part of it to messages.
    Declined,
    /// In a scope, in this mode.
    Started(StartMode),
}

impl Beginning {
    /// Returns true if what is begun like this goes by control slots where they are preferred so.
    /// What is on blocks, and a scan, has asked [`Options::tries_slots`] by then: a blocking one is
    /// made in the slots at once, one that is waited for is started there if every rank knows that
    /// they hold its blocks. What is made to be started has no state of that kind.
    fn admits(self, operation: Operation, preference: SlotPreference) -> bool {
        let is_whole = !slots::is_in_control_slots(operation);
        match self {
            _ if preference == SlotPreference::Never => false,
            Self::Blocking => true,
            Self::Declined => is_whole,
            Self::Started(mode) if mode.takes_slots().is_some() => is_whole,
            Self::Started(StartMode::Nonblocking) => is_whole && preference == SlotPreference::Named,
            Self::Started(_) => false,
        }
    }

    /// Returns true for what is started in control slots and goes on while ranks do other things;
    /// `None` for what is not started there.
    pub(crate) const fn is_driven(self) -> Option<bool> {
        match self {
            Self::Started(mode) => mode.takes_slots(),
            Self::Blocking | Self::Declined => None,
        }
    }
}

/// The facts about communicators that a route depends on, of an endpoint or a scope.
pub(crate) trait RouteFacts {
    /// True if there are ever control slots.
    const HAS_CONTROL_SLOTS: bool;

    /// Returns the tuning of a communicator, and that of all.
    fn tuning_of(&self, comm: &Comm) -> [Option<Tuning>; 2];

    /// Returns the rules that hold on a communicator.
    fn rules(&self, comm: &Comm) -> InForce {
        InForce::of(self.tuning_of(comm))
    }

    /// Returns the shape of its control slots.
    ///
    /// # Errors
    /// Why it has none: [`Cause::Unreachable`] if a rank is on another node.
    fn slots(&mut self, comm: &Comm) -> Result<ControlSlotsShape, Cause>;

    /// Returns the number of its ranks on each node; 0 if that is not known.
    fn ranks_per_node(&mut self, comm: &Comm) -> u32;
}

impl<T: Transport, P: Platform> RouteFacts for Endpoint<'_, T, P> {
    const HAS_CONTROL_SLOTS: bool = T::HAS_CONTROL_SLOTS;

    fn tuning_of(&self, comm: &Comm) -> [Option<Tuning>; 2] {
        self.tuning(comm)
    }

    fn slots(&mut self, comm: &Comm) -> Result<ControlSlotsShape, Cause> {
        self.control_slots(comm).map(|slots| slots.shape())
    }

    fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        EndpointPlane::ranks_per_node(self, comm)
    }
}

impl<T: Transport, P: Platform> RouteFacts for Scope<'_, '_, '_, T, P> {
    const HAS_CONTROL_SLOTS: bool = T::HAS_CONTROL_SLOTS;

    fn tuning_of(&self, comm: &Comm) -> [Option<Tuning>; 2] {
        self.tuning(comm)
    }

    fn slots(&mut self, comm: &Comm) -> Result<ControlSlotsShape, Cause> {
        self.control_slots(comm).map(|slots| slots.shape())
    }

    fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        ScopePlane::ranks_per_node(self, comm)
    }
}

/// The decision of rules and options about a call, before its communicator is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    /// The options, with what the rule says.
    pub(crate) options: Options,
    /// The selection by messages.
    pub(crate) selected: Result<Selected, Cause>,
    pub(crate) preference: SlotPreference,
    /// The rule that has decided.
    pub(crate) rule: Option<Origin>,
}

impl Decision {
    /// Decides about a call by the first of these rules that is for it, else by its options.
    pub(crate) fn new(call: &Call, candidates: &[Candidate], options: &Options, rules: InForce) -> Self {
        let ruling = options.open().and_then(|open| rules.ruling(call, &open));
        if let Some((rule, Ruling { options, selected, preference })) = ruling {
            return Self { options, selected: Ok(selected), preference, rule: Some(rule) };
        }
        let selected = call.select(candidates, options).and_then(|selected| {
            let crosses = selected.plan.algorithm.crosses();
            if crosses { Err(Cause::Unsupported) } else { Ok(selected) }
        });
        let preference = options.slot_preference(call, &selected);
        Self { options: *options, selected, preference, rule: None }
    }

    /// Takes from the communicator how many of its ranks a node has, unless the options say so.
    fn know_nodes<F: RouteFacts>(&mut self, facts: &mut F, comm: &Comm) {
        if self.options.node == 0 {
            self.options.node = facts.ranks_per_node(comm);
        }
        if let Ok(selected) = &mut self.selected {
            selected.plan.node = self.options.node;
        }
    }

    /// Returns it for a communicator of which a rank is on another node: unless an algorithm is
    /// named, the cheapest at far prices, in two levels if that is cheaper still.
    pub(crate) fn among_nodes(self, call: &Call) -> Self {
        let Some(near) = self.options.open() else { return self };
        let far = near.for_far();
        let flat = call.select(algorithms(call.operation), &far);
        let selected = match far.fixes_bits(call) {
            true => flat,
            false => call.select_in_two_levels(flat, &near),
        };
        Self { options: far, selected, ..self }
    }
}

/// A call and how it is begun: what its route depends on, but for its communicator.
#[derive(Clone, Copy)]
pub(crate) struct RouteQuery {
    pub(crate) spec: CallSpec,
    pub(crate) options: Options,
    pub(crate) beginning: Beginning,
}

impl RouteQuery {
    /// Returns the route on a communicator of a call on these data.
    #[inline]
    pub(crate) fn route<'m, F: RouteFacts>(
        &self,
        facts: &mut F,
        comm: &Comm,
        data: SlotData<'m>,
    ) -> Route<'m> {
        match self.started_role(facts, comm, data) {
            Some(role) => Route::Slots(role, SlotForm::Whole),
            None => self.priced_route(facts, comm),
        }
    }

    /// Returns the role in control slots of a call that is started there without asking for prices:
    /// if its data are one stretch, or blocks of which every rank knows that slots hold them.
    #[inline]
    fn started_role<'m, F: RouteFacts>(
        &self,
        facts: &mut F,
        comm: &Comm,
        data: SlotData<'m>,
    ) -> Option<StartedRole<'m>> {
        use Operation::{Allgather, Allgatherv, Allreduce, Alltoall, Barrier, Bcast, Exscan, Gather};
        use Operation::{Reduce, ReduceScatter, ReduceScatterBlock, Scan, Scatter};
        self.beginning.is_driven()?;
        if !F::HAS_CONTROL_SLOTS {
            return None;
        }
        let CallSpec { call, root, kernel, .. } = self.spec;
        let task = |bytes| Task::new(&call, root, kernel, comm.rank().0).with_bytes(bytes);
        let role = match (call.operation, data) {
            (Barrier | Bcast | Reduce | Allreduce | Scan | Exscan, SlotData::Stretch(bytes)) => {
                StartedRole::of_stretch(&call, task(bytes))
            }
            (
                Gather | Scatter | Allgather | Allgatherv | Alltoall | ReduceScatter | ReduceScatterBlock,
                SlotData::Blocks(bytes, layout, given),
            ) => StartedRole::Blocks(Portions::new(&call, task(bytes), layout, given)),
            (_, SlotData::Neighbors(neighbors, given)) => {
                StartedRole::Neighbors(NeighborExchange::new(&call, neighbors, given, Layout::Even)?)
            }
            _ => return None,
        };
        self.if_served(facts, comm, role)
    }

    /// Returns the role in control slots of a call that is waited for, of which only these say
    /// whether they hold all blocks: messages may follow.
    pub(crate) fn role_of_unknown_lengths<'m, F: RouteFacts>(
        &self,
        facts: &mut F,
        comm: &Comm,
        data: SlotData<'m>,
    ) -> Option<StartedRole<'m>> {
        let SlotData::Blocks(bytes, layout, given) = data else { return None };
        let CallSpec { call, root, kernel, .. } = self.spec;
        let task = Task::new(&call, root, kernel, comm.rank().0).with_bytes(bytes);
        let role = StartedRole::Blocks(Portions::new(&call, task, layout, given));
        self.if_served(facts, comm, role)
    }

    /// Returns a role in control slots, if the communicator's carry the call out.
    #[inline(always)]
    fn if_served<'m, F: RouteFacts>(
        &self,
        facts: &mut F,
        comm: &Comm,
        role: StartedRole<'m>,
    ) -> Option<StartedRole<'m>> {
        let (CallSpec { call, candidates, .. }, is_driven) = (self.spec, self.beginning.is_driven()?);
        if !self.options.tries_slots(facts.tuning_of(comm), &call, candidates) {
            return None;
        }
        let shape = facts.slots(comm).ok()?;
        let bytes = || role.message_bytes(&call);
        if self.options.prefers_message(facts.tuning_of(comm), &call, bytes, &shape) {
            return None;
        }
        role.if_served(&shape, is_driven)
    }

    /// Returns true if two ranks pass its data sooner in a message.
    pub(crate) fn is_for_message<F: RouteFacts>(&self, facts: &mut F, comm: &Comm) -> bool {
        let tuning = facts.tuning_of(comm);
        let call = &self.spec.call;
        let prefers = |shape| self.options.prefers_message(tuning, call, || slots::bytes(call), &shape);
        facts.slots(comm).is_ok_and(prefers)
    }

    /// Returns the route on a communicator by what prices say.
    #[inline(never)]
    fn priced_route<'m, F: RouteFacts>(&self, facts: &mut F, comm: &Comm) -> Route<'m> {
        let CallSpec { call, candidates, .. } = &self.spec;
        let mut decision = Decision::new(call, candidates, &self.options, facts.rules(comm));
        if F::HAS_CONTROL_SLOTS {
            return self.route_by(&mut decision, facts, comm);
        }
        decision.selected.map_or_else(Route::Refused, |selected| Route::Messages(selected.plan))
    }

    /// Returns the route by a decision on a communicator, of which facts are known. The decision
    /// becomes what it is there.
    pub(crate) fn route_by<'m, F: RouteFacts>(
        &self,
        decision: &mut Decision,
        facts: &mut F,
        comm: &Comm,
    ) -> Route<'m> {
        let (call, preference) = (&self.spec.call, decision.preference);
        let is_named = preference == SlotPreference::Named;
        if self.beginning.admits(call.operation, preference) {
            let is_driven = self.beginning.is_driven() == Some(true);
            let route = self.task(comm).and_then(|task| {
                let form = self.form(&task, facts.slots(comm))?;
                Ok(Route::Slots(StartedRole::of_stretch(call, task), form))
            });
            match route {
                Err(cause) if is_named => return Route::Refused(cause),
                // A long run of chunks would keep others from going on while this rank computes.
                Ok(Route::Slots(_, SlotForm::Chunks)) if is_driven && !is_named => {}
                Ok(_) if self.is_for_message(facts, comm) => {}
                Ok(route) => return route,
                Err(_) => {}
            }
        } else if is_named && self.beginning == Beginning::Declined {
            return Route::Refused(self.declined(decision, facts.slots(comm)));
        }
        let is_open = decision.options.open().is_some();
        if is_open && is_far(facts.slots(comm).map(drop)) {
            decision.know_nodes(facts, comm);
            *decision = decision.among_nodes(call);
        } else if decision.options.names(hierarchy::NAME) {
            decision.know_nodes(facts, comm);
        }
        decision.selected.map_or_else(Route::Refused, |selected| Route::Messages(selected.plan))
    }

    /// Returns the form in which control slots of this shape carry out the call.
    fn form(&self, task: &Task, slots: Result<ControlSlotsShape, Cause>) -> Result<SlotForm, Cause> {
        let call = &self.spec.call;
        if !slots::is_in_control_slots(call.operation) {
            return SlotForm::of(task, slots);
        }
        let _ = slots?;
        match slots::is_too_long(call) {
            true => Err(slots::too_long(call)),
            false if slots::stands_in_control_slots(call) => Ok(SlotForm::Whole),
            false => Ok(SlotForm::Chunks),
        }
    }

    /// Returns the reason why a call that names control slots, and that only slots that hold all
    /// carry out, was declined by them.
    #[cold]
    fn declined(&self, decision: &Decision, slots: Result<ControlSlotsShape, Cause>) -> Cause {
        let call = &self.spec.call;
        match slots {
            Err(cause) => cause,
            Ok(_) if slots::is_too_long(call) || slots::bytes(call) > slots::SLOT_BYTES => {
                slots::too_long(call)
            }
            Ok(_) => decision.selected.err().unwrap_or(Cause::Unsupported),
        }
    }

    /// Returns the task of this rank in control slots.
    fn task(&self, comm: &Comm) -> Result<Task, Cause> {
        let CallSpec { call, root, kernel, .. } = self.spec;
        let whole = Instance::new(comm.rank().0, comm.size(), root, call.count)?;
        Ok(Task::new(&Call { size: whole.size(), ..call }, root, kernel, whole.rank()))
    }
}

impl Options {
    /// Returns true if a blocking call is to be made in control slots before anything else is
    /// asked, by the rules that hold or else by these options: the beginning of
    /// [`RouteQuery::route`]. Whether the communicator has slots that hold the data is found on the
    /// way; if not, nothing is done.
    ///
    /// No other algorithm has fewer rounds, nor fewer bytes on their way: so prices are asked only
    /// where a root reduces more than it would otherwise.
    #[inline(always)]
    pub(crate) fn tries_slots(
        &self,
        tuning: [Option<Tuning>; 2],
        call: &Call,
        candidates: &[Candidate],
    ) -> bool {
        if !cfg!(target_pointer_width = "64") {
            return false;
        }
        if let Some(preference) = self.ruled(tuning, call) {
            return preference != SlotPreference::Never;
        }
        match self.choice {
            _ if self.fixes_bits(call) => false,
            Choice::Named(_) => false,
            // A mistake for which the call gets an error elsewhere.
            Choice::Auto if reduces(call.operation) && call.scratch == 0 => false,
            _ if slots::is_in_control_slots(call.operation) => !slots::is_too_long(call),
            Choice::Shared => true,
            Choice::Auto if call.size == 2 || call.operation != Operation::Reduce => true,
            Choice::Auto => {
                self.slot_preference(call, &call.select(candidates, self)) != SlotPreference::Never
            }
        }
    }

    /// Returns true if two ranks pass so many bytes sooner in a message than in chunks of control
    /// slots of this shape, as was measured where they run, and neither options nor rules say
    /// anything. Both know how long those are that this is asked for.
    #[inline]
    pub(crate) fn prefers_message(
        &self,
        tuning: [Option<Tuning>; 2],
        call: &Call,
        bytes: impl FnOnce() -> u64,
        shape: &ControlSlotsShape,
    ) -> bool {
        use Operation::{Allgather, Allgatherv, Alltoall, Bcast, Gather, Gatherv, Scatter, Scatterv};
        let least = u64::from(shape.pair_message_bytes_min);
        // Two that read each other's data at a time have nothing to halve.
        let is_exchange = matches!(call.operation, Allgather | Allgatherv | Alltoall);
        least > 0
            && call.size == 2
            && !(is_exchange && shape.pair_read_bytes_min > 0)
            && (is_exchange || matches!(call.operation, Bcast | Gather | Gatherv | Scatter | Scatterv))
            && matches!(self.choice, Choice::Auto)
            && tuning.iter().all(Option::is_none)
            && bytes() >= least
    }

    /// Returns the preference by the rules for a call; `None` if no rule is for it.
    #[inline]
    fn ruled(&self, tuning: [Option<Tuning>; 2], call: &Call) -> Option<SlotPreference> {
        let open = self.open().filter(|_| tuning.iter().any(Option::is_some))?;
        InForce::of(tuning).ruling(call, &open).map(|(_, ruling)| ruling.preference)
    }
}
