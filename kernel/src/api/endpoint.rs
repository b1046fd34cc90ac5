//! `Endpoint`: the user's API. One endpoint is driven by one core; everything it does happens
//! inside its calls.

use core::time::Duration;

use aldis_hal::caps::Features;
use aldis_hal::{Activity, Cause, Epoch, Handle, Instant, Operation, PeerId, Platform, Resource, Transport};
use aldis_protocols::card::ByteOrder;
use aldis_protocols::{ACTIVE, Card, Control};

use crate::counters::{Counters, count};
use crate::engine::contacts::thresholds;
use crate::engine::direct::lends;
use crate::engine::matching::Matcher;
use crate::engine::state::{ArmedRecv, Buffered, Engine};
use crate::error::Error;
use crate::memory::storage::Memory;
use crate::rank::WILD;
use crate::tables::active::ROWS_MIN;
use crate::tables::blocks::Blocks;
use crate::tables::comm::{Comm, ITSELF, WORLD};
use crate::tables::comms::Comms;
use crate::tables::fifo::Fifo;
use crate::tables::list::List;
use crate::tables::peers::PeerTable;
use crate::tables::pool::Pool;

/// The time for which the answer to a goodbye is waited for once no peer is left: several times
/// what a wire that loses frames waits before it sends again.
const LINGER: Duration = Duration::from_secs(2);

/// Events that one poll of a blocking call handles at most.
pub(crate) const BUDGET: u32 = 64;

/// Polls between two looks at the clock, while there is much to do; so many idle ones in a row, and
/// it is looked at after each. A deadline is seen this much late at most.
pub(crate) const POLLS_PER_TICK: u32 = 64;

/// Idle polls from one search to the next for receives of any source, of a caller that polls by
/// itself.
pub(crate) const POLLS_PER_WILDCARD_WALK: u64 = 4096;

/// The identity of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// Its index in the job.
    pub me: PeerId,
    /// Processes of the job.
    pub size: u32,
    /// Its boot id.
    pub epoch: Epoch,
}

/// A process's end of all its communication: storage, transport and platform together.
///
/// Blocking calls poll until they are done; [`within`](Self::within) gives them a deadline.
/// [`scope`](Self::scope) is for nonblocking ones. [`poll`](Self::poll) drives progress between
/// calls; it is never needed for correctness of the calls themselves, but peers that wait for this
/// process are served in it.
#[repr(C)]
pub struct Endpoint<'s, T, P> {
    pub(crate) engine: Engine<'s>,
    pub(crate) transport: T,
    pub(crate) platform: P,
    /// True if the transport is given the time.
    timed: bool,
    world: Comm,
    itself: Comm,
    /// The function that does what an error leads to, once some communicator has a policy.
    pub(crate) carry_out: Option<fn(&mut Self, &Error)>,
}

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Puts an endpoint together. It can talk to itself if the transport reaches it; every other
    /// peer must be introduced by [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if the storage has rows for fewer peers than the job, and than three, or
    /// no room for world and self, [`Cause::RankOutOfRange`] for a process outside the job.
    pub fn new(memory: Memory<'s>, transport: T, platform: P, config: Config) -> Result<Self, Error> {
        let Config { me, size, epoch } = config;
        let have = memory.peers();
        // With fewer rows than ranks, peers share them.
        let need = if ACTIVE { size.min(ROWS_MIN) } else { size };
        let comms = if need > have {
            Err(Cause::TooSmall { what: Resource::Peers, need, have })
        } else if me.0 >= size {
            Err(Cause::RankOutOfRange { rank: me.0, size })
        } else {
            Comms::new(memory.comms, memory.pieces, me, size)
        };
        let comms = comms.map_err(|cause| Error::new(Operation::Join, cause))?;
        let mut made = Ok(Self {
            engine: Engine {
                me,
                size,
                epoch,
                room: memory.room,
                peers: PeerTable::new(memory.peers, memory.active, me, size),
                requests: Pool::new(memory.requests),
                matcher: Matcher::new(memory.bins, memory.envelopes),
                blocks: Blocks::new(memory.bytes, memory.next_block, memory.returned, memory.pooled),
                armed: ArmedRecv::None,
                overflowing: false,
                attached: None,
                buffered: Buffered::NONE,
                detached: List::EMPTY,
                reclaim: None,
                conversion: None,
                probing: Handle::default(),
                probe_takes: false,
                held_since: 0,
                scheduled: Fifo::new(memory.scheduled),
                counters: Counters::default(),
                now: platform.now(),
                failure: Error::new(Operation::None, Cause::Stale),
                aborted: None,
                attributes: &mut [],
                rules: None,
                channels: None,
                closing: List::EMPTY,
                bereft: false,
                mixed: false,
                tuning: crate::engine::state::TuningState::default(),
                oldest: None,
                lingering: false,
                recalled: false,
                comms,
            },
            timed: transport.features().contains(Features::TIMED),
            world: Comm::predefined(WORLD, me.0, size),
            itself: Comm::predefined(ITSELF, 0, 1),
            transport,
            platform,
            carry_out: None,
        });
        // In the result from the start: an endpoint is large, and moving it costs.
        if let Ok(endpoint) = &mut made
            && endpoint.transport.reach(me).is_ok()
            && let Err(error) = endpoint.connect(&endpoint.card())
        {
            made = Err(error);
        }
        made
    }

    /// Returns what this process tells its peers before the first message.
    pub fn card(&self) -> Card {
        Card::new(self.engine.me, self.engine.epoch, self.engine.room)
    }

    /// Learns a peer from its card. Needed once for each peer that is to be talked to, before the
    /// first message in either direction; a new card of a peer (a new epoch) starts afresh with it.
    /// Where the storage has fewer rows than the job ranks, no row is taken for it: the card tells
    /// the transport where the peer is, and is needed by transports alone that cannot work that
    /// out.
    ///
    /// # Errors
    /// [`Cause::Incompatible`] for a card of another version, [`Cause::RankOutOfRange`] for a rank
    /// outside the job, or why the transport cannot reach it.
    pub fn connect(&mut self, card: &Card) -> Result<(), Error> {
        self.learn(card).map_err(|cause| Error::about(Operation::Join, cause, card.peer().0, 0, WILD))
    }

    fn learn(&mut self, card: &Card) -> Result<(), Cause> {
        card.check()?;
        let (peer, size) = (card.peer(), self.engine.size);
        let outside = Cause::RankOutOfRange { rank: peer.0, size };
        if peer.0 >= size {
            return Err(outside);
        }
        self.transport.introduce(peer, card.epoch(), &card.address)?;
        if ACTIVE && self.engine.peers.is_active() && peer != self.engine.me {
            self.engine.renew(peer, card.epoch());
            self.engine.schedule(self.engine.me);
            return Ok(());
        }
        let thresholds = thresholds(&self.transport, peer, &card.room)?;
        self.engine.forget(peer);
        let room = self.engine.room;
        self.engine.mixed |= card.order != ByteOrder::NATIVE;
        self.engine.peer(peer).ok_or(outside)?.connect(card, thresholds, room)
    }

    /// The communicator of all processes (MPI_COMM_WORLD).
    pub const fn world(&self) -> Comm {
        self.world
    }

    /// The communicator of this process alone (MPI_COMM_SELF).
    pub const fn itself(&self) -> Comm {
        self.itself
    }

    /// Handles at most `budget` events - arrivals, completions, pending sends - over all
    /// transports, and returns how many. Never blocks. A quarter of the budget is kept for sending,
    /// so that a flood of arrivals cannot starve it.
    #[cfg_attr(feature = "fast-paths", inline)]
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub fn poll(&mut self, budget: u32) -> u32 {
        if self.timed {
            self.engine.now = self.platform.now();
        }
        let kept = budget.div_ceil(4).min(budget.saturating_sub(1));
        let arrived = self.engine.poll_transport(&mut self.transport, budget - kept);
        let sent = self.engine.flush(&mut self.transport, budget.saturating_sub(arrived));
        self.engine.close_regions(&mut self.transport);
        count(&mut self.engine.counters.polls);
        if arrived + sent == 0 {
            let idle = &mut self.engine.counters.polls_idle;
            count(idle);
            if idle.is_multiple_of(POLLS_PER_TICK.into()) {
                self.tick();
            }
        }
        arrived + sent
    }

    /// Does what is due while nothing happens: a caller that polls by itself neither reads the
    /// clock nor says that it waits for any source.
    #[cfg_attr(feature = "fast-paths", cold)]
    #[cfg_attr(feature = "fast-paths", inline(never))]
    #[cfg_attr(not(feature = "fast-paths"), inline(always))]
    fn tick(&mut self) {
        self.engine.now = self.platform.now();
        let idle = self.engine.counters.polls_idle;
        if cfg!(target_pointer_width = "64") && idle.is_multiple_of(POLLS_PER_WILDCARD_WALK) {
            self.expect_for_wildcards();
        }
    }

    /// See [`EndpointPlane::failure`](crate::plane::EndpointPlane::failure).
    pub(crate) const fn failure(&self) -> &Error {
        &self.engine.failure
    }

    /// Returns the counts of what has happened so far.
    pub const fn counters(&self) -> &Counters {
        &self.engine.counters
    }

    /// The transport, for what only it can tell.
    pub const fn transport(&self) -> &T {
        &self.transport
    }

    /// The platform, for its clock.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The transport, for what stands below it: a device's other traffic, discovery, peers to
    /// attach. Posting to it past the endpoint breaks the order of messages.
    ///
    /// For transports that are lent no memory. One that is
    /// ([`HAS_REMOTE_MEMORY`](aldis_hal::RemoteMemory::HAS_REMOTE_MEMORY)) could be exchanged for
    /// another's while it has some, and outlive it: this does not compile for it, and
    /// [`try_transport_mut`](Self::try_transport_mut) says whether it has any. Nor does it for one
    /// with control slots ([`HAS_CONTROL_SLOTS`](aldis_hal::Extras::HAS_CONTROL_SLOTS)), of which
    /// this endpoint knows what others may still read.
    ///
    /// ```compile_fail,E0133
    /// # use aldis_kernel::hal::{PeerId, Platform, Transport, memory::{Access, Memory}};
    /// # use aldis_kernel::Endpoint;
    /// # fn overwrite<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>, mine: &[u8]) {
    /// let memory = Memory { start: core::ptr::NonNull::from(mine).cast(), len: mine.len() };
    /// // That nothing reads what it borrows is for the caller to promise.
    /// let _ = endpoint.transport_mut().register(PeerId(0), memory, Access::LOCAL_WRITE);
    /// # }
    /// ```
    pub const fn transport_mut(&mut self) -> &mut T {
        const {
            assert!(
                !T::HAS_REMOTE_MEMORY && !T::HAS_CONTROL_SLOTS,
                "this transport may have memory of the user's, or control slots: `try_transport_mut`"
            )
        }
        &mut self.transport
    }

    /// Gives access to the transport like [`transport_mut`](Self::transport_mut), but to any
    /// transport.
    ///
    /// # Errors
    /// [`Cause::Busy`] while the transport has memory of a message that is under way, and once
    /// collectives have used its control slots, until their communicators are gone.
    pub fn try_transport_mut(&mut self) -> Result<&mut T, Error> {
        let has_lent = T::HAS_REMOTE_MEMORY && self.engine.has_lent();
        if has_lent || (T::HAS_CONTROL_SLOTS && self.engine.comms.has_any_control_slots()) {
            return Err(Error::new(Operation::None, Cause::Busy));
        }
        Ok(&mut self.transport)
    }

    /// Leaves the job in good order: deletes the attributes of self, sends what is pending, then
    /// says goodbye to every peer. Peers that still wait for this process fail with
    /// [`Cause::PeerLeft`] instead of hanging. Over a transport of connections that goes for those
    /// that have one with it: others are told by the launcher, if it keeps a table of who has left,
    /// and else fail as if it were dead, once they have tried for as long as they may.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] if that could not be done within `limit`; it names the first peer that
    /// takes nothing: one that computes without polling, or has not been reached yet. Over a wire
    /// that loses frames `limit` is to be several times what such a wire waits before it sends
    /// again: what is lost until then stays lost. Once every peer has said goodbye, or is dead, the
    /// last word may stay unanswered: two seconds are waited for that.
    pub fn leave(&mut self, limit: Duration) -> Result<(), Error> {
        let itself = self.itself;
        self.engine.delete_attributes(&itself, None);
        let activity = Activity { operation: Operation::Leave, ..Activity::default() };
        let mut within = self.within(limit);
        let settled = within.wait(|_| activity, |engine| engine.is_settled().then_some(()));
        let deadline = within.deadline;
        if ACTIVE {
            self.engine.begin_to_leave();
        }
        let mut deaf = None;
        for peer in self.others() {
            // Asked each time: what a peer would be told by may end before it can be.
            let is_told = self.poll_until(deadline, |ep| {
                ep.transport.tells_departure(peer) || ep.send_control(peer, Control::Goodbye)
            });
            if !is_told {
                deaf = deaf.or(Some(peer));
            }
        }
        self.transport.depart();
        // What a lossy wire swallows must be sent again. The very last word may stay unanswered by
        // one that has left already: that is no failure.
        let mut linger = None;
        self.poll_until(deadline, |ep| ep.transport.is_idle() || ep.has_lingered(&mut linger));
        match (settled, deaf) {
            (Ok(()), None) => Ok(()),
            (_, peer) => {
                let peer = peer.map_or(WILD, |peer| peer.0);
                Err(Error::about(Operation::Leave, Cause::TimedOut, peer, 0, WILD))
            }
        }
    }

    /// Returns true once no peer has been there for [`LINGER`]; `until` is the end of that time, if
    /// it has begun.
    fn has_lingered(&self, until: &mut Option<Instant>) -> bool {
        if self.others().any(|peer| self.engine.is_connected(peer)) {
            return false;
        }
        let now = self.platform.now();
        now >= *until.get_or_insert(now.after(LINGER))
    }

    /// Polls until `check` holds, or the deadline has passed: false then.
    fn poll_until(&mut self, deadline: Instant, mut check: impl FnMut(&mut Self) -> bool) -> bool {
        let mut idle = 0_u32;
        while !check(self) {
            if self.platform.now() >= deadline {
                return false;
            }
            idle = if self.poll(BUDGET) > 0 { 0 } else { idle.saturating_add(1) };
            self.platform.relax(idle);
        }
        true
    }

    /// Every process of the job but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = PeerId> + use<'s, T, P> {
        let me = self.engine.me;
        (0..self.engine.size).map(PeerId).filter(move |&peer| peer != me)
    }

    /// Sends a control message to a peer, if it is there; false if the transport cannot take it
    /// now.
    pub(crate) fn send_control(&mut self, peer: PeerId, control: Control) -> bool {
        if self.engine.presence(peer).is_err() {
            return true;
        }
        let Some(row) = self.engine.peers.get(peer) else { return true };
        self.engine.tell(&mut self.transport, peer, row, control)
    }

    /// Lets go of the memory of the request behind `handle`, whatever it is doing: see
    /// [`Engine::abandon`].
    #[inline]
    pub(crate) fn abandon(&mut self, handle: Handle) {
        if lends::<T>() {
            self.engine.take_back(&mut self.transport, handle);
        }
        self.engine.abandon(handle);
    }
}
