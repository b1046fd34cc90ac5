//! Communicators made and freed at random, with messages and collectives on each, against a model
//! of every rank's table that each rank keeps for all.

use aldis_coll::comm::{SplitChoice, create, create_group, dup, free, split};
use aldis_coll::op::{Min, Sum};
use aldis_coll::{allreduce, barrier};
use aldis_kernel::hal::{Cause, PeerId, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{
    Comm, Comparison, Endpoint, Error, Group, GroupPiece, Members, Rank, Request, Source, Tag, TagMatch,
};

use super::{Outcome, Random};

/// Communicators that there are at a time, world included: each takes a request slot or two in a
/// round of messages.
const LIVE_MAX: usize = 12;

/// A communicator as every rank knows it, whether the rank is in it or not.
struct KnownComm {
    /// The members, in the order of ranks.
    members: Vec<u32>,
    slot: u32,
    pieces: u32,
    /// The handle, on its members.
    comm: Option<Comm>,
}

/// Every rank's table, as it must be.
struct CommModel {
    me: u32,
    slots: u32,
    pieces: u32,
    live: Vec<KnownComm>,
    /// Numbers of messages, so that no two are alike.
    number: u64,
}

/// A few steps, the same on every rank: those that are in the communicator that is drawn do it, the
/// others go on.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 28);
    let mut model = CommModel::new(ep)?;
    for _ in 0..random.within(2, 14) {
        let at = random.below(model.live.len() as u64) as usize;
        match random.below(10) {
            0 | 1 => model.dup(ep, at)?,
            2 | 3 => model.split(ep, at, &mut random)?,
            4 | 5 => model.create(ep, at, &mut random)?,
            6 => model.messages(ep, &mut random)?,
            7 => model.collectives(ep)?,
            8 => model.free(ep, at, true)?,
            _ => model.free(ep, at, false)?,
        }
    }
    model.messages(ep, &mut random)?;
    while model.live.len() > 1 {
        model.free(ep, random.within(1, model.live.len() as u64 - 1) as usize, false)?;
    }
    let left = free_slots(ep);
    if left == model.slots { Ok(()) } else { Err(format!("{left} slots free of {}", model.slots).into()) }
}

impl CommModel {
    fn new<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Result<Self, Error> {
        let world = ep.world();
        let mut capacity = [free_slots(ep), free_pieces(ep)];
        allreduce(Min, &mut capacity, &mut [0; 2]).run(ep, &world)?;
        let [slots, pieces] = capacity;
        let all = KnownComm { members: (0..world.size()).collect(), slot: 0, pieces: 0, comm: Some(world) };
        Ok(Self { me: world.rank().0, slots, pieces, live: vec![all], number: 0 })
    }

    /// The lowest slot that is free on all of these processes.
    fn free_slot(&self, processes: &[u32]) -> Option<u32> {
        let is_used = |slot: u32| {
            let mut same = self.live.iter().filter(|entry| entry.slot == slot);
            same.any(|entry| entry.members.iter().any(|member| processes.contains(member)))
        };
        (2..2 + self.slots).find(|&slot| !is_used(slot))
    }

    fn has_pieces(&self, process: u32, pieces: u32) -> bool {
        let live = self.live.iter().filter(|entry| entry.members.contains(&process));
        live.map(|entry| entry.pieces).sum::<u32>() + pieces <= self.pieces
    }

    /// Checks what making these groups at a time has led to, and notes the new communicators.
    fn made(
        &mut self,
        is_in_call: bool,
        groups: Vec<Vec<u32>>,
        result: Result<Option<Comm>, Error>,
    ) -> Outcome {
        let all: Vec<u32> = groups.concat();
        let lacks = |group: &Vec<u32>| {
            let pieces = pieces(group);
            pieces > 0 && group.iter().any(|&process| !self.has_pieces(process, pieces))
        };
        let slot = self.free_slot(&all);
        // Where both are lacking, a split looks for a slot first, and other calls for pieces.
        let lacking = [
            groups.iter().any(lacks).then_some(Resource::GroupPieces),
            (slot.is_none() && !all.is_empty()).then_some(Resource::Communicators),
        ];
        let due = if lacking == [None; 2] { Ok(slot.unwrap_or(0)) } else { Err(lacking) };
        let slot = match (due, result) {
            (Ok(slot), Ok(_)) => slot,
            (Err(_), Ok(_)) if !is_in_call => return Ok(()),
            (Err(lacking), Err(Error { cause: Cause::Full(what) | Cause::TooSmall { what, .. }, .. }))
                if lacking.contains(&Some(what)) =>
            {
                return Ok(());
            }
            (_, Err(error)) if !matches!(error.cause, Cause::Full(_) | Cause::TooSmall { .. }) => {
                return Err(error.into());
            }
            (due, result) => return Err(format!("{due:?} was due: {result:?}").into()),
        };
        for members in groups {
            let comm = if members.contains(&self.me) { result.ok().flatten() } else { None };
            if let Some(comm) = comm {
                let rank = members.iter().position(|&member| member == self.me).map(|rank| rank as u32);
                let is = (comm.context() & 0xFFFF, Some(comm.rank().0), comm.size() as usize);
                if is != (slot, rank, members.len()) {
                    return Err(format!("{comm:?} must be in slot {slot} with {members:?}").into());
                }
            }
            let pieces = pieces(&members);
            self.live.push(KnownComm { members, slot, pieces, comm });
        }
        Ok(())
    }

    fn dup<T: Transport, P: Platform>(&mut self, ep: &mut Endpoint<'_, T, P>, at: usize) -> Outcome {
        if self.live.len() >= LIVE_MAX {
            return Ok(());
        }
        let KnownComm { ref members, comm, .. } = self.live[at];
        let groups = vec![members.clone()];
        let result = comm.map(|comm| dup(ep, &comm)).transpose();
        self.made(comm.is_some(), groups, result)?;
        match (comm, result) {
            (Some(comm), Ok(Some(copy))) if ep.comm(&comm).compare(&copy)? != Comparison::Congruent => {
                Err("a duplicate has other ranks".into())
            }
            _ => Ok(()),
        }
    }

    fn split<T: Transport, P: Platform>(
        &mut self,
        ep: &mut Endpoint<'_, T, P>,
        at: usize,
        random: &mut Random,
    ) -> Outcome {
        let KnownComm { ref members, comm, .. } = self.live[at];
        let colours = random.within(1, 3);
        let choices: Vec<(Option<u32>, i32)> = members
            .iter()
            .map(|_| {
                let colour = random.chance(85).then_some(random.below(colours) as u32);
                (colour, random.below(4) as i32 - 2)
            })
            .collect();
        if self.live.len() + colours as usize > LIVE_MAX {
            return Ok(());
        }
        let mut groups = Vec::new();
        for colour in 0..colours as u32 {
            let mut group: Vec<(i32, u32)> = members
                .iter()
                .zip(&choices)
                .filter(|(_, choice)| choice.0 == Some(colour))
                .map(|(&member, choice)| (choice.1, member))
                .collect();
            group.sort_by_key(|&(key, _)| key);
            groups.push(group.into_iter().map(|(_, member)| member).collect::<Vec<u32>>());
        }
        groups.retain(|group| !group.is_empty());
        let mut scratch = vec![SplitChoice::NONE; members.len()];
        let own = comm.map(|comm| (comm, choices[comm.rank().0 as usize]));
        let result =
            own.map_or(Ok(None), |(comm, (colour, key))| split(ep, &comm, colour, key, &mut scratch));
        self.made(comm.is_some(), groups, result)
    }

    /// A communicator of some of the members in some order, by all or by these alone.
    fn create<T: Transport, P: Platform>(
        &mut self,
        ep: &mut Endpoint<'_, T, P>,
        at: usize,
        random: &mut Random,
    ) -> Outcome {
        let KnownComm { ref members, comm, .. } = self.live[at];
        let mut chosen = members.clone();
        if random.chance(50) {
            random.shuffle(&mut chosen);
        }
        chosen.truncate(random.within(1, members.len() as u64) as usize);
        let (alone, tag) = (random.chance(50), Tag(random.below(1 << 29) as u32));
        if self.live.len() >= LIVE_MAX {
            return Ok(());
        }
        let mut memory = vec![GroupPiece::NONE; chosen.len()];
        let peers: Vec<PeerId> = chosen.iter().map(|&process| PeerId(process)).collect();
        let group = Group::of(&peers, &mut memory).map_err(|cause| cause.to_string())?;
        let is_in_call = comm.is_some() && (!alone || chosen.contains(&self.me));
        let result = match comm {
            Some(comm) if is_in_call && alone => create_group(ep, &comm, &group, tag).map(Some),
            Some(comm) if is_in_call => create(ep, &comm, &group),
            _ => Ok(None),
        };
        self.made(is_in_call, vec![chosen], result)
    }

    /// In every communicator every rank sends to one, and takes what comes, whatever its source and
    /// tag; then all meet, so that nothing comes of the next round.
    fn messages<T: Transport, P: Platform>(
        &mut self,
        ep: &mut Endpoint<'_, T, P>,
        random: &mut Random,
    ) -> Outcome {
        self.number += 1;
        let (shift, tag) = (random.below(8) as u32, Tag(random.below(5) as u32));
        let mine: Vec<(usize, Comm)> =
            self.live.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.comm?))).collect();
        let data: Vec<[u64; 3]> =
            mine.iter().map(|&(at, _)| [at as u64, self.number, self.me.into()]).collect();
        let mut got = vec![[0_u64; 3]; mine.len()];
        let statuses = ep.scope(|scope| {
            let (mut sending, mut receiving): (Vec<Request<'_>>, Vec<Request<'_>>) = Default::default();
            for ((_, comm), data) in mine.iter().zip(&data) {
                let to = Rank((comm.rank().0 + shift) % comm.size());
                sending.push(scope.isend(comm, data, to, tag)?);
            }
            for ((_, comm), got) in mine.iter().zip(&mut got).rev() {
                receiving.push(scope.irecv(comm, got, Source::Any, TagMatch::Any)?);
            }
            let done = receiving.into_iter().map(|receive| scope.wait(receive)).rev();
            let done = done.collect::<Result<Vec<_>, _>>()?;
            scope.wait_all(&mut sending)?;
            Ok(done)
        })?;
        for (((at, comm), got), status) in mine.iter().zip(got).zip(statuses) {
            let from = (comm.rank().0 + comm.size() - shift % comm.size()) % comm.size();
            let process = self.live[*at].members[from as usize];
            if got != [*at as u64, self.number, process.into()] || status.source != Rank(from) {
                return Err(format!("{comm:?}: {got:?} of {status:?}, due from process {process}").into());
            }
        }
        Ok(barrier().run(ep, &ep.world())?)
    }

    /// Sums of process numbers.
    fn collectives<T: Transport, P: Platform>(&self, ep: &mut Endpoint<'_, T, P>) -> Outcome {
        for entry in &self.live {
            let Some(comm) = entry.comm else { continue };
            let mut sum = [u64::from(self.me)];
            allreduce(Sum, &mut sum, &mut [0]).run(ep, &comm)?;
            if sum[0] != entry.members.iter().map(|&member| u64::from(member)).sum::<u64>() {
                return Err(format!("{comm:?}: the sum of {:?} is not {}", entry.members, sum[0]).into());
            }
        }
        Ok(())
    }

    /// Frees a communicator, with or without messages in it that no rank receives. Only world is
    /// never freed.
    fn free<T: Transport, P: Platform>(
        &mut self,
        ep: &mut Endpoint<'_, T, P>,
        at: usize,
        litter: bool,
    ) -> Outcome {
        if at == 0 {
            return Ok(barrier().run(ep, &ep.world())?);
        }
        let KnownComm { comm, .. } = self.live.swap_remove(at);
        let Some(comm) = comm else { return Ok(()) };
        if litter {
            let to = Rank((comm.rank().0 + 1) % comm.size());
            super::litter(ep, &comm, to)?;
        }
        free(ep, comm)?;
        match ep.send(&comm, &[0_u8], Rank(0), Tag(0)) {
            Err(error) if error.cause == Cause::Stale => Ok(()),
            other => Err(format!("a send in a freed communicator: {other:?}").into()),
        }
    }
}

fn free_slots<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> u32 {
    ep.context_offer(0).free.iter().map(|word| word.count_ones()).sum()
}

fn free_pieces<T: Transport, P: Platform>(ep: &Endpoint<'_, T, P>) -> u32 {
    // No three of these are a stride, and they fall and rise.
    let uneven = Members::These((0..4096).map(|index: u32| PeerId(index * index % 8191)));
    match ep.check_pieces(&uneven) {
        Err(Cause::TooSmall { have, .. }) => have,
        _ => 0,
    }
}

fn pieces(processes: &[u32]) -> u32 {
    let mut memory = vec![GroupPiece::NONE; processes.len()];
    let peers: Vec<PeerId> = processes.iter().map(|&process| PeerId(process)).collect();
    Group::of(&peers, &mut memory).map_or(u32::MAX, |group| group.pieces() as u32)
}
