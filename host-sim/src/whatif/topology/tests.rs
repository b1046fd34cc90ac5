use super::*;

const ALL: [&str; 8] = [
    "crossbar",
    "ring",
    "torus",
    "torus:3",
    "fat-tree:4x2",
    "fat-tree:32x16",
    "dragonfly:3x2",
    "dragonfly:16x8",
];

#[test]
fn a_topology_is_read_as_it_is_written() {
    for text in ALL {
        assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
    }
    assert_eq!("fat-tree".parse(), Ok(Topology::FAT_TREE));
    assert_eq!("dragonfly".parse(), Ok(Topology::DRAGONFLY));
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
    assert_eq!(Topology::Ring.hops(8, 0, 7), 1);
    assert_eq!(Topology::Ring.hops(8, 1, 5), 4);
    let torus = Topology::Torus { columns: None };
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
fn distance_is_the_same_both_ways_and_routes_stay_inside_the_links() {
    for text in ALL {
        let topology: Topology = text.parse().unwrap();
        for size in [1, 2, 3, 7, 16, 33] {
            let links = topology.links(size);
            for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))) {
                let hops = topology.hops(size, from, to);
                assert_eq!(hops, topology.hops(size, to, from), "{text} {size} {from} {to}");
                let mut taken = Vec::new();
                topology.route(size, from, to, |link| taken.push(link));
                assert!(taken.iter().all(|link| (*link as u64) < links), "{text} {size} {from} {to}");
                assert!(taken.len() as u32 <= hops.min(topology.diameter(size)), "{text} {size} {from} {to}");
                taken.sort_unstable();
                taken.dedup();
                let shared = match topology {
                    Topology::Crossbar => 0,
                    Topology::Ring | Topology::Torus { .. } => hops * u32::from(from != to),
                    // One link less than switches.
                    Topology::FatTree { .. } | Topology::Dragonfly { .. } => hops - 1,
                };
                assert_eq!(taken.len() as u32, shared, "{text} {size} {from} {to}");
            }
        }
    }
}
