//! The transport over frames on its interface.

use core::cell::Cell;
use core::fmt;
use core::num::NonZeroU32;
use core::ops::Range;
use std::io::{Write as _, stderr};
use std::os::fd::OwnedFd;

use aldis_drivers::authenticated::{AuthKey, AuthenticatedNic};
use aldis_drivers::ethernet::header::ETHERTYPE;
use aldis_drivers::ethernet::{Config, Ethernet, Framing, Udp};
use aldis_hal::{Cause, Epoch, Instant, PeerId, Sink, Transport};
use aldis_nic::{CardError, CardsChoice, FrameKind, RankNic, local_mac};
use aldis_protocols::connect::HandshakeSetup;
use aldis_protocols::reliable::LinkConfig;
use aldis_protocols::stream::Mac as _;
use aldis_sys::file::{dup, read_link, read_to_string};
use sha2::{Digest, Sha256};

use super::address::WiredAddress;
use super::{COST, MESSAGE_BYTES_MAX, WINDOW, WiredFrames, WiredIdentity, memory};
use crate::entropy;
use crate::tcp::{JobKey, KEY_BYTES};

/// The longest time for which what found no answer waits to be said again. A peer that computes for
/// long does not answer.
const RETRY_NS_MAX: u64 = 50_000_000;
/// The longest time for which a peer may answer nothing: it computes. One that has died is the
/// launcher's or the process manager's to tell.
const SILENCE_NS_MAX: u64 = 3600 * 1_000_000_000;
/// The least time between two looks at the interface.
const PROBE_NS: u64 = 500_000_000;
/// The seconds for which an interface may be down or gone.
const PATIENCE_S: u32 = 60;
/// The least bytes of a message with which a job makes sense.
const MESSAGE_BYTES_MIN: usize = 256;

/// A rank's transport on its interface.
pub(super) struct InterfaceWire {
    me: u32,
    is_told: Cell<bool>,
    pub(super) ethernet: WiredFrames,
    framing: Framing,
    is_authenticated: bool,
    message_bytes: u16,
    place: u64,
    mates: Range<u32>,
    /// The time at which the interface was last looked at, and since when no frames have passed.
    probed: Instant,
    down_since: Option<Instant>,
    patience_ns: u64,
}

impl InterfaceWire {
    /// Opens the card of this rank.
    pub(super) fn open(choice: &CardsChoice, who: WiredIdentity) -> Result<Self, String> {
        let WiredIdentity { job, me, epoch, ranks, links, mates, key } = who;
        let key = frame_key(choice, key)?;
        let random = entropy::random().map_err(|error| error.to_string())?;
        let first = &choice.first;
        let (framing, kind) = if first.is_udp {
            let udp = Udp::of_rank(me.0);
            (Framing::Udp(udp), FrameKind::Udp(udp.port))
        } else {
            (Framing::Ethernet, FrameKind::EtherType(ETHERTYPE))
        };
        let nic = RankNic::open(choice, local_mac(random), kind);
        let nic = AuthenticatedNic::new(nic.map_err(|error| error.to_string())?, key);
        let mtu = aldis_hal::Nic::mtu(&nic);
        let message_bytes = mtu.saturating_sub(framing.mtu_overhead_bytes()).min(MESSAGE_BYTES_MAX) & !7;
        if message_bytes < MESSAGE_BYTES_MIN {
            let (interface, need) = (&first.interface, MESSAGE_BYTES_MIN + framing.mtu_overhead_bytes());
            return Err(format!(
                "the MTU of {interface} is {mtu}; ip link set {interface} mtu {need} or more"
            ));
        }
        let place = nic.nic().index().map_or_else(entropy::distinct, place);
        let others = ranks.saturating_sub(1).max(1) as usize;
        let refused = |cause: Cause| format!("{choice}: {cause}");
        let links = others.min(links.max(1) as usize);
        let memory = memory(others, links, WINDOW, message_bytes).map_err(refused)?;
        let ethernet = Ethernet::new(nic, memory, config(job, me, epoch, framing)).map_err(refused)?;
        let patience_s = first.patience_s.map_or(PATIENCE_S, NonZeroU32::get);
        Ok(Self {
            me: me.0,
            is_told: Cell::new(false),
            ethernet,
            framing,
            is_authenticated: key.is_some(),
            message_bytes: message_bytes as u16,
            place,
            mates,
            probed: Instant(0),
            down_since: None,
            patience_ns: u64::from(patience_s) * 1_000_000_000,
        })
    }

    /// Returns the address of this rank.
    pub(super) fn address(&self) -> WiredAddress {
        WiredAddress {
            is_udp: matches!(self.framing, Framing::Udp(_)),
            is_authenticated: self.is_authenticated,
            message_bytes: self.message_bytes,
            place: self.place,
            station: self.ethernet.address().to_vec(),
        }
    }

    /// Introduces this life of `peer`, at this address.
    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        // Those with which memory is shared need no frames.
        let address = WiredAddress::decode(address).filter(|_| !self.mates.contains(&peer.0));
        let address = address.ok_or(Cause::Unreachable)?;
        if address.place == self.place {
            self.ethernet.nic_mut().nic_mut().share().map_err(|_| Cause::Device)?;
        }
        self.ethernet.introduce(peer, epoch, &address.station)
    }

    /// A file that can be read when a frame has come, if the card has one.
    pub(super) fn bell(&self) -> Option<OwnedFd> {
        dup(self.ethernet.nic().nic().bell()?).ok()
    }

    pub(super) const fn trouble(&self) -> Option<&CardError> {
        self.ethernet.nic().nic().trouble()
    }

    /// Tells the counters, once and if the user wants them, and whether frames are missing in a
    /// capture, which is whole from here on.
    pub(super) fn tell(&self) {
        if self.is_told.replace(true) {
            return;
        }
        let me = self.me;
        let nic = self.ethernet.nic().nic();
        let mut out = stderr().lock();
        for card in nic.cards() {
            card.write_capture();
            let choice = card.choice();
            // Nobody is left to be told if this fails.
            if choice.has_counters {
                let _ = writeln!(out, "rank {me}: {choice}: {}", card.counters());
            }
            if let Some(error) = card.capture_failure() {
                let _ = writeln!(out, "rank {me}: {choice}: {error}");
            }
        }
        if nic.cards().any(|card| card.choice().has_counters) {
            let _ = writeln!(out, "rank {me}: ethernet: {}", self.ethernet.counters());
        }
    }

    /// See [`Transport::poll`].
    #[inline]
    pub(super) fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        // By the time alone: frames of others, forged ones too, may come without end.
        if now.since(self.probed) >= PROBE_NS {
            self.probe(now);
        }
        self.ethernet.poll(budget, now, sink)
    }

    /// Looks at the interface. One that carries no frames is waited for, for a while.
    #[cold]
    fn probe(&mut self, now: Instant) {
        self.probed = now;
        let cause = match self.ethernet.nic_mut().nic_mut().probe() {
            None => {
                self.down_since = None;
                return;
            }
            Some(&CardError::Mtu { was, now, .. }) => Cause::TooBig { len: was.into(), max: now.into() },
            Some(error) if error.is_final() => Cause::Device,
            Some(_) => {
                let since = *self.down_since.get_or_insert(now);
                if now.since(since) < self.patience_ns {
                    return;
                }
                Cause::Device
            }
        };
        self.ethernet.abandon(cause);
    }
}

impl Drop for InterfaceWire {
    fn drop(&mut self) {
        self.tell();
    }
}

impl fmt::Debug for InterfaceWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterfaceWire").field("card", self.ethernet.nic()).finish_non_exhaustive()
    }
}

/// The text of which the key of frames is made, with the key of the job.
const OF_FRAMES: &[u8] = b"aldis frames";

/// The key of frames, if they are to have tags.
fn frame_key(choice: &CardsChoice, key: Option<[u8; KEY_BYTES]>) -> Result<Option<AuthKey>, String> {
    if !choice.first.is_authenticated {
        return Ok(None);
    }
    let missing = || format!("{choice}: no key has come for auth; is --nic that of the launcher?");
    let tag = JobKey::new(key.ok_or_else(missing)?).tag(OF_FRAMES);
    Ok(tag.first_chunk().copied().map(AuthKey::new))
}

/// The settings of the transport over frames: no peer is asked whether it lives, as a rank that
/// computes does not answer.
fn config(job: u64, me: PeerId, epoch: Epoch, framing: Framing) -> Config {
    let standard = Config::new(me, epoch, job, COST);
    let connect =
        HandshakeSetup { retry_max_ns: RETRY_NS_MAX, deadline_ns: SILENCE_NS_MAX, ..standard.connect };
    let link = LinkConfig {
        rto_max_ns: RETRY_NS_MAX,
        silence_ns: 0,
        give_up_ns: SILENCE_NS_MAX,
        ..LinkConfig::DEFAULT
    };
    Config { connect, link, framing, ..standard }
}

/// A number that processes have in common which see the same interface: the machine since it was
/// started, its network, and the interface's number. One of this process's own where `/proc` does
/// not tell.
fn place(interface: u32) -> u64 {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let network = read_link("/proc/self/ns/net").ok();
    let Some((boot, network)) = boot.zip(network) else { return entropy::distinct() };
    let text = format!("{} {} {interface}", boot.trim_end(), network.display());
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    digest.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::thread;

    use aldis_hal::nic::{Mac, Nic, TxFrame};
    use aldis_kit::scratch::ScratchFolder;
    use aldis_nic::CardNic;

    use super::*;

    struct NoMessages;

    impl Sink for NoMessages {
        fn arrived(&mut self, _: PeerId, _: &[u8]) {
            panic!("a stranger's message");
        }
        fn completed(&mut self, _: aldis_hal::Token, _: Result<(), Cause>) {}
        fn ready(&mut self, _: PeerId) {}
        fn lost(&mut self, _: PeerId, _: Cause) {}
    }

    #[test]
    fn a_card_is_looked_at_though_frames_of_strangers_never_end() {
        let folder = ScratchFolder::new("flooded");
        let socket = folder.path().join("sock").display().to_string();
        let who = WiredIdentity {
            job: 1,
            me: PeerId(0),
            epoch: Epoch(1),
            ranks: 2,
            links: 1,
            mates: 0..1,
            key: None,
        };
        let card = format!("memif:{socket},server").parse().unwrap();
        let mut wire = InterfaceWire::open(&card, who).unwrap();
        let flood = thread::spawn(move || {
            let kind = FrameKind::EtherType(ETHERTYPE);
            CardNic::open(&format!("memif:{socket}").parse().unwrap(), Mac([2, 0, 0, 0, 0, 9]), kind).unwrap()
        });
        let (mut now, mut sink) = (Instant(0), NoMessages);
        let mut poll = |wire: &mut InterfaceWire, later: u64| {
            now = Instant(now.0 + later);
            (wire.poll(8, now, &mut sink), now)
        };
        while !flood.is_finished() {
            poll(&mut wire, 1);
        }
        let mut flood = flood.join().unwrap();
        // Those of no peer: each is one of the things that a poll has found.
        let frame = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 9], &ETHERTYPE.to_be_bytes(), &[7; 46]].concat();
        let mut fill = |wire: &mut InterfaceWire| {
            for _ in 0..64 {
                let mut token = loop {
                    if flood.transmit(frame.len()).is_some() {
                        break flood.transmit(frame.len()).unwrap();
                    }
                    thread::sleep(Duration::from_millis(1));
                    poll(wire, 1);
                };
                token.bytes().copy_from_slice(&frame);
                token.send();
            }
        };
        fill(&mut wire);
        for _ in 0..4 {
            let (found, now) = poll(&mut wire, PROBE_NS);
            assert_eq!((found, wire.probed), (8, now));
        }
    }
}
