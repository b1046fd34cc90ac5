//! More peers than a process may have files open. Alone in its process: the limit is that of all
//! its threads.
#![allow(missing_docs)]

use std::fs::File;

use aldis_hal::{Cause, Epoch, Instant, PeerId, Post, Resource, Sink, Token, Transport};
use aldis_linux::tcp::{Interfaces, JobKey, Tcp, TcpConfig, TcpError, TcpIdentity};
use nix::sys::resource::{Resource as Limit, getrlimit, setrlimit};

/// Files that may be open: few, so that they are soon.
const FILES: u64 = 64;

#[derive(Default)]
struct Losses(Vec<(PeerId, Cause)>);

impl Sink for Losses {
    fn arrived(&mut self, from: PeerId, _: &[u8]) {
        panic!("nothing was sent: {from}");
    }
    fn completed(&mut self, token: Token, _: Result<(), Cause>) {
        panic!("nothing was queued: {token:?}");
    }
    fn ready(&mut self, _: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.0.push((peer, cause));
    }
}

#[test]
fn a_peer_for_whom_no_descriptor_is_left_is_lost_with_that_cause() {
    let interfaces = Interfaces { include: vec!["lo".into()], ..Interfaces::default() };
    let config = TcpConfig { interfaces, ..TcpConfig::default() };
    let key = JobKey::new([3; 32]);
    let identity = |me| TcpIdentity { me: PeerId(me), epoch: Epoch(1), ranks: 2, key: key.clone() };
    let listen = |me| Tcp::listen(identity(me), &config);
    let (mut tcp, other) = (listen(0).unwrap(), listen(1).unwrap());
    tcp.introduce(PeerId(1), Epoch(1), &other.address()).unwrap();

    let (before, most) = getrlimit(Limit::RLIMIT_NOFILE).unwrap();
    setrlimit(Limit::RLIMIT_NOFILE, FILES, most).unwrap();
    let files: Vec<File> = core::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    let refused = listen(0).unwrap_err();
    assert!(matches!(refused, TcpError::Descriptors { .. }), "{refused:?}");
    assert!(refused.to_string().contains("ulimit -n"), "{refused}");

    let mut losses = Losses::default();
    assert!(matches!(tcp.short(PeerId(1), b"header", b""), Post::Again(_)));
    while losses.0.is_empty() {
        tcp.poll(8, Instant(0), &mut losses);
    }
    let cause = Cause::Full(Resource::Descriptors);
    assert_eq!(losses.0, [(PeerId(1), cause)]);
    assert_eq!(tcp.short(PeerId(1), b"header", b""), Post::Never(cause));
    assert_eq!(tcp.counters().unwrap().crowded, 1);

    drop(files);
    setrlimit(Limit::RLIMIT_NOFILE, before, most).unwrap();
    // With room again it can be introduced anew.
    tcp.introduce(PeerId(1), Epoch(2), &other.address()).unwrap();
    assert!(matches!(tcp.short(PeerId(1), b"header", b""), Post::Again(_)));
}
