//! The errors that a label finds: other types than were sent, other bytes than were sent; peers
//! that lie about it.

use aldis_kernel::datatype::{Basic, Field, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::protocols::header::HEADER_BYTES;
use aldis_kernel::{Error, Rank, Status, Tag, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};

type Table = TypeTable<8, 256>;

/// Sends on the first rank and receives on the second; between the two, `meddle` may do something
/// to what is on the wire.
fn exchange(
    tables: &mut [Table; 2],
    run: impl for<'a, 's> FnOnce(&'a mut [rig::Rank<'s>], &rig::RigQueue) -> Result<Status, Error>,
) -> Result<Status, Error> {
    let mut job = Job::new(2, Shape::default());
    let queue = job.queue(0, 1);
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(tables) {
        rank.attach_types(table.types()).unwrap();
    }
    run(&mut ranks, &queue)
}

fn tables() -> [Table; 2] {
    [Table::new(), Table::new()]
}

/// Elements of a basic type of eight bytes in a message that is inline, eager, and of several
/// fragments.
const COUNTS: [u64; 3] = [1, 5, 60];

/// So many elements of a basic type.
struct BasicElements(u64, Basic);

/// Returns the result of receiving `sent` elements of one type as `room` of another one.
fn received_as(sent: BasicElements, room: BasicElements) -> Result<Status, Cause> {
    let data = pattern(3, sent.0 as usize * sent.1.size());
    let mut buffer = vec![0; room.0 as usize * room.1.size()];
    let result = exchange(&mut tables(), |ranks, _| {
        let world = ranks[0].world();
        together(ranks, |one, other| {
            let sending = one.isend_typed(&world, Typed::new(&data, sent.0, sent.1), Rank(1), Tag(1))?;
            settle(one, other);
            let into = TypedMut::new(&mut buffer, room.0, room.1);
            let receiving = other.irecv_typed(&world, into, Rank(0), Tag(1))?;
            settle(one, other);
            one.wait(sending)?;
            other.wait(receiving)
        })
    });
    assert_eq!(buffer[..data.len().min(buffer.len())], data[..data.len().min(buffer.len())]);
    result.map_err(|error| error.cause)
}

#[test]
fn other_types_of_the_same_size_are_noticed_and_received() {
    for count in COUNTS {
        for (sent, expected) in [(Basic::F64, Basic::I64), (Basic::U64, Basic::I64)] {
            let cause = received_as(BasicElements(count, sent), BasicElements(count, expected)).unwrap_err();
            assert!(matches!(cause, Cause::SignatureMismatch { .. }), "{cause:?}");
        }
        let cause =
            received_as(BasicElements(2 * count, Basic::F32), BasicElements(count, Basic::F64)).unwrap_err();
        assert!(matches!(cause, Cause::SignatureMismatch { .. }), "{cause:?}");
        assert!(received_as(BasicElements(count, Basic::F64), BasicElements(count, Basic::F64)).is_ok());
    }
}

#[test]
fn a_shorter_message_is_compared_with_as_much_of_the_receive() {
    for count in COUNTS {
        assert_eq!(
            received_as(BasicElements(count, Basic::U64), BasicElements(count + 9, Basic::U64))
                .unwrap()
                .bytes,
            8 * count
        );
        let cause =
            received_as(BasicElements(count, Basic::F64), BasicElements(count + 9, Basic::U64)).unwrap_err();
        assert!(matches!(cause, Cause::SignatureMismatch { .. }), "{cause:?}");
    }
    let cause = received_as(BasicElements(3, Basic::U32), BasicElements(2, Basic::U64)).unwrap_err();
    assert!(
        matches!(cause, Cause::SignatureMismatch { expected: 0, .. }),
        "it ends inside an element: {cause:?}"
    );
    let cause = received_as(BasicElements(3, Basic::U32), BasicElements(1, Basic::U64)).unwrap_err();
    assert_eq!(cause, Cause::Truncated { sent: 12, room: 8 }, "nothing more can be said of what was cut off");
}

/// Spoils a byte of the last message on the wire, and tells whether there was any.
fn spoil(queue: &rig::RigQueue, byte: usize) -> bool {
    let mut queue = queue.borrow_mut();
    let Some(message) = queue.back_mut() else { return false };
    let place = message.len() - 1 - byte;
    message[place] ^= 0x10;
    true
}

#[test]
fn a_spoilt_message_is_found_out_if_it_was_checked_whoever_receives_it() {
    for count in COUNTS {
        for typed in [true, false] {
            for checked in [true, false] {
                let data = pattern(3, count as usize * 8);
                let mut buffer = vec![0; data.len()];
                let result = exchange(&mut tables(), |ranks, queue| {
                    let world = ranks[0].world();
                    together(ranks, |one, other| {
                        let receiving = if typed {
                            let into = TypedMut::new(&mut buffer, count, Basic::U64);
                            other.irecv_typed(&world, into, Rank(0), Tag(1))?
                        } else {
                            other.irecv(&world, &mut buffer, Rank(0), Tag(1))?
                        };
                        let send = Typed::new(&data, count, Basic::U64);
                        let send = if checked { send.checked() } else { send };
                        let sending = one.isend_typed(&world, send, Rank(1), Tag(1))?;
                        if count == 60 {
                            // The announcement and its answer, then the first fragment.
                            other.poll(9);
                            one.poll(2);
                        }
                        assert!(spoil(queue, 3));
                        settle(one, other);
                        one.wait(sending)?;
                        other.wait(receiving)
                    })
                });
                assert_eq!(buffer.iter().zip(&data).filter(|(got, sent)| got != sent).count(), 1);
                match result {
                    Ok(status) => assert_eq!((checked, status.bytes), (false, 8 * count)),
                    Err(error) => {
                        assert!(checked && matches!(error.cause, Cause::Corrupt { .. }), "{error}");
                        assert_eq!((error.peer(), error.tag()), (Some(Rank(0)), Some(Tag(1))));
                        assert_eq!(error.bytes_done, 8 * count);
                    }
                }
            }
        }
    }
}

#[test]
fn a_kept_message_is_checked_too() {
    for (count, typed) in [(1u64, true), (1, false), (5, true), (5, false)] {
        let data = pattern(3, count as usize * 8);
        let mut buffer = vec![0; data.len()];
        let result = exchange(&mut tables(), |ranks, queue| {
            let world = ranks[0].world();
            ranks[0].send_typed(&world, Typed::new(&data, count, Basic::U64).checked(), Rank(1), Tag(1))?;
            assert!(spoil(queue, 0));
            ranks[1].poll(9);
            if typed {
                ranks[1].recv_typed(&world, TypedMut::new(&mut buffer, count, Basic::U64), Rank(0), Tag(1))
            } else {
                ranks[1].recv(&world, &mut buffer, Rank(0), Tag(1))
            }
        });
        assert!(matches!(result.unwrap_err().cause, Cause::Corrupt { .. }));
    }
}

#[test]
fn a_pooled_receive_takes_a_labelled_message_without_its_label() {
    let data = pattern(3, 40);
    exchange(&mut tables(), |ranks, _| {
        let world = ranks[0].world();
        ranks[0].send_typed(&world, Typed::new(&data, 5, Basic::U64).checked(), Rank(1), Tag(1))?;
        ranks[1].poll(9);
        let message = ranks[1].recv_pooled(&world, Rank(0), Tag(1))?;
        assert_eq!(&*message, &data[..]);
        Ok(message.status())
    })
    .unwrap();
}

#[test]
fn a_structure_is_not_its_fields_in_another_order() {
    let result = exchange(&mut tables(), |ranks, _| {
        let world = ranks[0].world();
        let made = [[Basic::U32, Basic::F32], [Basic::F32, Basic::U32]]
            .map(|[first, second]| [Field::new(0, first), Field::new(4, second)]);
        let types = ranks[0].types()?;
        let sent = types.structure(&made[0])?;
        let sent = types.commit(sent)?;
        let types = ranks[1].types()?;
        let received = types.structure(&made[1])?;
        let received = types.commit(received)?;
        ranks[0].send_typed(&world, Typed::new(&[1u32, 2], 1, sent), Rank(1), Tag(1))?;
        ranks[1].recv_typed(&world, TypedMut::new(&mut [0u32; 2], 1, received), Rank(0), Tag(1))
    });
    assert!(matches!(result.unwrap_err().cause, Cause::SignatureMismatch { .. }));
}

/// A label may be spoilt as well as data: what it says is not trusted, and what is no label ends
/// the peer.
#[test]
fn no_label_does_harm() {
    for byte in 0..HEADER_BYTES + 12 + 8 {
        for bit in 0..8 {
            let data = pattern(3, 8);
            let mut buffer = vec![0; data.len()];
            let result = exchange(&mut tables(), |ranks, queue| {
                let world = ranks[0].world();
                ranks[0].send_typed(&world, Typed::new(&data, 1, Basic::U64).checked(), Rank(1), Tag(1))?;
                queue.borrow_mut()[0][byte] ^= 1 << bit;
                let into = TypedMut::new(&mut buffer, 1, Basic::U64);
                ranks[1].within(core::time::Duration::from_micros(200)).recv_typed(
                    &world,
                    into,
                    Rank(0),
                    Tag(1),
                )
            });
            // Limits are credits: those of this message may be wrong without any rank noticing.
            let is_credit = matches!(byte, 2 | 3 | 22 | 23);
            assert!(result.is_err() || is_credit, "bit {bit} of byte {byte}");
        }
    }
}
