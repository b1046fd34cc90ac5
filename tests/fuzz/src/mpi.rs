//! This module holds `unsafe` code: functions of the C interface are called.
//!
//! The C interface of one rank under calls that a script makes up: right ones, and ones with
//! handles that were freed, are of another kind or never were any, with null pointers, negative and
//! huge numbers. A call returns success or a class of the standard; nothing is written beside the
//! buffers, and the rank communicates with itself afterwards.
//!
//! The promises of a program are kept: elements lie in memory that is there, and no call waits for
//! a message that is not sent.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use crate::script::Script;

mod calls;
mod ffi;
mod pools;

use ffi::{ERRORS_RETURN, INT, ProgramHandle, REQUEST_NULL, SELF, SUCCESS, WORLD, pmpi};
use pools::Pools;

/// Bytes that data lie in, with others around them that nothing writes.
const ARENA_BYTES: usize = 1 << 14;
const MARGIN_BYTES: usize = 256;
const CANARY: u8 = 0xC5;

/// No memory is below: null and words like `MPI_IN_PLACE` are.
const FIRST_PAGE_BYTES: usize = 4096;

/// Calls of a script at most.
const CALLS_MAX: usize = 200;

/// The memory of the rank, once it has begun: for good, as what is freed while it is under way may
/// still use it.
static ARENA: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// The objects that calls of a script work with.
struct Player<'s> {
    script: Script<'s>,
    pools: Pools,
    arena: &'s mut [u8],
}

/// Checks that a function has returned success or a class of the standard.
fn checked(code: c_int) -> bool {
    let mut class = -1;
    assert_eq!(pmpi!(PMPI_Error_class(code, &raw mut class)), SUCCESS, "every code has a class");
    let (mut text, mut len) = ([0; ffi::ERROR_TEXT_BYTES], 0);
    assert_eq!(pmpi!(PMPI_Error_string(code, text.as_mut_ptr(), &raw mut len)), SUCCESS, "and a text");
    assert!((0..=63).contains(&class) || code > ffi::LASTCODE, "{code:#x} is of class {class}");
    code == SUCCESS
}

fn begin() -> Vec<u8> {
    assert_eq!(pmpi!(PMPI_Init(core::ptr::null_mut(), core::ptr::null_mut())), SUCCESS);
    for comm in [WORLD, SELF] {
        assert_eq!(pmpi!(PMPI_Comm_set_errhandler(comm, ERRORS_RETURN)), SUCCESS);
    }
    vec![CANARY; ARENA_BYTES + 2 * MARGIN_BYTES]
}

pub(crate) fn mpi(bytes: &[u8]) {
    let mut arena = ARENA.lock().expect("a target that has failed is not tried again");
    let arena = arena.get_or_insert_with(begin);
    let mut player = Player { script: Script(bytes), pools: Pools::new(), arena };
    let mut calls = 0;
    while !player.script.is_over() && calls < CALLS_MAX {
        player.call();
        calls += 1;
    }
    player.finish();
    still_whole();
}

impl Player<'_> {
    /// Draws one of several.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.script.byte()) % all.len()]
    }

    /// A number that is small, or none that is right.
    fn number(&mut self) -> c_int {
        match self.script.byte() {
            byte @ 0..240 => c_int::from(byte % 6),
            240..246 => -1,
            246..250 => self.script.word().cast_signed(),
            _ => self.one_of(&[c_int::MIN, c_int::MAX, -2, -3, -4, -32766]),
        }
    }

    /// A number of elements.
    fn count(&mut self) -> i64 {
        match self.script.byte() {
            byte @ 0..248 => i64::from(byte % 9),
            248..252 => -1,
            _ => self.one_of(&[i64::MIN, i64::MAX, 1 << 62, 1 << 50, 1 << 47]),
        }
    }

    /// A place in the arena for so many bytes.
    fn place(&mut self, bytes: usize) -> *mut c_void {
        let at = self.script.word() as usize % (ARENA_BYTES - bytes.min(ARENA_BYTES - 1));
        self.arena[MARGIN_BYTES + at / 8 * 8..].as_mut_ptr().cast()
    }

    /// The address of a result, or null.
    fn result<T>(&mut self, place: &mut T) -> *mut T {
        if self.script.byte() == 255 { core::ptr::null_mut() } else { core::ptr::from_mut(place) }
    }

    /// Data: an address, a number of elements, and a datatype, all in the arena if they are right.
    fn data(&mut self, copies: i64) -> (*mut c_void, i64, ProgramHandle) {
        let (count, datatype) = (self.count(), self.pools.datatypes.pick(&mut self.script));
        let place = match self.script.byte() {
            255 => return (core::ptr::null_mut(), count, datatype),
            254 => return (core::ptr::without_provenance_mut(ffi::IN_PLACE), count, datatype),
            _ => self.place(0),
        };
        if self.reaches_beyond(place, count, datatype, copies) {
            // It is no call that a program may make.
            let place = self.place(64 * 8);
            return (place, count.clamp(0, 8), INT);
        }
        (place, count, datatype)
    }

    /// Returns true if elements that there can be are not in the arena.
    fn reaches_beyond(&self, place: *mut c_void, count: i64, datatype: ProgramHandle, copies: i64) -> bool {
        let ([mut low, mut extent, mut true_low, mut true_extent], mut size) = ([0_i64; 4], 0_i64);
        let is_known = pmpi!(PMPI_Type_get_extent_c(datatype, &raw mut low, &raw mut extent)) == SUCCESS
            && pmpi!(PMPI_Type_get_true_extent_c(datatype, &raw mut true_low, &raw mut true_extent))
                == SUCCESS
            && pmpi!(PMPI_Type_size_c(datatype, &raw mut size)) == SUCCESS;
        let bytes = i128::from(count) * i128::from(size);
        let is_refused = !is_known || place.addr() < FIRST_PAGE_BYTES || bytes > 1 << 48;
        if is_refused || count <= 0 || size == 0 {
            return false;
        }
        let last = i128::from(extent) * (i128::from(count) * i128::from(copies) - 1);
        let at = place.addr() as i128 - (self.arena.as_ptr().addr() + MARGIN_BYTES) as i128;
        let first = at + i128::from(true_low) + last.min(0);
        let end = at + i128::from(true_low) + i128::from(true_extent) + last.max(0);
        first < 0 || end > ARENA_BYTES as i128
    }

    /// Keeps a request that a call has begun.
    fn keep(&mut self, is_begun: bool, request: ProgramHandle) {
        if is_begun && request != REQUEST_NULL {
            self.pools.requests.push(request);
        }
    }

    /// A string, or null.
    fn text(&mut self) -> *const c_char {
        const TEXTS: [&core::ffi::CStr; 5] =
            [c"key", c"mpi_assert_no_any_tag", c"external32", c"", c"another"];
        if self.script.byte() == 255 {
            core::ptr::null()
        } else {
            self.one_of(&TEXTS.map(|text| text.as_ptr()))
        }
    }

    /// Ends what is under way and frees what there is; nothing was written beside the arena.
    fn finish(&mut self) {
        self.pools.finish();
        let (before, rest) = self.arena.split_at(MARGIN_BYTES);
        let (_, behind) = rest.split_at(ARENA_BYTES);
        assert!(before.iter().chain(behind).all(|byte| *byte == CANARY), "written beside the buffers");
    }
}

/// The rank sends itself a message.
fn still_whole() {
    let (mut given, mut got) = (4711_i32, 0_i32);
    let code = pmpi!(PMPI_Sendrecv(
        (&raw mut given).cast(),
        1,
        INT,
        0,
        32000,
        (&raw mut got).cast(),
        1,
        INT,
        0,
        32000,
        WORLD,
        core::ptr::null_mut()
    ));
    assert_eq!((code, got), (SUCCESS, given), "the rank communicates still");
}
