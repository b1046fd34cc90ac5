//! Decoders: no input panics, and what one takes says the same when it is written again.

use aldis_drivers::memif::{
    CONTROL_BYTES, ClientHandshake, ClientSetup, ControlMessage, MemifLayout, ServerHandshake, ServerSetup,
};
use aldis_protocols::discovery::MESSAGE_BYTES_MAX as DISCOVERY_BYTES_MAX;
use aldis_protocols::header::{DataHead, Kind, WholeHead};
use aldis_protocols::{Card, Control, Header, Packet, card, connect, control, discovery};

pub(crate) fn messages(bytes: &[u8]) {
    if let Ok(packet) = Packet::parse(bytes) {
        let head = packet.header.emit();
        assert_eq!(Header::parse(&head), Ok((packet.header, &[][..])), "a header that is written again");
    }
    for kind in [Kind::Eager, Kind::Signed] {
        if let Some((head, payload)) = WholeHead::parse(bytes, kind) {
            let (context, source, tag, sequence) =
                (head.context(), head.source(), head.tag(), head.sequence());
            let (limits, epoch, bytes_of) = (head.limits(), head.epoch(), payload.len() as u64);
            let length =
                if kind == Kind::Signed { bytes_of | u64::from(head.signature()) << 32 } else { bytes_of };
            let header = Header { kind, limits, epoch, context, source, tag, sequence, length };
            assert_eq!(Header::parse(bytes), Ok((header, payload)), "the quick look and the thorough one");
        }
    }
    if let Ok(head) = DataHead::parse(bytes) {
        assert!(head.offset.checked_add(head.header.length).is_some(), "the end of a fragment is a number");
    }
}

pub(crate) fn cards(bytes: &[u8]) {
    if let Ok(card) = Card::decode(bytes) {
        let mut buffer = [0; card::CARD_BYTES_MAX];
        let written = card.encode(&mut buffer).expect("the most that a card needs");
        assert_eq!(Card::decode(written), Ok(card));
    }
    if let Ok(control) = Control::decode(bytes) {
        let mut buffer = [0; control::CONTROL_MESSAGE_BYTES_MAX];
        let written = control.encode(&mut buffer).expect("the most that it needs");
        assert_eq!(Control::decode(written), Ok(control));
    }
}

/// Both ends of a memif's socket under any messages.
fn memif_messages(bytes: &[u8]) {
    let layout = MemifLayout::new(4).expect("short rings");
    let rings = layout.rings();
    let client = ClientSetup { id: 0, secret: "", name: "", bytes: layout.bytes() as u64, rings };
    let server = ServerSetup { id: 0, secret: "", name: "", regions: 2 };
    let (mut client, mut server) = (ClientHandshake::new(&client), ServerHandshake::new(&server));
    for piece in bytes.chunks(CONTROL_BYTES) {
        let mut whole = [0; CONTROL_BYTES];
        whole.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
        if let Ok(message) = ControlMessage::decode(&whole) {
            assert_eq!(ControlMessage::decode(&message.encode()), Ok(message), "written again");
        }
        let _ = (client.receive(&whole), server.receive(&whole, piece.len() % 2 == 0));
    }
}

pub(crate) fn handshakes(bytes: &[u8]) {
    memif_messages(bytes);
    if let Ok(message) = discovery::Message::decode(bytes) {
        let mut buffer = [0; DISCOVERY_BYTES_MAX];
        let written = message.encode(&mut buffer).expect("the most that it needs");
        assert_eq!(discovery::Message::decode(written), Ok(message));
    }
    if let Ok(message) = connect::Message::decode(bytes) {
        let mut buffer = [0; connect::MESSAGE_BYTES_MAX];
        let written = message.encode(&mut buffer).expect("the most that it needs");
        assert_eq!(connect::Message::decode(written), Ok(message));
    }
    // Few inputs have a checksum that is right; the same with one that is.
    let mut buffer = [0; DISCOVERY_BYTES_MAX];
    let length = bytes.len().min(card::CARD_BYTES_MAX);
    let message = discovery::Message {
        kind: discovery::DiscoveryKind::Here,
        job: 7,
        size: 9,
        rank: 8,
        epoch: aldis_hal::Epoch(1),
        number: 3,
        card: &bytes[..length],
    };
    let written = message.encode(&mut buffer).expect("the most that it needs");
    assert_eq!(discovery::Message::decode(written), Ok(message));
}
