//! Cards in networks of their own: root's, who alone may load programs for frames.

use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use aldis_hal::nic::RxFrame;
use aldis_kit::network::{CABLE, NetworkOwner, is_inside};
use aldis_sys::bpf::map_of_sockets;
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::xdp::xdp_socket;

use super::*;
use crate::CardNic;

const ETHERTYPE: u16 = 0x88B5;
const ONE: Mac = Mac([2, 0xA1, 0, 0, 0, 1]);
const TWO: Mac = Mac([2, 0xA1, 0, 0, 0, 2]);
const THREE: Mac = Mac([2, 0xA1, 0, 0, 0, 3]);
const ALL: Mac = Mac([0xFF; 6]);

/// Returns true inside of such a network: see [`NetworkOwner::is_inside`].
fn is_roots(layout: &str, test: &str) -> bool {
    match xdp_socket().and_then(|_| map_of_sockets(1)) {
        Ok(_) => NetworkOwner::Root.is_inside(layout, &format!("xdp::tests::{test}")),
        Err(errno) => {
            eprintln!("skipped: no AF_XDP here: {}", errno.desc());
            false
        }
    }
}

fn open(choice: &str, mac: Mac) -> Result<CardNic, CardError> {
    CardNic::open(&choice.parse().unwrap(), mac, FrameKind::EtherType(ETHERTYPE))
}

fn ip(line: &str) {
    assert!(Command::new("ip").args(line.split_whitespace()).status().unwrap().success(), "ip {line}");
}

/// Sends a frame; false if there is no free descriptor.
fn offer(nic: &mut CardNic, to: Mac, text: &[u8]) -> bool {
    let bytes = [&to.0[..], &nic.mac().0, &ETHERTYPE.to_be_bytes(), text].concat();
    let Some(mut token) = nic.transmit(bytes.len()) else { return false };
    token.bytes().copy_from_slice(&bytes);
    token.send();
    true
}

fn send(nic: &mut CardNic, to: Mac, text: &[u8]) {
    assert!(offer(nic, to, text), "a free descriptor");
}

/// The text of the next frame, if one comes soon.
fn receive(nic: &mut CardNic) -> Option<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_millis(300);
    while Instant::now() < deadline {
        if let Some(frame) = nic.receive() {
            return frame.bytes().get(MAC_HEADER_BYTES..).map(<[u8]>::to_vec);
        }
        std::thread::yield_now();
    }
    None
}

/// Waits until a look at the card finds this.
fn probes(nic: &mut CardNic, expected: impl Fn(Option<&CardError>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !expected(nic.probe()) {
        assert!(Instant::now() < deadline, "{:?}", nic.trouble());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends until it comes: the system takes a moment to open an interface.
fn passes(from: &mut CardNic, to: &mut CardNic, text: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        offer(from, to.mac(), text);
        while let Some(came) = receive(to) {
            if came == text {
                return;
            }
        }
        assert!(Instant::now() < deadline, "nothing comes");
    }
}

/// Returns true if the card's file can be read.
fn rings(nic: &CardNic) -> bool {
    let mut bell = [PollFd::new(nic.bell().unwrap(), PollFlags::POLLIN)];
    poll(&mut bell, PollTimeout::ZERO).unwrap() == 1
}

#[test]
fn frames_to_a_station_go_to_its_socket_and_others_to_the_system() {
    if !is_roots(CABLE, "frames_to_a_station_go_to_its_socket_and_others_to_the_system") {
        return;
    }
    for words in ["", ",generic", ",native,copy"] {
        let [one, two] = ["xdp:v0", "xdp:v1"].map(|card| format!("{card}{words}"));
        let (mut one, mut two) = (open(&one, ONE).unwrap(), open(&two, TWO).unwrap());
        let mut third = open("packet:v1", THREE).unwrap();
        assert_eq!((one.mtu(), one.mac(), one.link()), (1500, ONE, LinkState::Up));
        let manner = if words == ",generic" { "generic, copied" } else { "native, copied" };
        assert_eq!(one.manner(), Some(manner));
        assert!(one.transmit(1515).is_none() && one.receive().is_none() && !rings(&two));
        passes(&mut one, &mut two, b"first");
        send(&mut one, TWO, &[7; 1500]);
        assert!(rings(&two) && receive(&mut two).unwrap() == [7; 1500] && two.receive().is_none());
        assert!(!rings(&two), "nothing has come since");
        send(&mut one, THREE, b"third");
        assert_eq!((receive(&mut third).unwrap(), receive(&mut two)), (b"third".to_vec(), None));
        send(&mut third, ONE, b"back");
        assert_eq!(receive(&mut one).unwrap(), b"back");
        send(&mut one, ALL, b"all");
        assert_eq!(receive(&mut two).unwrap(), b"all");
        assert_eq!((one.probe(), two.probe()), (None, None));
    }
}

#[test]
fn a_burst_in_both_directions_comes_whole() {
    if !is_roots(CABLE, "a_burst_in_both_directions_comes_whole") {
        return;
    }
    let (mut one, mut two) = (open("xdp:v0", ONE).unwrap(), open("xdp:v1", TWO).unwrap());
    passes(&mut one, &mut two, b"first");
    for round in 0..20_u32 {
        for number in 0..100_u32 {
            let text = (round * 100 + number).to_le_bytes();
            while !offer(&mut one, TWO, &text) || !offer(&mut two, ONE, &text) {
                assert!(one.receive().is_none(), "what is offered again has no twin here");
            }
        }
        for number in 0..100_u32 {
            let text = (round * 100 + number).to_le_bytes();
            assert_eq!((receive(&mut two).unwrap(), receive(&mut one).unwrap()), (text.into(), text.into()));
        }
    }
}

/// Frames, as many as the transport hands over at once, come without another poll of the sender.
#[test]
fn frames_that_leave_together_all_leave() {
    if !is_roots(CABLE, "frames_that_leave_together_all_leave") {
        return;
    }
    let (mut one, mut two) = (open("xdp:v0", ONE).unwrap(), open("xdp:v1", TWO).unwrap());
    passes(&mut one, &mut two, b"first");
    for round in 0..10_u32 {
        for number in 0..16_u32 {
            let text = (round * 16 + number).to_le_bytes();
            let bytes = [&TWO.0[..], &ONE.0, &ETHERTYPE.to_be_bytes(), &text].concat();
            let mut token = one.transmit(bytes.len()).unwrap();
            token.bytes().copy_from_slice(&bytes);
            token.send_more();
        }
        one.flush();
        for number in 0..16_u32 {
            assert_eq!(receive(&mut two).unwrap(), (round * 16 + number).to_le_bytes());
        }
    }
}

#[test]
fn an_interface_by_xdp_goes_down_and_comes_up_and_is_made_anew() {
    if !is_roots(CABLE, "an_interface_by_xdp_goes_down_and_comes_up_and_is_made_anew") {
        return;
    }
    let (mut one, mut two) = (open("xdp:v0", ONE).unwrap(), open("xdp:v1", TWO).unwrap());
    passes(&mut one, &mut two, b"first");
    ip("link set v0 down");
    send(&mut one, TWO, b"waits");
    assert_eq!((one.link(), receive(&mut two)), (LinkState::Down, None));
    probes(&mut one, |found| matches!(found, Some(CardError::Down { .. })));
    // Until there is no more room, which is no fault.
    while offer(&mut one, TWO, b"waits too") {}
    ip("link set v0 up");
    probes(&mut one, |found| found.is_none());
    probes(&mut two, |found| found.is_none());
    passes(&mut one, &mut two, b"again");
    ip("link set v0 mtu 1000");
    probes(&mut one, |found| matches!(found, Some(CardError::Mtu { was: 1500, now: 1000, .. })));
    ip("link set v0 mtu 1500");
    probes(&mut one, |found| found.is_none());
    ip("link delete v0");
    probes(&mut one, |found| matches!(found, Some(CardError::NoInterface { .. })));
    offer(&mut one, TWO, b"lost");
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    ip("link set v1 up");
    probes(&mut one, |found| found.is_none());
    probes(&mut two, |found| found.is_none());
    passes(&mut two, &mut one, b"anew");
    while receive(&mut one).is_some() {}
    assert!(!rings(&one));
    send(&mut two, ONE, b"rings");
    assert!(rings(&one), "the file is that of the new socket");
}

#[test]
fn what_an_interface_cannot_do_says_what_to_do() {
    let layout = format!("{CABLE}; ip link add w0 type veth peer name w1; ip link set w0 mtu 9000 up");
    if !is_roots(&layout, "what_an_interface_cannot_do_says_what_to_do") {
        return;
    }
    let says = |choice: &str, text: &str| {
        let error = open(choice, ONE).unwrap_err().to_string();
        assert!(error.contains(text), "{choice}: {error}");
    };
    says("xdp:eth7", "no interface is called eth7 here");
    says("xdp:w1", "w1 is down; bring it up: ip link set w1 up");
    says("xdp:w0", "the MTU of w0 is 9000, too long for AF_XDP: ip link set w0 mtu 3826, or use packet:w0");
    says("xdp:v0,zerocopy", "the driver of v0 copies frames");
    says("xdp:v0,queue=7", "v0 has no queue 7 for AF_XDP; ethtool -l v0");
    XdpNic::check(&"xdp:v0".parse().unwrap()).unwrap();
    let one = open("xdp:v0", ONE).unwrap();
    says("xdp:v0", "v0 has an XDP program already");
    says("xdp:v0,generic", "each rank needs an interface of its own");
    XdpNic::check(&"xdp:v0".parse().unwrap()).unwrap();
    // The queue is free when the card has gone, at once.
    drop(one);
    for _ in 0..5 {
        drop(open("xdp:v0", ONE).unwrap());
    }
    // Without the capabilities, and without memory.
    let own = std::env::current_exe().unwrap();
    let without = |options: &[&str], test: &str| {
        let mut command = Command::new("setpriv");
        command.args(options).arg(&own).args(["--exact", &format!("xdp::tests::{test}"), "--nocapture"]);
        let output = command.output().expect("setpriv");
        assert!(output.status.success(), "{output:?}");
    };
    for missing in ["-all", "-bpf,-sys_admin", "-net_admin,-sys_admin", "-net_raw"] {
        let dropped = ["--bounding-set", missing, "--inh-caps", "-all"];
        without(&dropped, "a_process_without_permission_for_xdp_is_refused");
    }
    let locked = ["--bounding-set", "-ipc_lock", "--inh-caps", "-all", "prlimit", "--memlock=65536"];
    without(&locked, "a_process_that_may_lock_no_memory_is_refused");
}

/// The error of a card on the cable, to which the test above comes without a permission; `None` in
/// any other process.
fn error_without() -> Option<CardError> {
    if interface_is_there() { open("xdp:v0", ONE).err() } else { None }
}

fn interface_is_there() -> bool {
    describe(&"xdp:v0".parse().unwrap()).is_ok()
}

#[test]
fn a_process_without_permission_for_xdp_is_refused() {
    let Some(error) = error_without() else { return };
    assert!(matches!(error, CardError::Xdp { error: XdpError::NoPermission, .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("setcap cap_net_raw,cap_net_admin,cap_bpf+ep") && text.contains("packet:v0"),
        "{text}"
    );
}

#[test]
fn a_process_that_may_lock_no_memory_is_refused() {
    let Some(error) = error_without() else { return };
    assert!(matches!(error, CardError::Xdp { error: XdpError::LockedMemory { .. }, .. }), "{error:?}");
    assert!(error.to_string().contains("ulimit -l"), "{error}");
}

/// Programs are for users of the whole machine.
#[test]
fn a_network_of_ones_own_is_not_enough() {
    if !is_inside(CABLE, "xdp::tests::a_network_of_ones_own_is_not_enough") {
        return;
    }
    let error = open("xdp:v0", ONE).unwrap_err();
    let is_told = matches!(error, CardError::Xdp { error: XdpError::NoPermission, .. });
    assert!(
        is_told || matches!(error, CardError::Xdp { error: XdpError::Unsupported { .. }, .. }),
        "{error:?}"
    );
}
