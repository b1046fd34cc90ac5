//! Messages of data in one piece, which most are: straight from a call's arguments to the kernel.

use core::ffi::c_int;

use aldis_kernel::{Comm, Request, Typed, TypedMut};

use super::{rank, source, tag, tag_match};
use crate::abi::{Handle, Status};
use crate::communicators;
use crate::datatypes::{self, Piece};
use crate::edge::Address;
use crate::edge::scope::Lasting;
use crate::engine;
use crate::errors::Fault;
use crate::requests::{self, is_alone};

/// Sends data in one piece that need nothing but the kernel's shortest way, straight from the arguments: what a
/// [`Sending`](super::Sending) writes down takes longer than a short message is under way. False if it takes more.
#[inline(always)]
pub(super) fn sent(
    data: Address,
    count: i64,
    datatype: Handle,
    to: c_int,
    number: c_int,
    comm: Handle,
) -> Result<bool, Fault> {
    let Some(piece) = datatypes::piece(data, count, datatype)?.filter(|_| is_alone()) else {
        return Ok(false);
    };
    let (comm, to, tag) = (communicators::of(comm)?, rank(to)?, tag(number)?);
    engine::with(|engine| {
        let endpoint = engine.endpoint();
        match piece {
            Piece::Bytes(bytes) => endpoint.send(&comm, bytes, to, tag)?,
            Piece::Elements(memory, count, datatype) => {
                endpoint.send_typed(&comm, Typed::new(memory, count, datatype), to, tag)?
            }
        };
        Ok(true)
    })
}

/// Receives in the same way; `None` if it takes more.
#[inline(always)]
pub(super) fn received(
    data: Address,
    count: i64,
    datatype: Handle,
    from: c_int,
    number: c_int,
    comm: Handle,
) -> Result<Option<Status>, Fault> {
    let Some(piece) = datatypes::piece(data, count, datatype)?.filter(|_| is_alone()) else {
        return Ok(None);
    };
    let (comm, from, tag) = (communicators::of(comm)?, source(from)?, tag_match(number)?);
    engine::with(|engine| {
        let endpoint = engine.endpoint();
        let found = match piece {
            Piece::Bytes(bytes) => endpoint.recv(&comm, bytes, from, tag)?,
            Piece::Elements(memory, count, datatype) => {
                endpoint.recv_typed(&comm, TypedMut::new(memory, count, datatype), from, tag)?
            }
        };
        Ok(Some(found.into()))
    })
}

/// Starts a send, or a receive, of data in one piece, in the same way; `None` if it takes more.
#[inline(always)]
fn started(
    data: Address,
    count: i64,
    datatype: Handle,
    handle: Handle,
    start: impl FnOnce(&mut Lasting, &Comm, Piece) -> Result<Request<'static>, Fault>,
) -> Result<Option<Handle>, Fault> {
    let Some(piece) = datatypes::piece(data, count, datatype)? else { return Ok(None) };
    let comm = communicators::of(handle)?;
    let request = engine::with(|engine| {
        engine.reap();
        start(&mut engine.scope, &comm, piece)
    })?;
    requests::of_message(handle, request).map(Some)
}

#[inline(always)]
pub(super) fn send_started(
    data: Address,
    count: i64,
    datatype: Handle,
    to: c_int,
    number: c_int,
    comm: Handle,
) -> Result<Option<Handle>, Fault> {
    let (to, tag) = (rank(to)?, tag(number)?);
    started(data, count, datatype, comm, |scope, comm, piece| {
        Ok(match piece {
            Piece::Bytes(bytes) => scope.isend(comm, bytes, to, tag)?,
            Piece::Elements(memory, count, datatype) => {
                scope.isend_typed(comm, Typed::new(memory, count, datatype), to, tag)?
            }
        })
    })
}

#[inline(always)]
pub(super) fn receive_started(
    data: Address,
    count: i64,
    datatype: Handle,
    from: c_int,
    number: c_int,
    comm: Handle,
) -> Result<Option<Handle>, Fault> {
    let (from, tag) = (source(from)?, tag_match(number)?);
    started(data, count, datatype, comm, |scope, comm, piece| {
        Ok(match piece {
            Piece::Bytes(bytes) => scope.irecv(comm, bytes, from, tag)?,
            Piece::Elements(memory, count, datatype) => {
                scope.irecv_typed(comm, TypedMut::new(memory, count, datatype), from, tag)?
            }
        })
    })
}
