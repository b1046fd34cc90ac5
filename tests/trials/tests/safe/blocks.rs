//! Memory of the storage that a program holds (pooled messages, matched messages, attached
//! buffers), and what it can do with them and another endpoint.

use core::mem::ManuallyDrop;
use core::time::Duration;
use std::thread;

use aldis_hal::Cause;
use aldis_kernel::{Message, Rank, Tag, TagMatch};
use aldis_trials::{Alone, Home, Pair, join};

const TAG: Tag = Tag(1);

/// A message outlives its endpoint, is moved to another thread, or forgotten; what arrives
/// meanwhile goes elsewhere.
#[test]
fn a_pooled_message_is_its_holders_alone() {
    let mut home = Home::new();
    let (kept, forgotten) = pooled(&mut home.endpoint());
    // The endpoint is gone, the storage is not.
    assert_eq!((&*kept, &**forgotten), (&[1; 100][..], &[3; 100][..]));
}

/// Takes three messages, and receives more while one of them is in another thread: the first, and
/// the one that is forgotten.
fn pooled<'m>(end: &mut Alone<'m>) -> (Message<'m>, ManuallyDrop<Message<'m>>) {
    let world = end.world();
    let send = |end: &mut Alone<'_>, byte: u8| {
        end.send(&world, &[byte; 100], Rank(0), TAG).map(drop).unwrap();
    };
    send(end, 1);
    let kept = end.recv_pooled(&world, Rank(0), TAG).unwrap();
    send(end, 2);
    let moved = end.recv_pooled(&world, Rank(0), TAG).unwrap();
    send(end, 3);
    let forgotten = ManuallyDrop::new(end.recv_pooled(&world, Rank(0), TAG).unwrap());
    let full = end.recv_pooled(&world, Rank(0), TAG).unwrap_err();
    assert!(matches!(full.cause, Cause::Full(_)));
    thread::scope(|scope| {
        let other = scope.spawn(move || moved.iter().all(|byte| *byte == 2));
        for byte in 4..40 {
            send(end, byte);
            let mut into = [0u8; 100];
            end.recv(&world, &mut into, Rank(0), TAG).unwrap();
            assert_eq!(into, [byte; 100]);
            // As soon as the other thread has dropped its message there is a block again.
            let _ = end.within(Duration::ZERO).recv_pooled(&world, Rank(0), Tag(2));
        }
        assert!(other.join().unwrap());
    });
    (kept, forgotten)
}

/// A token, a communicator and a message of one endpoint mean nothing to another, or something
/// else; no more than that.
#[test]
fn what_is_one_endpoints_is_nothing_to_another() {
    let (mut here, mut there) = (Home::new(), Home::new());
    let (mut one, mut two) = (here.endpoint(), there.endpoint());
    let (first, second) = (one.world(), two.world());
    for len in [8usize, 200] {
        one.send(&first, &vec![1u8; len], Rank(0), TAG).unwrap();
        two.send(&second, &vec![2u8; len], Rank(0), TAG).unwrap();
        let theirs = one.mprobe(&first, Rank(0), TAG).unwrap();
        let mut into = vec![0u8; len];
        // Of no use, or it stands for the message that the other endpoint matched itself: that is
        // not there.
        assert!(two.mrecv(theirs, &mut into).is_err());
        let ours = two.mprobe(&second, Rank(0), TAG).unwrap();
        let swapped = one.mrecv(ours, &mut into);
        assert!(swapped.is_err() || into == vec![1; len]);
        // The other's token is gone, and its message with it.
        let left = one.within(Duration::ZERO).recv(&first, &mut into, Rank(0), TagMatch::Any);
        assert!(left.is_err());
        let _forgotten = ManuallyDrop::new(two.improbe(&second, Rank(0), TAG).unwrap());
    }
}

/// Memory that is attached for buffered sends comes back when nothing uses it, and no sooner; with
/// its endpoint gone, or forgotten, it is its owner's alone.
#[test]
fn attached_memory_comes_back_alone() {
    let (mut pair, mut memory) = (Pair::new(), vec![0u8; 4096]);
    {
        let [mut one, mut two] = pair.endpoints();
        let worlds = [one.world(), two.world()];
        one.send_buffer().attach(&mut memory).unwrap();
        one.bsend(&worlds[0], &[1u8; 1500], Rank(1), TAG).unwrap();
        assert_eq!(one.within(Duration::ZERO).send_buffer().detach().unwrap_err().cause, Cause::TimedOut);
        let mut into = [0u8; 1500];
        thread::scope(|scope| {
            let receiver = scope.spawn(|| two.recv(&worlds[1], &mut into, Rank(0), TAG).unwrap());
            let back = one.send_buffer().detach().unwrap();
            back.fill(9);
            join([receiver]);
        });
        assert_eq!(into, [1; 1500]);
    }
    memory.fill(2);
    {
        let [one, mut two] = pair.endpoints();
        let world = two.world();
        let mut one = ManuallyDrop::new(one);
        let own = one.world();
        one.send_buffer().attach(&mut memory).unwrap();
        one.bsend(&own, &[1u8; 1500], Rank(1), TAG).unwrap();
        let mut into = [0u8; 1500];
        assert!(two.within(Duration::ZERO).recv(&world, &mut into, Rank(0), TAG).is_err());
    }
    drop(memory);
}

/// Storage is handed out again when its endpoint was forgotten, as new.
#[test]
fn storage_is_used_again_after_an_endpoint_was_forgotten() {
    let mut home = Home::new();
    for round in 0..3u8 {
        let mut end = ManuallyDrop::new(home.endpoint());
        let world = end.world();
        assert!(end.iprobe(&world, Rank(0), TAG).unwrap().is_none());
        end.send(&world, &[round; 200], Rank(0), TAG).unwrap();
        while end.poll(64) > 0 {}
    }
}
