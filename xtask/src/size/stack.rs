//! The deepest stack of an image: frames by the compiler, calls by decoding the linked code. Exact
//! for direct calls and jumps; a call through a register is reported, not followed, and recursion
//! is an error.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use super::image::{Image, ImageFunction};
use super::thumb::{Branch, branches};

/// The deepest chain of calls from the entry point.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    /// Bytes of all frames on the chain.
    pub(super) bytes: u32,
    /// Bytes of the deepest chain that begins with the endpoint's `poll`, where all progress is
    /// made.
    pub(super) poll: Option<u32>,
    /// The chain, outermost first: function and frame.
    pub(super) chain: Vec<(String, u32)>,
    /// Reachable functions whose frame the compiler did not state, counted as zero.
    pub(super) unknown: Vec<String>,
    /// Reachable functions that call through a register; what they call is not counted.
    pub(super) indirect: Vec<String>,
}

/// The effect of one function on the stack.
#[derive(Debug)]
struct Node {
    calls: BTreeSet<u32>,
    indirect: bool,
}

/// The deepest chain below one function.
#[derive(Clone, Copy, Debug)]
struct Below {
    bytes: u32,
    next: Option<u32>,
}

/// Walks all that is reachable from the entry point.
pub(super) fn deepest(image: &Image) -> Result<Depth> {
    let nodes =
        image.functions.iter().map(|(start, function)| (*start, node(image, *start, function))).collect();
    let mut walk = Walk { image, nodes, done: BTreeMap::new(), open: Vec::new() };
    walk.visit(image.entry)?;
    Ok(walk.depth())
}

fn node(image: &Image, start: u32, function: &ImageFunction) -> Node {
    let mut node = Node { calls: BTreeSet::new(), indirect: false };
    for (address, code) in &function.code {
        branches(*address, code, |branch| match branch {
            Branch::Jump(to) if (start..function.end).contains(&to) => {}
            // A jump out of a function is a call in tail position: counted like any other, which
            // errs on the safe side.
            Branch::Call(to) | Branch::Jump(to) => node.calls.extend(containing(image, to)),
            Branch::Register => node.indirect = true,
        });
    }
    node
}

/// Returns true if a function is `Endpoint::poll`, of whatever transport and platform.
fn is_poll(name: &str) -> bool {
    let is_endpoint = name.contains("aldis_kernel::") && name.contains("endpoint::Endpoint<");
    is_endpoint && name.ends_with("::poll")
}

/// The function that an address stands in.
fn containing(image: &Image, address: u32) -> Option<u32> {
    let (start, function) = image.functions.range(..=address).next_back()?;
    (address < function.end).then_some(*start)
}

struct Walk<'a> {
    image: &'a Image,
    nodes: BTreeMap<u32, Node>,
    done: BTreeMap<u32, Below>,
    open: Vec<u32>,
}

impl Walk<'_> {
    fn function(&self, start: u32) -> Result<&ImageFunction> {
        self.image.functions.get(&start).with_context(|| format!("no function at {start:#x}"))
    }

    /// Depth first; the depth of the recursion here is that of the firmware's calls.
    fn visit(&mut self, start: u32) -> Result<u32> {
        if let Some(below) = self.done.get(&start) {
            return Ok(below.bytes);
        }
        if let Some(position) = self.open.iter().position(|open| *open == start) {
            let circle: Vec<&str> = self
                .open
                .iter()
                .skip(position)
                .filter_map(|open| self.image.functions.get(open))
                .map(|function| function.name.as_str())
                .collect();
            bail!("the stack has no bound: {} call each other in a circle", circle.join(", "));
        }
        self.open.push(start);
        let calls: Vec<u32> =
            self.nodes.get(&start).into_iter().flat_map(|node| &node.calls).copied().collect();
        let mut below = Below { bytes: 0, next: None };
        for call in calls {
            let bytes = self.visit(call)?;
            if below.next.is_none() || bytes > below.bytes {
                below = Below { bytes, next: Some(call) };
            }
        }
        self.open.pop();
        below.bytes += self.function(start)?.frame.unwrap_or(0);
        self.done.insert(start, below);
        Ok(below.bytes)
    }

    fn depth(&self) -> Depth {
        let mut depth = Depth::default();
        for start in self.done.keys() {
            let Some(function) = self.image.functions.get(start) else { continue };
            if is_poll(&function.name) {
                depth.poll = self.done.get(start).map(|below| below.bytes);
            }
            if function.frame.is_none() {
                depth.unknown.push(function.name.clone());
            }
            if self.nodes.get(start).is_some_and(|node| node.indirect) {
                depth.indirect.push(function.name.clone());
            }
        }
        depth.bytes = self.done.get(&self.image.entry).map_or(0, |below| below.bytes);
        let mut next = Some(self.image.entry);
        while let Some(start) = next {
            if let Some(function) = self.image.functions.get(&start) {
                depth.chain.push((function.name.clone(), function.frame.unwrap_or(0)));
            }
            next = self.done.get(&start).and_then(|below| below.next);
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of one stretch of code at `start`.
    fn function(name: &str, start: u32, frame: Option<u32>, halves: &[u16]) -> (u32, ImageFunction) {
        let code: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let end = start + code.len() as u32;
        (start, ImageFunction { name: name.into(), end, code: vec![(start, code)], frame })
    }

    // Encodings after the manual: `bl` 0x100 further, `bl` to itself, `blx r3`, `bx lr`, a loop on
    // the spot.
    const CALL_0X100: [u16; 2] = [0xF000, 0xF87E];
    const CALL_SELF: [u16; 2] = [0xF7FF, 0xFFFE];
    const CALL_R3: u16 = 0x4798;
    const RETURN: u16 = 0x4770;
    const SPIN: u16 = 0xE7FE;

    #[test]
    fn the_deepest_chain_is_summed_and_what_is_not_known_is_named() {
        let [high, low] = CALL_0X100;
        let image = Image::of(
            0x1000,
            [
                function("reset", 0x1000, Some(24), &[high, low, SPIN]),
                function(
                    "<aldis_kernel::endpoint::Endpoint<Shm, Board>>::poll",
                    0x1100,
                    Some(100),
                    &[high, low, CALL_R3, RETURN],
                ),
                function("memcpy", 0x1200, None, &[RETURN]),
                function("unreached", 0x1300, Some(9999), &[RETURN]),
            ],
        );
        let depth = deepest(&image).unwrap();
        assert_eq!(depth.bytes, 124);
        let poll = "<aldis_kernel::endpoint::Endpoint<Shm, Board>>::poll";
        assert_eq!(depth.chain, [("reset".into(), 24), (poll.into(), 100), ("memcpy".into(), 0)]);
        assert_eq!(depth.poll, Some(100));
        assert_eq!(depth.unknown, ["memcpy"]);
        assert_eq!(depth.indirect, [poll]);
    }

    #[test]
    fn recursion_is_an_error_and_a_loop_is_none() {
        let [high, low] = CALL_SELF;
        let image = Image::of(0x1000, [function("again", 0x1000, Some(8), &[high, low, RETURN])]);
        assert!(deepest(&image).unwrap_err().to_string().contains("again"));
        let image = Image::of(0x1000, [function("spin", 0x1000, Some(8), &[SPIN])]);
        assert_eq!(deepest(&image).unwrap().bytes, 8);
    }
}
