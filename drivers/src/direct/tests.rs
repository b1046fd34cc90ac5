//! Two ranks of one process that read each other's memory, in steps and in threads, with an engine
//! that can be stopped at its worst moment.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::boxed::Box;
use std::sync::Arc;
use std::thread;
use std::vec;
use std::vec::Vec;

use aldis_hal::Limits;
use proptest::prelude::*;

use super::*;
use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::transport::Quiesce;
use aldis_hal::{
    Caps, Cost, Extras, Features, Handle, Instant, Post, Refusal, RegionId, RemoteMemory, Sink, Slot, Token,
    Transport,
};

mod growing;

/// The transport inside: it reaches every peer and carries nothing.
struct Nothing(Caps);

struct NoSlot;

impl Slot for NoSlot {
    fn bytes(&mut self) -> &mut [u8] {
        &mut []
    }
    fn commit(self) {}
}

impl Transport for Nothing {
    type Slot<'a> = NoSlot;
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn reach(&self, _: PeerId) -> Result<&Caps, Cause> {
        Ok(&self.0)
    }
    fn short(&mut self, _: PeerId, _: &[u8], _: &[u8]) -> Post {
        Post::Done
    }
    fn reserve(&mut self, _: PeerId, _: usize) -> Result<NoSlot, Refusal> {
        Err(Refusal::Never(Cause::Unsupported))
    }
    fn quiesce(&mut self, _: Quiesce) -> Result<(), Cause> {
        Ok(())
    }
    fn poll<S: Sink>(&mut self, _: u32, _: Instant, _: &mut S) -> u32 {
        0
    }
    fn features(&self) -> Features {
        Features::empty()
    }
}

impl Extras for Nothing {}

impl RemoteMemory for Nothing {}

/// The knowledge that both engines have of each other's threads.
#[derive(Default)]
struct Moments {
    /// A writer is to stop before it looks at its place.
    stop: AtomicBool,
    /// The writer has stopped there.
    stopped: AtomicBool,
    /// Writers between looking and having written.
    within: AtomicU32,
    /// Chunks written.
    written: AtomicU32,
    /// Writes that were begun; of them every so many-th fails, if this is not zero.
    begun: AtomicU32,
    fails_every: AtomicU32,
    /// A write that fails has written half of its bytes.
    falls_short: AtomicBool,
}

impl Moments {
    fn fails_now(&self) -> bool {
        let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let every = self.fails_every.load(Ordering::SeqCst);
        every != 0 && begun.is_multiple_of(every)
    }
}

/// Copies within this process.
struct LocalCopies {
    moments: Arc<Moments>,
    writes: bool,
    fails: bool,
}

// SAFETY: both copies touch what they are told alone, and `within` covers the time from the look to
// the end of the write.
unsafe impl CopyEngine for LocalCopies {
    fn reads(&self, _: PeerId) -> Result<(), &'static str> {
        Ok(())
    }
    fn writes(&self, _: PeerId) -> bool {
        self.writes
    }
    fn shows(&self, _: PeerId, _: Memory) -> bool {
        true
    }
    unsafe fn read(&mut self, _: PeerId, from: u64, into: *mut u8, len: usize) -> Result<(), Cause> {
        // SAFETY: the tests show memory that is there, and the caller vouches for `into`.
        unsafe { into.copy_from_nonoverlapping(core::ptr::with_exposed_provenance(from as usize), len) };
        Ok(())
    }
    unsafe fn write(
        &mut self,
        _: PeerId,
        from: *const u8,
        place: &ChunkPlace,
        len: usize,
    ) -> Result<(), Cause> {
        while self.moments.stop.load(Ordering::SeqCst) {
            self.moments.stopped.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
        self.moments.within.fetch_add(1, Ordering::SeqCst);
        let (address, room) = place.load();
        let fails = self.moments.fails_now();
        let fits = room == len as u64 && !self.fails && !fails;
        if fails && self.moments.falls_short.load(Ordering::SeqCst) && room == len as u64 {
            // SAFETY: as below, of a part of it.
            unsafe {
                from.copy_to_nonoverlapping(core::ptr::with_exposed_provenance_mut(address as usize), len / 2)
            };
        }
        if fits {
            // SAFETY: what a place names is there to be written as long as it is not empty.
            unsafe {
                from.copy_to_nonoverlapping(core::ptr::with_exposed_provenance_mut(address as usize), len)
            };
            self.moments.written.fetch_add(1, Ordering::SeqCst);
        }
        self.moments.within.fetch_sub(1, Ordering::SeqCst);
        if fits { Ok(()) } else { Err(Cause::Device) }
    }
    fn thread(&self) -> u32 {
        7
    }
    fn is_within(&mut self, _: PeerId, thread: u32) -> bool {
        assert_eq!(thread, 7);
        self.moments.within.load(Ordering::SeqCst) > 0
    }
}

#[derive(Default)]
struct DirectLog(Vec<(Token, Result<(), Cause>)>);

impl Sink for DirectLog {
    fn arrived(&mut self, _: PeerId, _: &[u8]) {}
    fn completed(&mut self, token: Token, result: Result<(), Cause>) {
        self.0.push((token, result));
    }
    fn ready(&mut self, _: PeerId) {}
    fn lost(&mut self, _: PeerId, _: Cause) {}
}

type End = Direct<'static, Nothing, LocalCopies>;

/// Ranks 0 and 1. All is leaked: the tests are short.
fn pair(writes: bool, fails: bool) -> ([End; 2], Arc<Moments>) {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct TableLine(#[expect(dead_code, reason = "memory for a table")] [u8; 64]);
    let moments = Arc::new(Moments::default());
    let starts = [0; 2]
        .map(|_| core::ptr::NonNull::from(vec![TableLine([0; 64]); TABLE_BYTES / 64].leak()).cast::<u8>());
    // SAFETY: leaked, zero, aligned, and used as tables alone.
    let table = |rank: usize| unsafe { Table::new(starts[rank], TABLE_BYTES) }.unwrap();
    let limits = Limits::default();
    let ends = [0, 1].map(|rank| {
        let engine = LocalCopies { moments: moments.clone(), writes, fails };
        let inner = Nothing(Caps { limits, ..Caps::default() });
        let peers = vec![None, None].leak();
        let slots = Box::leak(Box::new(RegionSlots::EMPTY));
        let mut end =
            Direct::new(inner, engine, DirectTables { own: table(rank), peers, slots }, Cost::default());
        end.attach(PeerId(1 - rank as u32), table(1 - rank)).unwrap();
        end
    });
    (ends, moments)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| ((index * 31) >> 3) as u8).collect()
}

fn memory(bytes: &[u8]) -> Memory {
    let start = core::ptr::NonNull::from(bytes).cast::<u8>();
    // The engine finds it by its number.
    start.as_ptr().expose_provenance();
    Memory { start, len: bytes.len() }
}

/// Registers memory of a test, which looks at it when nothing is under way there.
fn register(end: &mut End, peer: PeerId, bytes: &[u8], access: Access) -> Result<RegionId, Cause> {
    // SAFETY: each test keeps the memory until its ends are gone or have taken it back, and leaves
    // it alone meanwhile.
    unsafe { end.register(peer, memory(bytes), access) }
}

const TOKEN: Token = Token(Handle { slot: 9, generation: 1 });

/// Shows `data` at `owner`, rank 0, and starts a read of all of it into `into` at `reader`.
fn start(owner: &mut End, reader: &mut End, data: &[u8], into: &mut [u8]) -> ([RegionId; 2], Post) {
    start_as([PeerId(0), PeerId(1)], [owner, reader], data, into)
}

/// Starts as many reads of the same `data`, each of which is left to the polls.
fn start_window(owner: &mut End, reader: &mut End, data: &[u8], into: &mut [Vec<u8>]) {
    for into in into {
        assert_eq!(start(owner, reader, data, into).1, Post::Queued);
    }
}

/// Shows `data` at the first of `ends` and starts a read of all of it at the second, for any
/// `ranks` of the two.
fn start_as(
    ranks: [PeerId; 2],
    [owner, reader]: [&mut End; 2],
    data: &[u8],
    into: &mut [u8],
) -> ([RegionId; 2], Post) {
    let shown = register(owner, ranks[1], data, Access::LOCAL_READ | Access::REMOTE_READ).unwrap();
    let mut key = [0; 16];
    assert_eq!(owner.pack_key(shown, &mut key), Ok(8));
    let region = register(reader, ranks[0], into, Access::LOCAL_WRITE).unwrap();
    let local = Gather { region, offset: 0, len: into.len() };
    let post = reader.get(ranks[0], local, RemoteAddress { key: &key, offset: 0 }, TOKEN);
    ([shown, region], post)
}

fn poll(end: &mut End) -> Vec<(Token, Result<(), Cause>)> {
    let mut log = DirectLog::default();
    end.poll(4, Instant(0), &mut log);
    log.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All bytes come, whatever the length and however often either side polls; a helper that
    /// cannot write spoils nothing.
    #[test]
    fn every_read_is_whole(
        len in 1usize..700_000, turns in proptest::collection::vec(any::<bool>(), 0..40), writes in any::<bool>(),
        fails in any::<bool>(),
    ) {
        let ([mut owner, mut reader], _) = pair(writes, fails);
        let (data, mut into) = (pattern(len), vec![0; len]);
        let (regions, post) = start(&mut owner, &mut reader, &data, &mut into);
        let mut done = post == Post::Done;
        let mut turns = turns.into_iter();
        for _ in 0..100 {
            if done { break }
            if turns.next().unwrap_or(false) {
                poll(&mut owner);
            } else if let Some(over) = poll(&mut reader).pop() {
                prop_assert_eq!(over, (TOKEN, Ok(())));
                done = true;
            }
        }
        prop_assert!(done, "it hangs");
        prop_assert_eq!(reader.deregister(regions[1]), Ok(()));
        prop_assert_eq!(owner.deregister(regions[0]), Ok(()));
        prop_assert_eq!(owner.deregister(regions[0]), Err(Cause::Stale));
        prop_assert!(into == data);
    }
}

#[test]
fn the_owner_does_a_part_of_a_long_read() {
    let ([mut owner, mut reader], moments) = pair(true, false);
    let (data, mut into) = (pattern(1 << 20), vec![0; 1 << 20]);
    let (_, post) = start(&mut owner, &mut reader, &data, &mut into);
    assert_eq!(post, Post::Queued);
    loop {
        poll(&mut owner);
        if let Some(over) = poll(&mut reader).pop() {
            assert_eq!(over, (TOKEN, Ok(())));
            break;
        }
    }
    assert!(moments.written.load(Ordering::SeqCst) >= 4);
    assert!(into == data);
}

/// A reader's end that is dropped has taken its memory back, as if each region had been: an owner
/// that goes on with what was offered writes nothing there.
#[test]
fn an_end_that_is_dropped_leaves_memory_alone() {
    let ([mut owner, mut reader], moments) = pair(true, false);
    let (data, mut into) = (pattern(1 << 20), vec![0; 1 << 20]);
    let (_, post) = start(&mut owner, &mut reader, &data, &mut into);
    assert_eq!(post, Post::Queued);
    drop(reader);
    (0..8).for_each(|_| assert!(poll(&mut owner).is_empty()));
    assert_eq!(moments.written.load(Ordering::SeqCst), 0);
    assert!(into.iter().all(|&byte| byte == 0));
}

/// Of a window of short reads the owner does whole ones, from the last on; one that reads itself
/// leaves them alone.
#[test]
fn of_many_reads_each_side_does_some() {
    const LEN: usize = 128 << 10;
    let ([mut owner, mut reader], moments) = pair(true, false);
    let data = pattern(LEN);
    let mut into = [(); 4].map(|()| vec![0; LEN]);
    start_window(&mut owner, &mut reader, &data, &mut into);
    let (answer, mut back) = (pattern(2 * LEN), vec![0; 2 * LEN]);
    let (_, post) = start_as([PeerId(1), PeerId(0)], [&mut reader, &mut owner], &answer, &mut back);
    assert_eq!(post, Post::Queued);
    let own = poll(&mut owner);
    assert_eq!(own, [(TOKEN, Ok(()))], "its own read goes first, in one piece, since it shows something");
    assert_eq!(moments.written.load(Ordering::SeqCst), 0);
    // The first was offered in halves, before anything was shown; they are read as one now.
    assert_eq!(poll(&mut reader), []);
    assert_eq!(poll(&mut reader), [(TOKEN, Ok(()))]);
    let mut over = 1;
    while over < into.len() {
        poll(&mut owner);
        over += poll(&mut reader).len();
    }
    assert_eq!(moments.written.load(Ordering::SeqCst), 2, "of three whole ones");
    assert!(into.iter().all(|into| *into == data) && back == answer);
}

/// The owner's part of a short one would be over later than the reader's of all.
#[test]
fn of_many_short_reads_the_owner_does_none() {
    const LEN: usize = 64 << 10;
    let ([mut owner, mut reader], moments) = pair(true, false);
    let data = pattern(LEN);
    let mut into = [(); 4].map(|()| vec![0; LEN]);
    start_window(&mut owner, &mut reader, &data, &mut into);
    let mut over = 0;
    while over < into.len() {
        poll(&mut owner);
        over += poll(&mut reader).len();
    }
    assert_eq!(moments.written.load(Ordering::SeqCst), 1, "a half of the first, which was alone");
    assert!(into.iter().all(|into| *into == data));
}

/// Memory that its owner takes back while it is read: the read fails as stale, however far it was.
#[test]
fn what_is_hidden_is_stale() {
    for polls in 0..6 {
        let ([mut owner, mut reader], _) = pair(polls % 2 == 0, false);
        let (data, mut into) = (pattern(2_000_000), vec![0; 2_000_000]);
        let (regions, _) = start(&mut owner, &mut reader, &data, &mut into);
        (0..polls).for_each(|_| assert!(poll(&mut reader).is_empty()));
        owner.deregister(regions[0]).unwrap();
        let over = (0..100).find_map(|_| poll(&mut reader).pop());
        assert_eq!(over, Some((TOKEN, Err(Cause::Stale))), "after {polls} polls");
        let mut key = [0; 8];
        assert_eq!(owner.pack_key(regions[0], &mut key), Err(Cause::Stale));
    }
}

/// Keys, offsets and lengths that were never granted.
#[test]
fn what_was_not_shown_is_not_read() {
    let ([mut owner, mut reader], _) = pair(true, false);
    let (data, into) = (pattern(100), vec![0; 100]);
    let shown = register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).unwrap();
    let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
    let mut key = [0; 16];
    owner.pack_key(shown, &mut key).unwrap();
    let mut get = |key: &[u8], offset, len| {
        reader.get(PeerId(0), Gather { region, offset: 0, len }, RemoteAddress { key, offset }, TOKEN)
    };
    assert_eq!(get(&key, 1, 100), Post::Never(Cause::BadRegion), "past the end");
    assert_eq!(get(&key, u64::MAX, 100), Post::Never(Cause::BadRegion), "an offset that wraps");
    assert_eq!(get(&key[..7], 0, 100), Post::Never(Cause::BadRegion), "half a key");
    assert_eq!(get(&key, 0, 101), Post::Never(Cause::BadRegion), "more than there is room for");
    let mut other = key;
    other[4] ^= 2;
    assert_eq!(get(&other, 0, 100), Post::Never(Cause::Stale), "another life");
    other[4] = 0;
    assert_eq!(get(&other, 0, 100), Post::Never(Cause::Stale), "nothing was ever shown under an even number");
    let mut far = key;
    far[0] = 0xFF;
    assert_eq!(get(&far, 0, 100), Post::Never(Cause::BadRegion), "an entry beyond the table");
    assert_eq!(get(&key, 0, 100), Post::Done);
    assert_eq!(into, data);
    assert_eq!(register(&mut reader, PeerId(5), &data, Access::REMOTE_READ), Err(Cause::Unsupported));
}

#[test]
fn what_is_shown_ends_with_the_transport() {
    let ([mut owner, mut reader], _) = pair(true, false);
    let (data, into) = (pattern(100), vec![0; 100]);
    let shown = register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).unwrap();
    let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
    let mut key = [0; 16];
    owner.pack_key(shown, &mut key).unwrap();
    drop(owner);
    let local = Gather { region, offset: 0, len: 100 };
    let post = reader.get(PeerId(0), local, RemoteAddress { key: &key, offset: 0 }, TOKEN);
    assert_eq!((post, into), (Post::Never(Cause::Stale), vec![0; 100]));
}

#[test]
fn a_full_table_says_so() {
    let ([mut owner, _], _) = pair(true, false);
    let data = pattern(8);
    let regions: Vec<_> =
        core::iter::from_fn(|| register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).ok()).collect();
    assert_eq!(regions.len(), 64);
    owner.deregister(regions[5]).unwrap();
    assert!(register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).is_ok());
}

/// Lets the owner help in a thread of its own, and waits until it is stopped between having taken a
/// chunk and looking where it belongs.
fn stop_within(mut owner: End, moments: &Moments) -> thread::JoinHandle<End> {
    moments.stop.store(true, Ordering::SeqCst);
    let helper = thread::spawn(move || {
        poll(&mut owner);
        owner
    });
    while !moments.stopped.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    helper
}

/// The reader lets go of its memory while the owner, in another thread, is stopped between having
/// taken a chunk and looking where it belongs: taking it back ends at once, and the owner, going
/// on, writes nothing.
#[test]
fn an_owner_that_is_stopped_writes_nothing_later() {
    let ([mut owner, mut reader], moments) = pair(true, false);
    let (data, mut into) = (pattern(1 << 20), vec![0u8; 1 << 20]);
    let (regions, _) = start(&mut owner, &mut reader, &data, &mut into);
    let helper = stop_within(owner, &moments);
    reader.deregister(regions[1]).unwrap();
    into.fill(0xEE);
    moments.stop.store(false, Ordering::SeqCst);
    let mut owner = helper.join().unwrap();
    poll(&mut owner);
    assert_eq!(moments.written.load(Ordering::SeqCst), 0);
    assert!(into.iter().all(|&byte| byte == 0xEE));
}

/// An owner that stays stopped holds no read up: its chunk is read after all.
#[test]
fn what_a_stopped_owner_has_taken_is_read_after_all() {
    let ([mut owner, mut reader], moments) = pair(true, false);
    let (data, mut into) = (pattern(400_000), vec![0u8; 400_000]);
    let (regions, _) = start(&mut owner, &mut reader, &data, &mut into);
    let helper = stop_within(owner, &moments);
    let over = (0..100_000).find_map(|_| poll(&mut reader).pop());
    assert_eq!(over, Some((TOKEN, Ok(()))));
    assert!(into == data);
    reader.deregister(regions[1]).unwrap();
    moments.stop.store(false, Ordering::SeqCst);
    helper.join().unwrap();
    assert_eq!(moments.written.load(Ordering::SeqCst), 0);
}

/// The reader reads a chunk whose write at the owner failed, whichever it is and however much of it
/// was written before.
#[test]
fn what_an_owner_could_not_write_is_read() {
    for (fails_every, falls_short) in (1..=5).flat_map(|every| [(every, false), (every, true)]) {
        let ([mut owner, mut reader], moments) = pair(true, false);
        moments.fails_every.store(fails_every, Ordering::SeqCst);
        moments.falls_short.store(falls_short, Ordering::SeqCst);
        let data = pattern(1 << 20);
        for round in 0..4 {
            let mut into = vec![0xEE; data.len()];
            let (regions, _) = start(&mut owner, &mut reader, &data, &mut into);
            let over = (0..100).find_map(|_| {
                (0..1 + round).for_each(|_| drop(poll(&mut owner)));
                poll(&mut reader).pop()
            });
            assert_eq!(over, Some((TOKEN, Ok(()))));
            assert!(into == data, "every {fails_every}th write fails, round {round}");
            reader.deregister(regions[1]).unwrap();
            owner.deregister(regions[0]).unwrap();
        }
    }
}

/// An owner that is stopped between having taken a chunk and looking where it belongs goes on when
/// its reader is at the next piece of the same region, or long done: it writes an old chunk to no
/// new place.
#[test]
fn an_owner_that_was_stopped_writes_nothing_to_a_later_read() {
    const PIECE: usize = 400_000;
    for is_cut_off in [false, true] {
        let ([mut owner, mut reader], moments) = pair(true, false);
        let data = pattern(3 * PIECE);
        let shown = register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).unwrap();
        let mut key = [0; 8];
        owner.pack_key(shown, &mut key).unwrap();
        let mut into = vec![0u8; 3 * PIECE];
        let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
        let piece = |reader: &mut End, index: usize| {
            let local = Gather { region, offset: index * PIECE, len: PIECE };
            let remote = RemoteAddress { key: &key, offset: (index * PIECE) as u64 };
            assert_eq!(reader.get(PeerId(0), local, remote, TOKEN), Post::Queued);
        };
        let end = |reader: &mut End| (0..100_000).find_map(|_| poll(reader).pop());
        piece(&mut reader, 0);
        let helper = stop_within(owner, &moments);
        if is_cut_off {
            reader.quiesce(Quiesce::Post(TOKEN)).unwrap();
        } else {
            assert_eq!(end(&mut reader), Some((TOKEN, Ok(()))));
        }
        piece(&mut reader, 1);
        moments.stop.store(false, Ordering::SeqCst);
        let mut owner = helper.join().unwrap();
        assert_eq!(moments.written.load(Ordering::SeqCst), 0, "it found its place empty");
        assert_eq!(end(&mut reader), Some((TOKEN, Ok(()))));
        assert!(into[PIECE..2 * PIECE] == data[PIECE..2 * PIECE]);
        // Now that it has gone on it helps again.
        piece(&mut reader, 2);
        let over = (0..100).find_map(|_| {
            poll(&mut owner);
            poll(&mut reader).pop()
        });
        assert_eq!(over, Some((TOKEN, Ok(()))));
        assert!(moments.written.load(Ordering::SeqCst) > 0);
        let first = if is_cut_off { PIECE } else { 0 };
        assert!(into[first..] == data[first..]);
        into.fill(0);
    }
}

/// A reader that has not noticed yet that its region is gone, and another read of the region that
/// is shown in its entry now: neither gets what belongs to the other, and the owner helps the one
/// that is there.
#[test]
fn an_entry_that_is_shown_again_serves_its_new_reader_alone() {
    const LEN: usize = 400_000;
    for (polls, helps) in [(0, 1), (1, 2), (2, 1), (1, 4)] {
        let ([mut owner, mut reader], _) = pair(true, false);
        let (old, new) = (pattern(LEN), pattern(2 * LEN)[LEN..].to_vec());
        let (mut into_old, mut into_new) = (vec![0u8; LEN], vec![0u8; LEN]);
        let (regions, _) = start(&mut owner, &mut reader, &old, &mut into_old);
        (0..polls).for_each(|_| drop(poll(&mut reader)));
        owner.deregister(regions[0]).unwrap();
        let ([again, _], post) = start(&mut owner, &mut reader, &new, &mut into_new);
        assert_eq!((again.0.slot, post), (regions[0].0.slot, Post::Queued), "in the same entry");
        let mut ends = Vec::new();
        for _ in 0..1000 {
            (0..helps).for_each(|_| drop(poll(&mut owner)));
            ends.extend(poll(&mut reader).into_iter().map(|(_, result)| result));
        }
        ends.sort_by_key(|end| end.is_err());
        assert_eq!(ends, [Ok(()), Err(Cause::Stale)]);
        assert!(into_new == new);
    }
}

/// Both sides at full speed in threads, read after read, some cut off: nothing is lost, doubled or
/// written too late.
#[test]
fn two_threads_share_many_reads() {
    let ([mut owner, mut reader], _) = pair(true, false);
    let over = Arc::new(AtomicBool::new(false));
    let data = pattern(300_000);
    let shown = register(&mut owner, PeerId(1), &data, Access::REMOTE_READ).unwrap();
    let mut key = [0; 16];
    owner.pack_key(shown, &mut key).unwrap();
    let flag = over.clone();
    let helper = thread::spawn(move || {
        while !flag.load(Ordering::SeqCst) {
            poll(&mut owner);
        }
    });
    let mut into = vec![0u8; data.len()];
    for round in 0..200 {
        into.fill(round as u8);
        let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
        let local = Gather { region, offset: 0, len: data.len() };
        let mut done =
            reader.get(PeerId(0), local, RemoteAddress { key: &key, offset: 0 }, TOKEN) == Post::Done;
        let cut_off = round % 3 == 0;
        let mut polls = 0;
        while !(done || cut_off && polls > round % 7) {
            polls += 1;
            done = poll(&mut reader).pop().is_some_and(|over| over == (TOKEN, Ok(())));
        }
        reader.deregister(region).unwrap();
        if done {
            assert!(into == data, "round {round}");
        } else {
            into.fill(0xEE);
            (0..50).for_each(|_| thread::yield_now());
            assert!(into.iter().all(|&byte| byte == 0xEE), "round {round}");
        }
    }
    over.store(true, Ordering::SeqCst);
    helper.join().unwrap();
}
