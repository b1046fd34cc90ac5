//! This module holds `unsafe` code: loom models of control slots, each with twins that must fail,
//! as in the models of a lane. Two ranks, each of which owns a set and reads the other's; a set of
//! two slots and two chunks, so that the third collective and the third position wait for the
//! first.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::vec::Vec;

use aldis_hal::shared_control::Note;
use loom::model::Builder;
use loom::thread;

use super::control_slots::{
    ControlBody, ControlHead, Exact, Own, PLACES, SetControl, SetPlace, SlotOrders, Theirs,
};
use crate::sync::{Ordering, PairLoads, UnsafeCell};

/// Declares a twin of [`Exact`] with one order relaxed.
macro_rules! mutant {
    ($($name:ident: $order:ident,)*) => {$(
        struct $name;
        impl SlotOrders for $name {
            const $order: Ordering = Ordering::Relaxed;
        }
    )*};
}

mutant! {
    PublishRelaxed: PUBLISH,
    LookRelaxed: LOOK,
    ReturnRelaxed: RETURN,
    CollectRelaxed: COLLECT,
    NameRelaxed: NAME,
    ReadNameRelaxed: READ_NAME,
}

/// The twin for machines that load a slot's name and sequence one by one.
struct OneByOne;
impl SlotOrders for OneByOne {
    const LOADS: PairLoads = PairLoads::Checked;
}

/// Loads both words without another look at the name.
struct NameOnce;
impl SlotOrders for NameOnce {
    const LOADS: PairLoads = PairLoads::Unchecked;
}

const SLOTS: u32 = 2;
/// Slots where more than the places beside them are asked for.
const SLOTS_MAX: u32 = 4;
const CHUNKS: u32 = 2;
/// The communicator that the sets are opened for, and one that had them before.
const NEW: u32 = 0x2_0000;
const OLD: u32 = 0x1_0000;

/// A rank's set in shared memory. Chunks are cells beside it, whose accesses loom sees.
struct Set {
    control: SetControl,
    heads: Vec<ControlHead>,
    /// The bodies, behind which are the places beside them.
    bodies: Vec<ControlBody>,
    /// Slots.
    size: u32,
    chunks: Vec<UnsafeCell<u32>>,
}

impl Set {
    fn new(context: u32, start: u32, size: u32) -> Self {
        Self {
            control: SetControl::new(context, start),
            size,
            heads: (0..size).map(|_| ControlHead::new(context, start)).collect(),
            bodies: (0..size + PLACES).map(|_| ControlBody::new()).collect(),
            chunks: (0..CHUNKS).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    fn place(&self) -> SetPlace {
        SetPlace {
            control: &raw const self.control,
            heads: self.heads.as_ptr(),
            stride: size_of::<ControlHead>(),
            bodies: self.bodies.as_ptr(),
            chunks: core::ptr::dangling_mut(),
            size: self.size,
            depth: CHUNKS,
            chunk_bytes: 0,
        }
    }

    fn write(&self, position: u32, value: u32) {
        // SAFETY: loom checks that nothing else accesses the cell meanwhile.
        self.chunks[(position % CHUNKS) as usize].with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self, position: u32) -> u32 {
        // SAFETY: loom checks that nothing writes the cell meanwhile.
        self.chunks[(position % CHUNKS) as usize].with(|cell| unsafe { *cell })
    }
}

/// The sets of two ranks.
struct ModelSets {
    sets: [Set; 2],
    start: u32,
    /// Set by the rank that goes on where only one may: no part of the model.
    claimed: AtomicBool,
}

// SAFETY: the models' ranks keep the protocol; that they do is what loom checks at each access.
unsafe impl Sync for ModelSets {}
// SAFETY: as above.
unsafe impl Send for ModelSets {}

/// A rank of a model.
struct Rank<'a, O> {
    own: Own<O>,
    theirs: Theirs<O>,
    mine: &'a Set,
    other: &'a Set,
}

impl ModelSets {
    fn new(context: u32, start: u32) -> Self {
        Self::of_size(context, start, SLOTS)
    }

    fn of_size(context: u32, start: u32, size: u32) -> Self {
        let sets = [Set::new(context, start, size), Set::new(context, start, size)];
        Self { sets, start, claimed: AtomicBool::new(false) }
    }

    fn rank<O: SlotOrders>(&self, me: usize) -> Rank<'_, O> {
        self.rank_among(me, 3)
    }

    /// A rank that counts these members.
    fn rank_among<O: SlotOrders>(&self, me: usize, members: u64) -> Rank<'_, O> {
        let (mine, other) = (&self.sets[me], &self.sets[1 - me]);
        // SAFETY: the sets outlive both threads; each is owned by one.
        let (mut own, theirs) = unsafe { (Own::at(mine.place()), Theirs::at(other.place())) };
        // SAFETY: no rank reads there yet.
        unsafe { own.open(NEW, self.start, members) };
        Rank { own, theirs, mine, other }
    }
}

impl<O: SlotOrders> Rank<'_, O> {
    fn refresh(&mut self) {
        // SAFETY: as in `ModelSets::rank`.
        let other: Theirs<O> = unsafe { Theirs::at(self.other.place()) };
        // SAFETY: it is the only other one, and has come so far.
        unsafe { self.own.clear(other.progress(&self.own)) };
    }

    /// Writes a number in this rank's slot, waiting for it to be free.
    fn publish(&mut self, number: u32, value: u32) {
        let note = Note { operation: 7, root: 3, bytes: 4 };
        while !self.own.publish(number, note, &value.to_le_bytes()).unwrap() {
            self.refresh();
            thread::yield_now();
        }
    }

    /// Reads the number in the other's slot.
    fn read_slot(&mut self, number: u32) -> u32 {
        loop {
            match self.theirs.look(&self.own, number).unwrap() {
                Some(notice) => return u32::from_le_bytes(notice.payload.try_into().unwrap()),
                None => thread::yield_now(),
            }
        }
    }

    fn fill(&mut self, position: u32, value: u32) {
        while self.own.fill(position).is_none() {
            self.refresh();
            thread::yield_now();
        }
        self.mine.write(position, value);
        self.own.filled(position);
    }

    fn collect(&mut self, position: u32) -> u32 {
        while self.theirs.chunk(&self.own, position).unwrap().is_none() {
            thread::yield_now();
        }
        let value = self.other.read(position);
        self.own.done_before(position.wrapping_add(1));
        value
    }
}

/// The code of one side of a model.
type SetRole = fn(&ModelSets);

/// Explores two roles, the first on a spawned thread, with at most two preemptions, which is enough
/// for every mutant to fail.
fn explore_as(shared: fn() -> ModelSets, spawned: SetRole, own: SetRole) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let sets = Arc::new(shared());
        let theirs = Arc::clone(&sets);
        let thread = thread::spawn(move || spawned(&theirs));
        own(&sets);
        thread.join().unwrap();
    });
}

fn explore(shared: fn() -> ModelSets, one: SetRole, other: SetRole) {
    explore_as(shared, one, other);
    explore_as(shared, other, one);
}

/// Returns true if a model fails both ways round, as a mutated twin must.
fn fails(shared: fn() -> ModelSets, one: SetRole, other: SetRole) -> bool {
    fails_as(shared, one, other) && fails_as(shared, other, one)
}

/// Returns true if a model fails with its first role on the spawned thread.
fn fails_as(shared: fn() -> ModelSets, spawned: SetRole, own: SetRole) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore_as(shared, spawned, own))).is_err()
}

mod slots {
    //! A root that runs ahead, and one who only reads: the third slot is the first one again.

    use super::*;

    const COLLECTIVES: u32 = 3;

    fn root<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        for value in 0..COLLECTIVES {
            let number = rank.own.begin();
            rank.publish(number, value);
            rank.own.finish(number);
        }
    }

    fn leaf<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        for value in 0..COLLECTIVES {
            let number = rank.own.begin();
            assert_eq!(rank.read_slot(number), value);
            rank.own.finish(number);
        }
    }

    #[test]
    fn hold_what_was_written_until_it_is_read() {
        explore(|| ModelSets::new(0, 0), root::<Exact>, leaf::<Exact>);
    }

    #[test]
    fn hold_it_where_numbers_wrap() {
        explore(|| ModelSets::new(0, u32::MAX - 1), root::<Exact>, leaf::<Exact>);
    }

    #[test]
    fn need_each_of_their_orders() {
        let shared = || ModelSets::new(0, 0);
        assert!(fails(shared, root::<PublishRelaxed>, leaf::<PublishRelaxed>));
        assert!(fails(shared, root::<LookRelaxed>, leaf::<LookRelaxed>));
        assert!(fails(shared, root::<ReturnRelaxed>, leaf::<ReturnRelaxed>));
        assert!(fails(shared, root::<CollectRelaxed>, leaf::<CollectRelaxed>));
    }
}

mod places {
    //! A root whose payloads are no short ones. Long ones stand in turn beside four slots, where
    //! the third one is the first again, or in the body of a slot if the reader is behind; others
    //! stand in the bodies of two slots.

    use super::*;

    const COLLECTIVES: u32 = 3;

    const LONG: usize = 32;
    const MIDDLE: usize = 24;

    fn root<O: SlotOrders, const LEN: usize>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        for value in 0..COLLECTIVES {
            let (number, note) = (rank.own.begin(), Note { operation: 7, root: 3, bytes: LEN as u64 });
            while !rank.own.publish(number, note, &[value as u8; LEN]).unwrap() {
                rank.refresh();
                thread::yield_now();
            }
            rank.own.finish(number);
        }
    }

    fn leaf<O: SlotOrders, const LEN: usize>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        for value in 0..COLLECTIVES {
            let number = rank.own.begin();
            let notice = loop {
                match rank.theirs.look(&rank.own, number).unwrap() {
                    Some(notice) => break notice,
                    None => thread::yield_now(),
                }
            };
            assert_eq!((notice.note.root, notice.payload), (3, &[value as u8; LEN][..]));
            rank.own.finish(number);
        }
    }

    fn sets() -> ModelSets {
        ModelSets::of_size(0, u32::MAX - 1, SLOTS_MAX)
    }

    fn two_slots() -> ModelSets {
        ModelSets::new(0, u32::MAX - 1)
    }

    #[test]
    fn hold_what_was_written_until_it_is_read() {
        explore(sets, root::<Exact, LONG>, leaf::<Exact, LONG>);
        explore(two_slots, root::<Exact, MIDDLE>, leaf::<Exact, MIDDLE>);
    }

    #[test]
    fn need_each_of_their_orders() {
        assert!(fails(sets, root::<PublishRelaxed, LONG>, leaf::<PublishRelaxed, LONG>));
        assert!(fails(two_slots, root::<PublishRelaxed, MIDDLE>, leaf::<PublishRelaxed, MIDDLE>));
        assert!(fails(sets, root::<LookRelaxed, LONG>, leaf::<LookRelaxed, LONG>));
        assert!(fails(two_slots, root::<LookRelaxed, MIDDLE>, leaf::<LookRelaxed, MIDDLE>));
        assert!(fails(sets, root::<ReturnRelaxed, LONG>, leaf::<ReturnRelaxed, LONG>));
        assert!(fails(two_slots, root::<ReturnRelaxed, MIDDLE>, leaf::<ReturnRelaxed, MIDDLE>));
        assert!(fails(sets, root::<CollectRelaxed, LONG>, leaf::<CollectRelaxed, LONG>));
        assert!(fails(two_slots, root::<CollectRelaxed, MIDDLE>, leaf::<CollectRelaxed, MIDDLE>));
    }
}

mod barrier {
    //! Both write and both read: a rank that has left knows that the other has entered.

    use super::*;

    fn meet<O: SlotOrders>(shared: &ModelSets, me: usize) {
        let mut rank = shared.rank::<O>(me);
        for value in 0..2 {
            let number = rank.own.begin();
            rank.publish(number, 10 * me as u32 + value);
            assert_eq!(rank.read_slot(number), 10 * (1 - me as u32) + value);
            rank.own.finish(number);
        }
    }

    #[test]
    fn no_rank_is_a_lap_ahead_unseen() {
        explore(
            || ModelSets::new(0, 0),
            |shared| meet::<Exact>(shared, 0),
            |shared| meet::<Exact>(shared, 1),
        );
    }
}

mod chunks {
    //! A stream of three positions through two chunks.

    use super::*;

    const POSITIONS: u32 = 3;

    fn give<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        for index in 0..POSITIONS {
            let position = shared.start.wrapping_add(index);
            rank.fill(position, index);
            rank.own.done_before(position.wrapping_add(1));
        }
    }

    fn take<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        for index in 0..POSITIONS {
            assert_eq!(rank.collect(shared.start.wrapping_add(index)), index);
        }
    }

    #[test]
    fn come_in_order_and_whole() {
        explore(|| ModelSets::new(0, u32::MAX - 1), give::<Exact>, take::<Exact>);
    }

    #[test]
    fn need_each_of_their_orders() {
        let shared = || ModelSets::new(0, 0);
        assert!(fails(shared, give::<PublishRelaxed>, take::<PublishRelaxed>));
        assert!(fails(shared, give::<LookRelaxed>, take::<LookRelaxed>));
        assert!(fails(shared, give::<ReturnRelaxed>, take::<ReturnRelaxed>));
        assert!(fails(shared, give::<CollectRelaxed>, take::<CollectRelaxed>));
    }
}

mod opening {
    //! A set that was another communicator's, and has a slot with the number that is waited for and
    //! a chunk at that position: neither is taken for the new one's.

    use super::*;

    /// Both sets as an older communicator has left them, with its first slot and chunk written.
    fn used() -> ModelSets {
        let shared = ModelSets::new(OLD, 0);
        for set in &shared.sets {
            // SAFETY: nothing else knows of the set yet.
            let mut own: Own = unsafe { Own::at(set.place()) };
            // SAFETY: the same.
            unsafe { own.open(OLD, 0, 3) };
            let number = own.begin();
            let note = Note { operation: 7, root: 3, bytes: 4 };
            assert!(own.publish(number, note, &99u32.to_le_bytes()).unwrap());
            own.finish(number);
            set.write(0, 99);
            own.filled(0);
            own.done_before(1);
        }
        shared
    }

    fn root<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        let number = rank.own.begin();
        rank.publish(number, 5);
        rank.own.finish(number);
    }

    fn leaf<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        let number = rank.own.begin();
        assert_eq!(rank.read_slot(number), 5);
        rank.own.finish(number);
    }

    fn give<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        rank.fill(0, 5);
    }

    fn take<O: SlotOrders>(shared: &ModelSets) {
        assert_eq!(shared.rank::<O>(1).collect(0), 5);
    }

    #[test]
    fn shows_nothing_of_the_communicator_before() {
        explore(used, root::<Exact>, leaf::<Exact>);
        explore(used, root::<OneByOne>, leaf::<OneByOne>);
        explore(used, give::<Exact>, take::<Exact>);
    }

    #[test]
    fn needs_each_of_its_orders() {
        // The other way round it takes more preemptions.
        assert!(fails_as(used, take::<NameRelaxed>, give::<NameRelaxed>));
        assert!(fails_as(used, take::<ReadNameRelaxed>, give::<ReadNameRelaxed>));
    }
}

mod leaving {
    //! A rank that leaves its communicator while another is in it, and opens its set for the next.

    use super::*;

    fn sets() -> ModelSets {
        ModelSets::new(0, 0)
    }

    /// Leaves without the first collective, and makes one of the next communicator.
    fn goes<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        rank.own.leave();
        // SAFETY: no rank has read here.
        unsafe { rank.own.open(OLD, 0, 1) };
        let number = rank.own.begin();
        rank.publish(number, 99);
    }

    /// Waits in the first collective for a rank that makes none.
    fn waits<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        let number = rank.own.begin();
        for _ in 0..2 {
            assert!(rank.theirs.look(&rank.own, number).unwrap().is_none(), "another communicator's");
            thread::yield_now();
        }
    }

    #[test]
    fn shows_nothing_of_the_communicator_after() {
        explore(sets, goes::<Exact>, waits::<Exact>);
        explore(sets, goes::<OneByOne>, waits::<OneByOne>);
    }

    #[test]
    fn needs_name_and_sequence_of_one_time() {
        assert!(fails(sets, goes::<NameOnce>, waits::<NameOnce>));
    }

    /// A root that runs on: its third collective has the slot of its first one.
    fn root<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(0);
        for value in 0..3 {
            let number = rank.own.begin();
            rank.publish(number, value);
            rank.own.finish(number);
        }
    }

    /// Reads the first collective's slot and goes.
    fn reader<O: SlotOrders>(shared: &ModelSets) {
        let mut rank = shared.rank::<O>(1);
        let number = rank.own.begin();
        assert_eq!(rank.read_slot(number), 0);
        rank.own.leave();
        // SAFETY: no rank has read here.
        unsafe { rank.own.open(OLD, 0, 2) };
    }

    #[test]
    fn ends_what_the_rank_reads() {
        explore(sets, root::<Exact>, reader::<Exact>);
    }

    #[test]
    fn needs_the_order_of_its_names() {
        assert!(fails(sets, root::<NameRelaxed>, reader::<NameRelaxed>));
    }
}

mod joining {
    //! Two ranks that open their sets by one name at a time, and must not both go on.

    use super::*;

    fn claim(shared: &ModelSets) {
        assert!(!shared.claimed.swap(true, Ordering::Relaxed), "both have gone on");
    }

    /// A rank that counts others than its mate does, but one of them as well.
    fn unlike<const ME: usize>(shared: &ModelSets) {
        let rank = shared.rank_among::<Exact>(ME, 1 | 1 << (2 - ME));
        if rank.theirs.agrees(&rank.own, true) {
            claim(shared);
        }
    }

    /// A rank that does not wait for its mate, which was in another communicator before.
    fn early(shared: &ModelSets) {
        let mut rank = shared.rank::<Exact>(0);
        let numbers = [(); 3].map(|()| rank.own.begin());
        rank.own.finish(numbers[0]);
        rank.refresh();
        if rank.own.slot(numbers[2], 4).is_some() {
            claim(shared);
        }
    }

    fn late(shared: &ModelSets) {
        let rank = shared.rank::<Exact>(1);
        if rank.theirs.agrees(&rank.own, false) {
            claim(shared);
        }
    }

    /// A rank that is in a communicator of its own, and in another after it.
    fn apart_and_on(shared: &ModelSets) {
        let mut rank = shared.rank_among::<Exact>(1, 2);
        rank.own.leave();
        // SAFETY: no rank reads there: the communicator before had this rank alone.
        unsafe { rank.own.open(OLD, 0, 3) };
    }

    /// A rank whose communicator has the same name, and none of the ranks.
    fn apart(shared: &ModelSets) {
        let rank = shared.rank_among::<Exact>(0, 1);
        assert!(rank.theirs.agrees(&rank.own, true), "refused for another's communicator");
    }

    #[test]
    fn is_for_both_of_two_that_count_none_alike() {
        explore(|| ModelSets::new(0, 0), apart, apart_and_on);
    }

    #[test]
    fn is_for_one_of_two_that_count_others() {
        explore(|| ModelSets::new(0, 0), unlike::<0>, unlike::<1>);
    }

    #[test]
    fn is_not_for_a_rank_without_which_another_has_gone_on() {
        explore(|| ModelSets::new(OLD, 0), early, late);
    }
}
