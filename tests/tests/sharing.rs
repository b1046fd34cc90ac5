//! An endpoint shared between cores by a spin lock: threads that take turns, each with messages of its own tag.

use std::thread;

use aldis_drivers::Loopback;
use aldis_hal::{Epoch, PeerId};
use aldis_kernel::{Config, Endpoint, Rank, Shared, Tag};
use aldis_tests::Still;

const THREADS: u32 = 4;
const ROUNDS: u32 = 500;

aldis_kernel::storage! {
    static STORAGE: peers = 1, requests = 8, communicators = 2, envelopes = 8, blocks = 2, block_bytes = 256,
        pooled = 1, bins = 16
}

#[test]
fn threads_take_turns_with_one_endpoint() {
    let memory = STORAGE.take().unwrap();
    let mut frames = vec![0; 4096];
    let transport = Loopback::new(PeerId(0), &mut frames, 512).unwrap();
    let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
    let shared = Shared::new(Endpoint::new(memory, transport, Still, config).unwrap());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (out, mut back) = ([thread, round, 3, 4, 5, 6, 7, 8], [0u32; 8]);
                    let mut endpoint = shared.lock();
                    let world = endpoint.world();
                    let tag = Tag(thread);
                    endpoint.sendrecv(&world, &out, Rank(0), tag, &mut back, Rank(0), tag).unwrap();
                    assert_eq!(back, out);
                }
            });
        }
    });
    let endpoint = shared.into_inner();
    assert_eq!(endpoint.counters().messages_received, u64::from(THREADS * ROUNDS));
    assert_eq!(endpoint.queue_depths(), (0, 0));
}
