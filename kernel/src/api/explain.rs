//! `explain`: which way a message takes, and why no other.

use core::fmt;
use core::ptr::NonNull;

use aldis_hal::memory::Memory;
use aldis_hal::transport::Route;
use aldis_hal::{Caps, Cause, Operation, Platform, Transport};
use aldis_protocols::card::Room;
use aldis_protocols::select::Plan;
use aldis_protocols::{ACTIVE, Thresholds};
use zerocopy::{Immutable, IntoBytes};

use crate::api::endpoint::Endpoint;
use crate::engine::contacts::thresholds;
use crate::error::Error;
use crate::rank::{Rank, WILD};

/// Transports that an explanation lists at most.
const ROUTES_MAX: usize = 4;

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Returns the transport and protocol that a message of `len` bytes to `rank` of the world
    /// takes, and why each other one is not taken.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`].
    pub fn explain(&mut self, rank: Rank, len: u64) -> Result<Explanation, Error> {
        self.explained(rank, len, None)
    }

    /// Explains like [`explain`](Self::explain), but for this very buffer: also tells whether it is
    /// in memory that the peer has mapped.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`].
    pub fn explain_buffer<E: IntoBytes + Immutable>(
        &mut self,
        rank: Rank,
        buffer: &[E],
    ) -> Result<Explanation, Error> {
        let bytes = buffer.as_bytes();
        self.explained(rank, bytes.len() as u64, Some(bytes))
    }

    fn explained(&mut self, rank: Rank, len: u64, bytes: Option<&[u8]>) -> Result<Explanation, Error> {
        let world = self.world();
        let fail = |cause| Error::about(Operation::None, cause, rank.0, world.context(), WILD);
        let peer = self.engine.comms.peer(&world, rank).map_err(fail)?;
        let memory = bytes.map(|bytes| Memory { start: NonNull::from(bytes).cast(), len: bytes.len() });
        let mapped = memory.map(|memory| self.transport.is_mapped(peer, memory));
        let row = if ACTIVE && self.engine.peers.is_active() && !self.engine.is_connected(peer) {
            // As it would be in a contact, in which a peer grants what this rank does.
            let room = self.engine.room;
            self.engine
                .presence(peer)
                .and_then(|()| thresholds(&self.transport, peer, &room))
                .ok()
                .map(|thresholds| (room, thresholds))
        } else {
            self.engine.peer(peer).map(|row| (row.room, row.thresholds))
        };
        let most = self.engine.staged_bytes_max(&self.transport, peer);
        Ok(Explanation::new(&self.transport, row, rank, len, mapped).with_staging(most))
    }
}

/// The answer of one transport.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct TransportAnswer {
    transport: &'static str,
    caps: Result<Caps, Cause>,
    remarks: [Option<&'static str>; 3],
}

/// The way of a message of one size to one rank. Print it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Explanation {
    rank: Rank,
    len: u64,
    routes: [Option<TransportAnswer>; ROUTES_MAX],
    plan: Option<Plan>,
}

impl Explanation {
    pub(crate) fn new<T: Transport>(
        transport: &T,
        peer: Option<(Room, Thresholds)>,
        rank: Rank,
        len: u64,
        mapped: Option<bool>,
    ) -> Self {
        let mut routes = [None; ROUTES_MAX];
        let mut free = routes.iter_mut();
        transport.survey(aldis_hal::PeerId(rank.0), |Route { transport, caps, remark, stores, rest }| {
            if let Some(route) = free.next() {
                let remarks = [remark, stores, rest];
                *route = Some(TransportAnswer { transport, caps: caps.copied(), remarks });
            }
        });
        let caps = routes.iter().flatten().find_map(|way| way.caps.ok());
        let plan = match (caps, peer) {
            (Some(caps), Some((room, thresholds))) => {
                let most = transport.eager_bytes_max(aldis_hal::PeerId(rank.0));
                let room = Room { block_bytes: room.block_bytes.min(most), ..room };
                Some(thresholds.plan(&caps, &room, len, mapped))
            }
            _ => None,
        };
        Self { rank, len, routes, plan }
    }

    /// This explanation where messages of at most so many bytes are staged.
    fn with_staging(mut self, most: u64) -> Self {
        let caps = self.routes.iter().flatten().find_map(|way| way.caps.ok());
        if let (Some(plan), Some(caps)) = (&mut self.plan, caps) {
            *plan = plan.with_staging(&caps, self.len, most);
        }
        self
    }

    /// The transport taken.
    pub fn transport(&self) -> Option<&'static str> {
        self.routes.iter().flatten().find_map(|way| way.caps.is_ok().then_some(way.transport))
    }

    /// The protocol taken, with the verdict on each.
    pub const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} bytes to rank {}:", self.len, self.rank)?;
        let mut taken = false;
        for TransportAnswer { transport, caps, remarks } in self.routes.iter().flatten() {
            match caps {
                Ok(_) if !taken => {
                    taken = true;
                    write!(f, "  transport {transport}: taken")?;
                }
                Ok(_) => write!(f, "  transport {transport}: reaches it, but stands behind")?,
                Err(cause) => write!(f, "  transport {transport}: {cause}")?,
            }
            remarks.iter().flatten().try_for_each(|remark| write!(f, "; {remark}"))?;
            writeln!(f)?;
        }
        let Some(plan) = &self.plan else { return writeln!(f, "  no transport reaches it") };
        for (protocol, verdict) in plan.verdicts {
            let taken = if protocol == plan.chosen { ", taken" } else { "" };
            writeln!(f, "  protocol {protocol}: {verdict}{taken}")?;
        }
        Ok(())
    }
}
