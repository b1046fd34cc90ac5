//! Null processes: section 3.11.

use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Status, Tag, TagMatch};

use super::super::Outcome;

cases! {
    "3.11", 1: a_send_to_the_null_rank_completes_immediately;
    "3.11", 1: a_receive_from_the_null_rank_changes_nothing;
    "3.11", 4: the_ends_of_a_chain_exchange_with_the_null_rank;
    "3.11", 1: persistent_requests_with_the_null_rank;
}

/// Returns true if this is the status of a receive from [`Rank::NULL`].
fn is_of_null_rank(status: &Status) -> bool {
    (status.source, status.tag, status.bytes) == (Rank::NULL, Tag::NONE, 0)
}

fn a_send_to_the_null_rank_completes_immediately<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, long) = (ep.world(), vec![1_u8; 5000]);
    ep.send(&world, &long, Rank::NULL, Tag(1))?;
    ep.ssend(&world, &long, Rank::NULL, Tag(1))?;
    ep.rsend(&world, &long, Rank::NULL, Tag(1))?;
    ep.scope(|scope| {
        let mut sends = [
            scope.isend(&world, &long, Rank::NULL, Tag(1))?,
            scope.issend(&world, &long, Rank::NULL, Tag(1))?,
            scope.irsend(&world, &long, Rank::NULL, Tag(1))?,
        ];
        assert!(scope.test_all(&sends));
        scope.wait_all(&mut sends)
    })?;
    assert_eq!(ep.counters().messages_sent, 0);
    Ok(())
}

fn a_receive_from_the_null_rank_changes_nothing<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [7_u8; 4]);
    assert!(is_of_null_rank(&ep.recv(&world, &mut buffer, Rank::NULL, TagMatch::Any)?));
    assert!(is_of_null_rank(&ep.recv(&world, &mut buffer, Rank::NULL, Tag(3))?));
    assert!(is_of_null_rank(&ep.probe(&world, Rank::NULL, Tag(1))?));
    assert!(ep.iprobe(&world, Rank::NULL, TagMatch::Any)?.is_some_and(|status| is_of_null_rank(&status)));
    let status = ep.sendrecv(&world, &[1_u8], Rank::NULL, Tag(0), &mut buffer, Rank::NULL, Tag(0))?;
    assert!(is_of_null_rank(&status));
    ep.scope(|scope| {
        let receiving = scope.irecv(&world, &mut buffer, Rank::NULL, Tag(1))?;
        assert!(is_of_null_rank(&scope.wait(receiving)?));
        Ok(())
    })?;
    assert_eq!(buffer, [7; 4]);
    Ok(())
}

fn the_ends_of_a_chain_exchange_with_the_null_rank<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let left = if me == 0 { Rank::NULL } else { Rank(me - 1) };
    let right = if me + 1 == size { Rank::NULL } else { Rank(me + 1) };
    // Two cells of one's own between two of the neighbours'; beyond the ends the cells stay as they
    // are.
    let mut cells = [100, me, me, 100];
    for step in 0..3 {
        let (inner, mut rim) = (cells, [100]);
        let status = ep.sendrecv(&world, &[inner[1]], left, Tag(step), &mut rim, right, Tag(step))?;
        assert_eq!(is_of_null_rank(&status), me + 1 == size);
        cells[3] = rim[0];
        let mut rim = [100];
        ep.sendrecv(&world, &[inner[2]], right, Tag(step), &mut rim, left, Tag(step))?;
        cells[0] = rim[0];
        assert_eq!(cells[0], if me == 0 { 100 } else { me - 1 });
        assert_eq!(cells[3], if me + 1 == size { 100 } else { me + 1 });
    }
    Ok(())
}

fn persistent_requests_with_the_null_rank<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), [7_u8; 8]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut requests = [
            scope.send_init(&world, memory, 0..4, Rank::NULL, Tag(1))?,
            scope.recv_init(&world, memory, 4..8, Rank::NULL, Tag(1))?,
        ];
        for _ in 0..3 {
            scope.start_all(&mut requests)?;
            assert!(scope.test_all(&requests));
            scope.wait_all(&mut requests)?;
        }
        Ok(())
    })?;
    assert_eq!(memory, [7; 8]);
    Ok(())
}
