use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn header(kind: Kind, length: u64) -> Header {
    let matchable = kind.is_matchable();
    Header {
        kind,
        limits: CreditLimits { envelopes: 0x0102, blocks: 0x0304 },
        epoch: Epoch(0x1111_2222),
        context: 0x3333_4444,
        source: if matchable { 5 } else { 0 },
        tag: if matchable { 0x7788 } else { 0 },
        sequence: if matchable { 0x0900 } else { 0 },
        length,
    }
}

/// Whole messages.
impl Header {
    fn emit_about(&self, request: Handle) -> Vec<u8> {
        [&self.emit()[..], &about(request)].concat()
    }

    fn emit_about_both(&self, sender: Handle, receiver: Handle) -> Vec<u8> {
        [&self.emit()[..], &about_both(sender, receiver)].concat()
    }

    fn emit_clear_to_send(&self, sender: Handle, receiver: Handle, offset: u64) -> Vec<u8> {
        [&self.emit()[..], &clear_to_send(sender, receiver, offset)].concat()
    }

    fn emit_exposed(&self, sender: Handle, key: MemoryKey) -> Vec<u8> {
        [&self.emit()[..], &exposed(sender, key)].concat()
    }

    fn emit_finish(&self, receiver: Handle, status: Finish, label: &Label) -> Vec<u8> {
        [&Self { length: label.values(), ..*self }.emit()[..], &finish(receiver, status, label)].concat()
    }
}

const SENDER: Handle = Handle { slot: 0xA, generation: 0xB };
const RECEIVER: Handle = Handle { slot: 0xC, generation: 0xD };
const KEY: MemoryKey = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

#[test]
fn golden_bytes_of_an_eager_header() {
    let golden = [
        1, 1, 0x02, 0x01, // kind, version, envelope limit
        0x22, 0x22, 0x11, 0x11, // epoch
        0x44, 0x44, 0x33, 0x33, // context
        5, 0, 0, 0, // source
        0x88, 0x77, 0, 0, // tag
        0x00, 0x09, 0x04, 0x03, // sequence, block limit
        3, 0, 0, 0, 0, 0, 0, 0, // length
    ];
    assert_eq!(header(Kind::Eager, 3).emit(), golden);
    let signed = header(Kind::Eager, 3).signed(0x0506_0708).emit();
    assert_eq!((signed[0], &signed[1..28], &signed[28..]), (19, &golden[1..28], &[8, 7, 6, 5][..]));
}

#[test]
fn golden_bytes_of_a_clear_to_send_body() {
    let bytes = header(Kind::ClearToSend, 0x1000).emit_clear_to_send(SENDER, RECEIVER, 0x20);
    assert_eq!(
        bytes[32..],
        [0xA, 0, 0, 0, 0xB, 0, 0, 0, 0xC, 0, 0, 0, 0xD, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0]
    );
}

/// Checks the bytes behind the header, for each shape of it; the header is the same for all.
#[test]
fn golden_bytes_of_all_other_bodies() {
    let (sender, receiver) = ([0xA, 0, 0, 0, 0xB, 0, 0, 0], [0xC, 0, 0, 0, 0xD, 0, 0, 0]);
    for kind in [Kind::Announce, Kind::AnnounceWrite, Kind::Defer, Kind::Settle, Kind::Recall] {
        assert_eq!(header(kind, 1).emit_about(SENDER)[32..], sender);
    }
    for kind in [Kind::Seek, Kind::Nothing] {
        assert_eq!(header(kind, 0).emit_about(RECEIVER)[32..], receiver);
    }
    for kind in [Kind::Offer, Kind::Grant] {
        assert_eq!(header(kind, 0).emit_about_both(SENDER, RECEIVER)[32..], [sender, receiver].concat());
    }
    for kind in [Kind::Expose, Kind::ClearToWrite] {
        assert_eq!(header(kind, 1).emit_exposed(SENDER, KEY)[32..], [&sender[..], &KEY].concat());
    }
    let data = header(Kind::Data, 5).emit_data(RECEIVER, 0x0102_0304_0506_0708);
    assert_eq!(data[32..], [receiver, [8, 7, 6, 5, 4, 3, 2, 1]].concat());
    let finish = header(Kind::Finish, 0).emit_finish(RECEIVER, Finish::Withdrawn, &Label::NONE);
    assert_eq!(finish[32..], [receiver, [1, 0, 0, 0, 0, 0, 0, 0]].concat());
}

#[test]
fn the_number_of_each_kind_is_fixed() {
    let kinds = [
        Kind::Eager,
        Kind::Announce,
        Kind::Defer,
        Kind::ClearToSend,
        Kind::Data,
        Kind::Finish,
        Kind::Credit,
        Kind::Control,
        Kind::Stalled,
        Kind::Seek,
        Kind::Offer,
        Kind::Nothing,
        Kind::Settle,
        Kind::Labelled,
        Kind::Grant,
        Kind::Expose,
        Kind::AnnounceWrite,
        Kind::ClearToWrite,
        Kind::Signed,
        Kind::ExposeSigned,
        Kind::Contact,
        Kind::Close,
        Kind::Recall,
    ];
    let numbers = kinds.map(|kind| header(kind, 0).emit()[0]);
    assert_eq!(numbers, core::array::from_fn(|index| index as u8 + 1));
    assert_eq!(GRANT_STARTED, 0x8000_0000);
}

#[test]
fn a_contact_tells_its_room_and_how_its_data_looks() {
    let room = Room { envelopes: 0x0102, blocks: 3, block_bytes: 0x0405_0607 };
    let (order, words) = (ByteOrder::Big, WordWidth::Eight);
    let body = contact(&room, order, words);
    assert_eq!(body, [2, 1, 3, 0, 7, 6, 5, 4, 1, 0, 0, 0, 1, 0, 0, 0]);
    fn parsed(bytes: &[u8]) -> Result<Body<'_>, Malformed> {
        Packet::parse(bytes).map(|packet| packet.body)
    }
    let bare = header(Kind::Contact, 0);
    let tagged = [&Header { tag: 1, ..bare }.emit()[..], &body].concat();
    assert_eq!(parsed(&tagged), Err(Malformed::Reserved));
    let mut bytes = [&bare.emit()[..], &body].concat();
    assert_eq!(parsed(&bytes), Ok(Body::Contact { room, order, words }));
    bytes[HEADER_BYTES + 8] = 2;
    assert_eq!(parsed(&bytes), Err(Malformed::Reserved), "there is no third order");
    assert_eq!(parsed(&bytes[..40]), Err(Malformed::Short { got: 8, need: 16 }));
    let close = Header { kind: Kind::Close, ..bare };
    assert_eq!(parsed(&close.emit()), Ok(Body::Close));
    assert!(parsed(&[&close.emit()[..], &[0]].concat()).is_err());
}

fn label() -> Label {
    Label::new(Some(0x0102_0304), Some(0x0506_0708))
}

#[test]
fn golden_bytes_of_labels() {
    let (signature, checksum) = (Some(0x0102_0304), Some(0x0506_0708));
    assert_eq!(label().emit(), [3, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(Label::new(signature, None).emit(), [1, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0]);
    assert_eq!(Label::new(None, checksum).emit(), [2, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5]);
    assert_eq!(Label::NONE.emit(), [0; LABEL_BYTES]);
    let finish = header(Kind::Finish, 0).emit_finish(RECEIVER, Finish::Complete, &label());
    assert_eq!(finish[24..32], [4, 3, 2, 1, 8, 7, 6, 5], "where other messages have their length");
    assert_eq!(finish[40..], [0, 0, 0, 0, 3, 0, 0, 0]);
}

#[test]
fn lies_in_labels_are_named() {
    let labelled = header(Kind::Labelled, 1).emit();
    let parse = |label: &[u8]| Packet::parse(&[&labelled[..], label, b"x"].concat()).map(|_| ());
    assert_eq!(parse(&label().emit()), Ok(()));
    let (mut unknown, mut stray) = (label().emit(), Label::new(Some(1), None).emit());
    unknown[0] = 7;
    stray[11] = 1;
    for label in [unknown, stray] {
        assert_eq!(parse(&label), Err(Malformed::Reserved));
    }
    assert_eq!(parse(&label().emit()[..9]), Err(Malformed::Short { got: 10, need: 12 }));
    let withdrawn = header(Kind::Finish, 0).emit_finish(RECEIVER, Finish::Withdrawn, &label());
    assert_eq!(Packet::parse(&withdrawn), Err(Malformed::Reserved), "nothing can be said of no data");
    let odd = Header { tag: 4, ..header(Kind::Data, 1) }.emit_data(RECEIVER, 0);
    assert_eq!(Packet::parse(&[&odd[..], b"x"].concat()), Err(Malformed::Reserved));
}

#[test]
fn every_kind_survives_the_wire() {
    let eager = header(Kind::Eager, 3);
    let bytes = [&eager.emit()[..], b"abc"].concat();
    assert_eq!(Packet::parse(&bytes), Ok(Packet { header: eager, body: Body::Eager(b"abc") }));

    for (kind, deferred) in [(Kind::Announce, false), (Kind::Defer, true)] {
        let header = header(kind, 1 << 40);
        let body = Body::Announce { sender: SENDER, deferred };
        assert_eq!(Packet::parse(&header.emit_about(SENDER)), Ok(Packet { header, body }));
    }

    for (tag, late, more) in [(0, false, false), (1, true, false), (2, false, true), (3, true, true)] {
        let clear = Header { tag, ..header(Kind::ClearToSend, 100) };
        let body =
            Body::ClearToSend { sender: SENDER, receiver: RECEIVER, offset: 7, late, more, read: false };
        assert_eq!(
            Packet::parse(&clear.emit_clear_to_send(SENDER, RECEIVER, 7)),
            Ok(Packet { header: clear, body })
        );
    }

    let read = Header { tag: 5, ..header(Kind::ClearToSend, 7) };
    let body = Body::ClearToSend {
        sender: SENDER,
        receiver: RECEIVER,
        offset: 7,
        late: true,
        more: false,
        read: true,
    };
    assert_eq!(
        Packet::parse(&read.emit_clear_to_send(SENDER, RECEIVER, 7)),
        Ok(Packet { header: read, body })
    );

    let expose = header(Kind::Expose, 1 << 40);
    let body = Body::Expose { sender: SENDER, key: KEY, signature: None };
    assert_eq!(Packet::parse(&expose.emit_exposed(SENDER, KEY)), Ok(Packet { header: expose, body }));
    let signed = header(Kind::Expose, u64::from(u32::MAX)).signed(0xABCD_0123);
    assert_eq!((signed.kind, signed.bytes()), (Kind::ExposeSigned, u64::from(u32::MAX)));
    let body = Body::Expose { sender: SENDER, key: KEY, signature: Some(0xABCD_0123) };
    assert_eq!(Packet::parse(&signed.emit_exposed(SENDER, KEY)), Ok(Packet { header: signed, body }));

    let announce = header(Kind::AnnounceWrite, 1 << 40);
    let body = Body::AnnounceWrite { sender: SENDER };
    assert_eq!(Packet::parse(&announce.emit_about(SENDER)), Ok(Packet { header: announce, body }));
    for (tag, late) in [(0, false), (1, true)] {
        let (context, source) = (RECEIVER.slot, RECEIVER.generation);
        let clear = Header { context, source, tag, ..header(Kind::ClearToWrite, 100) };
        let body = Body::ClearToWrite { sender: SENDER, receiver: RECEIVER, key: KEY, late };
        assert_eq!(Packet::parse(&clear.emit_exposed(SENDER, KEY)), Ok(Packet { header: clear, body }));
    }

    for (tag, typed, checked) in [(0, false, false), (1, true, false), (2, false, true), (3, true, true)] {
        let data = Header { tag, ..header(Kind::Data, 2) };
        let bytes = [&data.emit_data(RECEIVER, 9)[..], b"xy"].concat();
        let body = Body::Data { receiver: RECEIVER, offset: 9, payload: b"xy", typed, checked };
        assert_eq!(Packet::parse(&bytes), Ok(Packet { header: data, body }));
    }

    for (status, label) in [Finish::Complete, Finish::Written]
        .map(|good| [(good, Label::NONE), (good, label())])
        .concat()
        .into_iter()
        .chain([(Finish::Withdrawn, Label::NONE)])
    {
        let bytes = header(Kind::Finish, 0).emit_finish(RECEIVER, status, &label);
        let body = Body::Finish { receiver: RECEIVER, status, label };
        assert_eq!(Packet::parse(&bytes).map(|packet| packet.body), Ok(body));
    }

    let labelled = header(Kind::Labelled, 3);
    let bytes = [&labelled.emit()[..], &label().emit(), b"abc"].concat();
    assert_eq!(Packet::parse(&bytes), Ok(Packet { header: labelled, body: Body::Labelled(label(), b"abc") }));
    let signed = header(Kind::Eager, 3).signed(7);
    let bytes = [&signed.emit()[..], b"abc"].concat();
    assert_eq!(
        Packet::parse(&bytes),
        Ok(Packet { header: signed, body: Body::Labelled(Label::signed(7), b"abc") })
    );
    let whole =
        |bytes, kind| WholeHead::parse(bytes, kind).map(|(head, payload)| (head.signature(), payload));
    assert_eq!(whole(&bytes, Kind::Signed), Some((7, &b"abc"[..])));
    assert_eq!((signed.bytes(), labelled.bytes()), (3, 3));
    assert_eq!(whole(&bytes[..34], Kind::Signed), None);
    let plain = [&header(Kind::Eager, 3).emit()[..], b"abc"].concat();
    assert_eq!(whole(&plain, Kind::Eager), Some((0, &b"abc"[..])));
    assert_eq!((whole(&bytes, Kind::Eager), whole(&plain, Kind::Signed)), (None, None));

    let seek = Header { tag: 9, ..header(Kind::Seek, 0) };
    let body = Body::Seek { receiver: RECEIVER };
    assert_eq!(Packet::parse(&seek.emit_about(RECEIVER)), Ok(Packet { header: seek, body }));
    let offer = Header { source: 2, tag: 9, ..header(Kind::Offer, 1 << 40) };
    let body = Body::Offer { sender: SENDER, receiver: RECEIVER };
    assert_eq!(Packet::parse(&offer.emit_about_both(SENDER, RECEIVER)), Ok(Packet { header: offer, body }));
    for (tag, started) in [(3, false), (3 | GRANT_STARTED, true)] {
        let header = Header { tag, ..header(Kind::Grant, 12) };
        let body = Body::Grant { sender: SENDER, receiver: RECEIVER, partitions: 3, started };
        assert_eq!(Packet::parse(&header.emit_about_both(SENDER, RECEIVER)), Ok(Packet { header, body }));
    }
    for (length, more) in [(0, false), (1, true)] {
        let header = header(Kind::Nothing, length);
        let body = Body::Nothing { receiver: RECEIVER, more };
        assert_eq!(Packet::parse(&header.emit_about(RECEIVER)), Ok(Packet { header, body }));
    }
    for (length, taken) in [(0, false), (1, true)] {
        let header = header(Kind::Settle, length);
        let body = Body::Settle { sender: SENDER, taken };
        assert_eq!(Packet::parse(&header.emit_about(SENDER)), Ok(Packet { header, body }));
    }
    let stalled = header(Kind::Stalled, 0);
    assert_eq!(Packet::parse(&stalled.emit()), Ok(Packet { header: stalled, body: Body::Stalled }));

    let credit = header(Kind::Credit, 0);
    assert_eq!(Packet::parse(&credit.emit()), Ok(Packet { header: credit, body: Body::Credit }));
}

#[test]
fn lies_are_named() {
    let eager = header(Kind::Eager, 4);
    assert_eq!(Packet::parse(&eager.emit()), Err(Malformed::Length), "payload is missing");
    assert_eq!(Packet::parse(&[1, 1, 0]), Err(Malformed::Short { got: 3, need: 32 }));

    let mut bytes = eager.emit();
    bytes[1] = 9;
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Version(9)));
    bytes[1] = VERSION;
    bytes[0] = 77;
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Kind(77)));

    let backwards = header(Kind::ClearToSend, 5).emit_clear_to_send(SENDER, RECEIVER, 6);
    assert_eq!(Packet::parse(&backwards), Err(Malformed::Length));

    let stray = Header { tag: 2, ..header(Kind::ClearToWrite, 1) }.emit_exposed(SENDER, KEY);
    assert_eq!(Packet::parse(&stray), Err(Malformed::Reserved), "what is written comes in one piece");

    for (tag, length) in [(4, 8), (6, 7), (8, 7)] {
        let stray =
            Header { tag, ..header(Kind::ClearToSend, length) }.emit_clear_to_send(SENDER, RECEIVER, 7);
        assert_eq!(Packet::parse(&stray), Err(Malformed::Reserved), "bits {tag:#b} with {length}");
    }

    let wraps = [&header(Kind::Data, 2).emit_data(RECEIVER, u64::MAX)[..], b"xy"].concat();
    assert_eq!(Packet::parse(&wraps), Err(Malformed::Length));

    let mut reserved = header(Kind::Finish, 0).emit_finish(RECEIVER, Finish::Complete, &Label::NONE);
    reserved[47] = 1;
    assert_eq!(Packet::parse(&reserved), Err(Malformed::Reserved));
    let mut tagged = header(Kind::Credit, 0).emit();
    tagged[16] = 1;
    assert_eq!(Packet::parse(&tagged), Err(Malformed::Reserved));
}

proptest! {
    /// No bytes panic, and whatever parses is made of exactly the bytes that emitting it gives.
    #[test]
    fn parsing_is_total_and_canonical(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..25) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Some(version) = bytes.get_mut(1) {
            *version = VERSION;
        }
        for length in [32, 44, 48, bytes.len()].map(|before| bytes.len().saturating_sub(before) as u64) {
            if let Some(field) = bytes.get_mut(24..32) {
                let signature = if kind == Kind::Signed as u8 { 0xABCD_0000_0000 } else { 0 };
                field.copy_from_slice(&(length | signature).to_le_bytes());
            }
            let Ok(Packet { header, body }) = Packet::parse(&bytes) else { continue };
            let again = match body {
                Body::Eager(payload) | Body::Control(payload) => [&header.emit()[..], payload].concat(),
                Body::Announce { sender, .. } | Body::AnnounceWrite { sender } => header.emit_about(sender),
                Body::Expose { sender, key, .. } | Body::ClearToWrite { sender, key, .. } => header.emit_exposed(sender, key),
                Body::ClearToSend { sender, receiver, offset, .. } => {
                    header.emit_clear_to_send(sender, receiver, offset)
                }
                Body::Data { receiver, offset, payload, .. } => {
                    [&header.emit_data(receiver, offset)[..], payload].concat()
                }
                Body::Finish { receiver, status, label } => {
                    header.emit_finish(receiver, status, &label)
                }
                Body::Labelled(_, payload) if header.kind == Kind::Signed => [&header.emit()[..], payload].concat(),
                Body::Labelled(label, payload) => [&header.emit()[..], &label.emit(), payload].concat(),
                Body::Credit | Body::Stalled | Body::Close => header.emit().to_vec(),
                Body::Contact { room, order, words } => [&header.emit()[..], &contact(&room, order, words)].concat(),
                Body::Seek { receiver: request }
                | Body::Nothing { receiver: request, .. }
                | Body::Settle { sender: request, .. }
                | Body::Recall { sender: request, .. } => header.emit_about(request),
                Body::Offer { sender, receiver } | Body::Grant { sender, receiver, .. } => {
                    header.emit_about_both(sender, receiver)
                }
            };
            prop_assert_eq!(&again, &bytes);
        }
    }
}
