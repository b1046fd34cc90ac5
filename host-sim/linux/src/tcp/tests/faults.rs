//! Tests of what goes wrong.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use aldis_hal::cause::Malformed;

use super::*;
use crate::board::StatusBoard;
use crate::tcp::TcpError;

/// The socket of a rank's only open link, to do harm with.
fn socket(rank: &Rank) -> TcpStream {
    let engine = rank.tcp.engine.as_ref().unwrap();
    let slot = (0..4).map(|peer| engine.links.first_of(PeerId(peer))).find(|slot| *slot != u32::MAX);
    let socket = engine.connections.peek(slot.unwrap()).unwrap().wire.socket();
    socket.as_fd().try_clone_to_owned().unwrap().into()
}

/// Two ranks that have exchanged messages, and the second one's socket.
fn talking() -> (Vec<Rank>, TcpStream) {
    let mut ranks = job(2, &config(Family::V4));
    send(&mut ranks, 1, 0, [b"", b"hello"]);
    until(&mut ranks, "hello", |ranks| ranks[0].log.messages.len() == 1);
    let socket = socket(&ranks[1]);
    (ranks, socket)
}

fn lost(ranks: &mut [Rank]) -> Cause {
    until(ranks, "loss", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost.len(), 1);
    ranks[0].log.lost[0].1
}

#[test]
fn the_end_of_the_stream_within_a_frame_is_a_death() {
    let (mut ranks, mut socket) = talking();
    socket.write_all(&super::super::frame::TcpFrame::data(100, 1).emit()).unwrap();
    socket.write_all(&[1; 40]).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(lost(&mut ranks[..1]), Cause::PeerDead);
    assert_eq!((ranks[0].counters().cut, ranks[0].log.messages.len()), (1, 1));
}

#[test]
fn a_reset_is_a_death_and_what_came_before_it_is_delivered() {
    let (mut ranks, mut socket) = talking();
    socket.write_all(&[&super::super::frame::TcpFrame::data(4, 1).emit()[..], b"last"].concat()).unwrap();
    socket.write_all(&super::super::frame::TcpFrame::data(100, 2).emit()).unwrap();
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Linger, &linger).unwrap();
    // Its transport must not say bye: it forgets the peer first.
    ranks[1].tcp.quiesce(aldis_hal::transport::Quiesce::Peer(PeerId(0))).unwrap();
    drop(socket);
    let board: &'static StatusBoard = Box::leak(Box::default());
    ranks[0].tcp.note_failures_on(board);
    assert_eq!(lost(&mut ranks[..1]), Cause::PeerDead);
    // Whoever ends this rank before it has told so can read it.
    assert_eq!(board.read(0).failed, ranks[0].tcp.failures().next());
    assert!(board.read(0).failed.is_some_and(|(peer, failure)| {
        (peer, failure.errno) == (PeerId(1), aldis_sys::Errno::ECONNRESET)
    }));
    assert_eq!(ranks[0].log.messages[1].1, b"last");
    assert_eq!(ranks[0].counters().reset, 1);
    assert_eq!(ranks[0].tcp.short(PeerId(1), b"", b"x"), Post::Never(Cause::PeerDead));
}

#[test]
fn a_giant_length_is_refused_and_the_peer_lost() {
    let (mut ranks, mut socket) = talking();
    socket.write_all(&[0xFF, 0xFF, 0xFF, 0x0F, 1, 0, 0, 0]).unwrap();
    assert_eq!(lost(&mut ranks), Cause::Malformed(Malformed::Length));
    assert_eq!(ranks[0].counters().malformed, 1);
}

#[test]
fn a_message_out_of_turn_is_refused_and_the_peer_lost() {
    let (mut ranks, mut socket) = talking();
    socket.write_all(&[&super::super::frame::TcpFrame::data(1, 7).emit()[..], b"x"].concat()).unwrap();
    assert_eq!(lost(&mut ranks), Cause::Malformed(Malformed::Sequence { got: 7, need: 1 }));
}

#[test]
fn bytes_may_come_one_by_one() {
    let (mut ranks, mut socket) = talking();
    let stream = [&super::super::frame::TcpFrame::data(5, 1).emit()[..], b"slow!"].concat();
    for byte in stream {
        assert_eq!(ranks[0].log.messages.len(), 1);
        socket.write_all(&[byte]).unwrap();
        for _ in 0..4 {
            ranks[0].poll(8);
        }
    }
    until(&mut ranks, "message", |ranks| ranks[0].log.messages.len() == 2);
    assert_eq!(ranks[0].log.messages[1].1, b"slow!");
}

#[test]
fn a_peer_that_listens_no_more_is_dead_when_patience_ends() {
    let mut ranks = job(2, &TcpConfig { connect_timeout: Duration::from_millis(50), ..config(Family::V4) });
    drop(ranks.pop());
    ranks[0].tcp.expect(PeerId(1));
    assert_eq!(lost(&mut ranks), Cause::PeerDead);
    assert!(ranks[0].counters().begun > 1, "tried again");
}

/// Its address refuses, and it comes from its side when it has something to say.
#[test]
fn a_peer_that_is_reached_from_one_side_alone_is_waited_for() {
    let mut ranks: Vec<_> = (0..2).map(|me| Rank::listen(me, 2, &config(Family::V4))).collect();
    let absent = Rank::listen(1, 2, &config(Family::V4)).tcp.address();
    ranks[0].meet(1, &absent);
    ranks[0].tcp.expect(PeerId(1));
    until(&mut ranks, "refusals", |ranks| ranks[0].counters().failed >= 3);
    let address = ranks[0].tcp.address();
    ranks[1].meet(0, &address);
    send(&mut ranks, 1, 0, [b"", b"here I am"]);
    until(&mut ranks, "arrival", |ranks| ranks[0].log.messages.len() == 1);
    send(&mut ranks, 0, 1, [b"", b"welcome"]);
    until(&mut ranks, "answer", |ranks| ranks[1].log.messages.len() == 1);
    assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()));
}

#[test]
fn posts_to_a_peer_that_died_are_swallowed_until_its_death_is_told() {
    let (mut ranks, socket) = talking();
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Linger, &linger).unwrap();
    ranks[1].tcp.quiesce(aldis_hal::transport::Quiesce::Peer(PeerId(0))).unwrap();
    drop(socket);
    for _ in 0..10 {
        assert_eq!(ranks[0].tcp.short(PeerId(1), b"", &[0; 5000]), Post::Done);
    }
    assert_eq!(lost(&mut ranks[..1]), Cause::PeerDead);
    assert!(ranks[0].tcp.is_idle());
}

#[test]
fn a_taken_port_is_named_with_its_range() {
    let first = Rank::listen(0, 1, &config(Family::V4));
    let port = first.tcp.listens_at()[0].port();
    let narrow = TcpConfig { ports: port..=port, ..config(Family::V4) };
    let refused = Tcp::listen(identity(0, 1), &narrow).unwrap_err();
    assert_eq!(refused, TcpError::NoPort { ip: first.tcp.listens_at()[0].ip(), first: port, last: port });
}

/// More of them than are let in: each is refused or dropped in the end, and a rank gets through all
/// the same.
#[test]
fn strangers_do_no_harm() {
    let mut ranks = job(2, &config(Family::V4));
    let address = ranks[0].tcp.listens_at()[0];
    let mut silent: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut http = TcpStream::connect(address).unwrap();
    http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut cut = TcpStream::connect(address).unwrap();
    cut.write_all(b"Ald").unwrap();
    drop(cut);
    until(&mut ranks, "refusals", |ranks| {
        let refused = |why| ranks[0].counters().refused(why);
        use aldis_protocols::stream::StreamRefusal;
        refused(StreamRefusal::Foreign) == 1
            && refused(StreamRefusal::Truncated) == 1
            && refused(StreamRefusal::Busy) >= 10
    });
    send(&mut ranks, 1, 0, [b"", b"through"]);
    until(&mut ranks, "arrival", |ranks| ranks[0].log.messages.len() == 1);
    http.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = Vec::new();
    assert!(matches!(http.read_to_end(&mut answer), Ok(0) | Err(_)), "no word for who is foreign");
    silent.clear();
    until(&mut ranks, "end", |ranks| ranks[0].tcp.engine.as_ref().unwrap().greetings.is_empty());
    assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()));
}

#[test]
fn a_wrong_key_is_refused() {
    let mut ranks = job(2, &config(Family::V4));
    let address = ranks[0].tcp.address();
    let stranger =
        Tcp::listen(TcpIdentity { key: JobKey::new([8; 32]), ..identity(1, 2) }, &config(Family::V4))
            .unwrap();
    let mut stranger = [Rank { tcp: stranger, log: Log::default() }];
    stranger[0].meet(0, &address);
    stranger[0].tcp.expect(PeerId(0));
    until(&mut ranks, "refusal", |ranks| {
        stranger[0].poll(8);
        ranks[0].counters().accepted > 0 && !stranger[0].log.lost.is_empty()
    });
    assert_eq!(stranger[0].log.lost, [(0, Cause::Incompatible)]);
    assert!(ranks[0].log.lost.is_empty());
}
