//! No faults.

use core::ops::Deref;
use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;

use crate::call::Call;
use crate::plan::PlannedProcess;

/// A call that happens as it is.
#[derive(Debug)]
pub struct Fault;

/// Lets the call happen.
///
/// # Errors
/// None.
#[inline(always)]
pub const fn enter(_: Call) -> Result<Fault, Errno> {
    Ok(Fault)
}

/// Does nothing: no plan is for any process.
#[inline(always)]
pub const fn act_as(_: PlannedProcess) {}

impl Fault {
    /// Returns `len`.
    #[inline(always)]
    pub const fn len(&self, len: usize) -> usize {
        len
    }

    /// Returns `bytes`.
    #[inline(always)]
    pub const fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
    }

    /// Returns `room`.
    #[inline(always)]
    pub const fn cut_mut<'a>(&self, room: &'a mut [u8]) -> &'a mut [u8] {
        room
    }

    /// Returns `pieces`.
    #[inline(always)]
    pub fn cut_all<'a>(&self, pieces: &'a [IoSlice<'a>]) -> impl Deref<Target = [IoSlice<'a>]> {
        pieces
    }

    /// Calls `read` with `rooms`.
    #[inline(always)]
    pub fn cut_all_mut<R>(
        &self,
        rooms: &mut [IoSliceMut<'_>],
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        read(rooms)
    }
}
