//! Reproducible reductions: what says that it evaluates its operation's one expression does, for
//! every element, count and root, and so has the bits of all others that say so.

use aldis_coll::Options;
use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::{Priced, on_blocks};
use aldis_coll::select::Call;
use aldis_kernel::hal::{Cause, Operation};

use crate::model::RankExpressions;
use crate::{check, counts};

/// The pair tree of ranks: the first ranks fold in pairs where there are too many for a power of
/// two.
fn pair_tree(all: &mut RankExpressions, size: u32) -> usize {
    let excess = size - (1 << size.ilog2());
    let folded = |pair: u32| all.combine(2 * pair as usize, 2 * pair as usize + 1);
    let mut operands: Vec<usize> = (0..excess).map(folded).collect();
    operands.extend((2 * excess..size).map(|rank| rank as usize));
    while operands.len() > 1 {
        operands = operands.chunks(2).map(|pair| all.combine(pair[0], pair[1])).collect();
    }
    operands[0]
}

/// Returns the expression of what is before the last 2^k of so many ranks, then those.
fn prefix_tree(all: &mut RankExpressions, first: u32, ranks: u32) -> usize {
    if ranks == 1 {
        return first as usize;
    }
    let right = 1 << (ranks - 1).ilog2();
    let left = ranks - right;
    let operands = [prefix_tree(all, first, left), prefix_tree(all, first + left, right)];
    all.combine(operands[0], operands[1])
}

/// The one expression of a rank's result.
fn expression(all: &mut RankExpressions, operation: Operation, size: u32, rank: u32) -> usize {
    match operation {
        Operation::Scan => prefix_tree(all, 0, rank + 1),
        Operation::Exscan => prefix_tree(all, 0, rank.max(1)),
        _ => pair_tree(all, size),
    }
}

/// Returns true if every element on every rank that has a result is the one expression.
fn evaluates(candidate: &'static dyn Priced, size: u32, root: u32, count: usize) -> bool {
    let job = check(candidate, size, root, count).unwrap();
    let mut all = job.expressions_of_ranks();
    let operation = candidate.operation();
    let ends = if operation == Operation::Reduce { root..root + 1 } else { 0..size };
    ends.into_iter().all(|rank| {
        let expected = expression(&mut all, operation, size, rank);
        let first = if operation == Operation::ReduceScatterBlock { rank as usize * count } else { 0 };
        (first..first + count).all(|element| all.number(job.value(rank, element)) == expected)
    })
}

const REDUCING: [Operation; 5] = [
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatterBlock,
    Operation::Scan,
    Operation::Exscan,
];

#[test]
fn whoever_says_so_evaluates_the_one_expression() {
    for operation in REDUCING {
        for size in 1..=64 {
            let roots = if operation == Operation::Reduce { 0..size } else { 0..1 };
            for &candidate in algorithms(operation).iter().filter(|candidate| candidate.reproduces(size)) {
                for root in roots.clone() {
                    let all = counts(operation, size);
                    let some = if [0, size / 2, size - 1].contains(&root) { &all[1..] } else { &all[2..3] };
                    for &count in some {
                        let case =
                            format!("{operation} {} size {size} root {root} count {count}", candidate.name());
                        assert!(evaluates(candidate, size, root, count), "{case}");
                    }
                }
            }
        }
    }
}

/// Checks that every algorithm that reproduces the expression says so.
#[test]
fn whoever_does_not_say_so_evaluates_another() {
    let mut wrong = Vec::new();
    for operation in REDUCING {
        for size in [5, 6, 7, 8, 11, 12, 16] {
            for &candidate in algorithms(operation).iter().filter(|candidate| candidate.serves(size)) {
                let count = 2 * size as usize + 1;
                let roots = 0..if operation == Operation::Reduce { size } else { 1 };
                let does = roots.into_iter().all(|root| evaluates(candidate, size, root, count));
                if candidate.reproduces(size) != does {
                    wrong.push(format!("{operation} {} size {size}: {does}", candidate.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// There is one for every size, with whatever scratch, short and long; and those that are refused
/// are refused for this.
#[test]
fn selection_takes_no_other() {
    let options = Options { reproducible: true, ..Options::default() };
    for operation in REDUCING {
        for size in (1..=64).chain([100, 1000, 4096]) {
            for (count, scratch) in [(1, 1), (1000, 1), (1 << 20, 1000), (1 << 20, 1 << 20)] {
                // All blocks twice, at least an element of each.
                let images = if on_blocks(operation) { 2 * size as usize } else { 1 };
                let scratch = images.max(scratch);
                let call = Call { operation, size, count, element_bytes: 8, scratch, commutes: false };
                for call in [call, Call { commutes: true, ..call }] {
                    let taken = call.select(algorithms(operation), &options).unwrap().plan.algorithm;
                    let known =
                        algorithms(operation).iter().find(|known| known.name() == taken.name()).unwrap();
                    assert!(known.reproduces(size), "{operation} {} size {size}", taken.name());
                    for (algorithm, price) in call.explain(&options).candidates() {
                        let known =
                            algorithms(operation).iter().find(|one| one.name() == algorithm.name()).unwrap();
                        assert_eq!(price == Err(Cause::Irreproducible), !known.reproduces(size));
                    }
                }
            }
        }
    }
}
