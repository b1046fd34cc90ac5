//! A blocking typed receive, which waits by a way of its own, gets what one that was posted gets:
//! whatever was sent, in whatever size, and whatever came before it.

use aldis_kernel::datatype::{Basic, Committed, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Rank, Source, Status, Tag, Typed, TypedMut};
use aldis_kit::rig::{Job, Shape, pattern};

type Table = TypeTable<8, 256>;

/// The elements that are sent: eight bytes an element.
#[derive(Clone, Copy, Debug)]
enum SentElements {
    Bytes,
    Of(Basic),
    Checked(Basic),
}

/// The elements that are received: elements of eight bytes, or of sixteen in one piece or with a
/// gap of as many behind each.
#[derive(Clone, Copy, Debug)]
enum Room {
    Basic(Basic),
    Pairs,
    Gaps,
}

const SENT: [SentElements; 4] = [
    SentElements::Bytes,
    SentElements::Of(Basic::U64),
    SentElements::Of(Basic::F64),
    SentElements::Checked(Basic::U64),
];
const ROOMS: [Room; 3] = [Room::Basic(Basic::U64), Room::Pairs, Room::Gaps];
/// Inline with a label, just so, and in a block.
const COUNTS: [u64; 3] = [1, 2, 5];

/// A message and its receive.
#[derive(Clone, Copy)]
struct WaitCase {
    /// The elements that are sent, and how many.
    sent: (SentElements, u64),
    /// The elements that are received, and how many.
    room: (Room, u64),
    /// Messages that have been received before.
    seen: u32,
    any_source: bool,
    /// True for a blocking receive, false for one that is posted.
    waits: bool,
}

/// All there is to see of it.
type Outcome = (Result<Status, Cause>, Vec<u8>, u64, u64, (u32, u32), u32);

/// Sends one message before another, and receives the later one first.
fn outcome(case: WaitCase) -> Outcome {
    let WaitCase { sent, room, seen, any_source, waits } = case;
    let mut tables = [Table::new(), Table::new()];
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    let worlds = [ranks[0].world(), ranks[1].world()];
    let types = ranks[1].types().unwrap();
    let (datatype, extent): (Committed, usize) = match room.0 {
        Room::Basic(basic) => (basic.into(), 8),
        Room::Pairs => {
            let pair = types.contiguous(2, Basic::U64).unwrap();
            (types.commit(pair).unwrap(), 16)
        }
        Room::Gaps => {
            let pair = types.vector(2, 1, 2, Basic::U64).unwrap();
            let spread = types.resized(pair, 0, 32).unwrap();
            (types.commit(spread).unwrap(), 32)
        }
    };
    let data = pattern(7, sent.1 as usize * 8);
    let mut buffer = vec![0xAA; room.1 as usize * extent];
    let (one, rest) = ranks.split_first_mut().unwrap();
    let other = &mut rest[0];
    one.send(&worlds[0], &[1_u8, 2, 3], Rank(1), Tag(5)).unwrap();
    let result = one.scope(|scope| {
        let sending = match sent.0 {
            SentElements::Bytes => scope.isend(&worlds[0], &data, Rank(1), Tag(6))?,
            SentElements::Of(basic) => {
                scope.isend_typed(&worlds[0], Typed::new(&data, sent.1, basic), Rank(1), Tag(6))?
            }
            SentElements::Checked(basic) => {
                scope.isend_typed(&worlds[0], Typed::new(&data, sent.1, basic).checked(), Rank(1), Tag(6))?
            }
        };
        if seen > 0 {
            other.poll(seen * 2);
        }
        let from = if any_source { Source::Any } else { Source::Rank(Rank(0)) };
        let into = TypedMut::new(&mut buffer, room.1, datatype);
        let received = if waits {
            other.recv_typed(&worlds[1], into, from, Tag(6))
        } else {
            other.scope(|scope| {
                let receiving = scope.irecv_typed(&worlds[1], into, from, Tag(6))?;
                scope.wait(receiving)
            })
        };
        scope.wait(sending)?;
        Ok(received)
    });
    let received = result.unwrap().map_err(|error| error.cause);
    let mut first = [0_u8; 3];
    other.recv(&worlds[1], &mut first, Rank(0), Tag(5)).unwrap();
    assert_eq!(first, [1, 2, 3]);
    let counters = other.counters();
    let (messages, bytes) = (counters.messages_received, counters.bytes_received);
    let (depths, requests) = (other.diagnostics().queue_depths(), other.diagnostics().requests_in_use());
    (received, buffer, messages, bytes, depths, requests)
}

#[test]
fn who_waits_gets_what_who_has_posted_gets() {
    let mut good = 0;
    for (sent, count) in SENT.into_iter().flat_map(|sent| COUNTS.map(|count| (sent, count))) {
        for (room, elements) in ROOMS.into_iter().flat_map(|room| [1, 2, 3, 6].map(|count| (room, count))) {
            for (seen, any_source) in [(0, false), (1, false), (2, false), (0, true), (2, true)] {
                let case =
                    WaitCase { sent: (sent, count), room: (room, elements), seen, any_source, waits: false };
                let (posted, waited) = (outcome(case), outcome(WaitCase { waits: true, ..case }));
                assert_eq!(waited, posted, "{count} of {sent:?} as {elements} of {room:?}, {seen} seen");
                good += u32::from(waited.0.is_ok());
            }
        }
    }
    assert!(good > 100, "{good}");
}
