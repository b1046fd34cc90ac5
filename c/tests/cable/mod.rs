//! This module holds `unsafe` code: a card and a clock as C has them, and joining by the interface
//! of C.
//!
//! A rank by `aldis.h` at the end of a cable in memory.

use core::ffi::{CStr, c_void};
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aldis::CRank;
use aldis::calls::{aldis_init, aldis_last_error, aldis_memory_bytes};
use aldis::types::{CardCallbacks, PlatformCallbacks, RankConfig};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const JOB: u64 = 0xA1D1;

pub(crate) type FrameQueue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// An end of a cable.
struct CableEnd {
    incoming: FrameQueue,
    outgoing: FrameQueue,
    received: Vec<u8>,
    reserved: Vec<u8>,
}

unsafe extern "C" fn receive(end: *mut c_void, len: *mut usize) -> *const u8 {
    // SAFETY: the card's context, which one thread uses.
    let end = unsafe { &mut *end.cast::<CableEnd>() };
    let Some(frame) = end.incoming.lock().unwrap().pop_front() else { return null() };
    end.received = frame;
    // SAFETY: by the interface.
    unsafe { len.write(end.received.len()) };
    end.received.as_ptr()
}

unsafe extern "C" fn release(end: *mut c_void) {
    // SAFETY: as above.
    unsafe { (*end.cast::<CableEnd>()).received.fill(0xEE) };
}

unsafe extern "C" fn reserve(end: *mut c_void, len: usize) -> *mut u8 {
    // SAFETY: as above.
    let end = unsafe { &mut *end.cast::<CableEnd>() };
    if end.outgoing.lock().unwrap().len() > 64 {
        return null_mut();
    }
    end.reserved = vec![0; len];
    end.reserved.as_mut_ptr()
}

unsafe extern "C" fn commit(end: *mut c_void, len: usize) {
    // SAFETY: as above.
    let end = unsafe { &mut *end.cast::<CableEnd>() };
    end.outgoing.lock().unwrap().push_back(end.reserved[..len].to_vec());
}

unsafe extern "C" fn now_ns(start: *mut c_void) -> u64 {
    // SAFETY: the platform's context.
    unsafe { (*start.cast::<Instant>()).elapsed().as_nanos() as u64 + 1 }
}

unsafe extern "C" fn entropy(start: *mut c_void) -> u64 {
    start.addr() as u64 ^ u64::from(std::process::id()) << 32
}

unsafe extern "C" fn relax(_: *mut c_void, idle: u32) {
    if idle > 100 {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// A rank and what it stands on.
pub(crate) struct CableBoard {
    pub(crate) rank: *mut CRank,
    end: Box<CableEnd>,
    start: Box<Instant>,
    memory: Vec<u64>,
}

impl CableBoard {
    pub(crate) fn new(incoming: &FrameQueue, outgoing: &FrameQueue) -> Self {
        let (incoming, outgoing) = (incoming.clone(), outgoing.clone());
        let end = Box::new(CableEnd { incoming, outgoing, received: Vec::new(), reserved: Vec::new() });
        Self { rank: null_mut(), end, start: Box::new(Instant::now()), memory: Vec::new() }
    }

    pub(crate) fn init(&mut self, config: &RankConfig, mtu: u16) -> i32 {
        let card = CardCallbacks {
            context: (&raw mut *self.end).cast(),
            mac: [2, 0, 0, 0, 0, config.rank as u8 + 1],
            mtu,
            receive: Some(receive),
            release: Some(release),
            reserve: Some(reserve),
            commit: Some(commit),
        };
        self.init_on(config, &card)
    }

    /// Joins by another card than the cable.
    pub(crate) fn init_on(&mut self, config: &RankConfig, card: &CardCallbacks) -> i32 {
        let platform = PlatformCallbacks {
            context: (&raw mut *self.start).cast(),
            now_ns: Some(now_ns),
            entropy: Some(entropy),
            relax: Some(relax),
        };
        // SAFETY: all are there.
        let bytes = unsafe { aldis_memory_bytes(config) };
        assert!(bytes > 0);
        self.memory = vec![u64::MAX; bytes.div_ceil(8)];
        // SAFETY: as above.
        unsafe { aldis_init(self.memory.as_mut_ptr().cast(), bytes, config, card, &platform, &mut self.rank) }
    }

    pub(crate) fn last_error(&self) -> String {
        let mut text = [1_i8; 200];
        // SAFETY: so much room is there.
        let len = unsafe { aldis_last_error(self.rank, text.as_mut_ptr().cast(), text.len()) };
        // SAFETY: ended by zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr().cast()) }.to_str().unwrap().to_owned();
        assert_eq!(len, text.len());
        text
    }
}
