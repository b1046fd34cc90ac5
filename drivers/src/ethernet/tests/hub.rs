//! An Ethernet in memory: stations on one hub, under a clock that is set by hand, with faults from
//! a script or a seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec;
use std::vec::Vec;

use aldis_hal::Instant;
use aldis_hal::nic::{Link, Mac, Nic, RxFrame, TxFrame};

/// The fate of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Deliver,
    Lose,
    Duplicate,
    /// A bit is flipped.
    Corrupt,
    /// Only the first half arrives.
    Cut,
    /// The frame arrives so much later, ns.
    Delay(u64),
}

/// The treatment of frames that no script speaks of. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) lose: u64,
    pub(crate) duplicate: u64,
    pub(crate) corrupt: u64,
    pub(crate) cut: u64,
    pub(crate) delay: u64,
    /// The longest delay beyond the latency, ns.
    pub(crate) delay_ns_max: u64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { lose: 0, duplicate: 0, corrupt: 0, cut: 0, delay: 0, delay_ns_max: 0 };

    /// All kinds at once, `permille` each.
    #[allow(dead_code, reason = "used by the unit tests; the file is shared with the tests across crates")]
    pub(crate) const fn all(permille: u64, delay_ns_max: u64) -> Self {
        Self {
            lose: permille,
            duplicate: permille,
            corrupt: permille,
            cut: permille,
            delay: permille,
            delay_ns_max,
        }
    }
}

/// Calls of a station's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
}

struct Station {
    mac: Mac,
    /// Frames on their way here, by the time of arrival and the order of sending.
    incoming: BTreeMap<(u64, u64), Vec<u8>>,
    /// True if nothing that it sends gets out.
    mute: bool,
    /// The times at which the transmit descriptors in use are free again.
    busy: Vec<u64>,
    calls: Calls,
}

struct State {
    now: u64,
    seed: u64,
    sent: u64,
    faults: Faults,
    script: VecDeque<Fate>,
    stations: Vec<Station>,
}

/// Time of a frame on the wire, ns.
pub(crate) const LATENCY_NS: u64 = 1_000;
/// Frames that a station holds at most; further ones are lost.
const INCOMING_MAX: usize = 256;
/// Transmit descriptors of a station; one is busy for a latency.
pub(crate) const DESCRIPTORS: usize = 8;
/// The address that all stations but the sender take.
const BROADCAST: Mac = Mac([0xFF; 6]);
/// The smallest frame of an Ethernet, without its check sequence.
const FRAME_BYTES_MIN: usize = 60;

#[derive(Clone)]
pub(crate) struct Hub(Arc<Mutex<State>>);

#[allow(dead_code, reason = "each of the two test programs that share this file uses a part")]
impl Hub {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: 0,
            seed: seed.wrapping_mul(2).wrapping_add(1),
            sent: 0,
            faults: Faults::NONE,
            script: VecDeque::new(),
            stations: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A device on the hub; its address is 02:00:00:00:00:`number`.
    pub(crate) fn nic(&self, number: u8, mtu: usize) -> HubNic {
        let mut state = self.state();
        let mac = mac(number);
        state.stations.push(Station {
            mac,
            incoming: BTreeMap::new(),
            mute: false,
            busy: Vec::new(),
            calls: Calls::default(),
        });
        HubNic { hub: self.clone(), index: state.stations.len() - 1, mac, mtu }
    }

    /// Unplugs the stations with this address: their frames and those for them go nowhere.
    pub(crate) fn unplug(&self, number: u8) {
        for station in self.state().stations.iter_mut().filter(|station| station.mac == mac(number)) {
            station.mac = Mac([0; 6]);
            station.incoming.clear();
        }
    }

    /// Sets whether what the stations with this address send gets lost.
    pub(crate) fn mute(&self, number: u8, mute: bool) {
        for station in self.state().stations.iter_mut().filter(|station| station.mac == mac(number)) {
            station.mute = mute;
        }
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// The fates of the next frames that are sent, before the faults apply again.
    pub(crate) fn script(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.extend(fates);
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(self.state().now)
    }

    pub(crate) fn advance(&self, ns: u64) {
        self.state().now += ns;
    }

    pub(crate) fn advance_to(&self, now: Instant) {
        let mut state = self.state();
        state.now = state.now.max(now.0);
    }

    /// The time at which the next frame arrives anywhere.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let state = self.state();
        let first = state.stations.iter().filter_map(|station| station.incoming.keys().next()).min();
        first.map(|(due, _)| Instant(*due))
    }

    /// Puts a frame into a station's queue, past all faults.
    pub(crate) fn inject(&self, number: u8, bytes: &[u8]) {
        let mut state = self.state();
        let due = state.now;
        state.arrive(mac(number), due, bytes.to_vec());
    }

    /// Returns the frames that wait for a station, oldest first; they stay.
    pub(crate) fn waiting(&self, number: u8) -> Vec<Vec<u8>> {
        let state = self.state();
        let of = state.stations.iter().filter(|station| station.mac == mac(number));
        of.flat_map(|station| station.incoming.values().cloned()).collect()
    }

    /// Calls of a station's device since the last time.
    pub(crate) fn calls(&self, number: u8) -> Calls {
        let mut state = self.state();
        let mut of = state.stations.iter_mut().filter(|station| station.mac == mac(number));
        of.next().map(|station| core::mem::take(&mut station.calls)).unwrap()
    }
}

pub(crate) fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

impl State {
    /// Splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn fate(&mut self) -> Fate {
        if let Some(fate) = self.script.pop_front() {
            return fate;
        }
        let Faults { lose, duplicate, corrupt, cut, delay, delay_ns_max } = self.faults;
        let kinds = [
            (lose, Fate::Lose),
            (duplicate, Fate::Duplicate),
            (corrupt, Fate::Corrupt),
            (cut, Fate::Cut),
            (delay, Fate::Delay(1 + self.draw() % delay_ns_max.max(1))),
        ];
        let mut drawn = self.draw() % 1000;
        for (chance, fate) in kinds {
            if drawn < chance {
                return fate;
            }
            drawn -= chance;
        }
        Fate::Deliver
    }

    fn send(&mut self, mut bytes: Vec<u8>) {
        if bytes.len() < FRAME_BYTES_MIN {
            bytes.resize(FRAME_BYTES_MIN, 0xEE);
        }
        let to = Mac(*bytes.first_chunk().unwrap());
        let due = self.now + LATENCY_NS;
        match self.fate() {
            Fate::Deliver => self.arrive(to, due, bytes),
            Fate::Lose => {}
            Fate::Duplicate => {
                self.arrive(to, due, bytes.clone());
                self.arrive(to, due, bytes);
            }
            Fate::Corrupt => {
                // Behind the addresses, so that it arrives where it should.
                let at = 12 + (self.draw() % (bytes.len() as u64 - 12)) as usize;
                bytes[at] ^= 1 << (self.draw() % 8);
                self.arrive(to, due, bytes);
            }
            Fate::Cut => {
                bytes.truncate(bytes.len() / 2);
                self.arrive(to, due, bytes);
            }
            Fate::Delay(ns) => self.arrive(to, due + ns, bytes),
        }
    }

    fn arrive(&mut self, to: Mac, due: u64, bytes: Vec<u8>) {
        self.sent += 1;
        let number = self.sent;
        let all = |station: &Station| to == BROADCAST && bytes.get(6..12) != Some(&station.mac.0);
        for station in self.stations.iter_mut().filter(|station| station.mac == to || all(station)) {
            if station.incoming.len() < INCOMING_MAX {
                station.incoming.insert((due, number), bytes.clone());
            }
        }
    }
}

/// A station's device.
pub(crate) struct HubNic {
    hub: Hub,
    index: usize,
    mac: Mac,
    mtu: usize,
}

pub(crate) struct Received(Vec<u8>);

impl RxFrame for Received {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

pub(crate) struct Sending<'a> {
    nic: &'a HubNic,
    bytes: Vec<u8>,
}

impl TxFrame for Sending<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn send(self) {
        let mut state = self.nic.hub.state();
        let free_at = state.now + LATENCY_NS;
        let station = &mut state.stations[self.nic.index];
        station.busy.push(free_at);
        if station.mac == self.nic.mac && !station.mute {
            state.send(self.bytes);
        }
    }
}

impl Nic for HubNic {
    type Rx<'a> = Received;
    type Tx<'a> = Sending<'a>;

    fn receive(&mut self) -> Option<Received> {
        let mut state = self.hub.state();
        let now = state.now;
        let station = &mut state.stations[self.index];
        station.calls.receive += 1;
        let first = station.incoming.first_entry()?;
        (first.key().0 <= now).then(|| Received(first.remove()))
    }

    fn transmit(&mut self, len: usize) -> Option<Sending<'_>> {
        let mut state = self.hub.state();
        let now = state.now;
        let station = &mut state.stations[self.index];
        station.calls.transmit += 1;
        station.busy.retain(|free_at| *free_at > now);
        let free = station.busy.len() < DESCRIPTORS && len <= self.mtu + 14;
        drop(state);
        free.then(|| Sending { nic: self, bytes: vec![0xDD; len] })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> Link {
        Link::Up
    }
}
