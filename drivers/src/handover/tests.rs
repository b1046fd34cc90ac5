//! Endpoints of one card, on queues of the tests' own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const CARD: Mac = Mac([0x52, 0x54, 0, 1, 2, 3]);
const BYTES: usize = 64;

type FrameQueue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A queue of a card: what has come by it, and what went out by it.
#[derive(Clone, Default)]
struct CardQueue {
    incoming: FrameQueue,
    outgoing: FrameQueue,
    offload: Offload,
}

struct QueueRx(Vec<u8>);

impl RxFrame for QueueRx {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn checked(&self) -> Offload {
        Offload::UDP_RX
    }
}

struct QueueTx<'a>(&'a FrameQueue, Vec<u8>);

impl TxFrame for QueueTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.1
    }

    fn send(self) {
        self.0.lock().unwrap().push_back(self.1);
    }
}

impl Nic for CardQueue {
    type Rx<'a> = QueueRx;
    type Tx<'a> = QueueTx<'a>;

    fn receive(&mut self) -> Option<QueueRx> {
        self.incoming.lock().unwrap().pop_front().map(QueueRx)
    }

    fn transmit(&mut self, len: usize) -> Option<QueueTx<'_>> {
        Some(QueueTx(&self.outgoing, vec![0; len]))
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn mac(&self) -> Mac {
        CARD
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }

    fn offload(&self) -> Offload {
        self.offload
    }
}

type TestEndpoint<'a> = HandoverNic<'a, CardQueue, 4, BYTES>;

fn frame(to: Mac, what: u8) -> Vec<u8> {
    [&to.0[..], &[what; 20]].concat()
}

fn received(endpoint: &mut TestEndpoint<'_>) -> Option<(Vec<u8>, Offload)> {
    endpoint.receive().map(|frame| (frame.bytes().to_vec(), frame.checked()))
}

fn send(endpoint: &mut TestEndpoint<'_>, frame: &[u8]) {
    let mut token = endpoint.transmit(frame.len()).unwrap();
    token.bytes().copy_from_slice(frame);
    token.send();
}

fn come(queue: &CardQueue, frame: Vec<u8>) {
    queue.incoming.lock().unwrap().push_back(frame);
}

const ALL: Mac = Mac([0xFF; 6]);

#[test]
fn endpoints_have_addresses_of_their_own() {
    let addresses: Vec<Mac> = (0..ENDPOINTS_MAX).map(|endpoint| address(CARD, endpoint)).collect();
    assert_eq!(addresses[0], CARD);
    for (index, one) in addresses.iter().enumerate() {
        assert!(one.0[0] & 1 == 0 && (index == 0 || one.0[0] & 2 != 0), "{one:?}");
        assert!(!addresses[..index].contains(one));
    }
}

#[test]
fn a_frame_reaches_its_endpoint_by_whichever_queue_it_comes() {
    let storage = HandoverStorage::<3, 4, BYTES>::new();
    let queues = [(); 3].map(|()| CardQueue::default());
    for by in 0..3 {
        for to in 0..3 {
            let mut endpoints =
                [0, 1, 2].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
            let sent = frame(address(CARD, to), 7);
            come(&queues[by], sent.clone());
            let first = received(&mut endpoints[by]);
            assert_eq!(first.is_some(), by == to);
            let got = first.or_else(|| received(&mut endpoints[to]));
            assert_eq!(got, Some((sent, Offload::UDP_RX)), "by {by} to {to}");
            assert!(endpoints.iter_mut().all(|endpoint| received(endpoint).is_none()));
        }
    }
    assert!(TestEndpoint::new(CardQueue::default(), 3, &storage).is_none());
}

#[test]
fn frames_to_all_reach_all_and_those_to_nobody_here_none() {
    let storage = HandoverStorage::<3, 4, BYTES>::new();
    let queues = [(); 3].map(|()| CardQueue::default());
    let mut endpoints = [0, 1, 2].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
    come(&queues[1], frame(ALL, 1));
    for at in [1, 0, 2] {
        assert_eq!(received(&mut endpoints[at]).unwrap().0, frame(ALL, 1));
    }
    assert_eq!((endpoints[1].counters().handed, endpoints[1].counters().exchanged), (2, 0));
    for to in [address(CARD, 3), Mac([0x52, 0x54, 0, 1, 2, 4]), Mac([0x50, 0x54, 0, 1, 2, 3])] {
        come(&queues[0], frame(to, 2));
        assert_eq!(received(&mut endpoints[0]), None);
    }
    come(&queues[0], vec![1; 5]);
    assert_eq!(received(&mut endpoints[0]), None);
    assert_eq!(endpoints[0].counters().foreign, 4);
    assert!(endpoints.iter_mut().all(|endpoint| received(endpoint).is_none()));
}

#[test]
fn what_endpoints_of_a_card_send_each_other_does_not_go_out() {
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let queues = [(); 2].map(|()| CardQueue::default());
    let [mut first, mut second] =
        [0, 1].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
    let elsewhere = frame(Mac([2, 0, 0, 0, 0, 1]), 1);
    for sent in [frame(second.mac(), 2), frame(ALL, 3), elsewhere.clone()] {
        send(&mut first, &sent);
    }
    let out: Vec<Vec<u8>> = queues[0].outgoing.lock().unwrap().drain(..).collect();
    assert_eq!(out, [frame(ALL, 3), elsewhere]);
    let got = [(); 3].map(|()| received(&mut second).map(|(frame, _)| frame[6]));
    assert_eq!(got, [Some(2), Some(3), None], "the queue, which is empty, hides no frame");
    assert_eq!(received(&mut first), None, "no frame comes back to its sender");
    assert!(first.transmit(BYTES + 1).is_none());
    assert_eq!(first.mtu(), BYTES - 14);
}

#[test]
fn a_queue_that_has_nothing_for_the_endpoint_hides_no_frame_of_its_mailbox() {
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let queues = [(); 2].map(|()| CardQueue::default());
    let [mut first, mut second] =
        [0, 1].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
    for what in 1..=3 {
        send(&mut first, &frame(second.mac(), what));
    }
    come(&queues[1], frame(first.mac(), 4));
    come(&queues[1], frame(first.mac(), 5));
    let got = [(); 3].map(|()| received(&mut second).map(|(frame, _)| frame[6]));
    assert_eq!(got, [Some(1), Some(2), Some(3)]);
    assert_eq!(second.counters().handed, 2, "one frame of the queue each time that it had its turn");
    let got = [(); 3].map(|()| received(&mut first).map(|(frame, _)| frame[6]));
    assert_eq!(got, [Some(4), Some(5), None]);
}

#[test]
fn queue_and_mailbox_take_turns_while_both_have_frames() {
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let queues = [(); 2].map(|()| CardQueue::default());
    let [mut first, mut second] =
        [0, 1].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
    for what in 1..=3 {
        send(&mut first, &frame(second.mac(), what));
        come(&queues[1], frame(second.mac(), 10 + what));
    }
    let got = [(); 7].map(|()| received(&mut second).map_or(0, |(frame, _)| frame[6]));
    assert_eq!(got, [1, 11, 2, 12, 3, 13, 0]);
}

#[test]
fn checksums_are_vouched_for_where_they_were_left_to_the_device() {
    let both = Offload::IPV4_RX | Offload::UDP_RX;
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let queue = |offload| CardQueue { offload, ..CardQueue::default() };
    let mut first = TestEndpoint::new(queue(Offload::IPV4_TX | Offload::UDP_TX), 0, &storage).unwrap();
    let mut second = TestEndpoint::new(CardQueue::default(), 1, &storage).unwrap();
    let mut left = [0; BYTES];
    left[..6].copy_from_slice(&second.mac().0);
    left[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    left[23] = 17;
    let mut judged = |changes: &[(usize, u8)], len: usize| {
        let mut sent = left;
        changes.iter().for_each(|(at, value)| sent[*at] = *value);
        send(&mut first, &sent[..len]);
        received(&mut second).unwrap().1
    };
    assert_eq!(judged(&[], BYTES), both);
    assert_eq!(judged(&[(20, 0x40)], BYTES), both, "not to be fragmented");
    assert_eq!(judged(&[(40, 1)], BYTES), Offload::IPV4_RX, "a checksum of UDP");
    assert_eq!(judged(&[(41, 1)], BYTES), Offload::IPV4_RX);
    assert_eq!(judged(&[(24, 1)], BYTES), Offload::UDP_RX, "one of IPv4");
    assert_eq!(judged(&[(25, 1)], BYTES), Offload::UDP_RX);
    assert_eq!(judged(&[(23, 6)], BYTES), Offload::IPV4_RX, "TCP");
    assert_eq!(judged(&[(20, 0x20)], BYTES), Offload::IPV4_RX, "a fragment");
    assert_eq!(judged(&[(21, 1)], BYTES), Offload::IPV4_RX, "a later one");
    assert_eq!(judged(&[(14, 0x46)], BYTES), Offload::IPV4_RX, "options");
    assert_eq!(judged(&[], 41), Offload::IPV4_RX, "cut within the header of UDP");
    assert_eq!(judged(&[], 33), Offload::empty());
    assert_eq!(judged(&[(12, 0x86), (13, 0xDD), (14, 0x60), (20, 17)], BYTES), Offload::empty(), "IPv6");
    drop(first);
    let mut plain = TestEndpoint::new(queue(both), 0, &storage).unwrap();
    send(&mut plain, &left);
    assert_eq!(received(&mut second).unwrap().1, Offload::empty(), "no device to leave any to");
}

#[test]
fn frames_to_endpoints_that_there_are_not_are_handed_to_nobody_and_not_lost() {
    let storage = HandoverStorage::<3, 4, BYTES>::new();
    let queues = [(); 3].map(|()| CardQueue::default());
    let endpoint = |at: usize| TestEndpoint::new(queues[at].clone(), at, &storage);
    let (mut first, second) = (endpoint(0).unwrap(), endpoint(1).unwrap());
    let absent = address(CARD, 2);
    for what in 0..4 {
        come(&queues[0], frame(ALL, what));
        assert!(received(&mut first).is_some());
    }
    come(&queues[0], frame(absent, 5));
    assert_eq!(received(&mut first), None);
    let expected = HandoverCounters { own: 4, handed: 4, foreign: 1, ..HandoverCounters::default() };
    assert_eq!(first.counters(), &expected);
    send(&mut first, &frame(absent, 6));
    assert_eq!((first.counters(), queues[0].outgoing.lock().unwrap().len()), (&expected, 1));
    let mut third = endpoint(2).unwrap();
    assert_eq!(received(&mut third), None, "nothing has waited for it");
    send(&mut first, &frame(absent, 7));
    assert_eq!(received(&mut third).unwrap().0, frame(absent, 7));
    // The second's mailbox is full and it has never looked: gone, it is no longer counted.
    send(&mut first, &frame(ALL, 8));
    assert_eq!(first.counters().lost, 1);
    drop(second);
    send(&mut first, &frame(ALL, 9));
    assert_eq!(first.counters().lost, 1);
}

#[test]
fn a_number_is_one_endpoints_at_a_time() {
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let endpoint = |at: usize| TestEndpoint::new(CardQueue::default(), at, &storage);
    let (mut first, second) = (endpoint(0).unwrap(), endpoint(1).unwrap());
    assert!(endpoint(1).is_none());
    send(&mut first, &frame(second.mac(), 1));
    drop(second);
    let mut again = endpoint(1).unwrap();
    assert_eq!(received(&mut again), None, "what was the other's is not its own");
    assert!(endpoint(1).is_none());
    send(&mut first, &frame(again.mac(), 2));
    assert!(received(&mut again).is_some());
}

#[test]
fn a_mailbox_that_is_full_loses_what_comes() {
    let storage = HandoverStorage::<2, 4, BYTES>::new();
    let queue = CardQueue::default();
    let mut first = TestEndpoint::new(queue.clone(), 0, &storage).unwrap();
    let mut second = TestEndpoint::new(CardQueue::default(), 1, &storage).unwrap();
    let to = second.mac();
    for what in 0..6 {
        send(&mut first, &frame(to, what));
    }
    // Longer than a slot.
    come(&queue, [&to.0[..], &[9; BYTES]].concat());
    assert_eq!(received(&mut first), None);
    assert_eq!((first.counters().exchanged, first.counters().lost), (4, 3));
    let got: Vec<u8> = (0..10).filter_map(|_| received(&mut second).map(|(frame, _)| frame[6])).collect();
    assert_eq!(got, [0, 1, 2, 3]);
    send(&mut first, &frame(to, 7));
    assert_eq!(received(&mut second).unwrap().0[6], 7);
}

#[test]
fn frames_pass_between_endpoints_on_concurrent_threads() {
    const ROUNDS: u32 = 20_000;
    let storage = HandoverStorage::<3, 4, BYTES>::new();
    let storage = &storage;
    let got: Vec<(u64, u64)> = thread::scope(|scope| {
        // All are there from the first frame to the last.
        let endpoints =
            [0_usize, 1, 2].map(|me| (me, TestEndpoint::new(CardQueue::default(), me, storage).unwrap()));
        let cores = endpoints.map(|(me, mut endpoint)| {
            scope.spawn(move || {
                let mut last = [None; 3];
                let look = |endpoint: &mut TestEndpoint<'_>, last: &mut [Option<u32>; 3]| {
                    let Some((frame, _)) = received(endpoint) else { return };
                    let from = usize::from(frame[6]);
                    let number = u32::from_le_bytes(frame[7..11].try_into().unwrap());
                    assert!(frame[11..].iter().all(|byte| *byte == frame[7]), "a torn frame");
                    assert!(last[from] < Some(number), "in order");
                    last[from] = Some(number);
                };
                for round in 0..ROUNDS {
                    let number = round.to_le_bytes();
                    let to = address(CARD, (me + 1 + round as usize % 2) % 3);
                    let bytes = [&to.0[..], &[me as u8], &number, &[number[0]; 30]].concat();
                    send(&mut endpoint, &bytes);
                    look(&mut endpoint, &mut last);
                }
                endpoint
            })
        });
        let endpoints = cores.map(|core| core.join().unwrap());
        endpoints.iter().map(|endpoint| (endpoint.counters().exchanged, endpoint.counters().lost)).collect()
    });
    assert!(got.iter().all(|(sent, lost)| sent + lost == u64::from(ROUNDS) && *sent > 0), "{got:?}");
}

proptest! {
    /// Whatever comes, and by whichever queue: an endpoint is given its own and no other's, and
    /// what is neither taken nor lost still waits.
    #[test]
    fn any_frames_are_harmless(
        steps in proptest::collection::vec((0..2_usize, proptest::collection::vec(any::<u8>(), 0..80)), 0..40),
    ) {
        let storage = HandoverStorage::<2, 4, BYTES>::new();
        let queues = [(); 2].map(|()| CardQueue::default());
        let mut endpoints = [0, 1].map(|at| TestEndpoint::new(queues[at].clone(), at, &storage).unwrap());
        for (at, mut bytes) in steps {
            // Half of them nearly to an endpoint.
            if bytes.len() > 6 && bytes[6] % 2 == 0 {
                let to = address(CARD, usize::from(bytes[6] % 3)).0;
                bytes[..6].copy_from_slice(&to);
            }
            come(&queues[at], bytes);
            let mac = endpoints[at].mac();
            if let Some((frame, _)) = received(&mut endpoints[at]) {
                prop_assert!(frame[0] & 1 != 0 || frame[..6] == mac.0);
            }
        }
    }
}
