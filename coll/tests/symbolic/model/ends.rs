//! The result that every rank must end with, an operation at a time.

use core::ops::Range;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::{Job, ScheduleFault, UNDEFINED, Value};

/// Expressions of ranks, each with a number: a rank's own, or one that stands for two others in
/// this order. Equal numbers are the same operands combined in the same order, whatever element of
/// the ranks they are of.
#[derive(Default)]
pub(crate) struct RankExpressions {
    /// Values that ranks start with, in all and each.
    leaves: usize,
    each: usize,
    /// The number of each expression of values.
    numbers: Vec<usize>,
    combined: HashMap<(usize, usize), usize, FxBuildHasher>,
}

impl RankExpressions {
    /// The number of the expression of two.
    pub(crate) fn combine(&mut self, left: usize, right: usize) -> usize {
        // Ranks have the numbers below.
        let next = self.leaves + self.combined.len();
        *self.combined.entry((left, right)).or_insert(next)
    }

    /// The number of what a value is of.
    pub(crate) fn number(&self, value: Value) -> usize {
        value.checked_sub(self.leaves).map_or_else(|| value / self.each, |index| self.numbers[index])
    }
}

impl Job<'_> {
    /// Checks that every rank has a signal of every other.
    pub(crate) fn check_barrier(&self) -> Result<(), ScheduleFault> {
        for state in &self.ranks {
            let heard = |of: u32| state.heard[of as usize / 64] >> (of % 64) & 1 == 1;
            if let Some(of) = (0..self.size).find(|&of| !heard(of)) {
                return Err(ScheduleFault::Unheard { rank: state.instance.rank(), of });
            }
        }
        Ok(())
    }

    /// Checks that every rank has the root's elements.
    pub(crate) fn check_bcast(&self) -> Result<(), ScheduleFault> {
        let first = self.root as usize * self.count;
        for state in &self.ranks {
            if let Some(element) = (0..self.count).find(|&element| state.data[element] != first + element) {
                return Err(ScheduleFault::Wrong { rank: state.instance.rank(), element });
            }
        }
        Ok(())
    }

    /// Checks that every rank has the same expression for each element, in which every rank's
    /// operand stands once.
    pub(crate) fn check_allreduce(&self) -> Result<(), ScheduleFault> {
        for element in 0..self.count {
            let result = self.ranks[0].data[element];
            if let Some(odd) = self.ranks.iter().find(|rank| rank.data[element] != result) {
                return Err(ScheduleFault::Wrong { rank: odd.instance.rank(), element });
            }
        }
        self.check_reduced(0)
    }

    /// The root has an expression for each element in which every rank's operand stands once.
    pub(crate) fn check_reduce(&self) -> Result<(), ScheduleFault> {
        self.check_reduced(self.root)
    }

    /// Every rank has an expression for each element in which the operand of every rank up to its
    /// own stands once, in order.
    pub(crate) fn check_scan(&self) -> Result<(), ScheduleFault> {
        self.check_prefixes(|rank| rank + 1)
    }

    /// Every rank has one of the ranks before its own; rank 0 what it began with.
    pub(crate) fn check_exscan(&self) -> Result<(), ScheduleFault> {
        self.check_prefixes(|rank| rank.max(1))
    }

    fn check_prefixes(&self, operands: impl Fn(usize) -> usize) -> Result<(), ScheduleFault> {
        // Of many ranks some, for each of which all operands are looked at.
        let apart = 1 + self.size as usize / 256;
        for state in self.ranks.iter().rev().step_by(apart).chain(&self.ranks[..1]) {
            let rank = state.instance.rank();
            for element in 0..self.count {
                let expected = (0..operands(rank as usize)).map(|rank| rank * self.count + element);
                if !self.leaves(state.data[element]).into_iter().eq(expected) {
                    return Err(ScheduleFault::Wrong { rank, element });
                }
            }
        }
        Ok(())
    }

    /// Numbers the expressions of all values by the ranks that they combine.
    pub(crate) fn expressions_of_ranks(&self) -> RankExpressions {
        let leaves = self.leaves;
        let mut numbered =
            RankExpressions { leaves, each: leaves / self.size as usize, ..Default::default() };
        // An expression comes after those that it is of.
        for &(left, right) in &self.expressions {
            let of_ranks = numbered.combine(numbered.number(left), numbered.number(right));
            numbered.numbers.push(of_ranks);
        }
        numbered
    }

    /// The value of an element of a rank.
    pub(crate) fn value(&self, rank: u32, element: usize) -> Value {
        self.ranks[rank as usize].data[element]
    }

    /// The first element of a rank as an expression of ranks.
    pub(crate) fn expression(&self, rank: u32) -> String {
        fn text(job: &Job<'_>, value: Value) -> String {
            match value.checked_sub(job.leaves) {
                None => (value / (job.leaves / job.size as usize)).to_string(),
                Some(index) => {
                    let (left, right) = job.expressions[index];
                    format!("({} {})", text(job, left), text(job, right))
                }
            }
        }
        text(self, self.value(rank, 0))
    }

    /// Every rank has an expression for each element of its own block in which every rank's operand
    /// stands once; in place, the other blocks are left alone.
    pub(crate) fn check_reduce_scatter(&self) -> Result<(), ScheduleFault> {
        let all = self.size as usize * self.count;
        for rank in 0..self.size {
            let own = rank as usize * self.count..(rank as usize + 1) * self.count;
            for element in own.clone() {
                self.check_element(rank, element, all)?;
            }
            let data = &self.ranks[rank as usize].data;
            let is_left = |element: &usize| data[*element] == rank as usize * all + *element;
            let others = (0..all).filter(|element| self.in_place && !own.contains(element));
            if let Some(element) = others.into_iter().find(|element| !is_left(element)) {
                return Err(ScheduleFault::Wrong { rank, element });
            }
        }
        Ok(())
    }

    fn check_reduced(&self, at: u32) -> Result<(), ScheduleFault> {
        (0..self.count).try_for_each(|element| self.check_element(at, element, self.count))
    }

    /// This rank has an expression for each element in which the operand of each of these stands
    /// once.
    pub(crate) fn check_operands(&self, at: u32, ranks: Range<u32>) -> Result<(), ScheduleFault> {
        let operands = |element| ranks.clone().map(move |rank| rank as usize * self.count + element);
        (0..self.count).try_for_each(|element| self.check_element_of(at, element, operands(element)))
    }

    /// An element of a rank is an expression in which the operand of every rank, of `each`
    /// elements, stands once.
    fn check_element(&self, rank: u32, element: usize, each: usize) -> Result<(), ScheduleFault> {
        self.check_element_of(rank, element, (0..self.size as usize).map(|rank| rank * each + element))
    }

    /// An element of a rank is an expression in which each of these operands, which rise, stands
    /// once.
    pub(crate) fn check_element_of(
        &self,
        rank: u32,
        element: usize,
        operands: impl Iterator<Item = Value>,
    ) -> Result<(), ScheduleFault> {
        let result = self.ranks[rank as usize].data[element];
        if result == UNDEFINED {
            return Err(ScheduleFault::Wrong { rank, element });
        }
        let mut leaves = self.leaves(result);
        if self.schedule.keeps_rank_order() && !leaves.is_sorted() {
            return Err(ScheduleFault::RankOrder { element });
        }
        leaves.sort_unstable();
        if leaves.into_iter().eq(operands) { Ok(()) } else { Err(ScheduleFault::Wrong { rank, element }) }
    }

    /// The operands of an expression from left to right.
    fn leaves(&self, root: Value) -> Vec<Value> {
        let (mut found, mut todo) = (Vec::new(), vec![root]);
        while let Some(value) = todo.pop() {
            match value.checked_sub(self.leaves) {
                None => found.push(value),
                Some(index) => {
                    let (left, right) = self.expressions[index];
                    todo.extend([right, left]);
                }
            }
        }
        found
    }
}
