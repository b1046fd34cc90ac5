//! The two machines of a rendezvous by fragments against each other.

use proptest::prelude::*;

use super::*;

const SENDING: Handle = Handle { slot: 1, generation: 1 };
const RECEIVING: Handle = Handle { slot: 2, generation: 3 };

/// The message that is exchanged, and how.
#[derive(Clone, Copy)]
struct Exchanged {
    length: u64,
    room: u64,
    fragment: u32,
    piece: Option<u64>,
    withdraw_after: Option<u32>,
}

/// Runs both machines against each other until both are done, in pieces of at most `piece` bytes if
/// given; returns the bytes that moved and the end.
fn run(message: Exchanged) -> (u64, Finish) {
    let Exchanged { length, room, fragment, piece, withdraw_after } = message;
    let mut sender = Sender::new(length);
    let mut receiver: Option<Receiver> = None;
    for turn in 0..20_000 {
        if withdraw_after == Some(turn) {
            assert!(sender.withdraw(), "it has been announced by then");
        }
        match sender.step(fragment) {
            SenderStep::Announce => {
                sender.announced();
                let whole = length.min(room);
                let mut new = Receiver::new(SENDING, length, piece.map_or(room, |piece| piece.min(room)));
                if piece.is_some() {
                    new.in_pieces(whole);
                }
                receiver = Some(new);
            }
            SenderStep::Data { receiver: to, offset, len } => {
                assert_eq!(to, RECEIVING);
                assert!(len > 0 && len <= fragment);
                let receiver = receiver.as_mut().unwrap();
                let start = receiver.piece().start;
                let place = receiver.data(offset, u64::from(len)).unwrap();
                assert_eq!(place, offset - start);
                assert!(piece.is_none_or(|piece| place + u64::from(len) <= piece));
                sender.sent(len);
            }
            SenderStep::Finish { status, .. } => {
                receiver.as_mut().unwrap().finish(status).unwrap();
                sender.finished();
            }
            SenderStep::Recall => panic!("nobody recalls it"),
            SenderStep::Wait | SenderStep::Done => {}
        }
        let Some(receiver) = receiver.as_mut() else { continue };
        match receiver.step() {
            ReceiverStep::Ask { sender: to, offset, end, more } => {
                assert_eq!(to, SENDING);
                receiver.asked();
                if withdraw_after == Some(0) {
                    continue;
                }
                sender.asked(RECEIVING, offset..end, more).unwrap();
            }
            ReceiverStep::Piece => receiver.next(length.min(room), piece.unwrap()),
            ReceiverStep::Done(status) => return (receiver.bytes_received(), status),
            ReceiverStep::GiveBack { .. } => panic!("nobody recalls it"),
            ReceiverStep::Wait => {}
        }
    }
    panic!("the machines hang");
}

proptest! {
    #[test]
    fn every_length_room_fragment_and_piece_completes(
        length in 0u64..5000,
        room in 0u64..5000,
        fragment in 1u32..700,
        piece in proptest::option::of(1u64..900),
    ) {
        let message = Exchanged { length, room, fragment, piece, withdraw_after: None };
        prop_assert_eq!(run(message), (length.min(room), Finish::Complete));
    }
}

#[test]
fn a_receiver_that_declines_between_pieces_lets_the_sender_end() {
    let (mut sender, mut receiver) = (Sender::new(100), Receiver::new(SENDING, 100, 10));
    receiver.in_pieces(100);
    sender.announced();
    sender.asked(RECEIVING, 0..10, true).unwrap();
    receiver.asked();
    receiver.decline();
    assert_eq!(receiver.step(), ReceiverStep::Wait, "the piece under way comes first");
    sender.sent(10);
    assert_eq!(sender.step(9), SenderStep::Wait);
    assert_eq!(receiver.data(0, 10), Ok(0));
    assert_eq!(receiver.data(10, 1), Err(Malformed::Control), "not asked for yet");
    receiver.decline();
    assert_eq!(receiver.step(), ReceiverStep::Ask { sender: SENDING, offset: 10, end: 10, more: false });
    sender.asked(RECEIVING, 10..10, false).unwrap();
    assert_eq!(sender.step(9), SenderStep::Finish { receiver: RECEIVING, status: Finish::Complete });
}

#[test]
fn a_withdrawn_sender_tells_the_receiver() {
    let message = Exchanged { length: 1000, room: 1000, fragment: 100, piece: None, withdraw_after: Some(1) };
    assert_eq!(run(message), (0, Finish::Withdrawn));
    let mut unannounced = Sender::new(5);
    assert!(!unannounced.withdraw());
    assert_eq!(unannounced.step(9), SenderStep::Done);
}

#[test]
fn wrong_order_and_wrong_ranges_are_refused() {
    let mut sender = Sender::new(10);
    assert_eq!(sender.asked(RECEIVING, 0..10, false), Err(Malformed::Control), "nothing was announced");
    sender.announced();
    assert_eq!(sender.asked(RECEIVING, 0..11, false), Err(Malformed::Length));
    assert_eq!(sender.asked(RECEIVING, 3..3, true), Err(Malformed::Length), "a piece of nothing, for ever");
    sender.asked(RECEIVING, 0..10, false).unwrap();
    assert_eq!(sender.asked(RECEIVING, 0..10, false), Err(Malformed::Control), "asked twice");

    let mut receiver = Receiver::new(SENDING, 10, 10);
    assert_eq!(receiver.data(0, 1), Err(Malformed::Control), "nothing was asked for");
    receiver.asked();
    assert_eq!(receiver.data(1, 1), Err(Malformed::Length), "a gap");
    assert_eq!(receiver.data(0, 11), Err(Malformed::Length), "past the end");
    assert_eq!(receiver.finish(Finish::Complete), Err(Malformed::Length), "bytes are missing");
    receiver.data(0, 10).unwrap();
    receiver.finish(Finish::Complete).unwrap();
    assert_eq!(receiver.finish(Finish::Complete), Err(Malformed::Control), "finished twice");
}

#[test]
fn a_recalled_message_is_given_back_or_asked_for() {
    let mut sender = Sender::new(10);
    assert!(!sender.recall(), "the receiver does not know of it");
    assert_eq!(sender.given_back(), Err(Malformed::Control));
    sender.announced();
    assert_eq!(sender.given_back(), Err(Malformed::Control), "nobody has asked");
    assert!(sender.recall() && sender.is_sending());
    assert_eq!(sender.given_back(), Err(Malformed::Control), "the question has not been sent");
    assert_eq!(sender.step(9), SenderStep::Recall);
    sender.recalled();
    assert!(!sender.recall() && !sender.is_sending(), "one question is enough");
    assert_eq!(sender.step(9), SenderStep::Wait);

    let (mut given, mut asked) = (sender, sender);
    given.given_back().unwrap();
    assert_eq!(given.step(9), SenderStep::Done);
    assert_eq!(given.asked(RECEIVING, 0..10, false), Err(Malformed::Control));
    assert_eq!(given.given_back(), Err(Malformed::Control), "twice");

    asked.asked(RECEIVING, 0..5, true).unwrap();
    assert_eq!(asked.given_back(), Err(Malformed::Control));
    asked.sent(5);
    assert!(!asked.recall(), "a part has been sent");
    assert_eq!((asked.step(9), asked.given_back()), (SenderStep::Wait, Err(Malformed::Control)));

    let receiver = Receiver::giving_back(SENDING);
    assert!(receiver.is_asking() && !receiver.is_receiving());
    assert_eq!(receiver.step(), ReceiverStep::GiveBack { sender: SENDING });
}

/// The question is not sent once the receiver has asked.
#[test]
fn what_is_asked_for_is_not_recalled() {
    let mut sender = Sender::new(10);
    sender.announced();
    assert!(sender.recall());
    sender.asked(RECEIVING, 0..10, false).unwrap();
    assert_eq!(sender.step(10), SenderStep::Data { receiver: RECEIVING, offset: 0, len: 10 });
    sender.sent(10);
    assert_eq!(sender.step(10), SenderStep::Finish { receiver: RECEIVING, status: Finish::Complete });
}
