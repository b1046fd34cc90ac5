//! UNSAFE: copies within this process, by the system.

use core::ptr;

use super::*;
use core::sync::atomic::Ordering;

#[repr(align(4096))]
struct Pages(#[expect(dead_code, reason = "memory for a stand")] [u8; STAND_BYTES]);

pub(crate) fn stand() -> Stand {
    let memory = Box::leak(Box::new(Pages([0; STAND_BYTES])));
    // SAFETY: leaked, zero, aligned, and used as a stand alone.
    unsafe { Stand::new(NonNull::from(memory).cast()) }
}

fn reading(allowed: Allowed) -> (Cma, Stand) {
    let (mut cma, stand) = (Cma::new(allowed, 2), stand());
    stand.take_up(None);
    cma.introduce(PeerId(1), stand);
    (cma, stand)
}

#[test]
fn what_is_allowed_is_what_the_variable_says() {
    assert_eq!(
        ["", "on", "read", "off", "no"].map(Allowed::parse),
        [Some(Allowed::On), Some(Allowed::On), Some(Allowed::Read), Some(Allowed::Off), None]
    );
    assert_eq!(parse_cost("700:90"), Some(Cost { overhead_ns: 0, latency_ns: 700, per_kib_ns: 90 }));
    assert_eq!([parse_cost("700"), parse_cost("a:1"), parse_cost("")], [None; 3]);
}

#[test]
fn a_probe_reads_and_says_why_it_does_not() {
    let (cma, _) = reading(Allowed::On);
    assert_eq!((cma.reads(PeerId(1)), cma.writes(PeerId(1))), (Ok(()), true));
    assert!(cma.reads(PeerId(0)).is_err() && cma.reads(PeerId(9)).is_err(), "those were not introduced");
    let (cma, _) = reading(Allowed::Read);
    assert_eq!((cma.reads(PeerId(1)), cma.writes(PeerId(1))), (Ok(()), false));
    let (cma, _) = reading(Allowed::Off);
    assert_eq!(cma.reads(PeerId(1)), Err("its memory is not read: ALDIS_CMA is off"));

    // A process id that names another process, or none, and a rank that shows nothing.
    let (mut cma, lying) = reading(Allowed::On);
    lying.head().word.fetch_add(1, Ordering::Relaxed);
    cma.introduce(PeerId(1), lying);
    assert!(cma.reads(PeerId(1)).unwrap_err().contains("another process"));
    lying.head().pid.store(i32::MAX as u32, Ordering::Relaxed);
    cma.introduce(PeerId(1), lying);
    assert!(cma.reads(PeerId(1)).unwrap_err().contains("ESRCH"));
    cma.introduce(PeerId(1), stand());
    assert!(cma.reads(PeerId(1)).unwrap_err().contains("shows none"));
}

/// Asks one peer of many, which tells for the others until they are asked for.
#[test]
fn a_peer_is_asked_at_the_first_contact() {
    let mut cma = Cma::new(Allowed::On, 9);
    let stands: Vec<Stand> = (0..9).map(|_| stand()).collect();
    for (stand, peer) in stands.iter().zip(0..) {
        // Rank 7 differs: it shows nothing.
        if peer != 7 {
            stand.take_up(None);
        }
        cma.introduce(PeerId(peer), *stand);
    }
    let asked = |cma: &Cma| -> Vec<u32> {
        let is_asked = |reach: &Cell<Reach>| matches!(reach.get(), Reach::Found(_));
        (0..).zip(&cma.peers).filter(|(_, reach)| is_asked(reach)).map(|(peer, _)| peer).collect()
    };
    assert_eq!(asked(&cma), []);
    assert!((0..9).all(|peer| cma.expects(PeerId(peer)) && cma.reads_all(PeerId(peer))));
    assert_eq!(asked(&cma), [0], "for all of them");
    assert!(cma.writes(PeerId(3)));
    let mut word = 0u64;
    // SAFETY: `word` has as many bytes.
    let read = unsafe { cma.read(PeerId(7), 64, ptr::from_mut(&mut word).cast(), 8) };
    assert_eq!(read, Err(Cause::Unsupported), "nothing is read of one that cannot be");
    assert_eq!(asked(&cma), [0, 3, 7]);
    assert!(!cma.expects(PeerId(7)) && cma.reads(PeerId(7)).unwrap_err().contains("shows none"));

    // What a first peer refuses is asked of each.
    let mut cma = Cma::new(Allowed::On, 2);
    cma.introduce(PeerId(0), stands[7]);
    cma.introduce(PeerId(1), stands[1]);
    assert_eq!([0, 1].map(|peer| cma.expects(PeerId(peer))), [false, true]);
}

#[test]
fn bytes_are_read_and_what_is_not_there_is_refused() {
    let (mut cma, _) = reading(Allowed::On);
    let (from, mut into) = ([7u8; 5000], [0u8; 5000]);
    let address = ptr::from_ref(&from).addr() as u64;
    // SAFETY: `into` has as many bytes.
    let read = unsafe { cma.read(PeerId(1), address, into.as_mut_ptr(), 5000) };
    assert_eq!((read, into), (Ok(()), from));
    // SAFETY: as above.
    assert_eq!(unsafe { cma.read(PeerId(1), 64, into.as_mut_ptr(), 100) }, Err(Cause::Device));
    into.fill(0);
    assert_eq!(cma.fetch(PeerId(1), address, &mut into[..5000]), Ok(()));
    assert_eq!(into[..5000], from[..5000], "for collectives");
    assert_eq!(cma.fetch(PeerId(1), 64, &mut into[..100]), Err(Cause::Device));
    assert_eq!(cma.fetch(PeerId(3), address, &mut into[..100]), Err(Cause::Unsupported));
    assert!(cma.is_within(PeerId(1), cma.thread()), "this thread runs");
    assert!(!cma.is_within(PeerId(1), i32::MAX as u32), "there is no such thread");
}

/// Reads go elsewhere first where Linux is slow to read: the same bytes, and none beside them.
#[test]
fn reads_that_would_be_slow_go_a_way_around() {
    let (mut cma, _) = reading(Allowed::On);
    let len = 2 * ASIDE_BYTES + 777;
    let from: Vec<u8> = (0..len + 4096).map(|at| (at % 251) as u8 + 1).collect();
    for (first, len) in [(0, len), (5, ASIDE_BYTES), (4095, ASIDE_BYTES_MIN), (100, ASIDE_BYTES_MIN - 1)] {
        let mut into = vec![0; len + 2 * 4096];
        let address = from[first..].as_ptr().addr();
        let ahead = address.wrapping_add(16).wrapping_sub(into.as_ptr().addr()) % 4096;
        assert_eq!(is_slow_in_linux(into[ahead..].as_ptr().addr(), address), cfg!(target_arch = "x86_64"));
        // SAFETY: there are as many bytes.
        let read = unsafe { cma.read(PeerId(1), address as u64, into[ahead..].as_mut_ptr(), len) };
        assert_eq!((read, &into[ahead..ahead + len]), (Ok(()), &from[first..first + len]));
        assert!(into[..ahead].iter().chain(&into[ahead + len..]).all(|&byte| byte == 0));
        // SAFETY: nothing is there to be read.
        let read = unsafe { cma.read(PeerId(1), 64 + ahead as u64 % 4096, into[ahead..].as_mut_ptr(), len) };
        assert_eq!(read, Err(Cause::Device));
    }
}

#[test]
fn measuring_takes_no_nonsense() {
    let cost = read_cost().unwrap();
    assert!(cost.per_kib_ns < 100_000, "{cost:?}");
}
