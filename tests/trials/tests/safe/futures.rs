//! Futures that are dropped or forgotten when they have been polled, with the memory that they
//! borrowed used for something else.

use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;

use aldis_kernel::{Rank, Sleeper, Tag};
use aldis_trials::{Home, Pair};

/// Futures that are forgotten, and the endpoint's futures with them, leave no pointer behind.
#[test]
fn what_forgotten_futures_borrowed_is_not_touched() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let world = end.world();
    let (mut into, mut data) = (vec![0u8; 300], vec![1u8; 300]);
    {
        let mut sleepers = [const { Sleeper::EMPTY }; 24];
        let futures = end.futures(&mut sleepers).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut receiving = ManuallyDrop::new(futures.recv(&world, &mut into, Rank(0), Tag(1)));
        assert!(pin!(&mut *receiving).poll(&mut context).is_pending());
        let mut sending = ManuallyDrop::new(futures.ssend(&world, &data, Rank(0), Tag(2)));
        assert!(pin!(&mut *sending).poll(&mut context).is_pending());
    }
    data.fill(9);
    end.scope(|scope| {
        let mut first = scope.isend(&world, &[5u8; 8], Rank(0), Tag(1))?;
        scope.wait_for(&mut first)
    })
    .unwrap();
    while end.poll(64) > 0 {}
    assert_eq!(into, [0; 300], "the receive was forgotten");
    assert!(end.iprobe(&world, Rank(0), Tag(1)).unwrap().is_some(), "what came was not taken");
    let got = end.within(Duration::from_secs(60)).recv(&world, &mut into, Rank(0), Tag(2));
    assert!(got.is_err() || into == [1; 300], "what was written after the send had ended came");
    assert_eq!(data, [9; 300]);
}

/// A receive in pieces and a send of announced data are given up half-way, and their memory freed.
#[test]
fn futures_that_are_dropped_half_way_have_let_go() {
    for (forgotten, polls) in [(false, 0), (false, 1), (false, 3), (true, 0), (true, 1), (true, 3)] {
        let mut pair = Pair::new();
        let [mut one, mut two] = pair.endpoints();
        let worlds = [one.world(), two.world()];
        let (mut into, data) = (vec![0u8; 3000], vec![1u8; 3000]);
        {
            let [mut here, mut there] = [(); 2].map(|()| [const { Sleeper::EMPTY }; 24]);
            let (one, two) = (one.futures(&mut here).unwrap(), two.futures(&mut there).unwrap());
            let mut context = Context::from_waker(Waker::noop());
            let mut receiving = ManuallyDrop::new(one.recv(&worlds[0], &mut into, Rank(1), Tag(1)));
            let mut sending = ManuallyDrop::new(two.ssend(&worlds[1], &data, Rank(0), Tag(1)));
            for _ in 0..=polls {
                if pin!(&mut *receiving).poll(&mut context).is_ready()
                    || pin!(&mut *sending).poll(&mut context).is_ready()
                {
                    break;
                }
            }
            if !forgotten {
                drop((ManuallyDrop::into_inner(receiving), ManuallyDrop::into_inner(sending)));
            }
        }
        drop((into, data));
        for _ in 0..32 {
            one.poll(64);
            two.poll(64);
        }
        assert_eq!(
            (one.diagnostics().requests_in_use(), one.diagnostics().queue_depths().0),
            (0, 0),
            "{forgotten} {polls}"
        );
    }
}

/// The endpoint is used for blocking calls again when its futures themselves were forgotten.
#[test]
fn futures_of_an_endpoint_that_are_forgotten_leave_it_to_others() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let world = end.world();
    let mut into = vec![0u8; 300];
    {
        let mut sleepers = [const { Sleeper::EMPTY }; 24];
        let futures = ManuallyDrop::new(end.futures(&mut sleepers).unwrap());
        let mut receiving = ManuallyDrop::new(futures.recv(&world, &mut into, Rank(0), Tag(1)));
        assert!(pin!(&mut *receiving).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(into);
    // The forgotten receive takes the first message to its grave, in a block of the storage.
    let _ = end.within(Duration::ZERO).send(&world, &[1u8; 200], Rank(0), Tag(1));
    while end.poll(64) > 0 {}
    end.send(&world, &[2u8; 8], Rank(0), Tag(2)).unwrap();
    let mut got = [0u8; 8];
    end.recv(&world, &mut got, Rank(0), Tag(2)).unwrap();
    assert_eq!(got, [2; 8]);
}

/// A future is polled from within another one's turn, and `block_on` within `block_on`.
#[test]
fn futures_within_futures_do_not_get_at_the_endpoint_twice() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let world = end.world();
    let mut sleepers = [const { Sleeper::EMPTY }; 24];
    let futures = end.futures(&mut sleepers).unwrap();
    let got = futures.block_on(async {
        let mut outer = [0u8; 300];
        let receiving = futures.recv(&world, &mut outer, Rank(0), Tag(1));
        let inner = futures.block_on(async {
            let mut inner = [0u8; 8];
            futures.send(&world, &[4u8; 8], Rank(0), Tag(2)).await?;
            futures.recv(&world, &mut inner, Rank(0), Tag(2)).await?;
            futures.send(&world, &[5u8; 200], Rank(0), Tag(1)).await.map(|_| inner)
        })?;
        receiving.await.map(|status| (inner, status.bytes))
    });
    assert_eq!(got.unwrap(), ([4; 8], 200));
}
