//! This module holds `unsafe` code: data of the program's are lent to the kernel.
//!
//! Messages of data in one piece, which most are: straight from a call's arguments to the kernel.

use core::ffi::c_int;

use aldis_kernel::{Typed, TypedMut};

use super::{rank, source, tag, tag_match};
use crate::abi::{Handle, Status};
use crate::fault::CallFault;
use crate::ffi::Address;
use crate::objects::communicators;
use crate::objects::datatypes::{self, ContiguousData};
use crate::process::engine;
use crate::requests::{is_alone, messages};

/// Sends data in one piece that need nothing but the kernel's shortest way, straight from the
/// arguments: what an [`OutgoingMessage`](super::OutgoingMessage) writes down takes longer than a
/// short message is under way. False if it takes more.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_send(
    data: Address,
    count: i64,
    datatype: Handle,
    to: c_int,
    number: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    if !is_alone() {
        return Ok(false);
    }
    let Some(piece) = datatypes::piece(data, count, datatype) else { return Ok(false) };
    let mut place = None;
    let (comm, to, tag) = (communicators::find(comm, &mut place)?, rank(to)?, tag(number)?);
    engine::with(|engine| {
        let endpoint = engine.endpoint();
        match piece {
            // SAFETY: the caller promised that nothing writes them until the send is over.
            ContiguousData::Bytes(bytes) => endpoint.send(comm, unsafe { bytes.shown() }, to, tag)?,
            ContiguousData::Elements(memory, count, datatype) => {
                // SAFETY: as above.
                let memory: &[u8] = unsafe { memory.shown() };
                endpoint.send_typed(comm, Typed::new(memory, count, datatype), to, tag)?
            }
        };
        Ok(true)
    })
}

/// Receives in the same way; `None` if it takes more.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_receive(
    data: Address,
    count: i64,
    datatype: Handle,
    from: c_int,
    number: c_int,
    comm: Handle,
) -> Result<Option<Status>, CallFault> {
    if !is_alone() {
        return Ok(None);
    }
    let Some(piece) = datatypes::piece(data, count, datatype) else { return Ok(None) };
    let mut place = None;
    let (comm, from, tag) = (communicators::find(comm, &mut place)?, source(from)?, tag_match(number)?);
    engine::with(|engine| {
        let endpoint = engine.endpoint();
        let found = match piece {
            // SAFETY: the caller promised that nothing touches them until the receive is over.
            ContiguousData::Bytes(bytes) => endpoint.recv(comm, unsafe { bytes.bytes() }, from, tag)?,
            ContiguousData::Elements(memory, count, datatype) => {
                // SAFETY: as above.
                let memory = unsafe { memory.bytes() };
                endpoint.recv_typed(comm, TypedMut::new(memory, count, datatype), from, tag)?
            }
        };
        Ok(Some(found.into()))
    })
}

/// Starts a send of data in one piece, in the same way; `None` if it takes more.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_start_send(
    data: Address,
    count: i64,
    datatype: Handle,
    to: c_int,
    number: c_int,
    handle: Handle,
) -> Result<Option<Handle>, CallFault> {
    let Some(piece) = datatypes::piece(data, count, datatype) else { return Ok(None) };
    let mut place = None;
    let (comm, to, tag) = (communicators::find(handle, &mut place)?, rank(to)?, tag(number)?);
    engine::with(|engine| {
        engine.reap();
        let scope = &mut engine.scope;
        let request = match piece {
            // SAFETY: the caller promised that nothing writes them until the send is over.
            ContiguousData::Bytes(bytes) => scope.isend(comm, unsafe { bytes.shown() }, to, tag)?,
            ContiguousData::Elements(memory, count, datatype) => {
                // SAFETY: as above.
                let memory: &'static [u8] = unsafe { memory.shown() };
                scope.isend_typed(comm, Typed::new(memory, count, datatype), to, tag)?
            }
        };
        Ok(Some(messages::of_send(engine, handle, request)))
    })
}

/// Starts such a receive.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_start_receive(
    data: Address,
    count: i64,
    datatype: Handle,
    from: c_int,
    number: c_int,
    handle: Handle,
) -> Result<Option<Handle>, CallFault> {
    let Some(piece) = datatypes::piece(data, count, datatype) else { return Ok(None) };
    let mut place = None;
    let (comm, from, tag) = (communicators::find(handle, &mut place)?, source(from)?, tag_match(number)?);
    engine::with(|engine| {
        engine.reap();
        let scope = &mut engine.scope;
        let request = match piece {
            // SAFETY: the caller promised that nothing touches them until the receive is over; the
            // kernel keeps no reference.
            ContiguousData::Bytes(bytes) => scope.irecv(comm, unsafe { bytes.bytes() }, from, tag)?,
            ContiguousData::Elements(memory, count, datatype) => {
                // SAFETY: as above.
                let memory = unsafe { memory.bytes() };
                scope.irecv_typed(comm, TypedMut::new(memory, count, datatype), from, tag)?
            }
        };
        messages::of_receive(engine, handle, request).map(Some)
    })
}
