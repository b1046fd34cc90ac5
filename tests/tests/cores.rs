//! Tests of one endpoint a core: ranks that are threads of this process.

use aldis_coll::allreduce;
use aldis_coll::barrier;
use aldis_coll::op::Sum;
use aldis_kernel::{Rank, Request, Source, Status, Tag, TagMatch};
use aldis_linux::cores::{self, CoreEndpoint, CoreFailure};
use aldis_tests::draw;

const CORES: u32 = 5;
const ROUNDS: u64 = 30;
/// Messages that each core sends in a round.
const MESSAGES: u64 = 12;
/// Beyond the eager size, so that all protocols are used.
const BYTES_MAX: u64 = 6000;

/// A message of the plan, which all cores draw alike.
#[derive(Clone, Copy, Debug)]
struct Planned {
    to: u32,
    tag: u32,
    len: usize,
}

/// Returns the messages that core `from` sends in a round, in order.
fn plan(round: u64, from: u32) -> Vec<Planned> {
    let mut seed = round << 8 | u64::from(from);
    let mut message = || Planned {
        to: draw(&mut seed) as u32 % CORES,
        tag: draw(&mut seed) as u32 % 7,
        len: (if draw(&mut seed).is_multiple_of(3) {
            draw(&mut seed) % BYTES_MAX
        } else {
            draw(&mut seed) % 60
        }) as usize,
    };
    (0..MESSAGES).map(|_| message()).collect()
}

/// The bytes of a message: where it comes from, and a stream that only it has.
fn bytes(round: u64, from: u32, number: usize, len: usize) -> Vec<u8> {
    let mut seed = round << 16 | u64::from(from) << 8 | number as u64;
    (0..len).map(|_| draw(&mut seed) as u8).collect()
}

/// Runs one round: everything is under way at a time, and received with wildcards or by name.
fn round(ep: &mut CoreEndpoint<'_>, round: u64) -> Result<(), CoreFailure> {
    let world = ep.world();
    let me = world.rank().0;
    let plans: Vec<Vec<Planned>> = (0..CORES).map(|from| plan(round, from)).collect();
    let mine: usize = plans.iter().flatten().filter(|message| message.to == me).count();
    let data: Vec<Vec<u8>> = plans[me as usize]
        .iter()
        .enumerate()
        .map(|(number, message)| bytes(round, me, number, message.len))
        .collect();
    let mut buffers = vec![vec![0_u8; BYTES_MAX as usize]; mine];
    let mut statuses: Vec<Option<Status>> = vec![None; mine];
    ep.scope(|scope| {
        let mut receiving: Vec<Request<'_>> = Vec::new();
        for buffer in &mut buffers {
            receiving.push(scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?);
        }
        let mut sending: Vec<Request<'_>> = Vec::new();
        for (message, data) in plans[me as usize].iter().zip(&data) {
            sending.push(scope.isend(&world, data, Rank(message.to), Tag(message.tag))?);
        }
        for (request, status) in receiving.into_iter().zip(&mut statuses) {
            *status = Some(scope.wait(request)?);
        }
        scope.wait_all(&mut sending)
    })?;
    // What is received in the order of posting comes from each core in the order in which it was
    // sent.
    let mut due: Vec<_> = plans
        .iter()
        .map(|plan| {
            plan.iter()
                .copied()
                .enumerate()
                .filter(|(_, message)| message.to == me)
                .collect::<Vec<_>>()
                .into_iter()
        })
        .collect();
    for (status, buffer) in statuses.into_iter().flatten().zip(&buffers) {
        let from = status.source.0;
        let Some((number, message)) = due[from as usize].next() else {
            return Err(format!("round {round}: core {me} has too much of core {from}").into());
        };
        if (status.tag.0, status.bytes) != (message.tag, message.len as u64)
            || buffer[..message.len] != bytes(round, from, number, message.len)
        {
            return Err(format!("round {round}: {message:?} of core {from} came as {status:?}").into());
        }
    }
    Ok(())
}

#[test]
fn random_messages_between_all_cores_arrive_whole_and_in_order() {
    let finished = cores::run(CORES, |ep| {
        for number in 0..ROUNDS {
            round(ep, number)?;
            // A wildcard would take a message of a faster core's next round.
            let world = ep.world();
            barrier().run(ep, &world)?;
        }
        Ok((ep.counters().messages_sent, ep.diagnostics().queue_depths()))
    });
    for (sent, left) in finished.unwrap() {
        assert!(sent >= ROUNDS * MESSAGES);
        assert_eq!(left, (0, 0));
    }
}

#[test]
fn collectives_run_between_cores() {
    let sums = cores::run(4, |ep| {
        let world = ep.world();
        let mut data = vec![u64::from(world.rank().0); 5000];
        allreduce(Sum, &mut data, &mut vec![0; 5000]).run(ep, &world)?;
        Ok(data)
    });
    assert!(sums.unwrap().iter().flatten().all(|sum| *sum == 6));
}
