//! Both ends of a memif in one process, and peers that are none.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::thread;

use aldis_drivers::memif::{
    ClientHandshake, ClientSetup, ClientStep, ControlMessage, DescriptorKind, HelloLimits, MemifLayout,
    MemifText,
};
use aldis_hal::nic::RxFrame;
use aldis_kit::scratch::ScratchFolder;

use super::*;

const ONE: Mac = Mac([2, 0xA1, 0, 0, 0, 1]);
const TWO: Mac = Mac([2, 0xA1, 0, 0, 0, 2]);
const ALL: Mac = Mac([0xFF; 6]);

/// The longest wait for a frame or an error.
const PATIENCE: Duration = Duration::from_secs(10);

/// A path of a socket's own.
struct SocketPath(PathBuf, #[expect(dead_code, reason = "it holds the folder")] ScratchFolder);

impl SocketPath {
    fn new() -> Self {
        let folder = ScratchFolder::new("memif");
        Self(folder.path().join("sock"), folder)
    }

    fn choice(&self, words: &str) -> CardChoice {
        format!("memif:{}{words}", self.0.display()).parse().unwrap()
    }
}

fn open(choice: &CardChoice, mac: Mac) -> Result<MemifNic, CardError> {
    MemifNic::open(choice, mac)
}

/// Opens a client, while its server answers.
fn connect(server: &mut MemifNic, choice: CardChoice) -> Result<MemifNic, CardError> {
    let client = thread::spawn(move || open(&choice, TWO));
    while !client.is_finished() {
        assert!(server.receive().is_none());
        thread::yield_now();
    }
    client.join().unwrap()
}

fn frame(to: Mac, from: Mac, text: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &[0x88, 0xB5], text].concat()
}

fn send(nic: &mut MemifNic, to: Mac, text: &[u8]) -> bool {
    let bytes = frame(to, nic.mac(), text);
    let Some(mut token) = nic.transmit(bytes.len()) else { return false };
    token.bytes().copy_from_slice(&bytes);
    token.send();
    true
}

/// The text of the next frame, if one comes soon.
fn received(nic: &mut MemifNic) -> Option<Vec<u8>> {
    (0..100).find_map(|_| nic.receive().map(|frame| frame.bytes()[MAC_HEADER_BYTES..].to_vec()))
}

/// Polls both until this holds.
fn until(one: &mut MemifNic, two: &mut MemifNic, holds: impl Fn(&MemifNic, &MemifNic) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds(one, two) {
        assert!(Instant::now() < deadline, "{:?}, {:?}", one.trouble(), two.trouble());
        let _ = (one.receive().is_some(), two.receive().is_some());
        thread::yield_now();
    }
}

fn are_up(one: &MemifNic, two: &MemifNic) -> bool {
    one.link() == LinkState::Up && two.link() == LinkState::Up
}

#[test]
fn frames_go_both_ways_to_their_station_alone() {
    let path = SocketPath::new();
    let mut server = open(&path.choice(",server,id=7,secret=word,mtu=9000"), ONE).unwrap();
    assert!(server.trouble().unwrap().to_string().contains("no memif client has come"));
    let mut client = connect(&mut server, path.choice(",id=7,secret=word,mtu=9000")).unwrap();
    until(&mut server, &mut client, are_up);
    assert_eq!((client.mtu(), client.mac(), client.trouble(), server.trouble()), (9000, TWO, None, None));
    for round in 0..1000_usize {
        let text = vec![round as u8; 9 * round];
        assert!(send(&mut client, ONE, &text) && send(&mut server, ALL, &text));
        assert_eq!((received(&mut server), received(&mut client)), (Some(text.clone()), Some(text)));
    }
    assert!(send(&mut client, Mac([2, 0, 0, 0, 0, 9]), b"another's") && send(&mut client, ONE, b"ours"));
    assert_eq!(received(&mut server).unwrap(), b"ours");
    assert_eq!((server.probe(), client.probe()), (None, None));
}

#[test]
fn a_peer_that_goes_and_comes_again_is_found() {
    let path = SocketPath::new();
    let mut server = open(&path.choice(",server"), ONE).unwrap();
    let mut client = connect(&mut server, path.choice("")).unwrap();
    for _ in 0..3 {
        until(&mut server, &mut client, are_up);
        assert!(send(&mut server, TWO, b"there"));
        assert_eq!(received(&mut client).unwrap(), b"there");
        drop(server);
        let trouble = client.probe().unwrap().to_string();
        assert!(trouble.ends_with("has gone: closed"), "{trouble}");
        assert!(!send(&mut client, ONE, b"lost") && received(&mut client).is_none());
        let trouble = client.probe().unwrap().to_string();
        assert!(trouble.contains("no memif server is at"), "{trouble}");
        server = open(&path.choice(",server"), ONE).unwrap();
    }
    until(&mut server, &mut client, are_up);
    // The client goes, and another comes.
    drop(client);
    assert!(server.probe().is_some() && server.link() == LinkState::Up && server.receive().is_none());
    assert_eq!(server.link(), LinkState::Down);
    let mut client = connect(&mut server, path.choice("")).unwrap();
    until(&mut server, &mut client, are_up);
    assert!(send(&mut client, ONE, b"again"));
    assert_eq!(received(&mut server).unwrap(), b"again");
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let path = SocketPath::new();
    let shown = path.0.display().to_string();
    let error = open(&path.choice(""), ONE).unwrap_err();
    assert_eq!(error, CardError::NoSocket { path: shown.clone() });
    assert!(error.to_string().contains("dpdk-testpmd --vdev=net_memif0,role=server,socket="), "{error}");
    let server = open(&path.choice(",server"), ONE).unwrap();
    assert_eq!(open(&path.choice(",server"), TWO).unwrap_err(), CardError::Served { path: shown.clone() });
    drop(server);
    // A server that was killed leaves its socket.
    let listener = ControlListener::bind(&path.0).unwrap();
    listener.abandon();
    assert_eq!(open(&path.choice(""), ONE).unwrap_err(), CardError::NoServer { path: shown.clone() });
    drop(open(&path.choice(",server"), ONE).unwrap());
    // A file that is no socket stays.
    File::create(&path.0).unwrap();
    assert!(matches!(open(&path.choice(""), ONE), Err(CardError::System { errno: Errno::ENOTSOCK, .. })));
    assert_eq!(open(&path.choice(",server"), ONE).unwrap_err(), CardError::Served { path: shown });
    assert!(OpenOptions::new().read(true).open(&path.0).is_ok());
    let long = format!("memif:/{}", "x".repeat(200)).parse().unwrap();
    assert!(matches!(open(&long, ONE), Err(CardError::System { errno: Errno::ENAMETOOLONG, .. })));
}

#[test]
fn interfaces_that_are_not_there_are_refused_by_name() {
    let path = SocketPath::new();
    let mut server = open(&path.choice(",server,id=1,secret=word"), ONE).unwrap();
    for (words, told) in [
        (",id=2,secret=word", "the peer asks for id 2, and this"),
        (",id=1", "the peer has another secret"),
        (",id=1,secret=wor", "the peer has another secret"),
    ] {
        let error = connect(&mut server, path.choice(words)).unwrap_err();
        assert!(error.to_string().contains(&format!("the peer refuses: {told}")), "{error}");
    }
    let mut client = connect(&mut server, path.choice(",id=1,secret=word")).unwrap();
    until(&mut server, &mut client, are_up);
    let error = connect(&mut server, path.choice(",id=1,secret=word")).unwrap_err();
    assert!(error.to_string().contains("the peer refuses: Already connected; each rank needs"), "{error}");
    assert!(send(&mut client, ONE, b"first") && received(&mut server).unwrap() == b"first");
}

/// A client that says nothing keeps no other out.
#[test]
fn a_client_that_says_nothing_makes_room() {
    let path = SocketPath::new();
    let mut server = open(&path.choice(",server"), ONE).unwrap();
    let silent = ControlSocket::connect(&path.0).unwrap();
    assert!(server.probe().is_some() && silent.receive().unwrap().is_some(), "it is greeted");
    let deadline = Instant::now() + PATIENCE;
    while silent.receive().unwrap().is_none() {
        assert!(Instant::now() < deadline && server.receive().is_none());
        thread::sleep(Duration::from_millis(10));
    }
    let mut client = connect(&mut server, path.choice("")).unwrap();
    until(&mut server, &mut client, are_up);
}

#[test]
fn a_server_that_answers_late_is_met_by_a_client_that_is_open() {
    let path = SocketPath::new();
    // Both are opened before either is looked at, as by two ranks that join a job.
    let later = {
        let choice = path.choice(",server");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            open(&choice, ONE)
        })
    };
    let mut client = open(&path.choice(""), TWO).unwrap();
    assert!(matches!(client.trouble(), Some(CardError::NoPeer { is_server: false, .. })));
    let mut server = later.join().unwrap().unwrap();
    until(&mut server, &mut client, are_up);
}

/// Serves a client as `serve` does, which gets its connection, and returns the client's error.
fn error_of(serve: impl Fn(ControlSocket) + Send + Sync + 'static) -> CardError {
    let path = SocketPath::new();
    let listener = ControlListener::bind(&path.0).unwrap();
    let choice = path.choice("");
    let client = thread::spawn(move || open(&choice, TWO));
    while !client.is_finished() {
        if let Some(socket) = listener.accept() {
            serve(socket);
        }
        thread::sleep(Duration::from_millis(1));
    }
    client.join().unwrap().unwrap_err()
}

#[test]
fn servers_that_are_none_are_told() {
    let hello = HelloLimits {
        name: MemifText::default(),
        oldest: 0x0100,
        newest: 0x0103,
        region_max: 0,
        ring_to_client_max: 0,
        ring_to_server_max: 0,
        ring_log2_max: 14,
    };
    let error = error_of(move |socket| socket.send(&ControlMessage::Hello(hello).encode(), None).unwrap());
    assert!(error.to_string().contains("the peer speaks memif 1.0 to 1.3, and this end 2.0"), "{error}");
    let error = error_of(|socket| socket.send(&ControlMessage::Ack.encode(), None).unwrap());
    assert!(matches!(error, CardError::Memif { error: MemifError::Unexpected(1), .. }), "{error:?}");
    let error = error_of(drop);
    assert!(error.to_string().ends_with("the peer has gone"), "{error}");
}

/// The server's trouble with a client whose region is this file.
fn trouble_with_region(make: impl Fn(usize) -> std::os::fd::OwnedFd) -> String {
    let path = SocketPath::new();
    let mut server = open(&path.choice(",server"), ONE).unwrap();
    let layout = MemifLayout::new(4).unwrap();
    let setup =
        ClientSetup { id: 0, secret: "", name: "", bytes: layout.bytes() as u64, rings: layout.rings() };
    let (file, mut handshake) = (make(layout.bytes()), ClientHandshake::new(&setup));
    let socket = ControlSocket::connect(&path.0).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        assert!(server.receive().is_none());
        let Some(heard) = socket.receive().unwrap() else { continue };
        let Ok(ClientStep::Send { message, with }) = handshake.receive(&heard.bytes) else { break };
        let file = with.map(|with| match with {
            DescriptorKind::Region(_) | DescriptorKind::Bell(_) => file.as_fd(),
        });
        socket.send(&message, file).unwrap();
    }
    server.trouble().map_or_else(String::new, ToString::to_string)
}

#[test]
fn memory_that_a_client_could_take_away_is_refused() {
    use aldis_sys::memory::{MFdFlags, SealFlag, add_seals, ftruncate, memfd_create};

    let made = |bytes: usize, seals: SealFlag| {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, bytes as i64).unwrap();
        add_seals(&file, seals).unwrap();
        file
    };
    let refused = "region 0 is one that cannot be";
    let trouble = trouble_with_region(|bytes| made(bytes, SealFlag::F_SEAL_GROW));
    assert!(trouble.ends_with(refused), "{trouble}");
    let trouble = trouble_with_region(|bytes| made(bytes - 1, SealFlag::F_SEAL_SHRINK));
    assert!(trouble.ends_with(refused), "{trouble}");
    let trouble = trouble_with_region(|_| File::open("/proc/self/exe").unwrap().into());
    assert!(trouble.ends_with(refused), "{trouble}");
    // One that is sealed, but has no rings in it.
    let trouble = trouble_with_region(|bytes| made(bytes, SealFlag::F_SEAL_SHRINK));
    assert!(trouble.ends_with("a ring that cannot be"), "{trouble}");
}
