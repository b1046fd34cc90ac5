//! Processes that are no rank of the job, while the job goes on.

use core::net::SocketAddr;
use std::io::{Read, Write};
use std::net::TcpStream;

use aldis_protocols::stream::{
    ANSWER_BYTES, Dial, Handshake, Mac, NONCE_BYTES, Node, StreamLink, StreamRefusal, StreamSetup, job_name,
};

use super::*;

const RANKS: u32 = 3;

/// Returns what a rank of another job, or a thief of greetings, would say first to rank 0.
fn greeting(key: &JobKey, job: u64) -> Vec<u8> {
    let setup = StreamSetup { job, ranks: RANKS, rank: PeerId(1), epoch: epoch(1), ..StreamSetup::DEFAULT };
    let mut links = [StreamLink::NONE; RANKS as usize];
    assert!(links[0].introduce(epoch(0)) && links[0].want(&setup, Instant(0)));
    let mut node = Node { setup: &setup, mac: key, links: &mut links };
    let nonce = [3; NONCE_BYTES];
    Handshake::dial(&mut node, Dial { key: 1, peer: PeerId(0), link: 0, nonce }, Instant(0))
        .unwrap()
        .output()
        .to_vec()
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// A round of a token's way through all ranks, to and fro.
fn round(ranks: &mut [Rank], round: usize) {
    for from in 0..ranks.len() {
        let to = (from + 1) % ranks.len();
        send(ranks, from, to as u32, [b"", &pattern(round, 3000)]);
        until(ranks, "token", |ranks| !ranks[to].log.messages.is_empty());
        assert_eq!(ranks[to].log.messages.pop().unwrap(), (from as u32, pattern(round, 3000)));
    }
}

/// Waits for a rank's answer while all are polled, and sends nothing that would fit.
fn impostor(ranks: &mut [Rank], address: SocketAddr) {
    let mut stranger = connect(address);
    stranger.write_all(&greeting(&JobKey::new([9; 32]), job_name(&JobKey::new(KEY)))).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    until(ranks, "answer", |_| {
        let mut bytes = [0; ANSWER_BYTES];
        let count = stranger.read(&mut bytes).unwrap_or(0);
        answer.extend_from_slice(&bytes[..count]);
        answer.len() == ANSWER_BYTES
    });
    let tag = JobKey::new([9; 32]).tag(&answer);
    stranger.write_all(&[b"AldS\x02\x03\0\0", &tag[..]].concat()).unwrap();
    let before = ranks[0].counters().refused(StreamRefusal::Key);
    until(ranks, "refusal", |ranks| ranks[0].counters().refused(StreamRefusal::Key) > before);
}

#[test]
fn a_job_goes_on_whoever_knocks() {
    let patience = TcpConfig { connect_timeout: Duration::from_secs(3), ..config(Family::V4) };
    let mut ranks = job(RANKS, &patience);
    let address = ranks[0].tcp.listens_at()[0];
    let other = JobKey::new([9; 32]);
    let mut slow = connect(address);
    let mut loris = connect(address);
    for turn in 0..20 {
        // A port scanner.
        drop(connect(address));
        connect(address).write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        connect(address).write_all(b"\x16\x03\x01\x02\0\x01\0\x01\xFC\x03\x03").unwrap();
        connect(address).write_all(&greeting(&other, job_name(&other))).unwrap();
        let cut = greeting(&other, job_name(&JobKey::new(KEY)));
        connect(address).write_all(&cut[..turn * 2 + 4]).unwrap();
        // One byte of a good beginning a turn; it may have been refused meanwhile.
        let _ = slow.write(&cut[turn..=turn]);
        impostor(&mut ranks, address);
        round(&mut ranks, turn);
    }
    until(&mut ranks, "refusals", |ranks| {
        let refused = |why| ranks[0].counters().refused(why);
        let counts =
            [StreamRefusal::Silent, StreamRefusal::Job, StreamRefusal::Truncated, StreamRefusal::Key]
                .map(refused);
        counts == [20; 4] && refused(StreamRefusal::Foreign) == 40 && refused(StreamRefusal::Slow) == 2
    });
    let _ = loris.write(b"A");
    round(&mut ranks, 20);
    let counters = ranks[0].counters();
    assert_eq!((counters.opened, counters.messages_received), (2, 21));
    assert!(counters.to_string().contains(" key=20"), "{counters}");
    assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()));
    assert!(ranks[0].tcp.engine.as_ref().unwrap().greetings.is_empty());
}
