//! Requests that are not waited for: MPI_Request_free, section 3.7.3.

use aldis_hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Request, Scope, Tag};
use aldis_tests::storage::REQUESTS;

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.7.3", 2: a_detached_request_completes_all_the_same;
    "3.7.3", 2: detached_requests_give_their_slots_back;
    "3.7.3", 2: detached_messages_keep_their_order_among_others;
    "3.7.3", 2: memory_of_a_detached_request_is_its_own_until_the_scope_ends;
    "3.7.3", 2: the_scope_fails_with_its_detached_request;
    "3.9", 2: detached_persistent_requests_end_with_their_round;
    "4.2", 2: detached_partitioned_requests_end_with_their_round;
    "3.7.3", 1: what_is_over_or_null_may_be_detached;
}

fn a_detached_request_completes_all_the_same<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let data: Vec<_> = (0..).zip(LENGTHS).map(|(number, len)| message(number, len)).collect();
    let mut buffers: Vec<_> = LENGTHS.iter().map(|len| vec![0; *len]).collect();
    ep.scope(|scope| {
        for (data, buffer) in data.iter().zip(&mut buffers) {
            let request = match world.rank() {
                Rank(0) => scope.isend(&world, data, Rank(1), Tag(1))?,
                _ => scope.irecv(&world, buffer, Rank(0), Tag(1))?,
            };
            scope.detach(request);
        }
        Ok(())
    })?;
    assert!(world.rank() == Rank(0) || buffers == data, "they are over when their scope is");
    assert_eq!(ep.diagnostics().requests_in_use(), 0);
    Ok(())
}

/// Starts a request, polling as long as no slot is free: those that are over are used again.
fn start_and_detach<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    mut start: impl FnMut(&mut Scope<'scope, '_, '_, T, P>) -> Result<Request<'scope>, Error>,
) -> Result<(), Error> {
    loop {
        match start(scope) {
            Ok(request) => {
                scope.detach(request);
                return Ok(());
            }
            Err(Error { cause: Cause::Full(Resource::Requests), .. }) => drop(scope.poll(64)),
            Err(error) => return Err(error),
        }
    }
}

/// Three times as many as the least table has, in one scope; in lengths that need a slot and that
/// do not.
fn detached_requests_give_their_slots_back<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let length = |number: usize| LENGTHS[number % LENGTHS.len()];
    let data: Vec<_> = (0..3 * REQUESTS).map(|number| message(number as u32, length(number))).collect();
    let mut memory = vec![0_u8; data.iter().map(Vec::len).sum()];
    ep.scope(|scope| {
        if world.rank() == Rank(0) {
            return data.iter().try_for_each(|data| {
                start_and_detach(scope, |scope| scope.isend(&world, data, Rank(1), Tag(1)))
            });
        }
        let (memory, mut end) = (scope.lend(&mut memory), 0);
        data.iter().try_for_each(|data| {
            let bytes = end..end + data.len();
            end = bytes.end;
            start_and_detach(scope, |scope| scope.irecv_part(&world, memory, bytes.clone(), Rank(0), Tag(1)))
        })
    })?;
    assert!(world.rank() == Rank(0) || memory == data.concat());
    assert_eq!(ep.diagnostics().requests_in_use(), 0);
    Ok(())
}

fn detached_messages_keep_their_order_among_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let length = |number: u32| LENGTHS[number as usize * 5 % LENGTHS.len()];
    if world.rank() == Rank(1) {
        for number in 0..18 {
            let mut buffer = vec![0; length(number)];
            ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
            assert_eq!(buffer, message(number, length(number)), "message {number}");
        }
        return Ok(());
    }
    let data: Vec<_> = (0..18).map(|number| message(number, length(number))).collect();
    ep.scope(|scope| {
        let mut waited = Vec::new();
        for (number, data) in data.iter().enumerate() {
            let request = scope.isend(&world, data, Rank(1), Tag(1))?;
            if number % 3 == 0 { waited.push(request) } else { scope.detach(request) }
        }
        scope.wait_all(&mut waited)
    })?;
    Ok(())
}

/// The message is sent when the receiver has looked.
fn memory_of_a_detached_request_is_its_own_until_the_scope_ends<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 40]);
    if world.rank() == Rank(0) {
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
        ep.send(&world, &[6_u8; 40], Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.scope(|scope| {
        let memory = scope.lend(&mut buffer);
        let receiving = scope.irecv_part(&world, memory, 0..40, Rank(0), Tag(1))?;
        scope.detach(receiving);
        for range in [0..40, 39..40] {
            assert_eq!(scope.edit(memory, range, |_| ()).expect_err("it is lent").cause, Cause::Busy);
        }
        let telling = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
        scope.wait(telling).map(drop)
    })?;
    assert_eq!(buffer, [6; 40]);
    Ok(())
}

fn the_scope_fails_with_its_detached_request<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut short, mut whole) = (ep.world(), [0_u8; 4], [0_u8; 8]);
    if world.rank() == Rank(0) {
        ep.send(&world, &[5_u8; 8], Rank(1), Tag(1))?;
        ep.send(&world, &[6_u8; 8], Rank(1), Tag(1))?;
        return Ok(());
    }
    let failed = ep.scope(|scope| {
        for buffer in [&mut short[..], &mut whole[..]] {
            let receiving = scope.irecv(&world, buffer, Rank(0), Tag(1))?;
            scope.detach(receiving);
        }
        Ok(())
    });
    assert_eq!(failed.expect_err("one was too short").cause, Cause::Truncated { sent: 8, room: 4 });
    assert_eq!((short, whole), ([5; 4], [6; 8]), "the other went on");
    Ok(())
}

/// A request that was never started is freed at once; one under way ends like any other.
fn detached_persistent_requests_end_with_their_round<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 600]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        for started in [false, true] {
            let mut request = match world.rank() {
                Rank(0) => scope.send_init(&world, memory, 0..600, Rank(1), Tag(1))?,
                _ => scope.recv_init(&world, memory, 0..600, Rank(0), Tag(1))?,
            };
            if started {
                if world.rank() == Rank(0) {
                    scope.edit(memory, 0..600, |bytes| bytes.fill(3))?;
                }
                scope.start(&mut request)?;
            }
            scope.detach(request);
        }
        Ok(())
    })?;
    assert_eq!((memory, ep.diagnostics().requests_in_use()), (vec![3; 600], 0));
    Ok(())
}

fn detached_partitioned_requests_end_with_their_round<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u8; 600]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        if world.rank() == Rank(0) {
            scope.edit(memory, 0..600, |bytes| bytes.fill(3))?;
            let mut sending = scope.psend_init(&world, memory, 0..600, 3, Rank(1), Tag(1))?;
            scope.start(&mut sending)?;
            scope.partitions(&sending).ready_list(&[2, 1, 0])?;
            scope.detach(sending);
            return Ok(());
        }
        let mut receiving = scope.precv_init(&world, memory, 0..600, 2, Rank(0), Tag(1))?;
        scope.start(&mut receiving)?;
        scope.detach(receiving);
        Ok(())
    })?;
    assert_eq!(memory, [3; 600]);
    Ok(())
}

fn what_is_over_or_null_may_be_detached<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer): (Comm, _) = (ep.world(), [0_u8; 1]);
    ep.scope(|scope| {
        scope.detach(Request::null());
        let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
        let mut sending = scope.isend(&world, &[4_u8], Rank(0), Tag(1))?;
        scope.wait_for(&mut sending)?;
        while !scope.test_all(core::slice::from_ref(&receiving)) {}
        // Its result was not taken; the other's was.
        scope.detach(receiving);
        scope.detach(sending);
        Ok(())
    })?;
    assert_eq!((buffer, ep.diagnostics().requests_in_use()), ([4], 0));
    Ok(())
}
