//! No order of lists and no number of neighbours makes a rank wait for ever, and the right blocks
//! meet: every small graph.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::order::{NeighborAction, NeighborEntry, arrange};

/// Edges by their ends, in the order in which both ends list them.
type Edges = Vec<(u32, u32)>;
/// By sender and receiver, the places among destinations and sources that have met, in the order in
/// which they did.
type Met = BTreeMap<(u32, u32), Vec<(u32, u32)>>;

/// The entries of rank `me`, in the order of its lists.
fn listed(edges: &Edges, me: u32) -> Vec<NeighborEntry> {
    let from = edges.iter().filter(|edge| edge.1 == me).map(|edge| edge.0);
    let to = edges.iter().filter(|edge| edge.0 == me).map(|edge| edge.1);
    let received = (0..).zip(from).map(|(place, rank)| NeighborEntry::receive(rank, place, place));
    let sent = (0..).zip(to).map(|(place, rank)| NeighborEntry::send(rank, place));
    received.chain(sent).collect()
}

/// Runs rounds of `width` messages on all ranks; every send waits for its receive, and messages
/// between two ranks meet in the order in which they are posted. `None` if a rank waits for ever.
fn run(rows: &[Vec<NeighborEntry>], width: usize) -> Option<Met> {
    let messages = |row: &Vec<NeighborEntry>| {
        row.iter().filter(|entry| entry.action != NeighborAction::Copy).copied().collect()
    };
    let rows: Vec<Vec<NeighborEntry>> = rows.iter().map(messages).collect();
    let mut rounds: Vec<_> = rows.iter().map(|row| row.chunks(width)).collect();
    let mut posted: Vec<Vec<NeighborEntry>> =
        rounds.iter_mut().map(|all| all.next().unwrap_or(&[]).to_vec()).collect();
    let mut met = Met::new();
    loop {
        let mut moved = false;
        for to in 0..rows.len() {
            for from in 0..rows.len() {
                let of = |rank: usize, act, other: usize| {
                    let is_it = |entry: &NeighborEntry| entry.action == act && entry.rank == other as u32;
                    posted[rank].iter().position(is_it)
                };
                if let (Some(into), Some(out)) =
                    (of(to, NeighborAction::Receive, from), of(from, NeighborAction::Send, to))
                {
                    let (received, sent) = (posted[to].remove(into), posted[from].remove(out));
                    met.entry((from as u32, to as u32)).or_default().push((sent.block, received.block));
                    moved = true;
                }
            }
        }
        for (posted, rounds) in posted.iter_mut().zip(&mut rounds) {
            if posted.is_empty()
                && let Some(next) = rounds.next()
            {
                (*posted, moved) = (next.to_vec(), true);
            }
        }
        if !moved {
            return posted.iter().all(Vec::is_empty).then_some(met);
        }
    }
}

/// Arranges and runs a graph, and looks at what has met.
fn check(edges: &Edges, size: u32, width: usize) {
    let rows: Vec<Vec<NeighborEntry>> = (0..size)
        .map(|me| {
            let mut row = listed(edges, me);
            let used = arrange(&mut row, me, size, width).expect("as many to itself as from itself");
            row.truncate(used);
            row
        })
        .collect();
    let mut met = run(&rows, width).unwrap_or_else(|| panic!("{size} ranks, {width} a round: {edges:?}"));
    for (me, row) in (0..).zip(&rows) {
        let copies = row.iter().filter(|entry| entry.action == NeighborAction::Copy);
        copies.for_each(|entry| met.entry((me, me)).or_default().push((entry.given, entry.block)));
        let mut sends = false;
        for (at, entry) in row.iter().filter(|entry| entry.action != NeighborAction::Copy).enumerate() {
            sends = entry.action == NeighborAction::Send || (sends && at % width > 0);
            assert!(!sends || entry.action == NeighborAction::Send, "receives come first in a round");
        }
    }
    // The k-th of one list and the k-th of the other.
    let mut expected = Met::new();
    for (at, &(from, to)) in edges.iter().enumerate() {
        let sent = edges[..at].iter().filter(|edge| edge.0 == from).count() as u32;
        let received = edges[..at].iter().filter(|edge| edge.1 == to).count() as u32;
        expected.entry((from, to)).or_default().push((sent, received));
    }
    assert_eq!(met, expected, "{edges:?}");
}

/// Each pair of ranks as often as `times` says.
fn edges(size: u32, times: impl Fn(u32) -> u32) -> Edges {
    let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
    (0..).zip(pairs).flat_map(|(at, pair)| (0..times(at)).map(move |_| pair)).collect()
}

#[test]
fn every_graph_of_4_ranks_ends_in_rounds_of_any_width() {
    for graph in 0..1_u32 << 16 {
        let edges = edges(4, |at| graph >> at & 1);
        (1..=3).for_each(|width| check(&edges, 4, width));
    }
}

#[test]
fn every_graph_of_3_ranks_with_edges_up_to_3_times_ends() {
    for graph in 0..4_u32.pow(9) {
        let mut edges = edges(3, |at| graph >> (2 * at) & 3);
        if graph % 2 == 1 {
            edges.reverse();
        }
        check(&edges, 3, 1 + graph as usize % 4);
    }
}

#[test]
fn large_graphs_end() {
    let mut seed = 1_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for size in [2, 5, 9, 16, 33] {
        for _ in 0..20 {
            let number = next(u64::from(size * size)) + 1;
            let mut edge = || (next(size.into()) as u32, next(size.into()) as u32);
            let edges: Edges = (0..number).map(|_| edge()).collect();
            check(&edges, size, 8);
        }
    }
}

/// The reason for the order: without it these four wait for each other.
#[test]
fn the_order_of_the_lists_would_not_end() {
    let receive = |rank| NeighborEntry::receive(rank, 0, 0);
    let send = |rank| NeighborEntry::send(rank, 0);
    let lists = [std::vec![send(2), send(3)], std::vec![send(3), send(2)]];
    let rows = [
        lists[0].clone(),
        lists[1].clone(),
        std::vec![receive(1), receive(0)],
        std::vec![receive(0), receive(1)],
    ];
    assert!(run(&rows, 1).is_none());
    assert!(run(&rows, 2).is_some());
}
