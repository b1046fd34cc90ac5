//! Elements in one piece that the transport reads from the sender's memory, writes or puts into the
//! receiver's, or gathers: what bytes take, elements of any type take too, and their signatures are
//! compared all the same.

use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use aldis_kit::rig::{Job, Powers, Shape, UNLIKE_ORDER, pattern, settle, together};
use proptest::prelude::*;

type Table = TypeTable<8, 256>;

const READING: Powers = Powers { reads: Some(300), regions: 8, ..Powers::NONE };
const WRITING: Powers = Powers { reads: None, writes: Some(300), ..READING };

/// A message of elements of four bytes, and its receive. `None` stands for bytes.
#[derive(Clone, Copy, Debug)]
struct DirectCase {
    sent: Option<Basic>,
    wanted: Option<Basic>,
    count: u64,
    room: u64,
    /// True if the receive is there before the message.
    expected: bool,
    synchronous: bool,
    /// True if the sender is a machine of the other byte order.
    is_unlike: bool,
}

const WHOLE: DirectCase = DirectCase {
    sent: Some(Basic::I32),
    wanted: Some(Basic::I32),
    count: 500,
    room: 500,
    expected: true,
    synchronous: false,
    is_unlike: false,
};

/// Returns the buffer, how the receive ended, and how many messages moved without a copy between or
/// could not.
fn outcome(powers: Powers, case: DirectCase) -> (Vec<u8>, Result<u64, Cause>, [u64; 2]) {
    let DirectCase { sent, wanted, count, room, expected, synchronous, is_unlike } = case;
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    job.powers = powers;
    let regions = job.table.clone();
    let mut ranks = job.ranks();
    if is_unlike {
        let mut card = ranks[0].card();
        card.order = UNLIKE_ORDER;
        ranks[1].connect(&card).unwrap();
    }
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    let (world, to, from, tag) = (ranks[0].world(), Rank(1), Rank(0), Tag(3));
    let (data, mut buffer) = (pattern(5, count as usize * 4), vec![0xAA; room as usize * 4]);
    let received = together(&mut ranks, |one, other| {
        let (memory, into) = (one.show(&data), other.lend(&mut buffer));
        let mut sending = None;
        let mut receiving = None;
        for is_sender in [expected, !expected].map(|first| !first) {
            if is_sender {
                sending = Some(match sent {
                    Some(basic) if synchronous => {
                        one.isend_typed(&world, Typed::lent(memory, count, basic).synchronous(), to, tag)?
                    }
                    Some(basic) => one.isend_typed(&world, Typed::lent(memory, count, basic), to, tag)?,
                    None => one.isend_part(&world, memory, 0..data.len(), to, tag)?,
                });
            } else {
                let len = into.len();
                receiving = Some(match wanted {
                    Some(basic) => other.irecv_typed(&world, TypedMut::lent(into, room, basic), from, tag)?,
                    None => other.irecv_part(&world, into, 0..len, from, tag)?,
                });
            }
            settle(one, other);
        }
        if let Some(sending) = sending {
            one.wait(sending)?;
        }
        let status = other.wait(receiving.unwrap());
        Ok(status.map(|status| status.bytes).map_err(|error| error.cause))
    });
    let (one, other) = (ranks[0].counters(), ranks[1].counters());
    assert_eq!([regions.borrow().live(0), regions.borrow().live(1)], [0, 0]);
    (buffer, received.unwrap(), [other.reads + one.writes, other.unread + one.unread])
}

/// Bytes of elements of four bytes as they are on a machine of the other byte order.
fn turned(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.chunks_mut(4).for_each(<[u8]>::reverse);
    bytes
}

#[test]
fn elements_take_the_way_of_bytes() {
    for (powers, sent, wanted) in [READING, WRITING].into_iter().flat_map(|powers| {
        let types = [None, Some(Basic::I32)];
        types.into_iter().flat_map(move |sent| types.map(|wanted| (powers, sent, wanted)))
    }) {
        for (expected, synchronous) in [(true, false), (true, true), (false, false), (false, true)] {
            let case = DirectCase { sent, wanted, expected, synchronous, ..WHOLE };
            let (buffer, result, moved) = outcome(powers, case);
            assert_eq!((buffer, result, moved), (pattern(5, 2000), Ok(2000), [1, 0]), "{case:?} {powers:?}");
        }
    }
}

#[test]
fn elements_of_a_machine_of_the_other_byte_order_are_not_moved_as_they_are() {
    for powers in [READING, WRITING] {
        for expected in [true, false] {
            let case = DirectCase { expected, is_unlike: true, ..WHOLE };
            let (buffer, result, [moved, _]) = outcome(powers, case);
            assert_eq!((buffer, result, moved), (turned(pattern(5, 2000)), Ok(2000), 0), "{case:?}");
        }
    }
}

proptest! {
    /// Whatever the transport does with memory, and wherever it stops doing so: the elements
    /// arrive, as many as there is room for; other types and too little room are told.
    #[test]
    fn every_power_carries_elements_and_tells_what_is_wrong(
        sent in proptest::option::of(prop_oneof![Just(Basic::I32), Just(Basic::F32)]),
        wanted in proptest::option::of(Just(Basic::I32)),
        count in 0u64..700, room in 0u64..700, is_exact in any::<bool>(),
        [expected, synchronous, is_unlike, places] in any::<[bool; 4]>(),
        reads in proptest::option::of(1u64..900), gathers in proptest::option::of(60u64..900),
        writes in proptest::option::of(1u64..900),
        polls in 0u32..4, orders_max in proptest::option::of(0u32..4), regions in 0usize..3,
    ) {
        let powers = Powers { reads, writes, gathers, places, polls, orders_max, regions, maps: false };
        let room = if is_exact { count } else { room };
        let case = DirectCase { sent, wanted, count, room, expected, synchronous, is_unlike };
        let (buffer, result, _) = outcome(powers, case);
        let (data, here) = (pattern(5, count as usize * 4), count.min(room) as usize * 4);
        let is_turned = is_unlike && sent.is_some() && wanted.is_some();
        let data = if is_turned { turned(data) } else { data };
        prop_assert_eq!(&buffer[..here], &data[..here]);
        prop_assert!(buffer[here..].iter().all(|&byte| byte == 0xAA));
        match result {
            Ok(bytes) => {
                prop_assert_eq!(bytes, count * 4);
                let may_differ = count == 0 || sent.is_none() || wanted.is_none();
                prop_assert!(count <= room && (may_differ || sent == wanted), "{:?}", case);
            }
            Err(Cause::Truncated { sent: all, room: most }) => {
                prop_assert_eq!((all, most), (count * 4, room * 4));
                prop_assert!(count > room);
            }
            Err(cause) => {
                prop_assert!(matches!(cause, Cause::SignatureMismatch { .. }), "{:?}", cause);
                prop_assert!(count <= room && sent.is_some() && wanted.is_some() && sent != wanted);
            }
        }
    }
}
