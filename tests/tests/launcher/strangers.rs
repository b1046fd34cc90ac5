//! A job over TCP in a network where others knock: it goes on and completes.

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

use crate::harness::begin;

/// Ports that the job may listen on, and strangers try.
const PORTS: u16 = 8;

/// The words of strangers: nothing, another protocol, a beginning that nothing follows, a whole
/// greeting of no rank.
const WORDS: [&[u8]; 4] = [
    b"",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"AldS\x02\x01",
    b"AldS\x02\x01\0\x01 who is not a rank of this job at all........",
];

/// Tells the strangers that the job is over, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The first of so many ports that have no listener, below those that the system hands out: a knock
/// there would disturb whatever other test was given one.
fn free_ports() -> u16 {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut firsts =
        (10_000..30_000).step_by(usize::from(PORTS)).cycle().skip(std::process::id() as usize % 20_000);
    let mut tries = firsts.by_ref().take(1000);
    tries.find(|first| (*first..first + PORTS).all(is_free)).expect("some ports in a row are free")
}

#[test]
fn a_job_completes_whoever_knocks() {
    let first = free_ports();
    let range = format!("{first}-{}", first + PORTS - 1);
    let (is_over, knocks) = (AtomicBool::new(false), AtomicU32::new(0));
    let knock = || {
        let mut held = Vec::new();
        for turn in 0_usize.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, first + (turn % usize::from(PORTS)) as u16));
            let words = WORDS[turn / usize::from(PORTS) % WORDS.len()];
            let Ok(mut stranger) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) else {
                continue;
            };
            // It may have been refused already.
            if stranger.write_all(words).is_ok() {
                knocks.fetch_add(1, Ordering::Relaxed);
            }
            // Some stay and say no more.
            if turn % 3 == 0 && held.len() < 50 {
                held.push(stranger);
            }
        }
    };
    let ended = std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(knock);
        let options =
            ["--transport", "tcp", "--tcp-include", "lo", "--tcp-family", "4", "--tcp-ports", &range];
        begin(3, &options, "rounds").wait()
    });
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 3, "{ended:#?}");
    assert!(knocks.into_inner() > 0, "no stranger has knocked");
}
