//! The objects of a script: handles that are good, that were freed, and that never were any.

use core::ffi::c_int;

use super::ffi::{self, ProgramHandle, ProgramStatus, pmpi};
use crate::script::Script;

/// Handles of a kind.
pub(super) struct Pool {
    null: ProgramHandle,
    /// Handles of the library.
    named: &'static [ProgramHandle],
    live: Vec<ProgramHandle>,
    freed: Vec<ProgramHandle>,
}

impl Pool {
    const fn new(null: ProgramHandle, named: &'static [ProgramHandle]) -> Self {
        Self { null, named, live: Vec::new(), freed: Vec::new() }
    }

    pub(super) fn push(&mut self, handle: ProgramHandle) {
        if handle != self.null && !self.named.contains(&handle) && !self.live.contains(&handle) {
            self.live.push(handle);
        }
    }

    /// Draws one of them, or something that is none.
    pub(super) fn pick(&self, script: &mut Script<'_>) -> ProgramHandle {
        let (how, which) = (script.byte(), usize::from(script.byte()));
        let of = |handles: &[ProgramHandle]| handles.get(which % handles.len().max(1)).copied();
        let picked = match how {
            0..96 => of(&self.live).or_else(|| of(self.named)),
            96..220 => of(self.named).or_else(|| of(&self.live)),
            220..235 => of(&self.freed),
            235..243 => None,
            // Of another kind perhaps, with another generation: as tables make them.
            243..250 => Some(((which % 12) << 22) | (usize::from(script.byte() % 4) << 26) | (which % 5)),
            _ => Some(script.word() as usize | ((script.word() as usize) << 32)),
        };
        picked.unwrap_or(self.null)
    }

    /// Its handle has been freed.
    pub(super) fn forget(&mut self, handle: ProgramHandle) {
        if let Some(place) = self.live.iter().position(|live| *live == handle) {
            self.live.swap_remove(place);
            self.freed.push(handle);
        }
    }
}

/// All of them.
pub(super) struct Pools {
    pub(super) comms: Pool,
    pub(super) groups: Pool,
    pub(super) datatypes: Pool,
    pub(super) ops: Pool,
    pub(super) infos: Pool,
    pub(super) handlers: Pool,
    pub(super) requests: Pool,
    pub(super) messages: Pool,
    /// Keys of attributes, which are numbers.
    pub(super) keys: Pool,
    /// Messages that were begun: so few that none waits for room.
    pub(super) sent: u32,
    /// Exchanges, each of which has a tag of its own.
    pub(super) exchanges: c_int,
}

impl Pools {
    pub(super) const fn new() -> Self {
        use ffi::{COMM_NULL, DATATYPE_NULL, ERRHANDLER_NULL, GROUP_NULL, INFO_NULL, MESSAGE_NULL, OP_NULL};
        Self {
            comms: Pool::new(COMM_NULL, &[ffi::WORLD, ffi::SELF]),
            groups: Pool::new(GROUP_NULL, &[ffi::GROUP_EMPTY]),
            datatypes: Pool::new(DATATYPE_NULL, &[ffi::INT, ffi::BYTE, ffi::DOUBLE_INT]),
            // Sum, greatest with its place, and bits.
            ops: Pool::new(OP_NULL, &[0x21, 0x39, 0x28]),
            infos: Pool::new(INFO_NULL, &[INFO_NULL, ffi::INFO_ENV]),
            handlers: Pool::new(ERRHANDLER_NULL, &[ffi::ERRORS_RETURN]),
            requests: Pool::new(ffi::REQUEST_NULL, &[]),
            messages: Pool::new(MESSAGE_NULL, &[]),
            keys: Pool::new(0, &[ffi::TAG_UB as ProgramHandle]),
            sent: 0,
            exchanges: 0,
        }
    }

    /// Receives what was sent on a communicator and not received.
    pub(super) fn drain(comm: ProgramHandle) {
        let (mut flag, mut status, mut room) = (1, ProgramStatus::default(), [0_u8; 4096]);
        for _ in 0..64 {
            let code =
                pmpi!(PMPI_Iprobe(ffi::ANY_SOURCE, ffi::ANY_TAG, comm, &raw mut flag, &raw mut status));
            if code != ffi::SUCCESS || flag == 0 {
                break;
            }
            let into = room.as_mut_ptr().cast();
            // A longer one is cut off, which is an error and receives it too.
            let _ = pmpi!(PMPI_Recv_c(
                into,
                4096,
                ffi::BYTE,
                ffi::ANY_SOURCE,
                ffi::ANY_TAG,
                comm,
                &raw mut status
            ));
        }
    }

    /// Completes a request, cancels it, or frees it.
    fn end(mut request: ProgramHandle) {
        let (mut flag, mut status) = (0, ProgramStatus::default());
        let _ = pmpi!(PMPI_Grequest_complete(request));
        for turn in 0..4 {
            let _ = pmpi!(PMPI_Test(&raw mut request, &raw mut flag, &raw mut status));
            if request == ffi::REQUEST_NULL || flag != 0 {
                break;
            }
            if turn == 1 {
                let _ = pmpi!(PMPI_Cancel(&raw mut request));
            }
        }
        if request != ffi::REQUEST_NULL {
            let _ = pmpi!(PMPI_Request_free(&raw mut request));
        }
    }

    /// Ends and frees all of them.
    pub(super) fn finish(&mut self) {
        let comms = || self.comms.live.iter().chain(self.comms.named).copied();
        comms().for_each(Self::drain);
        for mut message in self.messages.live.drain(..) {
            let (mut room, mut status) = ([0_u8; 4096], ProgramStatus::default());
            let into = room.as_mut_ptr().cast();
            let _ = pmpi!(PMPI_Mrecv_c(into, 4096, ffi::BYTE, &raw mut message, &raw mut status));
        }
        self.requests.live.drain(..).for_each(Self::end);
        let (mut place, mut size) = (core::ptr::null_mut::<u8>(), 0);
        let _ = pmpi!(PMPI_Buffer_detach((&raw mut place).cast(), &raw mut size));
        let comms = || self.comms.live.iter().chain(self.comms.named).copied();
        comms().for_each(Self::drain);
        for mut handle in self.comms.live.drain(..) {
            let _ = pmpi!(PMPI_Comm_free(&raw mut handle));
        }
        for mut handle in self.datatypes.live.drain(..) {
            let _ = pmpi!(PMPI_Type_free(&raw mut handle));
        }
        for mut handle in self.groups.live.drain(..) {
            let _ = pmpi!(PMPI_Group_free(&raw mut handle));
        }
        for mut handle in self.ops.live.drain(..) {
            let _ = pmpi!(PMPI_Op_free(&raw mut handle));
        }
        for mut handle in self.infos.live.drain(..) {
            let _ = pmpi!(PMPI_Info_free(&raw mut handle));
        }
        for mut handle in self.handlers.live.drain(..) {
            let _ = pmpi!(PMPI_Errhandler_free(&raw mut handle));
        }
        for key in self.keys.live.drain(..) {
            let mut key = key as c_int;
            for comm in self.comms.named {
                let _ = pmpi!(PMPI_Comm_delete_attr(*comm, key));
            }
            let _ = pmpi!(PMPI_Comm_free_keyval(&raw mut key));
        }
        for comm in self.comms.named {
            let _ = pmpi!(PMPI_Comm_set_errhandler(*comm, ffi::ERRORS_RETURN));
        }
    }
}
