//! Exchanges with every other rank, a few at a time, those with near ranks first.

use aldis_kernel::hal::Operation;

pub(crate) use super::WIDTH_MAX;
use super::variant::Pattern;
use super::{Instance, Span, Step, Work};

/// Returns the message with `index` of a round of `WIDTH` exchanges, in which a rank sends what is
/// `given` for each other and gets its block.
///
/// # Errors
/// The number of local steps before the one with this index, if it is behind the last message.
pub(crate) fn message<const WIDTH: u32>(
    instance: &Instance,
    round: u32,
    index: u32,
    given: impl Fn(u32) -> Span,
) -> Result<Step, u32> {
    let before = round.saturating_mul(WIDTH);
    let now = (instance.size() - 1).saturating_sub(before).min(WIDTH);
    if index < now {
        let from = instance.before(before + index + 1);
        return Ok(Step::Recv { from, into: instance.block(from) });
    }
    let index = index - now;
    if index < now {
        let to = instance.after(before + index + 1);
        return Ok(Step::Send { to, from: given(to) });
    }
    Err(index - now)
}

/// The work of rounds of `width` exchanges of `count` elements.
pub(crate) fn work(size: u32, count: usize, width: u32) -> Work {
    if count == 0 {
        return Work::default();
    }
    let others = u64::from(size.saturating_sub(1));
    let rounds = others.div_ceil(width.into());
    Work { rounds, fan: others - rounds, elements: others.saturating_mul(count as u64), ..Work::default() }
}

/// The all-to-all by so many exchanges a round; the first round also copies what is a rank's own.
pub(crate) struct Exchanges<const WIDTH: u32>;

impl<const WIDTH: u32> Pattern for Exchanges<WIDTH> {
    const OPERATION: Operation = Operation::Alltoall;

    fn rounds(instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).div_ceil(WIDTH).max(1) }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let given = |rank: u32| instance.block(rank).of_input();
        let own = instance.rank();
        match message::<WIDTH>(instance, round, index, given) {
            Ok(message) => Some(message),
            Err(0) if round == 0 => Some(Step::Copy { into: instance.block(own), from: given(own) }),
            Err(_) => None,
        }
    }

    fn work(size: u32, count: usize) -> Work {
        Work { copied: count as u64, ..work(size, count, WIDTH) }
    }
}
