//! This module holds `unsafe` code: calls of the interface of C, as a program in C makes them.
//!
//! Two ranks by `aldis.h`, each in a thread, at the ends of a cable in memory.

mod cable;

use core::ffi::CStr;
use core::ptr::{null, null_mut};

use aldis::calls::*;
use aldis::types::{MessageStatus, RankConfig, RequestHandle};

use cable::{CableBoard, FrameQueue, JOB, SECOND};

/// Runs a program on two ranks at once, and ends them.
fn on_two(key: Option<[u8; 16]>, flags: u32, program: fn(&mut CableBoard, u32)) {
    let (there, back) = (FrameQueue::default(), FrameQueue::default());
    std::thread::scope(|threads| {
        for rank in 0..2_u32 {
            let (there, back) = (there.clone(), back.clone());
            threads.spawn(move || {
                let mut board =
                    if rank == 0 { CableBoard::new(&back, &there) } else { CableBoard::new(&there, &back) };
                let key = key.as_ref().map_or(null(), |key| key.as_ptr());
                let config = RankConfig { key, flags, ..RankConfig::new(JOB, rank, 2) };
                assert_eq!(board.init(&config, 1500), 0, "{}", board.last_error());
                // SAFETY: it has joined.
                assert_eq!(unsafe { (aldis_rank_of(board.rank), aldis_size_of(board.rank)) }, (rank, 2));
                program(&mut board, rank);
                // SAFETY: it is not used afterwards.
                assert_eq!(unsafe { aldis_finalize(board.rank, 10 * SECOND) }, 0);
            });
        }
    });
}

fn pass(board: &mut CableBoard, rank: u32, bytes: usize) {
    let mine: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ rank as u8).collect();
    let mut theirs = vec![0_u8; bytes + 3];
    let mut status = MessageStatus::default();
    let (to, room) = (1 - rank, theirs.len());
    // SAFETY: the memory is there.
    unsafe {
        let (sent, received);
        if rank == 0 {
            sent = aldis_send(board.rank, mine.as_ptr().cast(), bytes, to, 5, 10 * SECOND);
            received =
                aldis_recv(board.rank, theirs.as_mut_ptr().cast(), room, to, 6, 10 * SECOND, &mut status);
        } else {
            received = aldis_recv(
                board.rank,
                theirs.as_mut_ptr().cast(),
                room,
                u32::MAX,
                u32::MAX,
                10 * SECOND,
                &mut status,
            );
            sent = aldis_send(board.rank, mine.as_ptr().cast(), bytes, to, 6, 10 * SECOND);
        }
        assert_eq!((sent, received), (0, 0), "{}", board.last_error());
    }
    assert_eq!(status, MessageStatus { source: to, tag: 6 - rank, bytes: bytes as u64 });
    assert!(theirs.iter().zip(&mine).take(bytes).all(|(theirs, mine)| *theirs == mine ^ 1));
}

#[test]
fn messages_of_all_lengths_pass_both_ways() {
    for (key, flags) in [(None, 0), (Some(*b"of one job alone"), 0), (None, 1)] {
        on_two(key, flags, |board, rank| {
            for bytes in [0, 1, 24, 25, 1024, 1025, 100_000] {
                pass(board, rank, bytes);
            }
        });
    }
}

#[test]
fn requests_overlap_and_end() {
    on_two(None, 0, |board, rank| {
        let (mine, mut theirs) = ([u64::from(rank); 512], [[9_u64; 512]; 4]);
        let (mut sends, mut receives) = ([RequestHandle::default(); 4], [RequestHandle::default(); 4]);
        let to = 1 - rank;
        // SAFETY: the memory is there until all requests are over.
        unsafe {
            for (at, (request, buffer)) in receives.iter_mut().zip(&mut theirs).enumerate() {
                let tag = at as u32;
                assert_eq!(aldis_irecv(board.rank, buffer.as_mut_ptr().cast(), 4096, to, tag, request), 0);
            }
            for (at, request) in sends.iter_mut().enumerate().rev() {
                assert_eq!(aldis_isend(board.rank, mine.as_ptr().cast(), 4096, to, at as u32, request), 0);
            }
            let mut status = MessageStatus::default();
            for (at, request) in receives.iter_mut().enumerate() {
                assert_eq!(aldis_wait(board.rank, request, 10 * SECOND, &mut status), 0);
                assert_eq!(status, MessageStatus { source: to, tag: at as u32, bytes: 4096 });
                assert_eq!(*request, RequestHandle::default());
            }
            for request in &mut sends {
                let mut done = 0;
                while done == 0 {
                    assert_eq!(aldis_test(board.rank, request, &mut done, null_mut()), 0);
                }
                assert_eq!(aldis_test(board.rank, request, &mut done, null_mut()), -14, "it is over");
            }
            assert_eq!(theirs, [[u64::from(to); 512]; 4]);
            // A time-out leaves a request as it is, and cancelling ends it.
            let [request, ..] = &mut receives;
            assert_eq!(aldis_irecv(board.rank, theirs.as_mut_ptr().cast(), 8, to, 77, request), 0);
            assert_eq!(aldis_wait(board.rank, request, 1_000_000, null_mut()), -3);
            let mut cancelled = 0;
            assert_eq!((aldis_cancel(board.rank, request, &mut cancelled), cancelled), (0, 1));
            assert_eq!(aldis_cancel(board.rank, request, &mut cancelled), -14);
            assert!(aldis_poll(board.rank) >= 0);
            assert_eq!(aldis_barrier(board.rank, 10 * SECOND), 0);
        }
    });
}

#[test]
fn collectives_agree() {
    on_two(None, 0, |board, rank| {
        let mut sums = [f64::from(rank) + 0.5; 100];
        let mut scratch = [0.0_f64; 16];
        let mut bits = [1_u32 << rank];
        let mut words = [rank + 7; 300];
        // SAFETY: the memory is there.
        unsafe {
            assert_eq!(aldis_barrier(board.rank, 10 * SECOND), 0);
            let data = sums.as_mut_ptr().cast();
            let into = scratch.as_mut_ptr().cast();
            assert_eq!(aldis_allreduce(board.rank, data, 100, into, 16, 10, 0, 10 * SECOND), 0);
            let data = bits.as_mut_ptr().cast();
            assert_eq!(aldis_allreduce(board.rank, data, 1, into, 1, 7, 5, 10 * SECOND), 0);
            assert_eq!(aldis_bcast(board.rank, words.as_mut_ptr().cast(), 1200, 1, 10 * SECOND), 0);
            assert_eq!(aldis_allreduce(board.rank, data, 1, into, 1, 10, 5, SECOND), -1, "no bits of floats");
            assert_eq!(aldis_allreduce(board.rank, data, 1, null_mut(), 1, 7, 5, SECOND), -1);
        }
        assert_eq!((sums, bits, words), ([2.0; 100], [3], [8; 300]));
    });
}

#[test]
fn errors_have_numbers_and_words() {
    on_two(None, 0, |board, rank| {
        let mut buffer = [0_u8; 4];
        let to = 1 - rank;
        // SAFETY: the memory is there.
        unsafe {
            assert_eq!(aldis_send(board.rank, buffer.as_ptr().cast(), 4, 9, 0, SECOND), -5);
            assert!(board.last_error().contains('9'), "{}", board.last_error());
            assert_eq!(aldis_send(board.rank, buffer.as_ptr().cast(), 4, to, 0x8000_0000, SECOND), -6);
            assert_eq!(aldis_send(board.rank, null(), 4, to, 0, SECOND), -1);
            assert_eq!(
                aldis_recv(board.rank, buffer.as_mut_ptr().cast(), 4, to, 3, 1_000_000, null_mut()),
                -3
            );
            assert_eq!(aldis_send(board.rank, [1_u8; 8].as_ptr().cast(), 8, to, 4, SECOND), 0);
            assert_eq!(
                aldis_recv(board.rank, buffer.as_mut_ptr().cast(), 4, to, 4, 10 * SECOND, null_mut()),
                -4
            );
            assert_eq!(buffer, [1; 4]);
            let mut short = [1_i8; 6];
            assert!(aldis_last_error(board.rank, short.as_mut_ptr().cast(), 6) > 6);
            assert_eq!(short[5], 0);
            assert_eq!(aldis_last_error(board.rank, null_mut(), 0), board.last_error().len());
        }
    });
}

#[test]
fn what_cannot_join_is_told() {
    let (there, back) = (FrameQueue::default(), FrameQueue::default());
    let mut alone = CableBoard::new(&back, &there);
    let config = RankConfig { join_timeout_ns: SECOND / 10, ..RankConfig::new(JOB, 0, 2) };
    assert_eq!(alone.init(&config, 1500), -10);
    assert!(alone.last_error().contains('1'), "{}", alone.last_error());
    // SAFETY: the rank has not joined.
    assert_eq!(unsafe { aldis_barrier(alone.rank, SECOND) }, -1);
    assert_eq!(alone.init(&config, 600), -11, "{}", alone.last_error());
    // SAFETY: null pointers are refused, and structures are there.
    unsafe {
        assert_eq!(aldis_memory_bytes(null()), 0);
        assert_eq!(aldis_memory_bytes(&RankConfig::new(JOB, 2, 2)), 0);
        assert_eq!(aldis_memory_bytes(&RankConfig { window: 33, ..config }), 0, "no power of two");
        assert_eq!(aldis_memory_bytes(&RankConfig { flags: 8, ..config }), 0);
        assert_eq!(aldis_init(null_mut(), 0, &config, null(), null(), &mut alone.rank), -1);
        assert!(alone.rank.is_null());
        assert_eq!(CStr::from_ptr(aldis_error_text(-3)).to_str(), Ok("the time-out passed first"));
    }
}

#[test]
fn a_rank_alone_talks_to_itself() {
    let (there, back) = (FrameQueue::default(), FrameQueue::default());
    let mut alone = CableBoard::new(&back, &there);
    assert_eq!(alone.init(&RankConfig::new(JOB, 0, 1), 1500), 0, "{}", alone.last_error());
    let (mut request, mut buffer) = (RequestHandle::default(), [0_u8; 2000]);
    // SAFETY: the memory is there.
    unsafe {
        assert_eq!(aldis_irecv(alone.rank, buffer.as_mut_ptr().cast(), 2000, 0, 1, &mut request), 0);
        assert_eq!(aldis_send(alone.rank, [7_u8; 2000].as_ptr().cast(), 2000, 0, 1, SECOND), 0);
        assert_eq!(aldis_wait(alone.rank, &mut request, SECOND, null_mut()), 0);
        assert_eq!(aldis_barrier(alone.rank, SECOND), 0);
        assert_eq!(aldis_finalize(alone.rank, SECOND), 0);
    }
    assert_eq!(buffer, [7; 2000]);
}

#[test]
fn memory_is_what_the_guide_says() {
    // SAFETY: the configurations are there.
    let [four, small] = unsafe {
        let small =
            RankConfig { window: 8, envelopes: 4, blocks: 1, block_bytes: 256, ..RankConfig::new(JOB, 0, 4) };
        [aldis_memory_bytes(&RankConfig::new(JOB, 0, 4)), aldis_memory_bytes(&small)]
    };
    assert!(four <= 320 * 1024 && small <= 96 * 1024, "{four}, {small}");
}
