//! Endpoints that find each other: no cards are carried, each rank knows the job's key and size and
//! its own number.

use core::time::Duration;

use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry, Overdue};
use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_hal::{Cost, Epoch, Instant, PeerId, Platform};
use aldis_kernel::{Config, Endpoint, Rank, Tag};
use aldis_kit::hub::{Faults, Hub, HubNic};
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

const MESSAGE_BYTES: usize = 1464;
const SIZE: u32 = 3;
const JOB: u64 = 0xA1D1_5001;

/// A rank's clock is the hub's, and time passes where a rank has nothing to do.
struct HubBoard(Hub);

impl Platform for HubBoard {
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn relax(&mut self, _: u32) {
        self.0.advance(20_000);
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

type DiscoveryNic = Discovery<'static, HubNic>;
type HubEndpoint = Endpoint<'static, Ethernet<'static, DiscoveryNic>, HubBoard>;

/// A rank that has announced itself.
fn boot(hub: &Hub, rank: u32, epoch: u32) -> HubEndpoint {
    type Kernel = aldis_kernel::storage_type!(3, 8, 2, 8, 4, 1024, 0, 16);
    let (me, epoch) = (PeerId(rank), Epoch(epoch));
    let nic = hub.nic(rank as u8 + 1, MESSAGE_BYTES + MTU_OVERHEAD_BYTES);
    let entries = Box::leak(Box::new([Entry::EMPTY; SIZE as usize]));
    let setup = DiscoverySetup { job: JOB, rank, size: SIZE, epoch, ..DiscoverySetup::DEFAULT };
    let discovery = Discovery::new(nic, setup, entries).unwrap();
    let storage = Box::leak(Box::new(EthernetStorage::<2, 16, MESSAGE_BYTES>::new()));
    let config = ethernet::Config::new(me, epoch, JOB, Cost::default());
    let transport = Ethernet::new(discovery, storage.memory(), config).unwrap();
    let memory = Box::leak(Box::new(Kernel::new())).memory();
    let config = Config { me, size: SIZE, epoch };
    let mut end = Endpoint::new(memory, transport, HubBoard(hub.clone()), config).unwrap();

    let mut card = end.card();
    card.address.extend_from_slice(&end.transport().address()).unwrap();
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer).unwrap();
    end.transport_mut().nic_mut().announce(card, hub.now()).unwrap();
    end
}

/// Goes on with the search and connects to the ranks that it has found.
fn search(end: &mut HubEndpoint, now: Instant) -> Result<bool, Overdue> {
    let found_all = end.transport_mut().nic_mut().poll(now)?;
    while let Some(peer) = end.transport_mut().nic_mut().news() {
        let card = end.transport().nic().card(peer).map(Card::decode).unwrap().unwrap();
        end.connect(&card).unwrap();
    }
    Ok(found_all)
}

/// Searches until every rank has found all others; those that have done so only poll their
/// endpoints.
fn find(hub: &Hub, ends: &mut [HubEndpoint]) {
    let mut found = vec![false; ends.len()];
    while found.contains(&false) {
        for (end, found) in ends.iter_mut().zip(&mut found) {
            if *found {
                end.poll(16);
            } else {
                *found = search(end, hub.now()).unwrap();
            }
        }
        hub.advance(50_000);
    }
}

/// Carries one message from each rank to each other one.
fn everybody_talks(ends: &mut [HubEndpoint]) {
    for from in 0..SIZE {
        for to in (0..SIZE).filter(|to| *to != from) {
            let word = [from * 100 + to];
            let mut heard = [0];
            let [sender, receiver] = ends.get_disjoint_mut([from as usize, to as usize]).unwrap();
            let (here, there) = (sender.world(), receiver.world());
            // One word is eager: done once the transport has taken it, which it does when there is
            // a connection.
            let patience = Duration::from_millis(2);
            while sender.within(patience).send(&here, &word, Rank(to), Tag(1)).is_err() {
                receiver.poll(16);
            }
            while receiver.within(patience).recv(&there, &mut heard, Rank(from), Tag(1)).is_err() {
                sender.poll(16);
            }
            assert_eq!(heard, word);
        }
    }
}

#[test]
fn ranks_without_a_launcher_find_each_other_and_talk() {
    for seed in 0..5 {
        let hub = Hub::new(seed);
        hub.set_faults(Faults::all(30, 500_000));
        let mut ends: Vec<HubEndpoint> = (0..SIZE).map(|rank| boot(&hub, rank, 11 + rank)).collect();
        find(&hub, &mut ends);
        everybody_talks(&mut ends);
    }
}

#[test]
fn a_rank_that_boots_again_is_found_again() {
    let hub = Hub::new(1);
    let mut ends: Vec<HubEndpoint> = (0..SIZE).map(|rank| boot(&hub, rank, 11 + rank)).collect();
    find(&hub, &mut ends);
    everybody_talks(&mut ends);
    hub.unplug(3);
    ends[2] = boot(&hub, 2, 99);
    let knows = |end: &HubEndpoint| {
        let card = end.transport().nic().card(PeerId(2)).map(Card::decode);
        card.is_some_and(|card| card.unwrap().epoch() == Epoch(99))
    };
    let mut found = false;
    while !found || !ends.iter().all(knows) {
        hub.advance(50_000);
        assert!(hub.now() < Instant(60_000_000_000));
        found = true;
        for end in &mut ends {
            end.poll(16);
            found &= search(end, hub.now()).unwrap();
        }
    }
    ends.iter_mut().for_each(|end| assert!(search(end, hub.now()).unwrap()));
    everybody_talks(&mut ends);
}

#[test]
fn who_does_not_come_is_named() {
    let hub = Hub::new(1);
    let mut ends = [boot(&hub, 0, 11), boot(&hub, 1, 12)];
    let report = loop {
        hub.advance(1_000_000);
        drop(search(&mut ends[1], hub.now()));
        if let Err(report) = search(&mut ends[0], hub.now()) {
            break report;
        }
    };
    assert_eq!(report.to_string(), "rank 2 of 3 did not answer within 20000 ms; refused: nothing");
}
