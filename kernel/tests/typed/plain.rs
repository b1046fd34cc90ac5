//! Elements that lie in one piece, which take the fast paths between like machines: whatever type
//! they are of and however they are received, the same arrives as without fast paths.

use aldis_kernel::datatype::{Basic, Committed, Field, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, UNLIKE_ORDER, pattern, settle, together};

type Table = TypeTable<8, 256>;

/// A type in one piece: so many elements of a basic type; or one of another behind one of it.
#[derive(Clone, Copy, Debug)]
enum PlainType {
    Basic(Basic),
    Several(u64, Basic),
    Mixed(Basic, Basic),
}

impl PlainType {
    fn make(self, rank: &mut rig::Rank<'_>) -> Committed {
        let types = rank.types().unwrap();
        let made = match self {
            Self::Basic(basic) => return basic.into(),
            Self::Several(count, basic) => types.contiguous(count, basic),
            Self::Mixed(first, second) => {
                let field =
                    |displacement, basic: Basic| Field { length: 1, displacement, datatype: basic.into() };
                types.structure(&[field(0, first), field(first.size() as i64, second)])
            }
        }
        .unwrap();
        types.commit(made).unwrap()
    }

    /// The sizes of its elements, in order.
    fn widths(self) -> Vec<usize> {
        match self {
            Self::Basic(basic) => vec![basic.size()],
            Self::Several(count, basic) => vec![basic.size(); count as usize],
            Self::Mixed(first, second) => vec![first.size(), second.size()],
        }
    }

    fn bytes(self) -> usize {
        self.widths().iter().sum()
    }

    /// Bytes of this type as they are on a machine of the other byte order.
    fn turned(self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (mut at, mut widths) = (0, self.widths().into_iter().cycle());
        while at < bytes.len() {
            let end = (at + widths.next().unwrap()).min(bytes.len());
            bytes[at..end].reverse();
            at = end;
        }
        bytes
    }
}

#[derive(Clone, Copy, Debug)]
enum ReceiveCall {
    Blocking,
    Nonblocking,
    Persistent,
}

/// A message and its receive.
#[derive(Clone, Copy, Debug)]
struct PlainCase {
    datatype: PlainType,
    sent: u64,
    room: u64,
    call: ReceiveCall,
    /// True if the receive is there before the message.
    expected: bool,
    /// True if the sender is a machine of the other byte order.
    is_unlike: bool,
}

/// Sends and receives; what the receive returns and what it has got.
fn outcome(case: PlainCase) -> (Result<u64, Cause>, Vec<u8>) {
    let PlainCase { datatype, sent, room, call, expected, is_unlike } = case;
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = job.ranks();
    if is_unlike {
        let mut card = ranks[0].card();
        card.order = UNLIKE_ORDER;
        ranks[1].connect(&card).unwrap();
    }
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    let (world, types) = (ranks[0].world(), [datatype.make(&mut ranks[0]), datatype.make(&mut ranks[1])]);
    let (to, from, tag) = (Rank(1), Rank(0), Tag(3));
    let data = pattern(5, sent as usize * datatype.bytes());
    let mut buffer = vec![0xAA; room as usize * datatype.bytes()];
    let received = if let ReceiveCall::Blocking = call {
        let (one, rest) = ranks.split_first_mut().unwrap();
        one.send_typed(&world, Typed::new(&data, sent, types[0]), to, tag).unwrap();
        if !expected {
            rest[0].poll(5);
        }
        let result = rest[0].recv_typed(&world, TypedMut::new(&mut buffer, room, types[1]), from, tag);
        one.poll(5);
        result
    } else {
        together(&mut ranks, |one, other| {
            let (data, into) = (one.show(&data), other.lend(&mut buffer));
            let data = Typed::lent(data, sent, types[0]);
            let into = TypedMut::lent(into, room, types[1]);
            if let ReceiveCall::Persistent = call {
                let mut receiving = other.recv_init_typed(&world, into, from, tag)?;
                let mut received = None;
                for _ in 0..3 {
                    if expected {
                        other.start(&mut receiving)?;
                    }
                    let sending = one.isend_typed(&world, data, to, tag)?;
                    settle(one, other);
                    if !expected {
                        other.start(&mut receiving)?;
                    }
                    settle(one, other);
                    one.wait(sending)?;
                    received = Some(other.wait_for(&mut receiving));
                }
                return Ok(received.unwrap());
            }
            let (sending, receiving);
            if expected {
                receiving = other.irecv_typed(&world, into, from, tag)?;
                sending = one.isend_typed(&world, data, to, tag)?;
            } else {
                sending = one.isend_typed(&world, data, to, tag)?;
                settle(one, other);
                receiving = other.irecv_typed(&world, into, from, tag)?;
            }
            settle(one, other);
            one.wait(sending)?;
            Ok(other.wait(receiving))
        })
        .unwrap()
    };
    (received.map(|status| status.bytes).map_err(|error| error.cause), buffer)
}

#[test]
fn every_type_in_one_piece_arrives_by_every_call() {
    let mixed = [
        PlainType::Mixed(Basic::I32, Basic::F32),
        PlainType::Mixed(Basic::F64, Basic::I64),
        PlainType::Several(3, Basic::F64),
        PlainType::Several(5, Basic::I16),
    ];
    let types = Basic::ALL.into_iter().map(PlainType::Basic).chain(mixed);
    let calls = [ReceiveCall::Blocking, ReceiveCall::Nonblocking, ReceiveCall::Persistent];
    let cases = types.flat_map(|datatype| calls.map(|call| (datatype, call)));
    for (datatype, call) in cases {
        // Inline, in a block and announced; all, more and less than there is room for. A blocking
        // send of what is announced would wait for its receive.
        let is_announced =
            |sent| matches!(call, ReceiveCall::Blocking) && sent as usize * datatype.bytes() > 64;
        let lengths = [(1, 1), (2, 2), (7, 7), (1, 2), (2, 1), (7, 5)];
        for (sent, room) in lengths.into_iter().filter(|(sent, _)| !is_announced(*sent)) {
            for (expected, is_unlike) in [(true, false), (false, false), (true, true), (false, true)] {
                let case = PlainCase { datatype, sent, room, call, expected, is_unlike };
                let size = datatype.bytes() as u64;
                let (received, buffer) = outcome(case);
                let wanted = match sent > room {
                    true => Err(Cause::Truncated { sent: sent * size, room: room * size }),
                    false => Ok(sent * size),
                };
                assert_eq!(received, wanted, "{case:?}");
                let mut data = pattern(5, (sent * size) as usize);
                if is_unlike {
                    data = datatype.turned(data);
                }
                let (came, untouched) = buffer.split_at((sent.min(room) * size) as usize);
                assert_eq!(came, &data[..came.len()], "{case:?}");
                assert!(untouched.iter().all(|byte| *byte == 0xAA), "{case:?}");
            }
        }
    }
}

/// A rank that sends elements, and never polls, finds the credits that have come back, as one that
/// sends bytes does: its messages stay eager and are over at once.
#[test]
fn a_rank_that_only_sends_elements_finds_its_credits() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    let world = ranks[0].world();
    for (round, count) in (0..50).flat_map(|round| [(round, 1), (round, 7)]) {
        let (data, mut buffer) = (pattern(round, 8 * count), vec![0; 8 * count]);
        together(&mut ranks, |one, other| {
            let into = TypedMut::new(&mut buffer, count as u64, Basic::F64);
            let receiving = other.irecv_typed(&world, into, Rank(0), Tag(1))?;
            let data = Typed::new(&data, count as u64, Basic::F64);
            let mut sending = one.isend_typed(&world, data, Rank(1), Tag(1))?;
            assert!(one.result(&mut sending)?.is_some());
            other.poll(8);
            other.wait(receiving)
        })
        .unwrap();
        assert_eq!(buffer, data);
    }
    let counters = ranks[0].counters();
    assert_eq!((counters.deferrals, counters.rendezvous, counters.messages_sent), (0, 0, 100));
}
