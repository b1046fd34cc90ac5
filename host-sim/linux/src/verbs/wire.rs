//! Datagrams between ranks, made reliable: [`Ethernet`] over a queue pair of the kind UD. In the
//! mode of that name all messages go so; else what ranks say to each other of how to connect.

use std::rc::Rc;

use aldis_drivers::ethernet::{self, Ethernet, HEADERS_BYTES, MTU_OVERHEAD_BYTES};
use aldis_hal::nic::MAC_HEADER_BYTES;
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Sink, Transport};
use aldis_protocols::connect::HandshakeSetup;
use aldis_protocols::reliable;

use super::address::Address;
use super::choice::Mode;
use super::engine::PROBE_NS;
use super::error::VerbsError;
use super::nic::{self, DatagramNic};
use super::open_device::OpenDevice;
use super::sys::{AddressHandle, Datagrams, FlushKey, Slots};
use super::watch::PollWatch;
use crate::ethernet::memory;

/// Datagrams that can wait here for each other rank, and how many at most for all.
const WAITING: u32 = 16;
const WAITING_MAX: u32 = 1024;
/// Datagrams that can be under way.
const SENDS: u32 = 64;
/// Bytes that are asked for inline: what fits all that ranks say of how to connect.
const INLINE_BYTES: u32 = 128;
/// The longest time for which what found no answer waits to be said again. A peer that computes for
/// long does not answer.
const RETRY_NS_MAX: u64 = 50_000_000;

/// The identity of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) me: PeerId,
    pub(super) epoch: Epoch,
    pub(super) ranks: u32,
}

/// The mode of a wire, and how much it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireShape {
    pub(super) mode: Mode,
    /// Messages to each peer that can be under way.
    pub(super) window: usize,
    pub(super) message_bytes: usize,
    pub(super) cost: Cost,
}

/// Bytes of the longest message that a datagram carries, where packets are of `mtu` bytes.
pub(super) const fn message_bytes(mtu: u16) -> usize {
    (mtu as usize).saturating_sub(HEADERS_BYTES) & !7
}

/// The datagrams of one rank.
pub(super) struct Wire {
    ethernet: Ethernet<'static, DatagramNic>,
    here: Rc<OpenDevice>,
    mode: Mode,
    watch: PollWatch,
    /// The time at which the device was last asked whether it still works.
    probed: Instant,
}

impl Wire {
    pub(super) fn open(here: &Rc<OpenDevice>, who: Identity, shape: WireShape) -> Result<Self, VerbsError> {
        let Identity { me, epoch, ranks } = who;
        let others = ranks.saturating_sub(1).max(1);
        let frame_bytes = usize::from(here.choice.mtu);
        let receives = others.saturating_mul(WAITING).min(WAITING_MAX);
        let limits = here.limits()?;
        here.need(&[
            ("shared receives", receives, limits.receives),
            ("sends of a queue pair", SENDS, limits.sends),
        ])?;
        let slots = Slots { sends: SENDS, receives, bytes: frame_bytes, inline_bytes: INLINE_BYTES };
        let pair = Datagrams::new(&here.domain, &here.channel, &here.choice, slots)?;
        let nic = DatagramNic::new(pair, me, ranks, slots);
        let patience_ns = here.patience_ns();
        let connect = HandshakeSetup {
            retry_max_ns: RETRY_NS_MAX,
            deadline_ns: patience_ns,
            ..HandshakeSetup::DEFAULT
        };
        // No peer is asked whether it lives: a rank that computes does not answer.
        let link = reliable::LinkConfig {
            rto_max_ns: RETRY_NS_MAX,
            silence_ns: 0,
            give_up_ns: patience_ns,
            ..reliable::LinkConfig::DEFAULT
        };
        let connect = HandshakeSetup { rank: me.0, epoch, ..connect };
        let framing = ethernet::Framing::Ethernet;
        let config = ethernet::Config { connect, link, cost: shape.cost, framing };
        let others = others as usize;
        let memory = memory(others, others, shape.window, shape.message_bytes);
        let ethernet = memory.and_then(|memory| Ethernet::new(nic, memory, config));
        let need = (shape.message_bytes + MTU_OVERHEAD_BYTES + MAC_HEADER_BYTES) as u64;
        let refused = |_| VerbsError::Limit { what: "bytes in a packet", need, have: frame_bytes as u64 };
        Ok(Self {
            ethernet: ethernet.map_err(refused)?,
            here: Rc::clone(here),
            mode: shape.mode,
            watch: PollWatch::default(),
            probed: Instant(0),
        })
    }

    /// Returns the address of this rank.
    pub(super) fn address(&self) -> Address {
        let (choice, mode) = (&self.here.choice, self.mode);
        let number = self.ethernet.nic().number();
        Address {
            mode,
            gid: choice.gid.raw,
            lid: choice.lid,
            mtu: choice.mtu,
            number,
            flush: FlushKey::default(),
        }
    }

    /// Introduces this life of `peer`, at this address, as the one to connect to from here on.
    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &Address) -> Result<(), Cause> {
        let way = AddressHandle::new(&self.here.domain, &self.here.choice, address.gid, address.lid);
        self.ethernet.nic_mut().route(peer, way.map_err(|_| Cause::Unreachable)?, address.number);
        self.ethernet.introduce(peer, epoch, &nic::mac(peer).0)
    }

    /// Has the device's channel tell of the next datagram.
    pub(super) fn arm(&mut self) {
        self.ethernet.nic_mut().arm();
    }

    /// See [`Transport::poll`]: of a rank that has nothing but datagrams.
    #[inline]
    pub(super) fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let found = self.ethernet.poll(budget, now, sink);
        if found == 0 && now.since(self.probed) >= PROBE_NS {
            self.probe(now);
        }
        if self.watch.is_due(found, &self.here.channel) {
            self.arm();
            return self.ethernet.poll(budget, now, sink);
        }
        found
    }

    /// Asks the device whether it still works; one that does not reaches no peer any more.
    #[cold]
    fn probe(&mut self, now: Instant) {
        self.probed = now;
        if self.here.domain.device().has_failed() {
            self.ethernet.abandon(Cause::Device);
        }
    }

    /// Its messages.
    pub(super) const fn messages(&mut self) -> &mut Ethernet<'static, DatagramNic> {
        &mut self.ethernet
    }

    /// Its messages, to look at.
    pub(super) const fn seen(&self) -> &Ethernet<'static, DatagramNic> {
        &self.ethernet
    }

    pub(super) fn here(&self) -> &OpenDevice {
        &self.here
    }
}

impl core::fmt::Debug for Wire {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Wire").field("mode", &self.mode).finish_non_exhaustive()
    }
}
