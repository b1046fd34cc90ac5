//! Calls that give up: receives and sends with deadlines, cancelled requests, scopes that end in
//! mid-message. What a rank has given up is still on its way, so in the end the sender tells which
//! messages it has sent well, and the receiver looks for what is left. Between two ranks at a time,
//! as [`duets`](super::duets).

use core::time::Duration;

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Endpoint, Error, Request, Status, Tag};

use super::duets::{Duet, in_pairs};
use super::{Outcome, Random, length, message};

/// Messages of one call at most.
const MESSAGES_MAX: u64 = 6;
/// A message is known by so many first bytes.
const NAME_BYTES: usize = 8;
const BUFFER_BYTES: usize = 3000;
/// Receives that are cancelled at once before they are given some time.
const ROUNDS_MAX: u32 = 100;
/// Tags of a call: its messages, and the sender's last one.
const DATA: u32 = 0;
const LAST: u32 = 1;

/// Makes some calls.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    in_pairs(ep, seed, 29, |ep, duet, random| {
        let way = *random.pick(&[GiveUp::Deadline, GiveUp::Scope, GiveUp::Cancel]);
        let lens = (0..random.within(1, MESSAGES_MAX)).map(|_| length(random).max(NAME_BYTES)).collect();
        let plan = DeadlinePlan { duet, lens, way, patient: random.chance(40) };
        let random = &mut Random::new(random.draw(), u64::from(duet.world.rank().0));
        if duet.world.rank() == duet.from { send(ep, &plan, random) } else { receive(ep, &plan, random) }
    })
}

/// The way in which a call gives up.
#[derive(Clone, Copy)]
enum GiveUp {
    Deadline,
    Scope,
    Cancel,
}

struct DeadlinePlan {
    duet: Duet,
    lens: Vec<usize>,
    way: GiveUp,
    /// The sender never gives up.
    patient: bool,
}

impl DeadlinePlan {
    fn data(&self, of: usize) -> Vec<u8> {
        message(self.duet.from.0, self.duet.number ^ of as u64, self.lens[of])
    }
}

/// From none to more than most messages need.
fn limit(random: &mut Random) -> Duration {
    let bits = random.within(1, 20);
    Duration::from_nanos(random.below(1 << bits))
}

/// `None` if it was given up.
fn unless_late(result: Result<Status, Error>) -> Result<Option<Status>, Error> {
    match result {
        Err(Error { cause: Cause::TimedOut, .. }) => Ok(None),
        result => result.map(Some),
    }
}

/// The result of a probe; `None` if the sender has left and nothing more of it is there.
fn unless_left(found: Result<Option<Status>, Error>) -> Result<Option<Status>, Error> {
    match found {
        Err(Error { cause: Cause::PeerLeft, .. }) => Ok(None),
        found => found,
    }
}

/// Probes for a message some more times, for one that its sender holds back is found by a later
/// probe, if no receive is started in between.
fn probe<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    plan: &DeadlinePlan,
    tag: Tag,
    more: u32,
) -> Result<Option<Status>, Error> {
    let Duet { world, from, .. } = plan.duet;
    for _ in 0..more {
        if let Some(found) = ep.iprobe(&world, from, tag)? {
            return Ok(Some(found));
        }
    }
    ep.iprobe(&world, from, tag)
}

fn send<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    plan: &DeadlinePlan,
    random: &mut Random,
) -> Outcome {
    let Duet { world, to, .. } = plan.duet;
    let (data, tag) = (|of| plan.data(of), plan.duet.tag(DATA));
    let mut well = Vec::new();
    for of in 0..plan.lens.len() {
        let data = data(of);
        let sent = if plan.patient {
            Some(ep.send(&world, &data, to, tag)?)
        } else {
            match plan.way {
                GiveUp::Deadline => unless_late(ep.within(limit(random)).send(&world, &data, to, tag))?,
                GiveUp::Scope => unless_late(ep.within(limit(random)).scope(|scope| {
                    let sending = scope.isend(&world, &data, to, tag)?;
                    scope.wait(sending)
                }))?,
                GiveUp::Cancel => ep.scope(|scope| {
                    let mut sending = scope.isend(&world, &data, to, tag)?;
                    scope.poll(random.below(3) as u32);
                    scope.recall(&mut sending);
                    let status = scope.wait(sending)?;
                    Ok((!status.is_cancelled()).then_some(status))
                })?,
            }
        };
        well.push(u8::from(sent.is_some()));
    }
    ep.send(&world, &well, to, plan.duet.tag(LAST))?;
    Ok(())
}

/// The messages that the receiver has seen, and the receives that it gave up.
#[derive(Default)]
struct Seen {
    /// Messages that have come, in that order.
    came: Vec<usize>,
    /// Receives that were given up: each may have taken a message with it.
    given_up: usize,
}

impl Seen {
    /// Takes the result of a receive.
    fn take(&mut self, plan: &DeadlinePlan, result: Result<Option<Status>, Error>, buffer: &[u8]) -> Outcome {
        match result {
            Ok(None) => self.given_up += 1,
            Ok(Some(status)) => {
                let of = (0..plan.lens.len()).find(|of| plan.data(*of)[..NAME_BYTES] == buffer[..NAME_BYTES]);
                let of = of.ok_or("a message that was never sent")?;
                let right = plan.data(of);
                if status.bytes != right.len() as u64 || buffer[..right.len()] != right {
                    return Err(format!("message {of} of {} bytes is wrong: {status:?}", right.len()).into());
                }
                if self.came.last().is_some_and(|last| *last >= of) {
                    return Err(format!("message {of} comes after {:?}", self.came).into());
                }
                self.came.push(of);
            }
            Err(Error { cause: Cause::Withdrawn, .. }) if !plan.patient => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Fails unless all that were sent well have come, but for those that were given up here, and
    /// none that was cancelled.
    fn judge(&self, plan: &DeadlinePlan, well: &[u8]) -> Outcome {
        let Self { came, given_up } = self;
        let sent = (0..).zip(well).filter(|(_, sent)| **sent != 0).map(|(of, _)| of);
        let missing = sent.filter(|of| !came.contains(of)).count();
        let is_cancelled = |of: &&usize| matches!(plan.way, GiveUp::Cancel) && well[**of] == 0;
        match came.iter().find(is_cancelled) {
            None if missing <= *given_up => Ok(()),
            None => Err(format!("of {well:?} came {came:?}, and {given_up} receives were given up").into()),
            Some(of) => Err(format!("message {of} came although it was cancelled").into()),
        }
    }
}

fn receive<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    plan: &DeadlinePlan,
    random: &mut Random,
) -> Outcome {
    let Duet { world, from, .. } = plan.duet;
    let (data, last) = (plan.duet.tag(DATA), plan.duet.tag(LAST));
    let (mut seen, mut buffer) = (Seen::default(), vec![0; BUFFER_BYTES]);
    let (mut is_over, mut rounds) = (false, 0);
    // Once the last message is there, so is all that was sent before it.
    while !is_over || unless_left(probe(ep, plan, data, rounds))?.is_some() {
        // Ever more patient: a sender may be far behind.
        rounds += 1;
        let limit = limit(random) * rounds;
        let way = if rounds < ROUNDS_MAX { plan.way } else { GiveUp::Deadline };
        let result = match way {
            GiveUp::Deadline => unless_late(ep.within(limit).recv(&world, &mut buffer, from, data)),
            GiveUp::Scope => unless_late(ep.within(limit).scope(|scope| {
                let receiving = scope.irecv(&world, &mut buffer, from, data)?;
                scope.wait(receiving)
            })),
            GiveUp::Cancel => ep.scope(|scope| {
                let mut receiving = scope.irecv(&world, &mut buffer, from, data)?;
                for _ in 0..random.below(4) {
                    scope.poll(8);
                }
                if scope.cancel(&mut receiving) {
                    return Ok(None);
                }
                let receiving = core::mem::replace(&mut receiving, Request::null());
                scope.wait(receiving).map(Some)
            }),
        };
        is_over = is_over || probe(ep, plan, last, rounds)?.is_some();
        match result {
            // The sender has sent its last message and left.
            Err(Error { cause: Cause::PeerLeft, .. }) if is_over => {}
            // What is cancelled has taken nothing.
            Ok(None) if matches!(way, GiveUp::Cancel) => {}
            result => seen.take(plan, result, &buffer)?,
        }
    }
    let mut well = vec![0; plan.lens.len()];
    ep.recv(&world, &mut well, from, last)?;
    seen.judge(plan, &well)
}
