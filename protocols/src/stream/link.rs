//! The choice of the connection that is kept for a link.

use aldis_hal::{Epoch, Instant};

use super::{StreamRefusal, StreamSetup};
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

/// The most doublings of the interval between attempts.
const DOUBLINGS_MAX: u8 = 16;

/// The stage that a link has reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum LinkPhase {
    /// No connection is chosen.
    #[default]
    Idle,
    /// This side, the lower rank, has chosen a connection and waits for the other to take it.
    Selected { key: u32, by: Dialler },
    /// Both sides have it.
    Open { key: u32 },
}

/// The side that has made a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Dialler {
    /// This side.
    Own,
    /// The peer, with its attempt of this number.
    Peer { attempt: u32 },
}

/// A link to one peer: whether it is wanted, when to try, and which connection was chosen. See the
/// [module](super) for how it is driven.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StreamLink {
    pub(super) phase: LinkPhase,
    pub(super) wanted: bool,
    pub(super) doublings: u8,
    /// The reason why the last attempt failed.
    pub(super) last: Option<StreamRefusal>,
    /// This side's attempt under way: the key of its connection.
    pub(super) dialling: Option<u32>,
    /// The life of the peer that may connect; zero: none.
    admitted: u32,
    /// The number of this side's last attempt. It ascends through a life, whichever lives of the
    /// peer are introduced.
    attempt: u32,
    pub(super) retry: Timer,
    deadline: Timer,
}

const _: () = assert!(size_of::<StreamLink>() <= 56, "the state of a link is small and constant");

/// No connection came about within the deadline. The peer has to be introduced anew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Failed {
    /// The reason why the last attempt failed; `None` if none has ended.
    pub last: Option<StreamRefusal>,
}

impl StreamLink {
    /// A link to no peer.
    pub const NONE: Self = Self {
        phase: LinkPhase::Idle,
        wanted: false,
        doublings: 0,
        last: None,
        dialling: None,
        admitted: 0,
        attempt: 0,
        retry: Timer::OFF,
        deadline: Timer::OFF,
    };

    /// This life of the peer may connect from now on, and no other. If that is news, true is
    /// returned, and whatever connection there was, open or under way, is to be dropped.
    pub fn introduce(&mut self, epoch: Epoch) -> bool {
        let news = self.admitted != epoch.0;
        if news {
            self.forget();
            self.admitted = epoch.0;
        }
        news
    }

    /// The life that may connect, if any.
    #[must_use]
    pub const fn admitted(&self) -> Option<Epoch> {
        if self.admitted == 0 { None } else { Some(Epoch(self.admitted)) }
    }

    /// The peer is dead, has left, or is given up: whatever connection there was is to be dropped,
    /// and nothing connects until the peer is introduced anew.
    pub fn forget(&mut self) {
        *self = Self { attempt: self.attempt, ..Self::NONE };
    }

    /// Both sides have closed the connection in agreement, see [`Rest`](super::Rest): the same life
    /// of the peer may connect again, and this side when it wants to.
    pub fn rest(&mut self) {
        let admitted = if planted(Defect::RestsForgetful) { 0 } else { self.admitted };
        *self = Self { admitted, attempt: self.attempt, ..Self::NONE };
    }

    /// This side does not want the connection any more. Nothing is done if one is chosen or being
    /// made.
    pub fn unwant(&mut self) {
        if self.phase == LinkPhase::Idle && self.dialling.is_none() {
            self.rest();
        }
    }

    /// This side wants the connection: attempts begin, see [`wants_dial`](Self::wants_dial). False,
    /// and nothing is done, if the peer was not introduced.
    pub fn want(&mut self, setup: &StreamSetup, now: Instant) -> bool {
        if self.admitted == 0 {
            return false;
        }
        if !self.wanted && !self.is_open() {
            self.wanted = true;
            self.deadline.set(now, setup.deadline_ns);
        }
        true
    }

    /// Attempts have to wait for others to be made first: the deadline begins anew, unless one has
    /// been made already.
    pub fn postpone(&mut self, setup: &StreamSetup, now: Instant) {
        let is_untried = self.last.is_none() && self.dialling.is_none() && self.phase == LinkPhase::Idle;
        if self.wanted && is_untried {
            self.deadline.set(now, setup.deadline_ns);
        }
    }

    /// Returns true if both sides have a connection.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, LinkPhase::Open { .. })
    }

    /// Returns true if this is the connection that both sides have.
    #[must_use]
    pub const fn is_open_on(&self, connection: u32) -> bool {
        matches!(self.phase, LinkPhase::Open { key } if key == connection)
    }

    /// Returns true if a connection is to be made now: [`Handshake::dial`](super::Handshake::dial).
    #[must_use]
    pub fn wants_dial(&self) -> bool {
        let idle = self.phase == LinkPhase::Idle && self.dialling.is_none();
        self.wanted && idle && self.retry.at().is_none()
    }

    /// Time until which the next [`handle_timeout`](Self::handle_timeout) may wait.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Timer::earliest([self.retry, self.deadline])
    }

    /// Time has passed; ask [`wants_dial`](Self::wants_dial) afterwards. If it fails, every
    /// connection of this link is to be dropped.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Failed> {
        self.retry.fire(now);
        if !self.deadline.fire(now) {
            return None;
        }
        let last = self.last;
        self.forget();
        Some(Failed { last })
    }

    /// An attempt begins on this connection; its number, if it may.
    pub(super) fn dial(&mut self, key: u32) -> Option<(Epoch, u32)> {
        let epoch = self.admitted().filter(|_| self.phase == LinkPhase::Idle && self.dialling.is_none())?;
        self.attempt = self.attempt.checked_add(1)?;
        self.dialling = Some(key);
        Some((epoch, self.attempt))
    }

    /// Returns true if this life of the peer may connect.
    pub(super) fn admits(&self, epoch: Epoch) -> bool {
        self.admitted == epoch.0 || planted(Defect::IgnoresLives)
    }

    /// Returns true if the attempt on this connection is the one under way.
    pub(super) fn is_dialling(&self, key: u32) -> bool {
        self.dialling == Some(key)
    }

    /// Chooses this connection at the lower rank, if it has no other. An attempt of the peer
    /// replaces an earlier one of it that was chosen and not taken: the peer makes no other before
    /// it has given the earlier one up.
    ///
    /// # Errors
    /// Why the connection is not kept.
    pub(super) fn select(&mut self, epoch: Epoch, key: u32, by: Dialler) -> Result<(), StreamRefusal> {
        if !self.admits(epoch) {
            return Err(StreamRefusal::Stale);
        }
        let replaces = match (self.phase, by) {
            (LinkPhase::Idle, _) => true,
            (LinkPhase::Selected { by: Dialler::Peer { attempt: old }, .. }, Dialler::Peer { attempt }) => {
                old < attempt
            }
            _ => false,
        };
        if !replaces && !planted(Defect::SelectsTwice) {
            return Err(StreamRefusal::Crossed);
        }
        self.phase = LinkPhase::Selected { key, by };
        Ok(())
    }

    /// The higher rank takes the connection that was chosen.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn take(&mut self, epoch: Epoch, key: u32) -> Result<(), StreamRefusal> {
        if !self.admits(epoch) {
            return Err(StreamRefusal::Stale);
        }
        if self.is_open() && !planted(Defect::TakesTwice) {
            return Err(StreamRefusal::Crossed);
        }
        self.open(key);
        Ok(())
    }

    /// The higher rank has taken the connection that this side chose.
    ///
    /// # Errors
    /// Why it is too late.
    pub(super) fn confirm(&mut self, epoch: Epoch, connection: u32) -> Result<(), StreamRefusal> {
        match self.phase {
            LinkPhase::Selected { key, .. } if key == connection && self.admits(epoch) => {
                self.open(key);
                Ok(())
            }
            _ => Err(StreamRefusal::Stale),
        }
    }

    fn open(&mut self, key: u32) {
        self.phase = LinkPhase::Open { key };
        (self.wanted, self.dialling, self.doublings, self.last) = (false, None, 0, None);
        (self.retry, self.deadline) = (Timer::OFF, Timer::OFF);
    }

    /// The connection has ended within its handshake: what it held is free again.
    pub(super) fn release(&mut self, setup: &StreamSetup, connection: u32, why: StreamRefusal, now: Instant) {
        let selected = matches!(self.phase, LinkPhase::Selected { key, .. } if key == connection);
        if selected && !planted(Defect::KeepsSelected) {
            self.phase = LinkPhase::Idle;
        }
        if self.dialling == Some(connection) && !planted(Defect::KeepsDialling) {
            (self.dialling, self.last) = (None, Some(why));
            let interval = setup.retry_first_ns.max(1).saturating_mul(1 << self.doublings.min(DOUBLINGS_MAX));
            self.doublings = self.doublings.saturating_add(1).min(DOUBLINGS_MAX);
            self.retry.set(now, interval.min(setup.retry_max_ns).max(1));
        }
    }
}
