//! This module holds `unsafe` code: memory for programs; state of the process.
//!
//! Starting and ending (MPI 5.0, chapter 11), versions, clocks and memory (chapter 9).

use core::cell::Cell;
use core::ffi::{c_char, c_int};
use std::time::Instant;

use aldis_sys::limits::gethostname;

use crate::abi::{
    Handle, MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_COMM_SELF, MPI_ERR_NO_MEM,
    MPI_MAX_LIBRARY_VERSION_STRING, MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION, MPI_THREAD_MULTIPLE,
    MPI_THREAD_SINGLE, MPI_VERSION,
};
use crate::calls::collectives;
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr, allocation};
use crate::objects::{communicators, datatypes, info, sessions};
use crate::process::engine::{self, ProcessPhase};
use crate::process::{Owned, threads};
use crate::requests::buffers;

/// The thread level that was granted.
// SAFETY: only calls of MPI use it.
static LEVEL: Owned<Cell<c_int>> = unsafe { Owned::new(Cell::new(MPI_THREAD_SINGLE)) };

/// The thread that initialized MPI.
// SAFETY: only calls of MPI use it.
static MAIN: Owned<Cell<Option<std::thread::ThreadId>>> = unsafe { Owned::new(Cell::new(None)) };

/// Becomes a rank, unless the process is one, and grants a thread level.
pub(crate) fn become_rank(level: c_int) -> Result<(), CallFault> {
    let comms = engine::start()?;
    threads::grant(level >= MPI_THREAD_MULTIPLE, comms.is_some());
    if let Some(comms) = comms {
        communicators::start(comms);
        datatypes::start()?;
    }
    Ok(())
}

fn start(level: c_int) -> Result<c_int, CallFault> {
    engine::check_world_is_new()?;
    become_rank(level)?;
    engine::enter_world_phase(ProcessPhase::Running);
    LEVEL.set(level.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE));
    MAIN.set(Some(std::thread::current().id()));
    Ok(LEVEL.get())
}

mpi! { fn MPI_Init(_argc: Ptr<c_int>, _argv: Ptr<Ptr<Ptr<c_char>>>) on MPI_COMM_SELF => { start(MPI_THREAD_SINGLE)?; } }

mpi! { fn MPI_Init_thread(_argc: Ptr<c_int>, _argv: Ptr<Ptr<Ptr<c_char>>>, required: c_int, provided: Ptr<c_int>) on MPI_COMM_SELF => {
    provided.set(start(required)?)?;
} }

mpi! { fn MPI_Finalize() on MPI_COMM_SELF => {
    communicators::finish()?;
    if sessions::are_none() {
        buffers::finish()?;
    }
    engine::settle()?;
    collectives::finish();
    match (sessions::are_none(), sessions::were_there()) {
        (true, false) => engine::finish()?,
        (true, true) => engine::pause()?,
        (false, _) => {}
    }
    engine::enter_world_phase(ProcessPhase::After);
} }

mpi! { fn MPI_Initialized(flag: Ptr<c_int>) on MPI_COMM_SELF => {
    flag.set((engine::world_phase() != ProcessPhase::Before).into())?;
} }

mpi! { fn MPI_Finalized(flag: Ptr<c_int>) on MPI_COMM_SELF => {
    flag.set((engine::world_phase() == ProcessPhase::After).into())?;
} }

mpi! { fn MPI_Query_thread(provided: Ptr<c_int>) on MPI_COMM_SELF => { provided.set(LEVEL.get())?; } }

mpi! { fn MPI_Is_thread_main(flag: Ptr<c_int>) on MPI_COMM_SELF => {
    flag.set((MAIN.get() == Some(std::thread::current().id())).into())?;
} }

mpi! { fn MPI_Abort(_comm: Handle, code: c_int) -> c_int {
    engine::abort(code, &format!("MPI_Abort with code {code}"))
} }

mpi! { fn MPI_Get_version(version: Ptr<c_int>, subversion: Ptr<c_int>) on MPI_COMM_SELF => {
    version.set(MPI_VERSION)?;
    subversion.set(MPI_SUBVERSION)?;
} }

mpi! { fn MPI_Abi_get_version(version: Ptr<c_int>, subversion: Ptr<c_int>) on MPI_COMM_SELF => {
    version.set(MPI_ABI_VERSION)?;
    subversion.set(MPI_ABI_SUBVERSION)?;
} }

mpi! { fn MPI_Get_library_version(text: Ptr<c_char>, len: Ptr<c_int>) on MPI_COMM_SELF => {
    let version = concat!("Aldis ", env!("CARGO_PKG_VERSION"));
    len.set(text.set_text(version, MPI_MAX_LIBRARY_VERSION_STRING as usize)? as c_int)?;
} }

mpi! { fn MPI_Get_processor_name(text: Ptr<c_char>, len: Ptr<c_int>) on MPI_COMM_SELF => {
    let name = gethostname().map_or_else(|_| "localhost".into(), |name| name.to_string_lossy().into_owned());
    len.set(text.set_text(&name, MPI_MAX_PROCESSOR_NAME as usize)? as c_int)?;
} }

/// Returns the seconds since the clock was first read, so that they keep their nanoseconds.
fn seconds() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

mpi! { unlocked fn MPI_Wtime() -> f64 { seconds() } }
mpi! { unlocked fn MPI_Wtick() -> f64 { 1e-9 } }

mpi! { fn MPI_Alloc_mem(size: isize, info: Handle, place: Address) on MPI_COMM_SELF => {
    info::check(info)?;
    place.check_place()?;
    let made = allocation::allocate(usize::try_from(size).unwrap_or(usize::MAX));
    if made.is_null() {
        return Err(CallFault::new(MPI_ERR_NO_MEM, format!("no {size} bytes")));
    }
    // SAFETY: the program gives a place for an address (MPI 5.0, 9.2).
    unsafe { place.cast::<Address>() }.set(made)?;
} }

mpi! { fn MPI_Free_mem(place: Address) on MPI_COMM_SELF => {
    // SAFETY: the program gives what `MPI_Alloc_mem` has given it (MPI 5.0, 9.2).
    unsafe { allocation::free(place) };
} }

mpi! { unlocked fn MPI_Aint_add(base: isize, distance: isize) -> isize { base.wrapping_add(distance) } }
mpi! { unlocked fn MPI_Aint_diff(one: isize, other: isize) -> isize { one.wrapping_sub(other) } }

mpi! { fn MPI_Get_address(place: Address, address: Ptr<isize>) on MPI_COMM_SELF => {
    address.set(place.address().cast_signed())?;
} }

mpi! {
    /// For profiling tools, which define it.
    fn MPI_Pcontrol(_level: c_int) -> c_int { crate::abi::MPI_SUCCESS }
}

mpi! { fn MPI_Get_hw_resource_info(info: Ptr<Handle>) on MPI_COMM_SELF => {
    info.set(crate::objects::info::insert(crate::objects::info::Info::new())?)?;
} }
