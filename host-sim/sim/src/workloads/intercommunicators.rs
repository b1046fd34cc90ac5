//! Intercommunicators between two random groups: made, used, duplicated, split, merged and freed,
//! and every rank knows what both groups must be.

use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{SplitChoice, free, split};
use aldis_coll::op::{Max, Min, Sum};
use aldis_coll::{allreduce, barrier};
use aldis_kernel::hal::{Cause, PeerId, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Comparison, Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::{Outcome, Random};

/// The processes of both groups of an intercommunicator in the order of their ranks, as every rank
/// knows them.
type Sides = [Vec<u32>; 2];

/// An intercommunicator on a rank that is in it: the handle, and which side it is on.
type Between = Option<(Comm, usize)>;

/// A few intercommunicators, one after another.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 29);
    let before = ep.context_offer(0);
    if ep.world().size() > 1 {
        for _ in 0..random.within(1, 3) {
            round(ep, &mut random)?;
        }
    }
    if ep.context_offer(0) == before { Ok(()) } else { Err("slots are not free again".into()) }
}

/// Two groups, and what can be done between them.
fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, random: &mut Random) -> Outcome {
    let (world, me) = (ep.world(), ep.process().0);
    let (sides, keys) = draw(world.size(), random);
    let side = sides.iter().position(|side| side.contains(&me));
    let mut scratch = vec![SplitChoice::NONE; world.size() as usize];
    let colour = side.map(|side| side as u32);
    let half = made(ep, side.is_some(), |ep| split(ep, &world, colour, keys[me as usize], &mut scratch))?;
    let Some(half) = half else { return Ok(()) };
    let leaders = [0, 1].map(|side| *random.pick(&sides[side]));
    let tag = Tag(random.below(1 << 29) as u32);
    let between = made(ep, side.is_some(), |ep| {
        let (Some(side), Some(half)) = (side, half) else { return Ok(None) };
        let leader = sides[side].iter().position(|&process| process == leaders[side]).unwrap_or(0) as u32;
        let (leader, remote) = (Rank(leader), Rank(leaders[1 - side]));
        let leaders = Leaders { local: &half, leader, peer: &world, remote, tag };
        inter::create(ep, leaders, &mut scratch).map(Some)
    })?;
    if let Some(between) = between {
        let between = between.zip(side);
        use_it(ep, &sides, between, random)?;
        for _ in 0..random.within(1, 3) {
            match random.below(3) {
                0 => duplicate(ep, &sides, between, random)?,
                1 => part(ep, &sides, between, random)?,
                _ => merge(ep, &sides, between, random)?,
            }
        }
        use_it(ep, &sides, between, random)?;
        let litter = random.chance(30);
        if let Some((between, _)) = between {
            if litter {
                let to = Rank(between.rank().0 % between.remote_size());
                super::litter(ep, &between, to)?;
            }
            inter::free(ep, between)?;
        }
    }
    half.map_or(Ok(()), |half| free(ep, half))?;
    Ok(barrier().run(ep, &world)?)
}

/// Two groups without a process in common, neither of them empty, in orders of their own, and the
/// keys that make these.
fn draw(size: u32, random: &mut Random) -> (Sides, Vec<i32>) {
    let mut processes: Vec<u32> = (0..size).collect();
    random.shuffle(&mut processes);
    let taken = random.within(2, size.into()) as usize;
    let middle = random.within(1, taken as u64 - 1) as usize;
    let mut sides = [processes[..middle].to_vec(), processes[middle..taken].to_vec()];
    if random.chance(50) {
        sides.iter_mut().for_each(|side| side.sort_unstable());
    }
    let mut keys = vec![0; size as usize];
    for side in &sides {
        for (key, &process) in (0..).zip(side) {
            keys[process as usize] = key;
        }
    }
    (sides, keys)
}

/// Makes something. `None` if there was no room for it, on all ranks that take part alike; the
/// others are told of it.
fn made<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    takes_part: bool,
    make: impl FnOnce(&mut Endpoint<'_, T, P>) -> Result<Option<Comm>, Error>,
) -> Result<Option<Option<Comm>>, Box<dyn core::error::Error>> {
    let world = ep.world();
    let result = match make(ep) {
        Err(Error { cause: Cause::Full(what) | Cause::TooSmall { what, .. }, .. })
            if matches!(what, Resource::Communicators | Resource::GroupPieces) =>
        {
            None
        }
        result => Some(result?),
    };
    let is_made = u64::from(result.is_some());
    let (mut least, mut most) = if takes_part { ([is_made], [is_made]) } else { ([1], [0]) };
    allreduce(Min, &mut least, &mut [0]).run(ep, &world)?;
    allreduce(Max, &mut most, &mut [0]).run(ep, &world)?;
    match (least, most) {
        ([0], [0]) => Ok(None),
        ([1], _) => Ok(Some(result.flatten())),
        _ => Err("made on some ranks and not on others".into()),
    }
}

/// Checks that both groups are as they must be, and that a message of each rank reaches one of the
/// other side, whose receives name their senders or take what comes.
fn use_it<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    sides: &Sides,
    between: Between,
    random: &mut Random,
) -> Outcome {
    let (shift, tag, named) = (random.below(8), Tag(random.below(5) as u32), random.chance(50));
    if let Some((inter, side)) = between {
        let (ours, theirs) = (&sides[side], &sides[1 - side]);
        let is = |list: &Vec<u32>| list.iter().map(|&process| PeerId(process)).collect::<Vec<_>>();
        let groups = [ep.comm(&inter).group()?, ep.comm(&inter).remote_group()?]
            .map(|group| group.processes().collect::<Vec<_>>());
        if groups != [is(ours), is(theirs)] {
            return Err(format!("{groups:?} where {ours:?} and {theirs:?} must be").into());
        }
        let to = |rank: u32, others: &Vec<u32>| ((u64::from(rank) + shift) % others.len() as u64) as u32;
        let me = inter.rank().0;
        let mut senders: Vec<u32> =
            (0..theirs.len() as u32).filter(|&rank| to(rank, ours) == me).rev().collect();
        let (data, target) = ([u64::from(ep.process().0), shift], Rank(to(me, theirs)));
        let mut got = vec![[0_u64; 2]; senders.len()];
        let statuses = ep.scope(|scope| {
            let sending = scope.isend(&inter, &data, target, tag)?;
            let mut statuses = Vec::new();
            for (got, &sender) in got.iter_mut().zip(&senders) {
                let source = if named { Source::Rank(Rank(sender)) } else { Source::Any };
                let receiving = scope.irecv(&inter, got, source, TagMatch::Any)?;
                statuses.push(scope.wait(receiving)?);
            }
            scope.wait(sending)?;
            Ok(statuses)
        })?;
        for (got, status) in got.iter().zip(statuses) {
            let sender = status.source.0;
            let due = senders.iter().position(|&due| due == sender);
            let right = [theirs.get(sender as usize).map_or(u64::MAX, |&process| process.into()), shift];
            match due {
                Some(due) if *got == right && status.tag == tag => drop(senders.swap_remove(due)),
                _ => return Err(format!("{inter:?}: {got:?} of {status:?}, due from {senders:?}").into()),
            }
        }
    }
    Ok(barrier().run(ep, &ep.world())?)
}

fn duplicate<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    sides: &Sides,
    between: Between,
    random: &mut Random,
) -> Outcome {
    let side = between.map(|(_, side)| side);
    let copy = made(ep, side.is_some(), |ep| between.map(|(inter, _)| inter::dup(ep, &inter)).transpose())?;
    let Some(copy) = copy else { return Ok(()) };
    if let (Some((inter, _)), Some(copy)) = (between, copy)
        && ep.comm(&inter).compare(&copy)? != Comparison::Congruent
    {
        return Err("a duplicate has other ranks".into());
    }
    use_it(ep, sides, copy.zip(side), random)?;
    copy.map_or(Ok(()), |copy| Ok(inter::free(ep, copy)?))
}

/// Splits it into some, at random, of which all ranks know what they must be.
fn part<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    sides: &Sides,
    between: Between,
    random: &mut Random,
) -> Outcome {
    let mut scratch = vec![SplitChoice::NONE; ep.world().size() as usize];
    let colours = random.within(1, 3);
    let mut choose = |_: &u32| {
        let colour = random.chance(85).then_some(random.below(colours) as u32);
        (colour, random.below(4) as i32 - 2)
    };
    let choices = [0, 1].map(|side| sides[side].iter().map(&mut choose).collect::<Vec<_>>());
    let own = between.map(|(inter, side)| (inter, side, choices[side][inter.rank().0 as usize]));
    let result = made(ep, own.is_some(), |ep| match own {
        Some((inter, _, (colour, key))) => inter::split(ep, &inter, colour, key, &mut scratch),
        None => Ok(None),
    })?;
    let Some(result) = result else { return Ok(()) };
    for colour in 0..colours as u32 {
        let parts = [0, 1].map(|side| {
            let chosen =
                sides[side].iter().zip(&choices[side]).filter(|(_, choice)| choice.0 == Some(colour));
            let mut chosen: Vec<(i32, u32)> = chosen.map(|(&process, choice)| (choice.1, process)).collect();
            chosen.sort_by_key(|&(key, _)| key);
            chosen.into_iter().map(|(_, process)| process).collect::<Vec<u32>>()
        });
        let is_mine = own.is_some_and(|(_, _, (mine, _))| mine == Some(colour));
        let due = is_mine && parts.iter().all(|part| !part.is_empty());
        if is_mine && due != result.is_some() {
            return Err(format!("{result:?} of {parts:?}").into());
        }
        let part = result.zip(own.map(|(_, side, _)| side)).filter(|_| is_mine);
        use_it(ep, &parts, part, random)?;
    }
    result.map_or(Ok(()), |part| Ok(inter::free(ep, part)?))
}

/// Makes one group of both, in an order that is drawn.
fn merge<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    sides: &Sides,
    between: Between,
    random: &mut Random,
) -> Outcome {
    let high = [random.chance(50), random.chance(50)];
    let merged = made(ep, between.is_some(), |ep| {
        between.map(|(inter, side)| inter::merge(ep, &inter, high[side])).transpose()
    })?;
    let Some(Some(merged)) = merged else { return Ok(()) };
    let first = match high {
        [false, true] => 0,
        [true, false] => 1,
        _ => usize::from(sides[1][0] < sides[0][0]),
    };
    let due: Vec<u32> = sides[first].iter().chain(&sides[1 - first]).copied().collect();
    let is: Vec<u32> = ep.comm(&merged).group()?.processes().map(|process| process.0).collect();
    let mut sum = [u64::from(ep.process().0)];
    allreduce(Sum, &mut sum, &mut [0]).run(ep, &merged)?;
    if is != due || sum[0] != due.iter().map(|&process| u64::from(process)).sum::<u64>() {
        return Err(format!("{is:?} where {due:?} must be, whose sum is {sum:?}").into());
    }
    Ok(free(ep, merged)?)
}
