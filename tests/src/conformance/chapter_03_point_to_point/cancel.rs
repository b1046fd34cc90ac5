//! Cancel: section 3.8.4.

use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.8.4", 2: a_receive_that_nobody_met_is_cancelled;
    "3.8.4", 2: a_receive_that_has_met_its_message_is_not_cancelled;
    "3.8.4", 2: a_cancelled_receive_leaves_its_message_to_the_next;
    "3.8.4", 1: a_cancelled_receive_among_others_changes_no_order;
}

fn a_receive_that_nobody_met_is_cancelled<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, other) = (ep.world(), Rank(1 - ep.world().rank().0));
    let mut buffers = [[7_u8; 8]; 3];
    ep.scope(|scope| {
        let [one, any, all] = &mut buffers;
        let mut requests = [
            scope.irecv(&world, one, other, Tag(1))?,
            scope.irecv(&world, any, Source::Any, Tag(1))?,
            scope.irecv(&world, all, Source::Any, TagMatch::Any)?,
        ];
        for request in &mut requests {
            assert!(scope.cancel(request) && !request.is_null());
            assert!(!scope.cancel(request), "it is over");
            assert!(scope.test(request)?.expect("it is over").is_cancelled() && request.is_null());
        }
        Ok(())
    })?;
    assert_eq!(buffers, [[7; 8]; 3], "they are the user's again, as they were");
    Ok(())
}

fn a_receive_that_has_met_its_message_is_not_cancelled<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let (due, mut buffer) = (message(number, len), vec![0; len]);
        if world.rank() == Rank(0) {
            ep.send(&world, &due, Rank(1), Tag(1))?;
            continue;
        }
        ep.probe(&world, Rank(0), Tag(1))?;
        // It is here: posting the receive matches it.
        ep.scope(|scope| {
            let mut receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert!(!scope.cancel(&mut receiving) && !receiving.is_null());
            assert_eq!(scope.wait(receiving)?.bytes, len as u64);
            Ok(())
        })?;
        assert_eq!(buffer, due);
    }
    Ok(())
}

fn a_cancelled_receive_leaves_its_message_to_the_next<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        let due = message(number, len);
        if world.rank() == Rank(0) {
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            ep.send(&world, &due, Rank(1), Tag(1))?;
            continue;
        }
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        ep.scope(|scope| {
            let mut cancelled = scope.irecv(&world, &mut first, Source::Any, Tag(1))?;
            let receiving = scope.irecv(&world, &mut second, Rank(0), TagMatch::Any)?;
            assert!(scope.cancel(&mut cancelled));
            let go = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
            scope.wait(go)?;
            scope.wait(receiving)
        })?;
        assert_eq!(first, vec![0; len]);
        assert_eq!(second, due);
    }
    Ok(())
}

fn a_cancelled_receive_among_others_changes_no_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut got = [[0_u32]; 8];
    ep.scope(|scope| {
        let mut receives = Vec::new();
        for (index, got) in got.iter_mut().enumerate() {
            let tag = if index % 2 == 0 { TagMatch::Any } else { Tag(1).into() };
            receives.push(scope.irecv(&world, got, Rank(0), tag)?);
        }
        for index in [0, 3, 7] {
            assert!(scope.cancel(&mut receives[index]));
        }
        for number in &[[1], [2], [3], [4], [5]] {
            let sending = scope.isend(&world, number, Rank(0), Tag(1))?;
            drop(sending);
        }
        scope.wait_all(&mut receives)
    })?;
    assert_eq!(got, [[0], [1], [2], [0], [3], [4], [5], [0]]);
    Ok(())
}
