//! More peers than a process may have files open. Alone in its process: the limit is that of all
//! its threads.
#![allow(missing_docs)]

use core::time::Duration;
use std::fs::File;
use std::time::Instant as Clock;

use aldis_hal::{Cause, Epoch, Instant, PeerId, Post, Resource, Sink, Token, Transport};
use aldis_linux::tcp::{Interfaces, JobKey, Tcp, TcpConfig, TcpError, TcpIdentity};
use aldis_protocols::stream::StreamRefusal;
use nix::sys::resource::{Resource as Limit, getrlimit, setrlimit};

/// Files that may be open: few, so that they are soon.
const FILES: u64 = 64;

#[derive(Default)]
struct Losses(Vec<(PeerId, Cause)>);

impl Sink for Losses {
    fn arrived(&mut self, _: PeerId, _: &[u8]) {}
    fn completed(&mut self, token: Token, _: Result<(), Cause>) {
        panic!("nothing was queued: {token:?}");
    }
    fn ready(&mut self, _: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.0.push((peer, cause));
    }
}

/// Polls the ranks for so long, or until one has lost a peer or `done`.
fn poll(ranks: &mut [(&mut Tcp, &mut Losses)], within: Duration, mut done: impl FnMut(&mut Tcp) -> bool) {
    let start = Clock::now();
    while start.elapsed() < within && ranks.iter().all(|(_, losses)| losses.0.is_empty()) {
        for (tcp, losses) in ranks.iter_mut() {
            tcp.poll(8, Instant(0), *losses);
        }
        if done(ranks[0].0) {
            return;
        }
    }
}

fn post(tcp: &mut Tcp, peer: u32) -> Post {
    tcp.short(PeerId(peer), b"header", b"")
}

#[test]
fn a_peer_for_whom_no_descriptor_is_left_is_waited_for_and_then_lost_with_that_cause() {
    let interfaces = Interfaces { include: vec!["lo".into()], ..Interfaces::default() };
    let connect_timeout = Duration::from_secs(4);
    let config = TcpConfig { interfaces, connect_timeout, ..TcpConfig::default() };
    let key = JobKey::new([3; 32]);
    let of = |ranks, me| TcpIdentity { me: PeerId(me), epoch: Epoch(1), ranks, key: key.clone() };
    let listen = |me| Tcp::listen(of(2, me), &config);
    let (mut tcp, mut other) = (listen(0).unwrap(), listen(1).unwrap());
    let (address, of_other) = (tcp.address(), other.address());
    tcp.introduce(PeerId(1), Epoch(1), &of_other).unwrap();
    other.introduce(PeerId(0), Epoch(1), &address).unwrap();

    let (before, most) = getrlimit(Limit::RLIMIT_NOFILE).unwrap();
    setrlimit(Limit::RLIMIT_NOFILE, FILES, most).unwrap();
    let open = || core::iter::from_fn(|| File::open("/dev/null").ok()).collect::<Vec<File>>();
    let mut files = open();
    assert!(!files.is_empty());
    let refused = listen(0).unwrap_err();
    assert!(matches!(refused, TcpError::Descriptors { .. }), "{refused:?}");
    assert!(refused.to_string().contains("ulimit -n"), "{refused}");
    // Enough for a listener, and for no connections.
    files.truncate(files.len() - 5);
    let refused = listen(0).unwrap_err();
    assert!(matches!(refused, TcpError::Connections { need, have: FILES } if need > FILES), "{refused:?}");
    // A job of two ranks needs fewer than a larger one.
    while listen(0).is_err() {
        assert!(files.pop().is_some());
    }
    let refused = Tcp::listen(of(9, 0), &config).unwrap_err();
    assert!(
        matches!(refused, TcpError::Connections { need, have: FILES } if need == FILES + 1),
        "{refused:?}"
    );
    files.extend(open());

    // Its own descriptor is missing, for a while.
    let (mut losses, mut of_others) = (Losses::default(), Losses::default());
    assert!(matches!(post(&mut tcp, 1), Post::Again(_)));
    poll(&mut [(&mut tcp, &mut losses)], Duration::from_millis(200), |_| false);
    assert!(tcp.counters().unwrap().crowded > 0 && losses.0.is_empty());
    // Now that of the peer, which tells it so.
    files.pop();
    let mut ranks = [(&mut tcp, &mut losses), (&mut other, &mut of_others)];
    poll(&mut ranks, Duration::from_secs(20), |_| false);
    let cause = Cause::Full(Resource::Descriptors);
    assert_eq!(losses.0, [(PeerId(1), cause)]);
    assert_eq!(post(&mut tcp, 1), Post::Never(cause));
    assert!(other.counters().unwrap().crowded > 0 && of_others.0.is_empty());
    assert!(other.counters().unwrap().refused(StreamRefusal::Busy) > 0);

    // With room again it can be introduced anew, and be reached.
    drop(files);
    setrlimit(Limit::RLIMIT_NOFILE, before, most).unwrap();
    losses.0.clear();
    tcp.introduce(PeerId(1), Epoch(1), &of_other).unwrap();
    let mut ranks = [(&mut tcp, &mut losses), (&mut other, &mut of_others)];
    poll(&mut ranks, Duration::from_secs(20), |tcp| post(tcp, 1) == Post::Done);
    assert_eq!(tcp.counters().unwrap().messages_sent, 1);
}
