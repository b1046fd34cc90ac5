//! Drawing: a schedule as text, one line for each rank that does something in a round.

use core::fmt;

use crate::schedule::{Algorithm, Instance, Order, Step};

/// A schedule for a given size, root and count; displays as a listing of its rounds.
///
/// ```text
/// allreduce recursive_doubling: 3 ranks, 1 element, 3 rounds
/// round 0
///   rank 0: send data[0..1] to 1
///   rank 1: recv scratch[0..1] from 0; data[0..1] = scratch[0..1] * data[0..1]
/// ..
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// The algorithm that is drawn.
    pub algorithm: Algorithm,
    /// Ranks.
    pub size: u32,
    /// The root's rank (0 where there is none).
    pub root: u32,
    /// Elements.
    pub count: usize,
}

impl Drawing {
    fn rank(&self, f: &mut fmt::Formatter<'_>, instance: &Instance, round: u32) -> fmt::Result {
        for index in 0.. {
            let Some(step) = self.algorithm.step(instance, round, index) else { break };
            if index == 0 {
                write!(f, "\n  rank {}: {step}", instance.rank())?;
            } else {
                write!(f, "; {step}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, size, root, count } = *self;
        write!(f, "{} {}: {size} ranks, {count} elements", algorithm.operation(), algorithm.name())?;
        let first = match Instance::new(0, size, root, count) {
            Ok(first) => first,
            Err(cause) => return write!(f, ": {cause}"),
        };
        let rounds = algorithm.rounds(&first);
        write!(f, ", {rounds} rounds")?;
        for round in 0..rounds {
            write!(f, "\nround {round}")?;
            for rank in 0..size {
                if let Ok(instance) = Instance::new(rank, size, root, count) {
                    self.rank(f, &instance, round)?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recv { from, into } => write!(f, "recv {into} from {from}"),
            Self::Send { to, from } => write!(f, "send {from} to {to}"),
            Self::Reduce { into, from, order: Order::IntoFirst } => write!(f, "{into} = {into} * {from}"),
            Self::Reduce { into, from, order: Order::FromFirst } => write!(f, "{into} = {from} * {into}"),
            Self::Copy { into, from } => write!(f, "{into} = {from}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::allreduce::{RecursiveDoubling, Ring};
    use crate::bcast::Binomial;

    #[test]
    fn recursive_doubling_of_three() {
        let drawing = Drawing { algorithm: &RecursiveDoubling, size: 3, root: 0, count: 1 };
        let expected = "\
allreduce recursive_doubling: 3 ranks, 1 elements, 3 rounds
round 0
  rank 0: send data[0..1] to 1
  rank 1: recv scratch[0..1] from 0; data[0..1] = scratch[0..1] * data[0..1]
round 1
  rank 1: recv scratch[0..1] from 2; send data[0..1] to 2; data[0..1] = data[0..1] * scratch[0..1]
  rank 2: recv scratch[0..1] from 1; send data[0..1] to 1; data[0..1] = scratch[0..1] * data[0..1]
round 2
  rank 0: recv data[0..1] from 1
  rank 1: send data[0..1] to 0";
        assert_eq!(drawing.to_string(), expected);
    }

    #[test]
    fn ring_of_two() {
        let drawing = Drawing { algorithm: &Ring, size: 2, root: 0, count: 3 };
        let expected = "\
allreduce ring: 2 ranks, 3 elements, 2 rounds
round 0
  rank 0: recv scratch[0..1] from 1; send data[0..2] to 1; data[2..3] = scratch[0..1] * data[2..3]
  rank 1: recv scratch[0..2] from 0; send data[2..3] to 0; data[0..2] = scratch[0..2] * data[0..2]
round 1
  rank 0: recv data[0..2] from 1; send data[2..3] to 1
  rank 1: recv data[2..3] from 0; send data[0..2] to 0";
        assert_eq!(drawing.to_string(), expected);
    }

    #[test]
    fn the_root_sends_to_its_farthest_child_first() {
        let drawing = Drawing { algorithm: &Binomial, size: 4, root: 3, count: 5 };
        let expected = "\
bcast binomial: 4 ranks, 5 elements, 2 rounds
round 0
  rank 1: recv data[0..5] from 3
  rank 3: send data[0..5] to 1
round 1
  rank 0: recv data[0..5] from 3
  rank 1: send data[0..5] to 2
  rank 2: recv data[0..5] from 1
  rank 3: send data[0..5] to 0";
        assert_eq!(drawing.to_string(), expected);
    }
}
