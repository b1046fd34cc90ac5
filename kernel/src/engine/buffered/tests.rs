use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::PeerId;
use proptest::prelude::*;

use super::*;
use crate::tables::pool::{Pool, PoolEntry};
use crate::tables::request::{Key, State};

const BYTES: usize = 100;

/// Attached memory whose messages are in a table of requests.
struct Room<'r> {
    memory: UserBuffer,
    requests: Requests<'r>,
    messages: Ring<InScope>,
    steps: u64,
}

impl Room<'_> {
    /// A message of `len` bytes, if there is a gap for it: its slot and where it lies.
    fn take(&mut self, len: usize) -> Option<(u32, usize)> {
        let Self { requests, messages, steps, .. } = self;
        let start = find_gap(requests, self.memory, messages, len, steps)?;
        let (handle, request) = requests.take().unwrap();
        let part = self.memory.part(start..start + len).unwrap();
        request.start(State::Queued, Key::NONE, PeerId(0), 0, part);
        messages.insert(requests, handle.slot);
        Some((handle.slot, start))
    }

    fn give(&mut self, slot: u32) {
        let before = Ring::<InScope>::unlink(&mut self.requests, slot);
        self.messages.turn_to(before);
        self.requests.give(slot);
    }
}

/// Runs `body` on a room of `bytes` for at most `messages`.
fn with_room<R>(bytes: usize, messages: usize, body: impl FnOnce(&mut Room<'_>) -> R) -> R {
    let mut memory: Box<[u8]> = core::iter::repeat_n(0, bytes).collect();
    let mut entries: Vec<_> = (0..messages).map(|_| PoolEntry::new(Request::EMPTY)).collect();
    // SAFETY: the memory outlives the buffer, and nothing else touches it.
    let memory = unsafe { UserBuffer::new(NonNull::from(&mut *memory).cast(), bytes) };
    body(&mut Room { memory, requests: Pool::new(&mut entries), messages: Ring::EMPTY, steps: 0 })
}

proptest! {
    /// Whatever comes and goes, a message is taken if, and only if, so many bytes are free in one
    /// piece, and it lies in some of them; at most every message there is looked at.
    #[test]
    fn room_is_found_wherever_there_is_some(steps in proptest::collection::vec((any::<bool>(), 1..=40usize), 0..300)) {
        with_room(BYTES, BYTES, |room| {
            let mut taken = [false; BYTES];
            let mut held: Vec<(u32, usize, usize)> = Vec::new();
            for (comes, len) in steps {
                if !comes && !held.is_empty() {
                    let (slot, start, len) = held.remove(len % held.len());
                    taken[start..start + len].fill(false);
                    room.give(slot);
                    continue;
                }
                let fits = taken.windows(len).any(|window| !window.contains(&true));
                let before = room.steps;
                let found = room.take(len);
                prop_assert!(room.steps - before <= held.len() as u64);
                prop_assert_eq!(found.is_some(), fits);
                if let Some((slot, start)) = found {
                    prop_assert!(!taken[start..start + len].contains(&true));
                    taken[start..start + len].fill(true);
                    held.push((slot, start, len));
                }
            }
            Ok(())
        })?;
    }
}

/// The cost of all of them is in proportion to how many there are, in whatever order they leave and
/// come back.
#[test]
fn messages_that_leave_in_any_order_come_back_at_a_constant_cost() {
    const MESSAGES: usize = 10_000;
    let orders: [fn(usize) -> usize; 4] = [
        |turn| turn,
        |turn| MESSAGES - 1 - turn,
        |turn| turn * 7919 % MESSAGES,
        |turn| turn * 4999 % MESSAGES,
    ];
    for order in orders {
        with_room(MESSAGES * 8, MESSAGES, |room| {
            let fill = |room: &mut Room<'_>, count: usize| {
                (0..count).map(|_| room.take(8).unwrap().0).collect::<Vec<_>>()
            };
            let mut slots = fill(room, MESSAGES);
            assert!(room.steps <= MESSAGES as u64, "{} steps to fill it", room.steps);
            assert_eq!(room.take(1), None, "it is full");
            for part in [1, 2, 5, MESSAGES / 2, MESSAGES] {
                room.steps = 0;
                (0..part).for_each(|turn| room.give(slots[order(turn)]));
                let back = fill(room, part);
                (0..part).for_each(|turn| slots[order(turn)] = back[turn]);
                // One round of the ring, in which every gap is filled.
                assert!(room.steps <= MESSAGES as u64 + part as u64, "{} steps for {part}", room.steps);
            }
            room.steps = 0;
            // Each takes the place of the one that has left last.
            for turn in 0..MESSAGES {
                room.give(slots[order(turn)]);
                slots[order(turn)] = room.take(8).unwrap().0;
            }
            assert!(room.steps <= MESSAGES as u64, "{} steps, one by one", room.steps);
        });
    }
}
