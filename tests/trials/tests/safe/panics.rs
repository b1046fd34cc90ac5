//! Panics in transports, platforms and the program's own functions: whatever is unwound has let go
//! of its memory.

use core::future::Future;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, LentRange, Rank, Shared, Sleeper, Tag, TagMatch};
use aldis_trials::{FragileEnd, Fuse, Home, Pair};

/// Receives a message of tag 1, if there is any, after everything has moved: a message that is sent
/// now goes behind it.
fn left_behind(endpoint: &mut FragileEnd<'_>) -> Option<Vec<u8>> {
    let world = endpoint.world();
    let mut into = vec![0; 300];
    let found = endpoint.scope(|scope| {
        let mut end = scope.isend(&world, &[7u8; 100], Rank(0), Tag(2))?;
        while scope.poll(64) > 0 {}
        let found = scope.iprobe(&world, Rank(0), Tag(1))?.is_some();
        let mut first = if found {
            scope.irecv(&world, &mut into[..200], Rank(0), Tag(1))?
        } else {
            scope.irecv(&world, &mut into[..100], Rank(0), Tag(2))?
        };
        scope.wait_for(&mut first)?;
        if !found {
            scope.wait_for(&mut end)?;
        }
        Ok(found)
    });
    found.unwrap_or(true).then_some(into)
}

/// A call that is unwound has let go of what it was to send, whichever it is: what is written there
/// later is not sent.
#[test]
fn a_transport_that_panics_keeps_no_memory_of_the_call() {
    type Call = fn(&mut FragileEnd<'_>, &[u8]) -> Result<(), Error>;
    let calls: [(&str, Call); 4] = [
        ("ssend", |end, data| end.ssend(&end.world(), data, Rank(0), Tag(1)).map(drop)),
        ("send", |end, data| end.send(&end.world(), data, Rank(0), Tag(1)).map(drop)),
        ("issend", |end, data| {
            let world = end.world();
            end.scope(|scope| scope.issend(&world, data, Rank(0), Tag(1)).map(drop))
        }),
        ("sendrecv", |end, data| {
            let (world, mut into) = (end.world(), [0u8; 200]);
            end.sendrecv(&world, data, Rank(0), Tag(1), &mut into, Rank(0), Tag(9)).map(drop)
        }),
    ];
    for (name, call) in calls {
        for len in [8, 100, 200] {
            let mut home = Home::new();
            let (mut end, [posts, _]) = home.fragile();
            let mut data = vec![1u8; len];
            posts.set(true);
            let caught = catch_unwind(AssertUnwindSafe(|| call(&mut end, &data)));
            posts.set(false);
            assert!(caught.is_err(), "{name} of {len}: nothing was posted");
            data.fill(9);
            assert_eq!(left_behind(&mut end), None, "{name} of {len} was sent after it had ended");
            assert_eq!(end.diagnostics().requests_in_use(), 0, "{name} of {len}");
        }
    }
}

/// A receive whose wait is unwound has let go of its buffer.
#[test]
fn a_platform_that_panics_keeps_no_memory_of_the_call() {
    for len in [8, 100, 300] {
        let mut home = Home::new();
        let (mut end, [_, rests]) = home.fragile();
        let (world, mut buffer) = (end.world(), vec![0u8; len]);
        rests.set(true);
        let caught =
            catch_unwind(AssertUnwindSafe(|| end.recv(&world, &mut buffer, Rank(0), Tag(1)).map(drop)));
        rests.set(false);
        let (out, mut into) = (vec![5u8; len], vec![0u8; len]);
        assert!(caught.is_err());
        end.scope(|scope| {
            let going = scope.isend(&world, &out, Rank(0), Tag(1))?;
            let coming = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
            scope.wait_all(&mut [going, coming])
        })
        .unwrap();
        assert_eq!((buffer, into), (vec![0; len], vec![5; len]));
    }
}

/// A function of the program that is given memory of a scope may panic, with requests under way
/// beside it.
#[test]
fn a_function_that_panics_in_a_scope_ends_what_is_under_way() {
    let mut pair = Pair::new();
    let [mut one, mut two] = pair.endpoints();
    let (here, there) = (one.world(), two.world());
    let (mut memory, mut other) = (vec![0u8; 2000], vec![0u8; 2000]);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        one.scope(|outer| {
            let lent = outer.lend(&mut memory);
            let receiving = outer.irecv_part(&here, lent, 0..1000, Rank(1), Tag(1))?;
            two.scope(|inner| {
                let shown = inner.lend(&mut other);
                let sending = inner.isend_part(&there, shown, 0..1000, Rank(0), Tag(1))?;
                (0..3).for_each(|_| assert!(outer.poll(2) + inner.poll(2) < 5));
                outer.combine(LentRange::new(lent, 1000..2000), LentRange::new(lent, 0..0), |_, _| {
                    panic!("in the program")
                })?;
                inner.wait(sending).map(drop)
            })?;
            outer.wait(receiving).map(drop)
        })
    }));
    assert!(caught.is_err());
    drop((memory, other));
    for _ in 0..32 {
        one.poll(64);
        two.poll(64);
    }
    assert_eq!((one.diagnostics().requests_in_use(), one.diagnostics().queue_depths().0), (0, 0));
}

/// The code that makes up the numbers of a wait may panic too.
#[test]
fn a_wait_that_panics_ends_what_is_under_way() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let (world, mut memory) = (end.world(), vec![0u8; 300]);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        end.scope(|scope| {
            let mut requests = [scope.irecv(&world, &mut memory, Rank(0), Tag(1))?];
            let _sending = scope.isend(&world, &[1u8; 8], Rank(0), Tag(2))?;
            scope.test_some(&mut requests, |_, _| ());
            scope.wait_until(aldis_hal::Activity::default(), |_| panic!("in the check"))
        })
    }));
    let caught: Result<Result<(), Error>, _> = caught;
    assert!(caught.is_err());
    drop(memory);
    while end.poll(64) > 0 {}
    let _ = end.within(core::time::Duration::ZERO).send(&world, &[2u8; 300], Rank(0), Tag(1));
    while end.poll(64) > 0 {}
    assert_eq!(end.diagnostics().queue_depths().0, 0, "nothing is posted");
}

/// A program of one endpoint, all of whose memory is freed when it ends, however that comes about.
type PanickingProgram = fn(&mut FragileEnd<'_>, usize) -> Result<(), Error>;

/// Blocking calls, requests of scopes and futures: each waits for what it sends to itself.
const PROGRAMS: [(&str, PanickingProgram); 8] = [
    ("sendrecv", |end, len| {
        let (world, data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.sendrecv(&world, &data, Rank(0), Tag(1), &mut into, Rank(0), Tag(1)).map(drop)
    }),
    ("scope", |end, len| {
        let (world, data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.scope(|scope| {
            let receiving = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
            let sending = scope.issend(&world, &data, Rank(0), Tag(1))?;
            scope.wait_all(&mut [sending, receiving])
        })
    }),
    ("late", |end, len| {
        let (world, data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.scope(|scope| {
            let sending = scope.isend(&world, &data, Rank(0), Tag(1))?;
            while scope.iprobe(&world, Rank(0), TagMatch::Any)?.is_none() {}
            let receiving = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
            scope.detach(sending);
            scope.wait(receiving).map(drop)
        })
    }),
    ("matched", |end, len| {
        let (world, data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.scope(|scope| {
            let sending = scope.isend(&world, &data, Rank(0), Tag(1))?;
            let message = scope.mprobe(&world, Rank(0), Tag(1))?;
            let receiving = scope.imrecv(message, &mut into)?;
            scope.wait_all(&mut [sending, receiving])
        })
    }),
    ("persistent", |end, len| {
        let (world, mut data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.scope(|scope| {
            let (data, into) = (scope.lend(&mut data), scope.lend(&mut into));
            let mut requests = [
                scope.recv_init(&world, into, 0..len, Rank(0), Tag(1))?,
                scope.send_init(&world, data, 0..len, Rank(0), Tag(1))?,
            ];
            scope.start_all(&mut requests)?;
            scope.wait_all(&mut requests)?;
            scope.start_all(&mut requests)?;
            scope.wait_all(&mut requests)
        })
    }),
    ("partitioned", |end, len| {
        let (world, mut data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        end.scope(|scope| {
            let (data, into) = (scope.lend(&mut data), scope.lend(&mut into));
            let mut requests = [
                scope.precv_init(&world, into, 0..len, 2, Rank(0), Tag(1))?,
                scope.psend_init(&world, data, 0..len, 4, Rank(0), Tag(1))?,
            ];
            scope.start_all(&mut requests)?;
            scope.partitions(&requests[1]).ready_list(&[3, 0, 2, 1])?;
            scope.wait_all(&mut requests)
        })
    }),
    ("futures", |end, len| {
        let (world, data, mut into) = (end.world(), vec![1u8; len], vec![0u8; len]);
        let mut sleepers = [const { Sleeper::EMPTY }; 24];
        let futures = end.futures(&mut sleepers)?;
        futures.block_on(async {
            let mut sending = core::pin::pin!(futures.ssend(&world, &data, Rank(0), Tag(1)));
            let mut receiving = core::pin::pin!(futures.recv(&world, &mut into, Rank(0), Tag(1)));
            core::future::poll_fn(|context| {
                let sent = sending.as_mut().poll(context);
                if sent.is_ready() { sent } else { receiving.as_mut().poll(context).map(|_| sent_later()) }
            })
            .await
            .map(drop)
        })
    }),
    ("pooled", |end, len| {
        let (world, data) = (end.world(), vec![1u8; len.min(200)]);
        end.send(&world, &data, Rank(0), Tag(1))?;
        end.recv_pooled(&world, Rank(0), Tag(1)).map(drop)
    }),
];

fn sent_later() -> Result<aldis_kernel::Status, Error> {
    Ok(aldis_kernel::Status { source: Rank(0), tag: Tag(1), bytes: 0 })
}

/// Sends what any receive that was left behind would take, and reads what any send that was left
/// behind would give.
fn stir(end: &mut FragileEnd<'_>) {
    let world = end.world();
    for len in [8, 200, 1000] {
        let (data, mut into) = (vec![7u8; len], vec![0u8; 1000]);
        let _ = end.enter(|scope| {
            for tag in [1, 2] {
                let _sending = scope.isend(&world, &data, Rank(0), Tag(tag))?;
            }
            (0..8).for_each(|_| assert!(scope.poll(64) <= 64));
            let _receiving = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
            (0..8).for_each(|_| assert!(scope.poll(64) <= 64));
            // No waiting: what is to come may have been lost with the call that panicked.
            scope.isend(&world, &data, Rank(99), Tag(1)).map(drop)
        });
    }
}

/// Whichever call panics, nothing of the program's memory is touched later.
#[test]
fn a_panic_at_any_call_keeps_no_memory() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let lens: &[usize] = if cfg!(miri) { &[1000] } else { &[8, 200, 1000] };
    for (name, program) in PROGRAMS {
        for &len in lens {
            let mut calls = 0;
            loop {
                let (mut home, fuse) = (Home::new(), Fuse::default());
                let mut end = home.fused(&fuse);
                fuse.set(Some(calls));
                let ended = catch_unwind(AssertUnwindSafe(|| program(&mut end, len)));
                let burnt = fuse.set(None);
                assert_eq!(ended.is_err(), burnt, "{name} of {len} at call {calls}");
                let _ = catch_unwind(AssertUnwindSafe(|| stir(&mut end)));
                if let Ok(result) = ended {
                    result.unwrap();
                    break;
                }
                calls += if cfg!(miri) { 29 } else { 1 };
                assert!(calls < 10_000, "{name} of {len} does not end");
            }
        }
    }
    std::panic::set_hook(hook);
}

/// Threads that share an endpoint leave nothing behind either.
#[test]
fn a_panic_at_any_call_of_a_shared_endpoint_keeps_no_memory() {
    for calls in (0..60).step_by(if cfg!(miri) { 17 } else { 1 }) {
        let (mut home, fuse) = (Home::new(), Fuse::default());
        let shared = Shared::new(home.fused(&fuse));
        let world = shared.lock().world();
        fuse.set(Some(calls));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let (data, mut into) = (vec![1u8; 200], vec![0u8; 200]);
            shared.send(&world, &data, Rank(0), Tag(1))?;
            shared.recv(&world, &mut into, Rank(0), Tag(1))
        }));
        fuse.set(None);
        stir(&mut shared.into_inner());
    }
}
