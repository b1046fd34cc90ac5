use std::collections::VecDeque;

use super::*;

const SIZED: [&str; 8] = [
    "torus:3",
    "torus:1",
    "fat-tree:4x2",
    "fat-tree:1x9",
    "fat-tree:32x16",
    "dragonfly:3x2",
    "dragonfly:1x1",
    "dragonfly:16x8",
];

fn topologies() -> impl Iterator<Item = Topology> {
    Topology::ALL.into_iter().chain(SIZED.into_iter().map(|text| text.parse().unwrap()))
}

fn pairs(size: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..size).flat_map(move |from| (0..size).map(move |to| (from, to)))
}

fn route(topology: Topology, size: u32, from: u32, to: u32) -> Vec<usize> {
    let mut links = Vec::new();
    topology.route(size, from, to, |link| links.push(link));
    links
}

#[test]
fn a_topology_is_read_as_it_is_written() {
    for topology in topologies() {
        assert_eq!(topology.to_string().parse(), Ok(topology));
    }
    for text in ["crossbar", "ring", "torus", "fat-tree", "dragonfly", "torus:12", "dragonfly:4x2"] {
        assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
    }
}

#[test]
fn what_is_none_is_refused_with_those_that_are_known() {
    for text in ["", "tree", "ring:4", "torus:0", "torus:x", "fat-tree:0x1", "dragonfly:4", "dragonfly:4x"] {
        let error = text.parse::<Topology>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("no topology is called `{text}`")), "{error}");
        assert!(error.contains("fat-tree[:LEAFxUPLINKS]"), "{error}");
    }
}

#[test]
fn hops_by_hand() {
    assert_eq!((Topology::Crossbar.hops(16, 0, 9), Topology::Ring.hops(8, 0, 7)), (1, 1));
    assert_eq!(Topology::Ring.hops(8, 1, 5), 4);
    let torus = Topology::TORUS;
    assert_eq!(torus.hops(16, 0, 15), 2, "around both ways");
    assert_eq!(torus.hops(16, 0, 10), 4);
    let tree: Topology = "fat-tree:4x2".parse().unwrap();
    assert_eq!((tree.hops(8, 0, 3), tree.hops(8, 0, 4)), (1, 3));
    let dragonfly: Topology = "dragonfly:2x2".parse().unwrap();
    assert_eq!((dragonfly.hops(12, 0, 1), dragonfly.hops(12, 0, 2)), (1, 2));
    // Group 0 reaches group 1 by its router 0, group 1 reaches group 0 by its router 0.
    assert_eq!((dragonfly.hops(12, 0, 4), dragonfly.hops(12, 2, 6)), (2, 4));
}

#[test]
fn sizes_that_are_left_out_fit_the_nodes() {
    let tree = |size| Topology::FatTree(Some(FatTree::of(size))).to_string();
    assert_eq!(
        [1, 5, 16, 1000, u32::MAX].map(tree),
        [1, 3, 4, 32, 32].map(|it: u32| { format!("fat-tree:{it}x{}", it.div_ceil(2)) })
    );
    let dragonfly = |size| Topology::Dragonfly(Some(Dragonfly::of(size))).to_string();
    // A balanced one of p nodes a router has 2pp (2pp + 1) nodes.
    assert_eq!(
        [1, 6, 7, 72, 9702, 9703, u32::MAX].map(dragonfly),
        [1, 1, 2, 2, 7, 8, 8].map(|p: u32| { format!("dragonfly:{}x{p}", 2 * p) })
    );
    // What is more than the nodes fill takes no memory, and changes no way.
    for (given, fits) in [
        ("torus:4294967295", "torus:4"),
        ("fat-tree:4294967295x4294967295", "fat-tree:4x4"),
        ("dragonfly:4294967295x4294967295", "dragonfly:1x4"),
        ("dragonfly:4294967295x1", "dragonfly:4x1"),
    ] {
        let [given, fits] = [given, fits].map(|text| text.parse::<Topology>().unwrap());
        assert_eq!(given.links(4), fits.links(4), "{given}");
        assert!(pairs(4).all(|(from, to)| route(given, 4, from, to) == route(fits, 4, from, to)), "{given}");
    }
}

#[test]
fn a_way_begins_and_ends_at_its_nodes_and_takes_no_link_twice() {
    for topology in topologies() {
        for size in 1..=40 {
            for (from, to) in pairs(size) {
                let way = route(topology, size, from, to);
                let told = format!("{topology} {size} {from} {to}: {way:?}");
                assert!(way.iter().all(|link| (*link as u64) < topology.links(size)), "{told}");
                let (Some(first), Some(last)) = (way.first(), way.last()) else {
                    assert_eq!(from, to, "{told}");
                    continue;
                };
                assert_eq!((*first, *last), (from as usize, (size + to) as usize), "{told}");
                let mut once = way.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), way.len(), "{told}");
                assert!(way.len() - 2 <= topology.diameter(size) as usize, "{told}");
            }
        }
    }
}

#[test]
fn hops_count_the_links_of_a_way_and_are_the_same_both_ways() {
    for topology in topologies() {
        for size in 1..=40 {
            for (from, to) in pairs(size) {
                let hops = topology.hops(size, from, to);
                let mut shared = 0;
                topology.shared_route(size, from, to, |_| shared += 1);
                let due = match topology {
                    Topology::Crossbar => 0,
                    Topology::Ring | Topology::Torus { .. } => hops * u32::from(from != to),
                    // One link less than switches.
                    Topology::FatTree(_) | Topology::Dragonfly(_) => hops - 1,
                };
                assert_eq!(shared, due, "{topology} {size} {from} {to}");
                assert_eq!(hops, topology.hops(size, to, from), "{topology} {size} {from} {to}");
            }
        }
    }
}

/// Steps from `start` to every place, found by looking at all neighbours.
fn distances(places: u32, start: u32, neighbours: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut far = vec![u32::MAX; places as usize];
    far[start as usize] = 0;
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for next in neighbours(at) {
            if far[next as usize] == u32::MAX {
                far[next as usize] = far[at as usize] + 1;
                open.push_back(next);
            }
        }
    }
    far
}

#[test]
fn ways_on_grids_are_chains_of_neighbours_and_none_is_shorter() {
    let grids = [(Topology::Ring, None), (Topology::TORUS, None), ("torus:3".parse().unwrap(), Some(3))];
    for (topology, columns) in grids {
        for size in 1..=40_u32 {
            let square = (1..).find(|side| side * side >= size).unwrap();
            let columns = if topology == Topology::Ring { size } else { columns.unwrap_or(square).min(size) };
            let rows = size.div_ceil(columns);
            let step = |at: u32, direction: usize| {
                let (row, column) = (at / columns, at % columns);
                let turn = |at: u32, size: u32| (at + if direction % 2 == 1 { 1 } else { size - 1 }) % size;
                match direction {
                    0 | 1 => row * columns + turn(column, columns),
                    _ => turn(row, rows) * columns + column,
                }
            };
            for from in 0..size {
                let far = distances(rows * columns, from, |at| (0..4).map(|way| step(at, way)).collect());
                for to in 0..size {
                    let mut at = from;
                    topology.shared_route(size, from, to, |link| {
                        assert_eq!(link / 4, at as usize, "{topology} {size} {from} {to}");
                        at = step(at, link % 4);
                    });
                    assert_eq!(at, to, "{topology} {size} {from}");
                    assert_eq!(topology.hops(size, from, to), far[to as usize].max(1));
                }
            }
        }
    }
}

#[test]
fn a_way_through_a_dragonfly_goes_from_router_to_router() {
    // Three groups of two routers with a node each. 12 links within groups, then 9 from group to
    // group.
    let dragonfly: Topology = "dragonfly:2x1".parse().unwrap();
    let way = |from, to| {
        let mut links = Vec::new();
        dragonfly.shared_route(6, from, to, |link| links.push(link));
        links
    };
    assert_eq!(dragonfly.shared_links(6), 12 + 9);
    assert_eq!(way(0, 1), [1], "group 0, router 0 to 1");
    assert_eq!(way(2, 0), [12 + 3], "group 1 to 0: both have it at their router 0");
    // Router 0 of group 0, to its router 1, to group 2, whose router 0 has the link, to its
    // router 1.
    assert_eq!(way(0, 5), [1, 12 + 2, 2 * 4 + 1]);
}
