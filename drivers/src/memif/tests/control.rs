//! Messages of the socket, and both ends of a handshake.

use super::*;

const CLIENT: ClientSetup<'_> =
    ClientSetup { id: 7, secret: "", name: "one", bytes: LAYOUT.bytes() as u64, rings: LAYOUT.rings() };
const SERVER: ServerSetup<'_> = ServerSetup { id: 7, secret: "", name: "two", regions: 2 };

/// Runs a handshake. Returns the descriptors that went with messages, and the work of the server.
fn shake(
    client: &ClientSetup<'_>,
    server: &ServerSetup<'_>,
) -> Result<(Vec<DescriptorKind>, Vec<ServerWork>), MemifError> {
    let (mut one, mut two) = (ClientHandshake::new(client), ServerHandshake::new(server));
    let (mut sent, mut worked, mut answer) = (Vec::new(), Vec::new(), two.hello());
    loop {
        match one.receive(&answer)? {
            ClientStep::Start(name) => {
                assert_eq!(name, MemifText::new(server.name));
                return Ok((sent, worked));
            }
            ClientStep::Send { message, with } => {
                sent.extend(with);
                let step = two.receive(&message, with.is_some())?;
                worked.push(step.work);
                answer = step.answer;
            }
        }
    }
}

#[test]
fn both_ends_come_to_the_same_rings() {
    let (sent, worked) = shake(&CLIENT, &SERVER).unwrap();
    let bells = [RingDirection::ToServer, RingDirection::ToClient];
    let files = [DescriptorKind::Region(0), DescriptorKind::Bell(bells[0]), DescriptorKind::Bell(bells[1])];
    assert_eq!(sent, files);
    let works = [
        ServerWork::Nothing,
        ServerWork::Map { region: 0, bytes: LAYOUT.bytes() as u64 },
        ServerWork::Keep(bells[0]),
        ServerWork::Keep(bells[1]),
        ServerWork::Start(LAYOUT.rings()),
    ];
    assert_eq!(worked, works);
}

#[test]
fn what_a_client_asks_for_is_held_against_what_there_is() {
    let asked = |client| shake(&client, &SERVER).map(drop);
    assert_eq!(asked(ClientSetup { id: 8, ..CLIENT }), Err(MemifError::Id { asked: 8, own: 7 }));
    assert_eq!(asked(ClientSetup { secret: "word", ..CLIENT }), Ok(()), "none is asked for");
    assert_eq!(asked(ClientSetup { bytes: 0, ..CLIENT }), Err(MemifError::Region(0)));
    let [good, to_client] = CLIENT.rings;
    for bad in [
        RingPlacement { index: 1, ..good },
        RingPlacement { private_bytes: 8, ..good },
        RingPlacement { direction: RingDirection::ToClient, ..good },
        RingPlacement { log2: 15, ..good },
    ] {
        let rings = [bad, to_client];
        assert_eq!(asked(ClientSetup { rings, ..CLIENT }), Err(MemifError::Ring), "{bad:?}");
    }
    let guarded = ServerSetup { secret: "word", ..SERVER };
    for (secret, is_known) in [("word", true), ("", false), ("wor", false), ("words", false)] {
        let shaken = shake(&ClientSetup { secret, ..CLIENT }, &guarded).map(drop);
        assert_eq!(shaken, if is_known { Ok(()) } else { Err(MemifError::Secret) }, "{secret}");
    }
    let mut server = ServerHandshake::new(&SERVER);
    let init = InitRequest { version: 0x0200, id: 7, mode: 0, secret: [0; 24], name: MemifText::default() };
    let mut ask = |init| server.receive(&ControlMessage::Init(init).encode(), false).map(drop);
    let old = MemifError::Version { oldest: 0x0103, newest: 0x0103 };
    assert_eq!(ask(InitRequest { version: 0x0103, ..init }), Err(old));
    assert_eq!(ask(InitRequest { mode: 1, ..init }), Err(MemifError::Mode(1)));
    assert_eq!((ask(init), ask(init)), (Ok(()), Err(MemifError::Unexpected(3))));
}

#[test]
fn a_server_of_another_version_or_with_shorter_rings_is_told() {
    let hello = HelloLimits {
        name: MemifText::default(),
        oldest: 0x0200,
        newest: 0x0200,
        region_max: 0,
        ring_to_client_max: 0,
        ring_to_server_max: 0,
        ring_log2_max: 14,
    };
    let judged =
        |limits| ClientHandshake::new(&CLIENT).receive(&ControlMessage::Hello(limits).encode()).map(drop);
    assert_eq!(judged(hello), Ok(()));
    let older = MemifError::Version { oldest: 0x0100, newest: 0x0103 };
    assert_eq!(judged(HelloLimits { oldest: 0x0100, newest: 0x0103, ..hello }), Err(older));
    let newer = MemifError::Version { oldest: 0x0201, newest: 0x0300 };
    assert_eq!(judged(HelloLimits { oldest: 0x0201, newest: 0x0300, ..hello }), Err(newer));
    assert_eq!(judged(HelloLimits { ring_log2_max: 2, ..hello }), Err(MemifError::Ring));
}

#[test]
fn files_that_do_not_come_and_ends_are_told() {
    let mut server = ServerHandshake::new(&SERVER);
    let mut client = ClientHandshake::new(&CLIENT);
    let ClientStep::Send { message, .. } = client.receive(&server.hello()).unwrap() else {
        panic!("no init")
    };
    let answer = server.receive(&message, false).unwrap().answer;
    let ClientStep::Send { message, .. } = client.receive(&answer).unwrap() else { panic!("no region") };
    assert_eq!(server.receive(&message, false), Err(MemifError::NoDescriptor));
    let reason = MemifText::new("ID not found");
    let end = ControlMessage::Disconnect { code: 0, reason }.encode();
    assert_eq!(client.receive(&end), Err(MemifError::Refused(reason)));
    assert_eq!(server.receive(&end, false), Err(MemifError::Refused(reason)));
    assert_eq!(client.receive(&end[1..]), Err(MemifError::Malformed(0)));
    assert_eq!(client.receive(&[0xFF; CONTROL_BYTES]), Err(MemifError::Malformed(0xFFFF)));
    let early = ControlMessage::Connect(reason).encode();
    assert_eq!(server.receive(&early, false), Err(MemifError::Ring), "no rings yet");
}

/// The layouts of libmemif and DPDK, byte by byte.
#[test]
fn messages_lie_as_others_read_them() {
    let mut ring = [0; CONTROL_BYTES];
    ring[..17].copy_from_slice(
        &[
            [5_u16, 1, 2, 3].map(u16::to_ne_bytes).concat(),
            0x0102_0304_u32.to_ne_bytes().into(),
            vec![10, 0, 0, 0, 0],
        ]
        .concat(),
    );
    let placed = RingPlacement {
        direction: RingDirection::ToServer,
        index: 2,
        region: 3,
        offset: 0x0102_0304,
        log2: 10,
        private_bytes: 0,
    };
    assert_eq!(ControlMessage::AddRing(placed).encode(), ring);
    let region = ControlMessage::AddRegion { index: 1, bytes: 2 }.encode();
    assert_eq!((&region[2..4], &region[4..12]), (&1_u16.to_ne_bytes()[..], &2_u64.to_ne_bytes()[..]));
    let hello = ServerHandshake::new(&SERVER).hello();
    assert_eq!((&hello[2..6], hello[34..36].as_ref()), (&b"two\0"[..], &0x0200_u16.to_ne_bytes()[..]));
    assert_eq!((&hello[38..40], hello[44]), (&1_u16.to_ne_bytes()[..], 14));
    let init = InitRequest { version: 1, id: 2, mode: 3, secret: [4; 24], name: MemifText::new("n") };
    let init = ControlMessage::Init(init).encode();
    assert_eq!(
        (&init[4..8], init[8], &init[9..33], &init[33..35]),
        (&2_u32.to_ne_bytes()[..], 3, &[4; 24][..], &b"n\0"[..])
    );
    let end = ControlMessage::Disconnect { code: 9, reason: MemifText::new("why") }.encode();
    assert_eq!((&end[2..6], &end[6..10]), (&9_u32.to_ne_bytes()[..], &b"why\0"[..]));
}

fn texts() -> impl Strategy<Value = MemifText> {
    "[a-z]{0,40}".prop_map(|text| MemifText::new(&text))
}

fn messages() -> impl Strategy<Value = ControlMessage> {
    let hello = (texts(), any::<[u16; 5]>(), any::<u8>()).prop_map(
        |(name, [oldest, newest, region_max, ring_to_client_max, ring_to_server_max], ring_log2_max)| {
            ControlMessage::Hello(HelloLimits {
                name,
                oldest,
                newest,
                region_max,
                ring_to_client_max,
                ring_to_server_max,
                ring_log2_max,
            })
        },
    );
    let init =
        (any::<(u16, u32, u8, [u8; 24])>(), texts()).prop_map(|((version, id, mode, secret), name)| {
            ControlMessage::Init(InitRequest { version, id, mode, secret, name })
        });
    let ring = any::<(bool, [u16; 3], u32, u8)>().prop_map(
        |(is_to_server, [index, region, private_bytes], offset, log2)| {
            let direction = if is_to_server { RingDirection::ToServer } else { RingDirection::ToClient };
            ControlMessage::AddRing(RingPlacement { direction, index, region, offset, log2, private_bytes })
        },
    );
    prop_oneof![
        Just(ControlMessage::Ack),
        hello,
        init,
        any::<(u16, u64)>().prop_map(|(index, bytes)| ControlMessage::AddRegion { index, bytes }),
        ring,
        texts().prop_map(ControlMessage::Connect),
        texts().prop_map(ControlMessage::Connected),
        (any::<u32>(), texts()).prop_map(|(code, reason)| ControlMessage::Disconnect { code, reason }),
    ]
}

/// Messages of which most are right at some time.
fn likely() -> impl Strategy<Value = ControlMessage> {
    let init = InitRequest { version: 0x0200, id: 7, mode: 0, secret: [0; 24], name: MemifText::default() };
    let [to_server, to_client] = LAYOUT.rings();
    let right = vec![
        ControlMessage::Init(init),
        ControlMessage::AddRegion { index: 0, bytes: 4096 },
        ControlMessage::AddRegion { index: 1, bytes: 4096 },
        ControlMessage::AddRing(to_server),
        ControlMessage::AddRing(to_client),
        ControlMessage::Connect(MemifText::default()),
    ];
    prop_oneof![1 => messages(), 9 => proptest::sample::select(right)]
}

proptest! {
    #[test]
    fn messages_come_back(message in messages()) {
        prop_assert_eq!(ControlMessage::decode(&message.encode()), Ok(message));
    }

    /// Whatever bytes come are a message or none, at either end and at any time.
    #[test]
    fn any_bytes_are_harmless(
        heard in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 120..136), 0..10_u16, any::<bool>()), 1..20),
    ) {
        let (mut one, mut two) = (ClientHandshake::new(&CLIENT), ServerHandshake::new(&SERVER));
        for (mut bytes, kind, has_descriptor) in heard {
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            if let Ok(message) = ControlMessage::decode(&bytes) {
                prop_assert_eq!(ControlMessage::decode(&message.encode()), Ok(message));
            }
            let _ = (one.receive(&bytes), two.receive(&bytes, has_descriptor));
        }
    }

    /// Messages of the protocol in any order never start a connection whose rings did not come.
    #[test]
    fn messages_in_any_order_start_nothing_half(heard in proptest::collection::vec(likely(), 1..30)) {
        let mut server = ServerHandshake::new(&SERVER);
        let (mut regions, mut rings) = (0, 0);
        for message in heard {
            let Ok(step) = server.receive(&message.encode(), true) else { continue };
            match step.work {
                ServerWork::Nothing => {}
                ServerWork::Map { region, .. } => {
                    prop_assert_eq!(region, regions);
                    regions += 1;
                }
                ServerWork::Keep(_) => rings += 1,
                ServerWork::Start(_) => prop_assert_eq!(rings, 2),
            }
        }
        prop_assert!(regions <= SERVER.regions);
    }
}
