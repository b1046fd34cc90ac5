//! Exchanges with every other rank, a few at a time: input to data, each with a block of its own.

use super::{Instance, Step, Work};

/// Rounds of `width` exchanges; the first one also copies what is a rank's own.
pub(crate) fn rounds(instance: &Instance, width: u32) -> u32 {
    if instance.count() == 0 { 0 } else { (instance.size() - 1).div_ceil(width).max(1) }
}

pub(crate) fn step(instance: &Instance, width: u32, round: u32, index: u32) -> Option<Step> {
    let before = round.saturating_mul(width);
    let now = (instance.size() - 1).saturating_sub(before).min(width);
    let given = |rank: u32| instance.block(rank).of_input();
    let own = instance.rank();
    if index < now {
        let from = instance.before(before + index + 1);
        return Some(Step::Recv { from, into: instance.block(from) });
    }
    match index - now {
        index if index < now => {
            let to = instance.after(before + index + 1);
            Some(Step::Send { to, from: given(to) })
        }
        index if index == now && round == 0 => {
            Some(Step::Copy { into: instance.block(own), from: given(own) })
        }
        _ => None,
    }
}

pub(crate) fn work(size: u32, count: usize, width: u32) -> Work {
    if count == 0 {
        return Work::default();
    }
    let (others, count) = (u64::from(size.saturating_sub(1)), count as u64);
    let rounds = others.div_ceil(width.into());
    Work {
        rounds,
        fan: others - rounds,
        elements: others.saturating_mul(count),
        copied: count,
        ..Work::default()
    }
}
