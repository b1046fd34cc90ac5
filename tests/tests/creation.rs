//! Communicators that are made at a time: futures of several, which every rank begins and drives in
//! an order of its own, over the simulator. Those on one communicator are begun in the same order
//! by all, as collectives are.
#![allow(missing_docs)]

use core::cell::{RefCell, RefMut};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use aldis_coll::allreduce;
use aldis_coll::comm::{
    MessagePair, Messenger, NOTICE_BYTES, SplitChoice, dup, icreate, idup, ifree, isplit,
};
use aldis_coll::op::{Max, Min};
use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Group, GroupPiece, Rank, Source, Status, Tag};
use aldis_sim::random::Random;
use aldis_sim::{Outcome, Profile, Room, SimConfig, SimEndpoint, Wire, simulate};

/// Memory for what is sent and not received yet.
const BUFFER_BYTES: usize = 1 << 16;

/// The time that a rank rests between two looks.
const REST: Duration = Duration::from_micros(2);

/// Sends copies, and looks for what is to be received: nothing of it blocks.
struct PollingMessenger<'c, 'e, 's, T, P>(&'c RefCell<&'e mut Endpoint<'s, T, P>>);

impl<'s, T: Transport, P: Platform> Messenger<'s, T, P> for PollingMessenger<'_, '_, 's, T, P> {
    type Guard<'g>
        = RefMut<'g, Endpoint<'s, T, P>>
    where
        Self: 'g,
        's: 'g,
        T: 'g,
        P: 'g;

    fn endpoint<'g>(&'g mut self) -> Self::Guard<'g>
    where
        's: 'g,
        T: 'g,
        P: 'g,
    {
        RefMut::map(self.0.borrow_mut(), |endpoint| &mut **endpoint)
    }

    async fn exchange(
        &mut self,
        exchange: &MessagePair,
        mine: &[u8],
        theirs: &mut [u8],
        _refused: &mut [u8; NOTICE_BYTES],
    ) -> Result<Status, Error> {
        let &MessagePair { comm, tag, to, from, .. } = exchange;
        self.0.borrow_mut().bsend(&comm, mine, to, tag)?;
        poll_fn(|_| {
            let mut endpoint = self.0.borrow_mut();
            match endpoint.iprobe(&comm, from, tag) {
                Ok(None) => Poll::Pending,
                Ok(Some(_)) => Poll::Ready(endpoint.recv(&comm, theirs, from, tag)),
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    fn notify(&mut self, _comm: &Comm, _notice: [u8; NOTICE_BYTES], _ranks: [(Rank, Tag); 2]) {
        panic!("no rank fails");
    }
}

type Creation<'f> = Pin<Box<dyn Future<Output = Result<Option<Comm>, Error>> + 'f>>;

/// Drives all of them, in another order each time.
fn together<T: Transport, P: Platform>(
    endpoint: &RefCell<&mut Endpoint<'_, T, P>>,
    creations: Vec<Creation<'_>>,
    random: &mut Random,
) -> Result<Vec<Option<Comm>>, Error> {
    let mut done = vec![None; creations.len()];
    let mut left: Vec<(usize, Creation<'_>)> = creations.into_iter().enumerate().collect();
    let itself = endpoint.borrow().itself();
    while !left.is_empty() {
        random.shuffle(&mut left);
        let mut still = Vec::new();
        for (place, mut creation) in left {
            match creation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => still.push((place, creation)),
                Poll::Ready(made) => done[place] = made?,
            }
        }
        left = still;
        // No rank sends this.
        let _ = endpoint.borrow_mut().within(REST).probe(&itself, Source::Any, Tag(99));
    }
    Ok(done)
}

/// The communicators of a round: several of each parent, of three kinds.
fn round<T: Transport, P: Platform>(
    cell: &RefCell<&mut Endpoint<'_, T, P>>,
    parents: &[Comm],
    each: usize,
    random: &mut Random,
) -> Outcome {
    let world = cell.borrow().world();
    let (me, size) = (world.rank().0, world.size());
    // Whose turn it is to be begun: the next of a parent.
    let mut order: Vec<usize> = (0..parents.len() * each).map(|at| at % parents.len()).collect();
    random.shuffle(&mut order);
    let mut begun = vec![0; parents.len()];
    let mut creations: Vec<Creation<'_>> = Vec::new();
    let mut kinds = Vec::new();
    for at in order {
        let (parent, kind) = (parents[at], (at + begun[at]) % 3);
        begun[at] += 1;
        kinds.push(kind);
        let mut post = PollingMessenger(cell);
        let mut creation: Creation<'_> = match kind {
            0 => Box::pin(async move { idup(&mut post, &parent).await.map(Some) }),
            1 => Box::pin(async move {
                let mut scratch = vec![SplitChoice::NONE; size as usize];
                isplit(&mut post, &parent, Some(me % 2), 0, &mut scratch).await
            }),
            _ => Box::pin(async move {
                let mut pieces = vec![GroupPiece::NONE; size as usize];
                let processes: Vec<_> =
                    post.endpoint().comm(&parent).group()?.processes().take(size as usize - 1).collect();
                let group = Group::of(&processes, &mut pieces).expect("a group");
                icreate(&mut post, &parent, &group).await
            }),
        };
        // Its place among the collectives of its communicator is where it is begun.
        let begun = creation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match begun {
            Poll::Pending => creations.push(creation),
            Poll::Ready(made) => creations.push(Box::pin(async move { made })),
        }
        if random.chance(30) {
            let itself = cell.borrow().itself();
            let _ = cell.borrow_mut().within(REST * 20).probe(&itself, Source::Any, Tag(99));
        }
    }
    let made = together(cell, creations, random)?;
    check(&mut cell.borrow_mut(), &made, &kinds)?;
    let freed = made.into_iter().flatten().map(|comm| -> Creation<'_> {
        let mut post = PollingMessenger(cell);
        Box::pin(async move { ifree(&mut post, comm).await.map(|()| None) })
    });
    let mut freed: Vec<Creation<'_>> = freed.collect();
    random.shuffle(&mut freed);
    together(cell, freed, random)?;
    Ok(())
}

/// Checks that every communicator has the ranks that it is to have, and one context on all of them,
/// which is no other's.
fn check<T: Transport, P: Platform>(
    endpoint: &mut Endpoint<'_, T, P>,
    made: &[Option<Comm>],
    kinds: &[usize],
) -> Outcome {
    let (me, size) = (endpoint.world().rank().0, endpoint.world().size());
    let mut contexts: Vec<u32> = Vec::new();
    for (comm, kind) in made.iter().zip(kinds) {
        let due = match kind {
            0 => size,
            1 => (size + 1 - me % 2) / 2,
            _ if me == size - 1 => 0,
            _ => size - 1,
        };
        if comm.map_or(0, |comm| comm.size()) != due {
            return Err(format!("kind {kind}: {comm:?} of {due} ranks").into());
        }
        contexts.extend(comm.map(|comm| comm.context()));
    }
    // In the order of their contexts, which is the same on all ranks.
    let mut comms: Vec<Comm> = made.iter().flatten().copied().collect();
    comms.sort_by_key(Comm::context);
    for comm in &comms {
        let (mut least, mut most) = ([comm.context()], [comm.context()]);
        allreduce(Min, &mut least, &mut [0]).run(endpoint, comm)?;
        allreduce(Max, &mut most, &mut [0]).run(endpoint, comm)?;
        if least != most {
            return Err(format!("{comm:?} has contexts {least:?} to {most:?}").into());
        }
    }
    contexts.sort_unstable();
    contexts.dedup();
    if contexts.len() == comms.len() { Ok(()) } else { Err("one context for two communicators".into()) }
}

fn program(endpoint: &mut SimEndpoint<'_>, seed: u64, each: usize) -> Outcome {
    endpoint.send_buffer().attach(Box::leak(vec![0; BUFFER_BYTES].into_boxed_slice()))?;
    let world = endpoint.world();
    let mut random = Random::new(seed, 100 + u64::from(world.rank().0));
    let parents = [world, dup(endpoint, &world)?];
    let cell = RefCell::new(endpoint);
    for _ in 0..3 {
        round(&cell, &parents, each, &mut random)?;
    }
    Ok(())
}

#[test]
fn any_number_is_made_in_any_order() {
    for seed in 0..80 {
        let mut config = SimConfig::new(seed, 1 + (seed % 7) as u32);
        config.wire = if seed % 2 == 0 { Wire::Messages } else { Wire::Frames };
        (config.faults, config.room) = (Profile::Swarm, if seed % 3 == 0 { Room::Some } else { Room::More });
        let each = if config.room == Room::Some { 1 } else { 2 };
        let report = simulate(&config, move |endpoint| program(endpoint, seed, each)).unwrap();
        assert_eq!(report.failure, None, "seed {seed}: {report}");
    }
}

/// The number of messages that this rank sends for a communicator that is made alone.
fn cost<'f, 's, T: Transport, P: Platform>(
    endpoint: &RefCell<&mut Endpoint<'s, T, P>>,
    creation: Creation<'f>,
    random: &mut Random,
) -> Result<(u64, Option<Comm>), Error> {
    let before = endpoint.borrow().counters().messages_sent;
    let made = together(endpoint, vec![creation], random)?;
    let sent = endpoint.borrow().counters().messages_sent - before;
    Ok((sent, made.first().copied().flatten()))
}

/// The first agreement is on the first free slot if that is the same on all ranks; else there is a
/// second one when all have begun.
fn alone(endpoint: &mut SimEndpoint<'_>) -> Outcome {
    endpoint.send_buffer().attach(Box::leak(vec![0; BUFFER_BYTES].into_boxed_slice()))?;
    let (world, itself, mut random) = (endpoint.world(), endpoint.itself(), Random::new(1, 1));
    let mut scratch = vec![SplitChoice::NONE; world.size() as usize];
    let rounds = u64::from(u32::BITS - (world.size() - 1).leading_zeros());
    let odd = world.rank().0 == 1;
    let cell = RefCell::new(endpoint);
    for agreements in [2, 2, 3] {
        // In the last round one rank has a communicator of its own in the slot that is the first
        // one of the others.
        let own = (odd && agreements == 3).then(|| dup(&mut **cell.borrow_mut(), &itself)).transpose()?;
        let extra = if agreements == 3 { 1 } else { 0 };
        let mut post = PollingMessenger(&cell);
        let creation = Box::pin(async { idup(&mut post, &world).await.map(Some) });
        let (sent, made) = cost(&cell, creation, &mut random)?;
        if sent != (agreements + extra) * rounds {
            return Err(format!("a duplicate took {sent} messages").into());
        }
        let mut post = PollingMessenger(&cell);
        let creation = Box::pin(async { isplit(&mut post, &world, Some(0), 0, &mut scratch).await });
        let (sent, split) = cost(&cell, creation, &mut random)?;
        if sent != (agreements + extra + 1) * rounds {
            return Err(format!("a split took {sent} messages").into());
        }
        for comm in [made, split, own].into_iter().flatten() {
            aldis_coll::comm::free(&mut **cell.borrow_mut(), comm)?;
        }
    }
    Ok(())
}

#[test]
fn what_is_made_alone_takes_no_agreement_on_its_turn() {
    for ranks in [2, 4, 5] {
        let report = simulate(&SimConfig::new(7, ranks), alone).unwrap();
        assert_eq!(report.failure, None, "{ranks} ranks: {report}");
    }
}
