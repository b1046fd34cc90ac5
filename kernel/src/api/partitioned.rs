//! Partitioned communication (MPI 4.1 chapter 4): a message that is filled and sent in parts. Set
//! up once, it is matched once, with the other side's in the order in which both were set up, and
//! then started for round after round; a part is sent as soon as it is declared ready.
//! [`protocols::partitioned`](aldis_protocols::partitioned) has the exchange.
//!
//! ```
//! # use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//! /// Rank 0 computes four blocks and sends each when it is done; rank 1 works on whatever has
//! /// come.
//! fn pipeline<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>) -> Result<(), Error> {
//!     let world = endpoint.world();
//!     let mut memory = [0u8; 4 * 1024];
//!     let all = 0..memory.len();
//!     endpoint.scope(|s| {
//!         let memory = s.lend(&mut memory);
//!         if world.rank() == Rank(0) {
//!             let mut sending = s.psend_init(&world, memory, all, 4, Rank(1), Tag(1))?;
//!             s.start(&mut sending)?;
//!             for block in 0..4 {
//!                 let bytes = block as usize * 1024..(block as usize + 1) * 1024;
//!                 s.edit(memory, bytes, |bytes| bytes.fill(block as u8))?;
//!                 s.partitions(&sending).ready(block)?;
//!             }
//!             s.wait_for(&mut sending)?;
//!         } else {
//!             let mut receiving = s.precv_init(&world, memory, all, 2, Rank(0), Tag(1))?;
//!             s.start(&mut receiving)?;
//!             while !s.partitions(&receiving).has_arrived(1)? {}
//!             s.edit(memory, 2048..4096, |half| half.reverse())?;
//!             s.wait_for(&mut receiving)?;
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! Both sides cut the same number of bytes, each into as many partitions as it likes, up to
//! [`PARTITIONS_MAX`]. They are matched by communicator, rank and tag, without wildcards, and apart
//! from all other messages. One request slot each, and while it is not matched one envelope at the
//! receiver. [`psend_init_typed`](Scope::psend_init_typed) and
//! [`precv_init_typed`](Scope::precv_init_typed) take elements of datatypes.
//!
//! Memory of a round under way can be read and written where the other side does not: by the sender
//! in partitions that are not ready, by the receiver in those that have arrived. A round cannot be
//! cancelled (section 4.2.2). The scope's end waits for rounds under way and frees the requests; a
//! side that goes on alone then fails with [`Cause::Withdrawn`].

use core::ops::Range;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, Operation, PeerId, Platform, Transport};
use aldis_protocols::header::{GRANT_STARTED, Kind, about_both};
use aldis_protocols::partitioned::{GrantDue, PARTITIONS_MAX, PartReceiver, PartSender, PartStep, check};
use aldis_protocols::rendezvous::{Receiver, Sender, SenderStep};

use crate::api::call::CallSubject;
use crate::api::endpoint::BUDGET;
use crate::api::persistent::NO_PEER;
use crate::api::scope::{Request, Scope, Stage, part};
use crate::counters::count;
use crate::engine::rendezvous::FragmentSpan;
use crate::engine::state::{ChannelGrant, Engine};
use crate::engine::wire::{HeaderWords, LaneTurn, Wire};
use crate::error::Error;
use crate::memory::buffer::{LentMut, LentRange, UserBuffer};
use crate::rank::{Mode, Rank, Status, Tag};
use crate::tables::comm::{Comm, PARTITIONED};
use crate::tables::elements::DataPiece;
use crate::tables::request::{self, Key, Machine, State};

mod tools;

impl<'scope, 'env, 's, T: Transport, P: Platform> Scope<'scope, 'env, 's, T, P> {
    /// Sets a partitioned send of a byte range of lent memory up (MPI_Psend_init): `partitions`
    /// parts of equal length. [`start`](Self::start) begins a round.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, [`Cause::Partitions`] for bytes that cannot be cut
    /// so, and [`Cause::TagOutOfRange`] also for [`Tag::MAX`] itself; the rest as
    /// [`isend_part`](Self::isend_part).
    pub fn psend_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        partitions: u32,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let machine = Machine::PartSend(PartSender::new(partitions.min(PARTITIONS_MAX)));
        self.part_init(
            CallSubject::send(comm, to, tag),
            comm,
            LentRange::new(loan, range),
            partitions,
            machine,
        )
    }

    /// Sets a partitioned receive into a byte range of lent memory up (MPI_Precv_init).
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a range outside, [`Cause::Partitions`] for bytes that cannot be cut
    /// so, and [`Cause::TagOutOfRange`] also for [`Tag::MAX`] itself; the rest as
    /// [`isend_part`](Self::isend_part).
    pub fn precv_init(
        &mut self,
        comm: &Comm,
        loan: LentMut<'scope>,
        range: Range<usize>,
        partitions: u32,
        from: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let machine = Machine::PartRecv(PartReceiver::new(partitions.min(PARTITIONS_MAX)));
        let call = CallSubject::recv(Operation::Recv, comm, from.into(), tag.into());
        self.part_init(call, comm, LentRange::new(loan, range), partitions, machine)
    }

    fn part_init(
        &mut self,
        call: CallSubject,
        comm: &Comm,
        lent: LentRange<LentMut<'scope>>,
        partitions: u32,
        machine: Machine,
    ) -> Result<Request<'scope>, Error> {
        let endpoint = &mut *self.within.endpoint;
        let made = part(lent.memory.into(), lent.range).and_then(|buffer| {
            check(partitions, buffer.len() as u64)?;
            endpoint.engine.open(call, comm, buffer, machine)
        });
        let handle = made.map_err(|cause| self.refused(call.refused(cause)))?;
        let endpoint = &mut *self.within.endpoint;
        self.requests.push_back(&mut endpoint.engine.requests, handle.slot);
        endpoint.engine.flush(&mut endpoint.transport, BUDGET);
        Ok(Request::new(Stage::Idle(handle)))
    }

    /// The partitions of a request, to declare those of a send ready and to ask for those of a
    /// receive.
    #[inline]
    pub const fn partitions<'p>(
        &'p mut self,
        request: &'p Request<'scope>,
    ) -> Partitions<'p, 'scope, 'env, 's, T, P> {
        Partitions { scope: self, request }
    }
}

/// The partitions of a request: see [`Scope::partitions`].
pub struct Partitions<'p, 'scope, 'env, 's, T: Transport, P: Platform> {
    scope: &'p mut Scope<'scope, 'env, 's, T, P>,
    request: &'p Request<'scope>,
}

impl<T: Transport, P: Platform> Partitions<'_, '_, '_, '_, T, P> {
    /// Declares a partition ready to be sent (MPI_Pready): it may not be written until the round is
    /// over.
    ///
    /// # Errors
    /// [`Cause::Inactive`] if no round is under way, [`Cause::PartitionOutOfRange`],
    /// [`Cause::PartitionReady`] for one that is ready already, [`Cause::Stale`] for a request that
    /// is no partitioned send.
    pub fn ready(&mut self, partition: u32) -> Result<(), Error> {
        self.ready_range(partition..partition.saturating_add(1))
    }

    /// Declares a range of partitions ready, all or none (MPI_Pready_range, whose last partition is
    /// included).
    ///
    /// # Errors
    /// [`Cause::Inactive`] if no round is under way, [`Cause::PartitionOutOfRange`],
    /// [`Cause::PartitionReady`] for one that is ready already; the rest as [`ready`](Self::ready).
    pub fn ready_range(&mut self, partitions: Range<u32>) -> Result<(), Error> {
        let scope = &mut *self.scope;
        let (Stage::Idle(handle) | Stage::Started(handle)) = self.request.stage else {
            return Err(scope.refused(Error::new(Operation::Send, Cause::Stale)));
        };
        let endpoint = &mut *scope.within.endpoint;
        if let Err(cause) = endpoint.engine.ready(handle, partitions) {
            return Err(scope.not_started(handle, cause));
        }
        endpoint.engine.flush(&mut endpoint.transport, BUDGET);
        Ok(())
    }

    /// Declares several partitions ready, one after the other (MPI_Pready_list).
    ///
    /// # Errors
    /// [`Cause::Inactive`], [`Cause::PartitionOutOfRange`], [`Cause::PartitionReady`] or
    /// [`Cause::Stale`], like [`ready`](Self::ready); those before the one that is refused are
    /// ready then.
    pub fn ready_list(&mut self, partitions: &[u32]) -> Result<(), Error> {
        partitions.iter().try_for_each(|&partition| self.ready(partition))
    }

    /// Returns true if a partition of the round under way has arrived, after one poll, or no round
    /// is under way (MPI_Parrived). It can be read and written from then on.
    ///
    /// # Errors
    /// [`Cause::PartitionOutOfRange`], [`Cause::Stale`] for a request that is no partitioned
    /// receive, and why the round has failed, if it has.
    pub fn has_arrived(&mut self, partition: u32) -> Result<bool, Error> {
        let scope = &mut *self.scope;
        let (Stage::Idle(handle) | Stage::Started(handle)) = self.request.stage else {
            return Err(scope.refused(Error::new(Operation::Recv, Cause::Stale)));
        };
        scope.poll(BUDGET);
        let arrived = scope.within.endpoint.engine.has_arrived(handle, partition);
        arrived.map_err(|cause| scope.not_started(handle, cause))
    }
}

/// The user's side.
impl Engine<'_> {
    /// Takes a slot for a channel, and announces or posts it.
    pub(crate) fn open(
        &mut self,
        call: CallSubject,
        comm: &Comm,
        buffer: UserBuffer,
        machine: Machine,
    ) -> Result<Handle, Cause> {
        self.channels = Some(&tools::Partitioned);
        let (is_send, plane) = (matches!(machine, Machine::PartSend(_)), comm.collective());
        let (rank, tag) = call.other_side();
        let target = match self.comms.target(&plane, rank, tag) {
            Err(cause) if call.is_null(cause) => None,
            target => Some(target?),
        };
        if tag == Tag::MAX {
            return Err(Cause::TagOutOfRange { tag: tag.0, max: Tag::MAX.0 - 1 });
        }
        let (peer, source) = match target {
            Some(target) => (target.peer, if is_send { target.key.source } else { rank.0 }),
            None => (NO_PEER, 0),
        };
        let key = Key { context: plane.context(), source, tag: tag.0 | PARTITIONED };
        if target.is_some() {
            self.presence(peer)?;
        }
        let state = if is_send { State::Queued } else { State::Posted };
        let handle = self.request(state, key, peer, rank.0, buffer)?;
        let Some(request) = self.requests.get(handle) else { return Err(Cause::Stale) };
        (request.mode, request.machine, request.tag) = (Mode::Partitioned, machine, tag.0);
        match target {
            None => request.state = State::Idle,
            Some(_) if is_send => self.queue_send(peer, handle.slot),
            Some(_) => self.await_channel(handle, key, peer),
        }
        Ok(handle)
    }

    /// Matches a receive with a channel that is announced already, or posts it.
    fn await_channel(&mut self, handle: Handle, key: Key, peer: PeerId) {
        self.end_probe();
        match self.matcher.find_unexpected(&key) {
            // It neither is truncated nor needs another slot, so it is not refused.
            Some(index) => drop(self.receive_kept(index, UserBuffer::NONE, Some(handle))),
            None => self.post_slot(handle.slot, Some(peer)),
        }
    }

    /// Begins a round.
    #[inline(never)]
    pub(crate) fn start_round(&mut self, handle: Handle) -> Result<(), Cause> {
        let request = self.requests.get(handle).ok_or(Cause::Stale)?;
        let peer = request.peer;
        if peer == NO_PEER {
            (request.tag, request.length) = (Status::NULL.tag.0, 0);
            self.complete(handle.slot, None);
            return Ok(());
        }
        if let Some(cause) = request.cause {
            return Err(cause);
        }
        self.presence(peer)?;
        let request = self.requests.get(handle).ok_or(Cause::Stale)?;
        request.length = request.buffer.len() as u64;
        match (&mut request.machine, request.state) {
            (Machine::PartSend(sender), state) => {
                sender.start();
                request.state = if state == State::Queued { state } else { State::Sending };
            }
            (Machine::PartRecv(receiver), state) => {
                receiver.start();
                request.state = if state == State::Posted { state } else { State::Receiving };
                if receiver.due().is_some() {
                    self.queue_rendezvous(handle.slot);
                }
            }
            _ => return Err(Cause::Stale),
        }
        Ok(())
    }

    fn ready(&mut self, handle: Handle, partitions: Range<u32>) -> Result<(), Cause> {
        let request = self.requests.get(handle).ok_or(Cause::Stale)?;
        let length = request.buffer.len() as u64;
        let Machine::PartSend(sender) = &mut request.machine else { return Err(Cause::Stale) };
        if request.peer == NO_PEER {
            return Ok(());
        }
        if let (Some(cause), State::Complete) = (request.cause, request.state) {
            return Err(cause);
        }
        sender.ready(partitions)?;
        if sender.step(length, 1) != PartStep::Wait {
            self.queue_rendezvous(handle.slot);
        }
        Ok(())
    }

    fn has_arrived(&mut self, handle: Handle, partition: u32) -> Result<bool, Cause> {
        let request = self.requests.get(handle).ok_or(Cause::Stale)?;
        let Machine::PartRecv(receiver) = &request.machine else { return Err(Cause::Stale) };
        let arrived = receiver.has_arrived(partition)?;
        match request.cause {
            Some(cause) if !arrived => Err(cause),
            _ => Ok(arrived || !receiver.is_active() || request.peer == NO_PEER),
        }
    }
}

/// Arriving messages.
impl Engine<'_> {
    /// The receive in slot `index` is matched with the channel of `sender`. False if it is no
    /// partitioned one.
    fn bind(&mut self, index: u32, sender: Handle, length: u64) -> bool {
        let Some(request) = self.requests.at(index) else { return false };
        let Machine::PartRecv(receiver) = &mut request.machine else { return false };
        receiver.matched(sender);
        request.tag &= !PARTITIONED;
        request.state = if receiver.is_active() { State::Receiving } else { State::Idle };
        self.queue_rendezvous(index);
        let own = self.requests.at(index).map_or(length, |request| request.buffer.len() as u64);
        if own != length {
            self.close(index, Cause::LengthMismatch { left: own, right: length });
        }
        true
    }

    /// The receiver of one of our channels has matched it, or started a round.
    fn take_grant(&mut self, from: PeerId, grant: &ChannelGrant) -> Result<(), Malformed> {
        let &ChannelGrant { sender, receiver, partitions, length, started } = grant;
        if self.is_offered(from, sender) {
            self.take_up_offer(from, sender)?;
        }
        let Some(request) = self.requests.get(sender) else {
            self.refuse_round(from, receiver);
            return Ok(());
        };
        let own = request.buffer.len() as u64;
        match &mut request.machine {
            Machine::Send(machine) if request.peer == from && request.orphan => {
                machine.asked(receiver, 0..0, false)?;
                self.queue_rendezvous(sender.slot);
            }
            Machine::PartSend(machine) if request.peer == from && own != length => {
                machine.mismatched(receiver);
                self.close(sender.slot, Cause::LengthMismatch { left: own, right: length });
            }
            Machine::PartSend(machine) if request.peer == from => {
                machine.granted(receiver, partitions, length, started)?;
                if machine.step(length, 1) != PartStep::Wait {
                    self.queue_rendezvous(sender.slot);
                }
            }
            _ => return Err(Malformed::Control),
        }
        Ok(())
    }

    /// Refuses the round of a channel that is gone: the receiver is notified, if there is a slot to
    /// do it by. Without one its deadline names this rank.
    fn refuse_round(&mut self, from: PeerId, receiver: Handle) {
        count(&mut self.counters.stale_handles);
        let Ok(handle) = self.request(State::Sending, Key::NONE, from, 0, UserBuffer::NONE) else { return };
        if let Some(request) = self.requests.get(handle) {
            request.orphan = true;
            request.machine = Machine::Send(withdrawn(Some(receiver)));
        }
        self.queue_rendezvous(handle.slot);
    }

    /// Handles a refusal: the other side of a channel wants nothing of it, and waits for an
    /// acknowledgement.
    fn take_refusal(&mut self, from: PeerId, sender: Handle, receiver: Handle) {
        self.close(sender.slot, Cause::Declined);
        self.refuse_round(from, receiver);
    }

    /// A fragment of the channel in slot `index` has arrived.
    fn take_part(&mut self, index: u32, piece: &DataPiece<'_>) -> Result<(), Malformed> {
        let &DataPiece { offset, payload, .. } = piece;
        let Some(request) = self.requests.at(index) else { return Ok(()) };
        let Machine::PartRecv(channel) = &mut request.machine else { return Err(Malformed::Control) };
        let is_over = channel.data(request.buffer.len() as u64, offset, payload.len() as u64)?;
        if !request.buffer.write(offset, payload) {
            self.unpack_piece(index, piece);
        }
        self.counters.bytes_received += payload.len() as u64;
        if is_over {
            self.complete(index, None);
        }
        Ok(())
    }
}

/// Messages to be sent.
impl Engine<'_> {
    /// Takes one step of the channel in slot `index`, in the rendezvous queue of its peer.
    fn step_channel(&mut self, wire: &mut dyn Wire, id: PeerId, index: u32, fragment_max: u32) -> LaneTurn {
        let Some(request) = self.requests.at(index) else { return LaneTurn::Idle };
        let length = request.buffer.len() as u64;
        match request.machine {
            Machine::PartSend(sender) => match sender.step(length, fragment_max) {
                PartStep::Data { receiver, offset, len } => {
                    self.send_fragment(wire, id, index, FragmentSpan { receiver, offset, len })
                }
                PartStep::Wait => LaneTurn::Idle,
            },
            Machine::PartRecv(receiver) => match receiver.due() {
                Some(due) => self.grant(wire, id, index, due),
                None => LaneTurn::Idle,
            },
            _ => LaneTurn::Idle,
        }
    }

    fn grant(&mut self, wire: &mut dyn Wire, id: PeerId, index: u32, due: GrantDue) -> LaneTurn {
        let (Some(own), Some(request)) = (self.requests.handle(index), self.requests.peek(index)) else {
            return LaneTurn::Idle;
        };
        let length = request.buffer.len() as u64;
        let tag = due.partitions | if due.started { GRANT_STARTED } else { 0 };
        let says = HeaderWords { key: Key { tag, ..Key::NONE }, length };
        let turn = self.say(wire, id, Kind::Grant, says, &about_both(due.sender, own));
        if let LaneTurn::Sent = turn
            && let Some(Machine::PartRecv(receiver)) = self.requests.at(index).map(|slot| &mut slot.machine)
        {
            receiver.granted();
            if self.requests.at(index).is_some_and(|slot| slot.orphan) {
                self.complete(index, None);
            }
        }
        turn
    }

    /// A fragment of the channel in slot `index` is on its way.
    fn sent_part(&mut self, index: u32, len: u32) {
        let Some(request) = self.requests.at(index) else { return };
        let length = request.buffer.len() as u64;
        if let Machine::PartSend(sender) = &mut request.machine
            && sender.sent(length, len)
        {
            self.complete(index, None);
        }
    }
}

/// The memory that channels use, and whether they have something to send.
impl request::Request {
    /// Returns true if bytes of the memory of a channel are not the user's now: to write, or,
    /// unless they are `to_be_written`, to read.
    fn uses_part(&self, bytes: Range<u64>, to_be_written: bool) -> bool {
        let length = self.buffer.len() as u64;
        match &self.machine {
            Machine::PartSend(channel) => to_be_written && channel.has_ready(bytes, length),
            Machine::PartRecv(channel) => channel.has_missing(bytes, length),
            _ => false,
        }
    }

    fn has_more_parts(&self) -> bool {
        match &self.machine {
            Machine::PartSend(channel) => channel.step(self.buffer.len() as u64, 1) != PartStep::Wait,
            Machine::PartRecv(channel) => channel.due().is_some(),
            _ => false,
        }
    }
}

/// The ends of channels.
impl Engine<'_> {
    /// Abandons a channel that its owner lets go of: the other side is notified, if it waits for a
    /// message from this one.
    fn abandon_channel(&mut self, handle: Handle) {
        self.disown(handle.slot);
        let Some(request) = self.requests.get(handle) else { return };
        let (index, peer, state, machine) = (handle.slot, request.peer, request.state, request.machine);
        let differs =
            matches!((machine, request.cause), (Machine::PartRecv(_), Some(Cause::LengthMismatch { .. })));
        let left = if differs { UserBuffer::scattered(request.buffer.len()) } else { UserBuffer::NONE };
        (request.orphan, request.buffer) = (true, left);
        let told = match (machine, state) {
            (Machine::PartSend(_), State::Queued) if self.is_offered(peer, handle) => {
                return self.give_up_offer(handle);
            }
            (_, State::Queued) => return self.unqueue(peer, index),
            (_, State::Posted) => {
                self.matcher.unpost(&mut self.requests, index);
                None
            }
            _ if self.presence(peer).is_err() => None,
            // It may be granted still, or turned away: then it answers.
            (Machine::PartSend(channel), _) if channel.receiver().is_none() || channel.is_granted() => {
                Some((State::Sending, Machine::Send(withdrawn(channel.receiver()))))
            }
            // Its grant, with its length, is what tells the sender.
            (Machine::PartRecv(channel), _) if !channel.is_announced() && differs => {
                Some((State::Receiving, machine))
            }
            (Machine::PartRecv(channel), _) if !channel.is_announced() => {
                channel.sender().map(|sender| (State::Receiving, Machine::Recv(Receiver::new(sender, 0, 0))))
            }
            _ => None,
        };
        let Some((state, machine)) = told else { return self.complete(index, Some(Cause::Cancelled)) };
        let Some(request) = self.requests.at(index) else { return };
        (request.state, request.machine) = (state, machine);
        if !matches!(machine, Machine::Send(sender) if sender.step(1) == SenderStep::Wait) {
            self.queue_rendezvous(index);
        }
    }
}

/// The machine of an announced send that has been given up, and asked for by `receiver` if there is
/// one.
pub(crate) fn withdrawn(receiver: Option<Handle>) -> Sender {
    let mut sender = Sender::new(0);
    sender.announced();
    sender.withdraw();
    if let Some(receiver) = receiver {
        // Nothing of nothing is inside any message.
        let _ = sender.asked(receiver, 0..0, false);
    }
    sender
}
