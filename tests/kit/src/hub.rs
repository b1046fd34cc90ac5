//! An Ethernet in memory: stations on one hub, under a clock that is set by hand, with faults from
//! a script or a seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use aldis_hal::Instant;
use aldis_hal::nic::{LinkState, Mac, Nic, RxFrame, TxFrame};

/// The fate of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The frame arrives as it is.
    Deliver,
    /// The frame never arrives.
    Lose,
    /// The frame arrives twice.
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
pub struct Faults {
    /// Frames that are lost.
    pub lose: u64,
    /// Frames that arrive twice.
    pub duplicate: u64,
    /// Frames in which a bit is flipped.
    pub corrupt: u64,
    /// Frames of which half arrives.
    pub cut: u64,
    /// Frames that arrive late.
    pub delay: u64,
    /// The longest delay beyond the latency, ns.
    pub delay_ns_max: u64,
}

impl Faults {
    /// A wire without faults.
    pub const NONE: Self = Self { lose: 0, duplicate: 0, corrupt: 0, cut: 0, delay: 0, delay_ns_max: 0 };

    /// All kinds at once, `permille` each.
    pub const fn all(permille: u64, delay_ns_max: u64) -> Self {
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
pub struct Calls {
    /// Calls of `Nic::receive`.
    pub receive: u32,
    /// Calls of `Nic::transmit`.
    pub transmit: u32,
}

struct Station {
    mac: Mac,
    /// Frames on their way here, by the time of arrival and the order of sending.
    incoming: BTreeMap<(u64, u64), Vec<u8>>,
    /// True if nothing that it sends gets out.
    mute: bool,
    /// The times at which the transmit descriptors in use are free again.
    busy: Vec<u64>,
    /// Frames that its device was given and was not told to send.
    waiting: Vec<Vec<u8>>,
    calls: Calls,
}

struct HubState {
    now: u64,
    seed: u64,
    sent: u64,
    faults: Faults,
    script: VecDeque<Fate>,
    stations: Vec<Station>,
}

/// Time of a frame on the wire, ns.
pub const LATENCY_NS: u64 = 1_000;
/// Frames that a station holds at most; further ones are lost.
const INCOMING_MAX: usize = 256;
/// Transmit descriptors of a station; one is busy for a latency.
pub const DESCRIPTORS: usize = 8;
/// The address that all stations but the sender take.
const BROADCAST: Mac = Mac([0xFF; 6]);
/// The smallest frame of an Ethernet, without its check sequence.
const FRAME_BYTES_MIN: usize = 60;

/// The hub, which all its devices share.
#[derive(Clone)]
pub struct Hub(Arc<Mutex<HubState>>);

impl Hub {
    /// Creates a hub whose faults are drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(HubState {
            now: 0,
            seed: seed.wrapping_mul(2).wrapping_add(1),
            sent: 0,
            faults: Faults::NONE,
            script: VecDeque::new(),
            stations: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.0.lock().unwrap()
    }

    /// Creates a device on the hub; its address is 02:00:00:00:00:`number`.
    pub fn nic(&self, number: u8, mtu: usize) -> HubNic {
        let mut state = self.state();
        let mac = mac(number);
        state.stations.push(Station {
            mac,
            incoming: BTreeMap::new(),
            mute: false,
            waiting: Vec::new(),
            busy: Vec::new(),
            calls: Calls::default(),
        });
        HubNic { hub: self.clone(), index: state.stations.len() - 1, mac, mtu }
    }

    /// Unplugs the stations with this address: their frames and those for them go nowhere.
    pub fn unplug(&self, number: u8) {
        for station in self.state().stations.iter_mut().filter(|station| station.mac == mac(number)) {
            station.mac = Mac([0; 6]);
            station.incoming.clear();
        }
    }

    /// Sets whether what the stations with this address send gets lost.
    pub fn mute(&self, number: u8, mute: bool) {
        for station in self.state().stations.iter_mut().filter(|station| station.mac == mac(number)) {
            station.mute = mute;
        }
    }

    /// Sets the faults of frames that no script speaks of.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the fates of the next frames that are sent, before the faults apply again.
    pub fn script(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.extend(fates);
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        Instant(self.state().now)
    }

    /// Moves the clock by so many ns.
    pub fn advance(&self, ns: u64) {
        self.state().now += ns;
    }

    /// Moves the clock to a time, unless that is over.
    pub fn advance_to(&self, now: Instant) {
        let mut state = self.state();
        state.now = state.now.max(now.0);
    }

    /// Returns the time at which the next frame arrives anywhere.
    pub fn next_arrival(&self) -> Option<Instant> {
        let state = self.state();
        let first = state.stations.iter().filter_map(|station| station.incoming.keys().next()).min();
        first.map(|(due, _)| Instant(*due))
    }

    /// Puts a frame into a station's queue, past all faults.
    pub fn inject(&self, number: u8, bytes: &[u8]) {
        let mut state = self.state();
        let due = state.now;
        state.arrive(mac(number), due, bytes.to_vec());
    }

    /// Returns the frames that wait for a station, oldest first; they stay.
    pub fn waiting(&self, number: u8) -> Vec<Vec<u8>> {
        let state = self.state();
        let of = state.stations.iter().filter(|station| station.mac == mac(number));
        of.flat_map(|station| station.incoming.values().cloned()).collect()
    }

    /// Returns the calls of a station's device since the last time.
    pub fn calls(&self, number: u8) -> Calls {
        let mut state = self.state();
        let mut of = state.stations.iter_mut().filter(|station| station.mac == mac(number));
        of.next().map(|station| core::mem::take(&mut station.calls)).unwrap()
    }
}

/// Returns the address of the station of this number.
pub fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

impl HubState {
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
pub struct HubNic {
    hub: Hub,
    index: usize,
    mac: Mac,
    mtu: usize,
}

/// A frame that a station takes.
pub struct ReceivedFrame(Vec<u8>);

impl RxFrame for ReceivedFrame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A frame that a station sends.
pub struct SentFrame<'a> {
    nic: &'a HubNic,
    bytes: Vec<u8>,
}

impl TxFrame for SentFrame<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn send(self) {
        let nic = self.nic;
        self.send_more();
        nic.send_waiting();
    }

    /// Waits for a flush, however long that takes: one who forgets it is found out.
    fn send_more(self) {
        let mut state = self.nic.hub.state();
        let free_at = state.now + LATENCY_NS;
        let station = &mut state.stations[self.nic.index];
        station.busy.push(free_at);
        station.waiting.push(self.bytes);
    }
}

impl HubNic {
    fn send_waiting(&self) {
        let mut state = self.hub.state();
        let station = &mut state.stations[self.index];
        let is_heard = station.mac == self.mac && !station.mute;
        for bytes in core::mem::take(&mut station.waiting) {
            if is_heard {
                state.send(bytes);
            }
        }
    }
}

impl Nic for HubNic {
    type Rx<'a> = ReceivedFrame;
    type Tx<'a> = SentFrame<'a>;

    fn receive(&mut self) -> Option<ReceivedFrame> {
        let mut state = self.hub.state();
        let now = state.now;
        let station = &mut state.stations[self.index];
        station.calls.receive += 1;
        let first = station.incoming.first_entry()?;
        (first.key().0 <= now).then(|| ReceivedFrame(first.remove()))
    }

    fn transmit(&mut self, len: usize) -> Option<SentFrame<'_>> {
        let mut state = self.hub.state();
        let now = state.now;
        let station = &mut state.stations[self.index];
        station.calls.transmit += 1;
        station.busy.retain(|free_at| *free_at > now);
        let free = station.busy.len() < DESCRIPTORS && len <= self.mtu + 14;
        drop(state);
        free.then(|| SentFrame { nic: self, bytes: vec![0xDD; len] })
    }

    fn flush(&mut self) {
        self.send_waiting();
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }
}
