//! Cards in networks of their own.

use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use aldis_hal::nic::RxFrame;
use aldis_kit::network::{CABLE, TAPS, is_inside};
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};

use super::*;

mod stack;

const ETHERTYPE: u16 = 0x88B5;
const ONE: Mac = Mac([2, 0xA1, 0, 0, 0, 1]);
const TWO: Mac = Mac([2, 0xA1, 0, 0, 0, 2]);
const ALL: Mac = Mac([0xFF; 6]);

fn open(choice: &str, mac: Mac) -> Result<InterfaceNic, CardError> {
    InterfaceNic::open(&choice.parse().unwrap(), mac, Some(ETHERTYPE))
}

fn ip(line: &str) {
    assert!(Command::new("ip").args(line.split_whitespace()).status().unwrap().success(), "ip {line}");
}

fn frame(to: Mac, from: Mac, text: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ETHERTYPE.to_be_bytes(), text].concat()
}

fn send(nic: &mut InterfaceNic, to: Mac, text: &[u8]) {
    let bytes = frame(to, nic.mac(), text);
    let mut token = nic.transmit(bytes.len()).expect("a free descriptor");
    token.bytes().copy_from_slice(&bytes);
    token.send();
}

/// The text of the next frame, if one comes soon.
fn receive(nic: &mut InterfaceNic) -> Option<Vec<u8>> {
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
fn probes(nic: &mut InterfaceNic, expected: impl Fn(Option<&CardError>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !expected(nic.probe()) {
        assert!(Instant::now() < deadline, "{:?}", nic.trouble());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends until it comes: the system takes a moment to open an interface or a bridge.
fn passes(from: &mut InterfaceNic, to: &mut InterfaceNic, text: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        send(from, to.mac(), text);
        if receive(to).is_some_and(|came| came == text) {
            return;
        }
        assert!(Instant::now() < deadline, "nothing comes");
    }
}

#[test]
fn frames_go_over_a_cable_to_their_station_alone() {
    if !is_inside(CABLE, "interface::tests::frames_go_over_a_cable_to_their_station_alone") {
        return;
    }
    let (mut one, mut two) = (open("packet:v0", ONE).unwrap(), open("packet:v1", TWO).unwrap());
    let mut third = open("packet:v1", Mac([2, 0, 0, 0, 0, 3])).unwrap();
    assert_eq!((one.mtu(), one.mac(), one.link()), (1500, ONE, LinkState::Up));
    assert!(one.transmit(1515).is_none() && one.receive().is_none());
    send(&mut one, TWO, &[7; 1500]);
    assert_eq!(receive(&mut two).unwrap(), [7; 1500]);
    send(&mut one, ALL, b"all");
    assert_eq!((receive(&mut two).unwrap(), receive(&mut third).unwrap()), (b"all".into(), b"all".into()));
    for number in 0..50_u8 {
        send(&mut two, ONE, &[number; 100]);
    }
    assert!((0..50).all(|number| receive(&mut one) == Some(vec![number; 100])));
    assert_eq!((receive(&mut third), one.probe()), (None, None));
}

#[test]
fn stations_on_one_interface_reach_each_other_once_they_share_it() {
    if !is_inside(CABLE, "interface::tests::stations_on_one_interface_reach_each_other_once_they_share_it") {
        return;
    }
    let (mut one, mut two) = (open("packet:v0", ONE).unwrap(), open("packet:v0", TWO).unwrap());
    let mut far = open("packet:v1", Mac([2, 0, 0, 0, 0, 3])).unwrap();
    send(&mut one, TWO, b"lost");
    assert_eq!(receive(&mut two), None);
    one.share().unwrap();
    two.share().unwrap();
    send(&mut one, TWO, b"near");
    assert_eq!(receive(&mut two).unwrap(), b"near");
    send(&mut two, far.mac(), b"far");
    assert_eq!((receive(&mut far).unwrap(), receive(&mut one)), (b"far".to_vec(), None));
    // The loopback brings back what is sent to it.
    let (mut one, mut two) = (open("packet:lo", ONE).unwrap(), open("packet:lo", TWO).unwrap());
    one.share().unwrap();
    send(&mut one, TWO, b"round");
    assert_eq!((receive(&mut two).unwrap(), receive(&mut two)), (b"round".to_vec(), None));
}

#[test]
fn taps_on_a_bridge_carry_frames_and_have_one_owner() {
    if !is_inside(TAPS, "interface::tests::taps_on_a_bridge_carry_frames_and_have_one_owner") {
        return;
    }
    let (mut one, mut two) = (open("tap:t0", ONE).unwrap(), open("tap:t1", TWO).unwrap());
    passes(&mut one, &mut two, b"hello");
    send(&mut two, ONE, &[3; 1500]);
    while receive(&mut one).unwrap() != [3; 1500] {}
    let error = open("tap:t0", ONE).unwrap_err();
    assert_eq!(error, CardError::Busy { interface: "t0".into() });
    assert!(error.to_string().contains("tap:t0%r"), "{error}");
    drop(one);
    assert!(open("tap:t0", ONE).is_ok());
}

#[test]
fn an_interface_goes_down_and_comes_up_and_is_made_anew() {
    if !is_inside(CABLE, "interface::tests::an_interface_goes_down_and_comes_up_and_is_made_anew") {
        return;
    }
    let (mut one, mut two) = (open("packet:v0", ONE).unwrap(), open("packet:v1", TWO).unwrap());
    ip("link set v0 down");
    send(&mut one, TWO, b"lost");
    assert_eq!((one.link(), receive(&mut two)), (LinkState::Down, None));
    probes(&mut one, |found| matches!(found, Some(CardError::Down { .. })));
    assert!(one.trouble().unwrap().to_string().contains("ip link set v0 up"));
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
    send(&mut one, TWO, b"lost");
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    ip("link set v1 up");
    probes(&mut one, |found| found.is_none());
    probes(&mut two, |found| found.is_none());
    passes(&mut two, &mut one, b"anew");
}

/// A rank that sleeps: it has a copy of the card's file from the start, as a rank has.
struct Sleeping(OwnedFd);

impl Sleeping {
    /// The times that it wakes in 300 ms of naps of 50 ms each, looking at the card between them.
    fn wakes(&self, nic: &mut InterfaceNic) -> u32 {
        let start = Instant::now();
        let mut wakes = 0;
        while start.elapsed() < Duration::from_millis(300) {
            let files = &mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            wakes += u32::from(poll(files, PollTimeout::from(50_u8)).unwrap() > 0);
            while nic.receive().is_some() {}
        }
        wakes
    }

    /// Waits until the card's file can be read; false after a second.
    fn is_woken(&self) -> bool {
        let files = &mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(files, PollTimeout::from(1000_u16)).unwrap() > 0
    }
}

#[test]
fn who_sleeps_at_a_card_is_woken_by_frames_alone_though_it_is_made_anew() {
    if !is_inside(
        CABLE,
        "interface::tests::who_sleeps_at_a_card_is_woken_by_frames_alone_though_it_is_made_anew",
    ) {
        return;
    }
    let anew = ["link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"];
    for (choice, other, removed, made) in [
        ("packet:v0", "packet:v1", "link delete v0", &anew[..]),
        ("tap:t0", "packet:t0", "link delete t0", &[]),
    ] {
        let (mut one, mut two) = (open(choice, ONE).unwrap(), open(other, TWO).unwrap());
        let rank = Sleeping(one.as_fd().try_clone_to_owned().unwrap());
        passes(&mut two, &mut one, b"before");
        // Frames of the system's own may come for a moment.
        assert!(rank.wakes(&mut one) < 5, "{choice}");
        ip(removed);
        probes(&mut one, |found| matches!(found, Some(CardError::NoInterface { .. })) || choice == "tap:t0");
        if !made.is_empty() {
            assert!(rank.wakes(&mut one) < 5, "{choice} is gone");
        }
        made.iter().for_each(|line| ip(line));
        if made.is_empty() {
            ip("tuntap add dev t0 mode tap");
        }
        probes(&mut one, |found| found.is_none());
        probes(&mut two, |found| found.is_none());
        passes(&mut two, &mut one, b"anew");
        assert!(rank.wakes(&mut one) < 5, "{choice} made anew");
        send(&mut two, ONE, b"wakes");
        assert!(rank.is_woken(), "{choice}");
    }
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let layout = "ip link add v0 type veth peer name v1; ip link add d0 type dummy || true";
    if !is_inside(layout, "interface::tests::what_cannot_be_opened_says_what_to_do") {
        return;
    }
    let error = open("packet:eth7", ONE).unwrap_err();
    assert!(error.to_string().starts_with("no interface is called eth7 here; there are "), "{error}");
    assert!(error.to_string().contains("v0"), "{error}");
    assert_eq!(open("packet:v0", ONE).unwrap_err(), CardError::Down { interface: "v0".into() });
    // Without the capability.
    let own = std::env::current_exe().unwrap();
    let test = "interface::tests::a_process_without_permission_is_told";
    let dropped = ["--bounding-set", "-all", "--inh-caps", "-all"];
    let output =
        Command::new("setpriv").args(dropped).arg(own).args(["--exact", test, "--nocapture"]).output();
    match output {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("skipped: setpriv: {error}"),
    }
}

#[test]
fn a_process_without_permission_is_told() {
    match open("packet:lo", ONE) {
        // As root; the test above comes here without permissions.
        Ok(_) | Err(CardError::Down { .. }) => {}
        Err(error) => {
            assert!(matches!(error, CardError::NoPermission { lacks: "CAP_NET_RAW", .. }), "{error:?}");
            assert!(error.to_string().contains("setcap cap_net_raw+ep"), "{error}");
        }
    }
}
