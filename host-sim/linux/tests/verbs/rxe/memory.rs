//! Memory of the user: registered, read, written and updated by peers, and refused to them.

use core::ptr::NonNull;

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::remote_memory::{Atomic, AtomicUpdate, RemoteAddress};
use aldis_hal::transport::Quiesce;
use aldis_hal::{Again, Cause, Features, Handle, PeerId, Post, RegionId, RemoteMemory, Token, Transport};
use aldis_linux::verbs::{Verbs, VerbsError};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, seteuid};

use super::{Epoch, Rank, VerbsConfig, job, pattern, send, until};

const ALL: Access = Access::all();
const KEY_BYTES: usize = 16;

/// Memory that transports touch: looked at only when nothing is under way.
pub(super) struct TouchedMemory(Box<[u8]>);

impl TouchedMemory {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    fn memory(&mut self) -> Memory {
        Memory { start: NonNull::from(&mut self.0[0]), len: self.0.len() }
    }
}

/// Registers all of a buffer with rank `of`.
pub(super) fn register(
    ranks: &mut [Rank],
    of: usize,
    buffer: &mut TouchedMemory,
    access: Access,
) -> (RegionId, [u8; KEY_BYTES]) {
    let peer = PeerId(1 - of as u32);
    // SAFETY: each test keeps its memory until its ranks are gone, and looks at it when nothing is
    // under way.
    let region = unsafe { ranks[of].verbs.register(peer, buffer.memory(), access) }.unwrap();
    let mut key = [0; KEY_BYTES];
    assert_eq!(ranks[of].verbs.pack_key(region, &mut key), Ok(KEY_BYTES));
    (region, key)
}

#[derive(Clone, Copy)]
enum MemoryOperation {
    Get,
    Put,
    Update(Atomic),
}

fn token(slot: u32) -> Token {
    Token(Handle { slot, generation: 1 })
}

/// The place in memory that a key names.
const fn remote(key: &[u8], offset: u64) -> RemoteAddress<'_> {
    RemoteAddress { key, offset }
}

impl MemoryOperation {
    /// Tries once, as rank 0, to do it with memory of rank 1.
    fn attempt(self, rank: &mut Rank, local: Gather, remote: RemoteAddress<'_>, number: u32) -> Post {
        match self {
            Self::Get => rank.verbs.get(PeerId(1), local, remote, token(number)),
            Self::Put => rank.verbs.put(PeerId(1), local, remote, token(number)),
            Self::Update(atomic) => {
                let update = AtomicUpdate { op: atomic, word: remote, fetched: local };
                rank.verbs.atomic(PeerId(1), update, token(number))
            }
        }
    }

    /// Rank 0 does it, and how that has ended.
    fn done(self, ranks: &mut [Rank], local: Gather, remote: RemoteAddress<'_>) -> Result<(), Cause> {
        until(ranks, "post", |ranks| match self.attempt(&mut ranks[0], local, remote, 7) {
            Post::Queued => true,
            Post::Again(_) => false,
            other => panic!("{other:?}"),
        });
        until(ranks, "completion", |ranks| !ranks[0].log.completed.is_empty());
        let (token, result) = ranks[0].log.completed.remove(0);
        assert_eq!(token, 7);
        result
    }
}

#[test]
fn memory_is_read_and_written_where_it_was_meant() {
    const ROOM: usize = (1 << 20) + 4096;
    let mut ranks = job(2);
    let (mut here, mut there) = (TouchedMemory::of(vec![0; ROOM]), TouchedMemory::of(pattern(1, ROOM)));
    let (local, _) = register(&mut ranks, 0, &mut here, ALL);
    let (_, key) = register(&mut ranks, 1, &mut there, ALL);
    for (at, len) in [1, 8, 63, 1023, 1024, 1025, 4097, 65536, 1 << 20].into_iter().enumerate() {
        let (offset, place) = (17 * at + 3, 5 * at + 1);
        let piece = Gather { region: local, offset: place, len };
        here.0.fill(0xEE);
        assert_eq!(
            MemoryOperation::Get.done(&mut ranks, piece, remote(&key, offset as u64)),
            Ok(()),
            "{len} bytes"
        );
        assert!(here.0[place..place + len] == there.0[offset..offset + len], "{len} bytes read");
        assert!(here.0[..place].iter().chain(&here.0[place + len..]).all(|byte| *byte == 0xEE));

        let (fresh, before) = (pattern(at + 50, len), there.0.to_vec());
        here.0[place..place + len].copy_from_slice(&fresh);
        assert_eq!(
            MemoryOperation::Put.done(&mut ranks, piece, remote(&key, offset as u64)),
            Ok(()),
            "{len} bytes"
        );
        assert!(there.0[offset..offset + len] == fresh, "{len} bytes written");
        assert!(there.0[..offset] == before[..offset] && there.0[offset + len..] == before[offset + len..]);
    }
    assert!(ranks.iter().all(|rank| rank.verbs.is_idle()));
}

/// Bytes that were written are there when the write is over, also where nothing may be read.
#[test]
fn a_write_is_over_when_it_can_be_seen() {
    const LEN: usize = 300_000;
    let mut ranks = job(2);
    assert!(ranks.iter().all(|rank| rank.verbs.features().contains(Features::REMOTE_COMPLETION)));
    let (mut here, mut there) = (TouchedMemory::of(pattern(5, LEN)), TouchedMemory::of(vec![0; LEN]));
    let (local, _) = register(&mut ranks, 0, &mut here, Access::LOCAL_READ);
    let (_, key) = register(&mut ranks, 1, &mut there, Access::REMOTE_WRITE);
    for (offset, len) in [(0, LEN), (8, 1), (LEN - 8, 8)] {
        let piece = Gather { region: local, offset, len };
        assert_eq!(MemoryOperation::Put.done(&mut ranks, piece, remote(&key, offset as u64)), Ok(()));
        assert_eq!(there.0[offset..offset + len], here.0[offset..offset + len]);
        there.0[offset..offset + len].fill(0);
    }
}

#[test]
fn words_are_updated_and_what_they_were_is_fetched() {
    let mut ranks = job(2);
    // Words stand where 64-bit words do.
    let mut words = vec![5_u64.to_le(), 9_u64.to_le()].into_boxed_slice();
    let memory = Memory { start: NonNull::from(&mut words[0]).cast(), len: 16 };
    // SAFETY: as for a `Buffer`.
    let there = unsafe { ranks[1].verbs.register(PeerId(0), memory, ALL) }.unwrap();
    let mut key = [0; KEY_BYTES];
    ranks[1].verbs.pack_key(there, &mut key).unwrap();
    let mut here = TouchedMemory::of(vec![0; 8]);
    let (region, _) = register(&mut ranks, 0, &mut here, Access::LOCAL_WRITE);
    let piece = Gather { region, offset: 0, len: 8 };
    let swap = |compare, swap| MemoryOperation::Update(Atomic::CompareSwap { compare, swap });
    for (act, was, is) in [
        (MemoryOperation::Update(Atomic::FetchAdd(3)), 9, 12),
        (MemoryOperation::Update(Atomic::FetchAdd(u64::MAX)), 12, 11),
        (swap(11, 1 << 40), 11, 1 << 40),
        (swap(11, 2), 1 << 40, 1 << 40),
    ] {
        assert_eq!(act.done(&mut ranks, piece, remote(&key, 8)), Ok(()));
        let fetched = u64::from_le_bytes(here.0[..].try_into().unwrap());
        assert_eq!((fetched, u64::from_le(words[1]), u64::from_le(words[0])), (was, is, 5));
    }
    let unaligned =
        MemoryOperation::Update(Atomic::FetchAdd(1)).attempt(&mut ranks[0], piece, remote(&key, 4), 1);
    assert_eq!(unaligned, Post::Never(Cause::Unaligned { need: 8 }));
}

/// A key that names nothing that may be touched is refused, nothing is written, messages go on, and
/// a good key is good after that.
#[test]
fn stale_and_forged_keys_are_refused_and_nothing_is_written() {
    let mut ranks = job(2);
    let (mut here, mut there, mut shown) = (
        TouchedMemory::of(vec![0xAA; 64]),
        TouchedMemory::of(vec![0x55; 64]),
        TouchedMemory::of(vec![0x33; 64]),
    );
    let (region, _) = register(&mut ranks, 0, &mut here, ALL);
    let (gone, stale) = register(&mut ranks, 1, &mut there, ALL);
    ranks[1].verbs.deregister(gone).unwrap();
    assert_eq!(ranks[1].verbs.deregister(gone), Err(Cause::Stale));
    assert_eq!(ranks[1].verbs.pack_key(gone, &mut [0; 16]), Err(Cause::Stale));
    let (_, good) = register(&mut ranks, 1, &mut there, ALL);
    let (_, read_only) = register(&mut ranks, 1, &mut shown, Access::REMOTE_READ);
    let (mut other, mut longer) = (good, good);
    other[0] ^= 0x40;
    longer[8..].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    let piece = Gather { region, offset: 0, len: 64 };
    for (what, key, offset, act) in [
        ("read by a stale key", stale, 0, MemoryOperation::Get),
        ("written by a stale key", stale, 0, MemoryOperation::Put),
        ("read by a forged key", other, 0, MemoryOperation::Get),
        ("written by a forged key", other, 0, MemoryOperation::Put),
        ("written beyond its end", longer, 32, MemoryOperation::Put),
        ("read beyond its end", longer, 4096, MemoryOperation::Get),
        ("written where it may be read", read_only, 0, MemoryOperation::Put),
    ] {
        assert_eq!(act.done(&mut ranks, piece, remote(&key, offset)), Err(Cause::Stale), "{what}");
        assert!(there.0.iter().all(|byte| *byte == 0x55), "{what}");
        assert!(shown.0.iter().all(|byte| *byte == 0x33), "{what}");
        assert!(here.0.iter().all(|byte| *byte == 0xAA), "{what}");
        send(&mut ranks, 0, 1, what.as_bytes());
        send(&mut ranks, 1, 0, what.as_bytes());
    }
    until(&mut ranks, "messages", |ranks| ranks.iter().all(|rank| rank.log.messages.len() == 7));
    assert_eq!(MemoryOperation::Put.done(&mut ranks, piece, remote(&good, 0)), Ok(()));
    assert_eq!(there.0, here.0);
    assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()));
}

#[test]
fn what_is_wrong_on_this_side_is_told_at_once() {
    let mut ranks = job(2);
    let (mut here, mut there) = (TouchedMemory::of(vec![0; 64]), TouchedMemory::of(vec![0; 64]));
    let (region, _) = register(&mut ranks, 0, &mut here, Access::LOCAL_READ);
    let (_, key) = register(&mut ranks, 1, &mut there, ALL);
    let piece = Gather { region, offset: 0, len: 64 };
    let mut try_it = |act: MemoryOperation, piece, key: &[u8], offset| {
        act.attempt(&mut ranks[0], piece, remote(key, offset), 1)
    };
    let bad = Post::Never(Cause::BadRegion);
    assert_eq!(try_it(MemoryOperation::Get, piece, &key, 0), bad, "not to be written here");
    assert_eq!(
        try_it(MemoryOperation::Put, Gather { offset: 1, ..piece }, &key, 0),
        bad,
        "beyond the end here"
    );
    assert_eq!(try_it(MemoryOperation::Put, piece, &key, 1), bad, "beyond the end there");
    assert_eq!(try_it(MemoryOperation::Put, piece, &key[..15], 0), bad, "half a key");
    let stale = RegionId(Handle { generation: 99, ..region.0 });
    assert_eq!(
        try_it(MemoryOperation::Put, Gather { region: stale, ..piece }, &key, 0),
        Post::Never(Cause::Stale)
    );
    assert_eq!(try_it(MemoryOperation::Put, Gather { len: 0, ..piece }, &key, 0), Post::Done);
    assert_eq!(try_it(MemoryOperation::Put, piece, &key, 0), Post::Again(Again::Connecting));
    let nothing = Memory { start: NonNull::dangling(), len: 0 };
    // SAFETY: there is no byte of it.
    let refused = unsafe { ranks[0].verbs.register(PeerId(1), nothing, ALL) };
    assert_eq!(refused, Err(Cause::BadRegion));
}

/// Both begin at once, with more than there is room for.
#[test]
fn both_sides_read_from_each_other() {
    const READS: usize = 50;
    let mut ranks = job(2);
    let mut buffers: Vec<_> = (0..4).map(|at| TouchedMemory::of(pattern(at, READS * 100))).collect();
    let registered: Vec<_> = buffers
        .iter_mut()
        .enumerate()
        .map(|(at, buffer)| register(&mut ranks, at % 2, buffer, ALL))
        .collect();
    let mut posted = [0; 2];
    until(&mut ranks, "reads", |ranks| {
        for (me, rank) in ranks.iter_mut().enumerate() {
            while posted[me] < READS {
                let local = Gather { region: registered[2 + me].0, offset: 100 * posted[me], len: 100 };
                let remote = RemoteAddress { key: &registered[1 - me].1, offset: 100 * posted[me] as u64 };
                match rank.verbs.get(PeerId(1 - me as u32), local, remote, token(posted[me] as u32)) {
                    Post::Queued => posted[me] += 1,
                    Post::Again(_) => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        ranks.iter().all(|rank| rank.log.completed.len() == READS)
    });
    for (me, rank) in ranks.iter().enumerate() {
        // In order, each once.
        let all: Vec<_> = (0..READS as u32).map(|number| (number, Ok(()))).collect();
        assert_eq!(rank.log.completed, all);
        assert!(buffers[2 + me].0 == buffers[1 - me].0);
    }
}

#[test]
fn memory_that_is_taken_back_is_touched_no_more() {
    let mut ranks = job(2);
    let (mut here, mut there) = (TouchedMemory::of(vec![1; 1 << 20]), TouchedMemory::of(vec![2; 1 << 20]));
    let (mut region, _) = register(&mut ranks, 0, &mut here, ALL);
    let (_, key) = register(&mut ranks, 1, &mut there, ALL);
    let piece = |region| Gather { region, offset: 0, len: 1 << 20 };
    assert_eq!(MemoryOperation::Get.done(&mut ranks, piece(region), remote(&key, 0)), Ok(()));
    for round in 0..4 {
        until(&mut ranks, "post", |ranks| {
            MemoryOperation::Get.attempt(&mut ranks[0], piece(region), remote(&key, 0), 9) == Post::Queued
        });
        match round {
            0 => ranks[0].verbs.deregister(region).unwrap(),
            1 => ranks[0].verbs.quiesce(Quiesce::Region(region)).unwrap(),
            2 => ranks[0].verbs.quiesce(Quiesce::Post(token(9))).unwrap(),
            _ => ranks[0].verbs.quiesce(Quiesce::Peer(PeerId(1))).unwrap(),
        }
        // From here on it is this test's.
        here.0.fill(3);
        assert!(!ranks[0].verbs.is_idle());
        until(&mut ranks, "completion", |ranks| !ranks[0].log.completed.is_empty());
        assert_eq!(ranks[0].log.completed, [(9, Err(Cause::Cancelled))], "round {round}");
        assert!(here.0.iter().all(|byte| *byte == 3), "round {round}");
        ranks[0].log.completed.clear();
        if round == 0 {
            assert_eq!(ranks[0].verbs.quiesce(Quiesce::Region(region)), Err(Cause::Stale));
            region = register(&mut ranks, 0, &mut here, ALL).0;
        }
        assert_eq!(ranks[0].verbs.quiesce(Quiesce::Post(token(9))), Err(Cause::Stale));
    }
}

/// The owner lets go of what is being read: the reader is told, and reads nothing else.
#[test]
fn memory_that_its_owner_takes_back_is_stale_for_readers() {
    let mut ranks = job(2);
    let (mut here, mut there) = (TouchedMemory::of(vec![1; 1 << 20]), TouchedMemory::of(vec![2; 1 << 20]));
    let (region, _) = register(&mut ranks, 0, &mut here, ALL);
    let (mut shown, mut key) = register(&mut ranks, 1, &mut there, ALL);
    let piece = Gather { region, offset: 0, len: 1 << 20 };
    assert_eq!(MemoryOperation::Get.done(&mut ranks, piece, remote(&key, 0)), Ok(()));
    for _ in 0..3 {
        until(&mut ranks, "post", |ranks| {
            MemoryOperation::Get.attempt(&mut ranks[0], piece, remote(&key, 0), 9) == Post::Queued
        });
        ranks[1].verbs.deregister(shown).unwrap();
        there.0.fill(4);
        until(&mut ranks, "completion", |ranks| !ranks[0].log.completed.is_empty());
        let (_, result) = ranks[0].log.completed.remove(0);
        // It may have been through already: then with what there was.
        match result {
            Ok(()) => assert!(here.0.iter().all(|byte| *byte == 2)),
            Err(cause) => assert_eq!(cause, Cause::Stale),
        }
        there.0.fill(2);
        (shown, key) = register(&mut ranks, 1, &mut there, ALL);
    }
    assert_eq!(MemoryOperation::Get.done(&mut ranks, piece, remote(&key, 0)), Ok(()));
}

/// Does something as a user who may lock no more than so much: the superuser may lock what it
/// likes.
fn as_user<T>(may_lock: u64, what: impl FnOnce() -> T) -> T {
    let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
    setrlimit(Resource::RLIMIT_MEMLOCK, may_lock, hard).unwrap();
    seteuid(Uid::from_raw(65534)).unwrap();
    let done = what();
    seteuid(Uid::from_raw(0)).unwrap();
    setrlimit(Resource::RLIMIT_MEMLOCK, soft, hard).unwrap();
    done
}

#[test]
fn a_limit_on_locked_memory_is_told_with_need_and_have() {
    const HAVE: u64 = 32 << 10;
    let mut ranks = job(2);
    let mut buffer = TouchedMemory::of(vec![0; 1 << 20]);
    // SAFETY: it is refused.
    let refused = as_user(HAVE, || unsafe { ranks[0].verbs.register(PeerId(1), buffer.memory(), ALL) });
    assert_eq!(refused, Err(Cause::TooBig { len: 1 << 20, max: HAVE }));
    // Without a manager that only some may use.
    let opened = as_user(HAVE, || Verbs::open(PeerId(0), Epoch(1), 2, &VerbsConfig::default()));
    let error = opened.unwrap_err();
    assert!(matches!(error, VerbsError::Locked { need, have: HAVE } if need > HAVE), "{error}");
    assert!(error.to_string().ends_with("raise RLIMIT_MEMLOCK (`ulimit -l`)"), "{error}");
}

/// A connection asks for what it needs when it is made: a rank that may not have it loses the peer,
/// and both are told.
#[test]
fn a_connection_that_needs_more_locked_memory_than_there_may_be_is_told() {
    const HAVE: u64 = 256 << 10;
    let mut ranks = job(2);
    as_user(HAVE, || {
        assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Again(Again::Connecting));
        until(&mut ranks, "loss", |ranks| !ranks[0].log.lost.is_empty());
    });
    let [(1, Cause::TooBig { len, max: HAVE })] = ranks[0].log.lost[..] else {
        panic!("{:?}", ranks[0].log.lost)
    };
    assert!(len > HAVE, "{len}");
}

/// Told, not judged: what a megabyte takes that is read, written, or sent in messages.
#[test]
fn a_megabyte() {
    const LEN: usize = 1 << 20;
    let mut ranks = job(2);
    let (mut here, mut there) = (TouchedMemory::of(vec![0; LEN]), TouchedMemory::of(pattern(1, LEN)));
    let (local, _) = register(&mut ranks, 0, &mut here, ALL);
    let (_, key) = register(&mut ranks, 1, &mut there, ALL);
    let piece = Gather { region: local, offset: 0, len: LEN };
    for (act, what) in [
        (MemoryOperation::Get, "read"),
        (MemoryOperation::Put, "written"),
        (MemoryOperation::Get, "read"),
        (MemoryOperation::Put, "written"),
    ] {
        let start = std::time::Instant::now();
        for _ in 0..10 {
            assert_eq!(act.done(&mut ranks, piece, remote(&key, 0)), Ok(()));
        }
        println!("\n{what} in {:?}", start.elapsed() / 10);
    }
    let start = std::time::Instant::now();
    for _ in 0..10 {
        let count = ranks[1].log.messages.len() + 64;
        for _ in 0..64 {
            send(&mut ranks, 0, 1, &[7; 16384]);
        }
        until(&mut ranks, "arrivals", |ranks| ranks[1].log.messages.len() == count);
    }
    println!("\nsent in {:?}", start.elapsed() / 10);
    let start = std::time::Instant::now();
    for _ in 0..10 {
        let (region, _) = register(&mut ranks, 0, &mut here, ALL);
        ranks[0].verbs.deregister(region).unwrap();
    }
    println!("\nregistered in {:?}", start.elapsed() / 10);
}
