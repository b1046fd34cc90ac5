//! The calls of a script, by what they are about.

mod objects;

use core::ffi::c_int;

use super::ffi::{self, ProgramHandle, ProgramStatus, pmpi};
use super::{Player, checked};

/// Messages that a script begins at most: each has room where it is received, so none waits.
const SENDS_MAX: u32 = 24;

/// Room for any text.
const TEXT_BYTES: usize = 2048;

impl Player<'_> {
    /// Makes a call.
    pub(super) fn call(&mut self) {
        match self.script.byte() % 16 {
            0 | 1 => self.send(),
            2 | 3 => self.receive(),
            4 => self.keep_message(),
            5 | 6 => self.complete(),
            7 => self.request(),
            8 => self.collective(),
            9 => self.reduction(),
            10 => self.started_collective(),
            11 => self.datatype(),
            12 => self.pack(),
            13 => self.group(),
            14 => self.communicator(),
            _ => match self.script.byte() % 4 {
                0 => self.attribute(),
                1 => self.hint(),
                2 => self.topology(),
                _ => self.partitioned(),
            },
        }
    }

    /// A rank to send to: most often the one that there is.
    fn rank(&mut self) -> c_int {
        match self.script.byte() {
            0..200 => 0,
            200..225 => ffi::PROC_NULL,
            _ => self.number(),
        }
    }

    /// A rank to receive from, and a tag.
    fn envelope(&mut self) -> [c_int; 2] {
        let from = if self.script.byte().is_multiple_of(8) { ffi::ANY_SOURCE } else { self.rank() };
        let tag = if self.script.byte().is_multiple_of(8) { ffi::ANY_TAG } else { self.number() };
        [from, tag]
    }

    /// The source and the tag to receive by, so that what goes to `to` is received: it cannot be
    /// cancelled.
    fn same(&mut self, to: c_int) -> (c_int, c_int) {
        self.pools.exchanges += 1;
        (if to == ffi::PROC_NULL { to } else { 0 }, 7000 + self.pools.exchanges)
    }

    fn send(&mut self) {
        if self.pools.sent >= SENDS_MAX {
            return;
        }
        let ((data, count, datatype), to, tag) = (self.data(1), self.rank(), self.number());
        let (comm, mut made) = (self.pools.comms.pick(&mut self.script), ffi::REQUEST_NULL);
        let request = self.result(&mut made);
        let code = match self.script.byte() % 6 {
            0 => pmpi!(PMPI_Issend_c(data, count, datatype, to, tag, comm, request)),
            1 => pmpi!(PMPI_Irsend_c(data, count, datatype, to, tag, comm, request)),
            2 => pmpi!(PMPI_Ibsend_c(data, count, datatype, to, tag, comm, request)),
            3 => {
                let (from, tag) = self.same(to);
                pmpi!(PMPI_Isendrecv_replace_c(data, count, datatype, to, tag, from, tag, comm, request))
            }
            _ => pmpi!(PMPI_Isend_c(data, count, datatype, to, tag, comm, request)),
        };
        let is_begun = checked(code);
        self.pools.sent += u32::from(is_begun);
        self.keep(is_begun, made);
    }

    fn receive(&mut self) {
        let ((data, count, datatype), [from, tag]) = (self.data(1), self.envelope());
        let comm = self.pools.comms.pick(&mut self.script);
        let (mut made, mut status, mut flag) = (ffi::REQUEST_NULL, ProgramStatus::default(), 0);
        let request = self.result(&mut made);
        match self.script.byte() % 5 {
            0 | 1 => {
                let code = pmpi!(PMPI_Irecv_c(data, count, datatype, from, tag, comm, request));
                self.keep(checked(code), made);
            }
            2 => {
                let flagged = self.result(&mut flag);
                let code = pmpi!(PMPI_Iprobe(from, tag, comm, flagged, &raw mut status));
                if checked(code) && flag != 0 {
                    let code = pmpi!(PMPI_Recv_c(data, count, datatype, from, tag, comm, &raw mut status));
                    checked(code);
                }
            }
            3 => {
                let mut message = ffi::MESSAGE_NULL;
                let place = self.result(&mut message);
                let code = pmpi!(PMPI_Improbe(from, tag, comm, &raw mut flag, place, &raw mut status));
                if checked(code) && flag != 0 {
                    self.pools.messages.push(message);
                }
            }
            _ => {
                let own = self.pools.messages.pick(&mut self.script);
                let mut message = own;
                let place = self.result(&mut message);
                let code = pmpi!(PMPI_Imrecv_c(data, count, datatype, place, request));
                self.keep(checked(code), made);
                if message != own {
                    self.pools.messages.forget(own);
                }
            }
        }
    }

    /// A message that is sent or received again and again; a buffer.
    fn keep_message(&mut self) {
        let ((data, count, datatype), to, tag) = (self.data(1), self.rank(), self.number());
        let (comm, mut made) = (self.pools.comms.pick(&mut self.script), ffi::REQUEST_NULL);
        let request = self.result(&mut made);
        let code = match self.script.byte() % 6 {
            0 => pmpi!(PMPI_Send_init_c(data, count, datatype, to, tag, comm, request)),
            1 => pmpi!(PMPI_Bsend_init_c(data, count, datatype, to, tag, comm, request)),
            2 | 3 => pmpi!(PMPI_Recv_init_c(data, count, datatype, to, tag, comm, request)),
            4 => {
                let size = self.number();
                pmpi!(PMPI_Buffer_attach(self.place(8192), if size > 5 { 8192 } else { size }))
            }
            _ => {
                let size = self.number();
                pmpi!(PMPI_Comm_attach_buffer(comm, self.place(8192), if size > 5 { 8192 } else { size }))
            }
        };
        self.keep(checked(code), made);
    }

    /// Tests requests, and waits for those that are over.
    fn complete(&mut self) {
        let picked: [ProgramHandle; 3] = core::array::from_fn(|_| self.pools.requests.pick(&mut self.script));
        let (mut requests, mut statuses) = (picked, [ProgramStatus::default(); 3]);
        let (mut flag, mut index, mut indices) = (0, 0, [0; 3]);
        let count = c_int::from(self.script.byte() % 5) - 1;
        let places = requests.as_mut_ptr();
        let (flags, told) = (self.result(&mut flag), statuses.as_mut_ptr());
        let code = match self.script.byte() % 5 {
            0 => pmpi!(PMPI_Test(places, flags, told)),
            1 => pmpi!(PMPI_Testall(count.min(3), places, flags, told)),
            2 => pmpi!(PMPI_Testany(count.min(3), places, self.result(&mut index), flags, told)),
            3 => pmpi!(PMPI_Testsome(count.min(3), places, flags, indices.as_mut_ptr(), told)),
            _ => {
                let code = pmpi!(PMPI_Request_get_status(picked[0], flags, told));
                if code == ffi::SUCCESS && flag != 0 { pmpi!(PMPI_Wait(places, told)) } else { code }
            }
        };
        checked(code);
        for (was, is) in picked.into_iter().zip(requests) {
            if was != is {
                self.pools.requests.forget(was);
            }
        }
    }

    /// Starts, cancels and frees requests, and makes those of the program's.
    fn request(&mut self) {
        let picked = self.pools.requests.pick(&mut self.script);
        let mut request = picked;
        let place = self.result(&mut request);
        match self.script.byte() % 6 {
            0 | 1 if self.pools.sent < SENDS_MAX => {
                self.pools.sent += 1;
                checked(pmpi!(PMPI_Start(place)));
            }
            2 => drop(checked(pmpi!(PMPI_Cancel(place)))),
            3 => {
                // A receive that is freed would take a message of another script.
                checked(pmpi!(PMPI_Cancel(place)));
                checked(pmpi!(PMPI_Request_free(place)));
                if request != picked {
                    self.pools.requests.forget(picked);
                }
            }
            4 => {
                let mut made = ffi::REQUEST_NULL;
                let into = self.result(&mut made);
                let nothing = core::ptr::null_mut();
                let code = pmpi!(PMPI_Grequest_start(
                    Some(ffi::query),
                    Some(ffi::free),
                    Some(ffi::cancel),
                    nothing,
                    into
                ));
                self.keep(checked(code), made);
            }
            5 => drop(checked(pmpi!(PMPI_Grequest_complete(picked)))),
            _ => drop(checked(pmpi!(PMPI_Startall(c_int::from(place.is_null()) - 1, place)))),
        }
    }

    fn collective(&mut self) {
        let ((data, count, datatype), (into, room, kind)) = (self.data(1), self.data(1));
        let (comm, root) = (self.pools.comms.pick(&mut self.script), self.rank());
        let mut lens = [room, 0, 0];
        let (mut starts, mut kinds) = ([0_isize; 3], [kind; 3]);
        let lens = self.result(&mut lens).cast();
        let code = match self.script.byte() % 7 {
            0 => pmpi!(PMPI_Barrier(comm)),
            1 => pmpi!(PMPI_Bcast_c(data, count, datatype, root, comm)),
            2 => pmpi!(PMPI_Gather_c(data, count, datatype, into, room, kind, root, comm)),
            3 => pmpi!(PMPI_Allgather_c(data, count, datatype, into, room, kind, comm)),
            4 => pmpi!(PMPI_Gatherv_c(
                data,
                count,
                datatype,
                into,
                lens,
                starts.as_mut_ptr(),
                kind,
                root,
                comm
            )),
            5 => {
                let (ends, of) = (starts.as_mut_ptr(), kinds.as_mut_ptr());
                pmpi!(PMPI_Alltoallw_c(into, lens, ends, of, into, lens, ends, of, comm))
            }
            _ => pmpi!(PMPI_Neighbor_allgather_c(data, count, datatype, into, room, kind, comm)),
        };
        checked(code);
    }

    fn reduction(&mut self) {
        let (data, count, datatype) = self.data(1);
        let into = match self.script.byte() {
            255 => core::ptr::null_mut(),
            254 => core::ptr::without_provenance_mut(ffi::IN_PLACE),
            _ => data.wrapping_byte_add(usize::from(self.script.byte() % 8) * 8),
        };
        let into = if self.reaches_beyond(into, count, datatype, 1) { data } else { into };
        let (op, comm, root) =
            (self.pools.ops.pick(&mut self.script), self.pools.comms.pick(&mut self.script), self.rank());
        let (mut made, info) = (ffi::REQUEST_NULL, self.pools.infos.pick(&mut self.script));
        let request = self.result(&mut made);
        let code = match self.script.byte() % 9 {
            0 => pmpi!(PMPI_Allreduce_c(data, into, count, datatype, op, comm)),
            1 => pmpi!(PMPI_Reduce_c(data, into, count, datatype, op, root, comm)),
            2 => pmpi!(PMPI_Scan_c(data, into, count, datatype, op, comm)),
            3 => pmpi!(PMPI_Reduce_scatter_block_c(data, into, count, datatype, op, comm)),
            4 => pmpi!(PMPI_Reduce_local_c(data, into, count, datatype, op)),
            5 => pmpi!(PMPI_Iallreduce_c(data, into, count, datatype, op, comm, request)),
            6 => pmpi!(PMPI_Iexscan_c(data, into, count, datatype, op, comm, request)),
            7 => pmpi!(PMPI_Allreduce_init_c(data, into, count, datatype, op, comm, info, request)),
            _ => self.operation(),
        };
        self.keep(checked(code), made);
    }

    fn operation(&mut self) -> c_int {
        let picked = self.pools.ops.pick(&mut self.script);
        let mut op = picked;
        let place = self.result(&mut op);
        if self.script.byte().is_multiple_of(2) {
            let code = pmpi!(PMPI_Op_free(place));
            if op != picked {
                self.pools.ops.forget(picked);
            }
            return code;
        }
        let function = Some(ffi::reduce as ffi::Reduction).filter(|_| self.script.byte() < 250);
        let code = pmpi!(PMPI_Op_create(function, self.number(), place));
        if code == ffi::SUCCESS {
            self.pools.ops.push(op);
        }
        code
    }

    fn started_collective(&mut self) {
        let ((data, count, datatype), (into, room, kind)) = (self.data(1), self.data(1));
        let (comm, root) = (self.pools.comms.pick(&mut self.script), self.rank());
        let (mut made, info) = (ffi::REQUEST_NULL, self.pools.infos.pick(&mut self.script));
        let request = self.result(&mut made);
        let code = match self.script.byte() % 7 {
            0 => pmpi!(PMPI_Ibarrier(comm, request)),
            1 => pmpi!(PMPI_Ibcast_c(data, count, datatype, root, comm, request)),
            2 => pmpi!(PMPI_Iscatter_c(data, count, datatype, into, room, kind, root, comm, request)),
            3 => pmpi!(PMPI_Ialltoall_c(data, count, datatype, into, room, kind, comm, request)),
            4 => pmpi!(PMPI_Allgather_init_c(data, count, datatype, into, room, kind, comm, info, request)),
            5 => pmpi!(PMPI_Ineighbor_alltoall_c(data, count, datatype, into, room, kind, comm, request)),
            _ => {
                let to = self.rank();
                let (from, tag) = self.same(to);
                pmpi!(PMPI_Isendrecv_c(
                    data, count, datatype, to, tag, into, room, kind, from, tag, comm, request
                ))
            }
        };
        self.keep(checked(code), made);
    }

    /// A number of datatypes, which are small or overflow.
    fn length(&mut self) -> i64 {
        match self.script.byte() {
            byte @ 0..230 => i64::from(byte % 5),
            230..240 => -i64::from(self.script.byte() % 16),
            _ => self.count(),
        }
    }

    fn datatype(&mut self) {
        let of = self.pools.datatypes.pick(&mut self.script);
        let mut made = ffi::DATATYPE_NULL;
        let place = self.result(&mut made);
        let mut lists: [[i64; 4]; 3] = core::array::from_fn(|_| core::array::from_fn(|_| self.length()));
        let [first, second, third] = &mut lists;
        let (first, second, third) = (first.as_mut_ptr(), second.as_mut_ptr(), third.as_mut_ptr());
        let (many, each, stride) = (i64::from(self.script.byte() % 5), self.length(), self.length());
        let order = if self.script.byte() < 240 { 0xC } else { self.number() };
        let code = match self.script.byte() % 11 {
            0 => pmpi!(PMPI_Type_contiguous_c(each, of, place)),
            1 => pmpi!(PMPI_Type_vector_c(many, each, stride, of, place)),
            2 => pmpi!(PMPI_Type_create_hvector_c(many, each, stride, of, place)),
            3 => pmpi!(PMPI_Type_indexed_c(many, first, second, of, place)),
            4 => pmpi!(PMPI_Type_create_hindexed_block_c(many, each, second, of, place)),
            5 => {
                let mut kinds: [ProgramHandle; 4] =
                    core::array::from_fn(|_| self.pools.datatypes.pick(&mut self.script));
                pmpi!(PMPI_Type_create_struct_c(many, first, second, kinds.as_mut_ptr(), place))
            }
            6 => pmpi!(PMPI_Type_create_resized_c(of, stride, each, place)),
            7 => pmpi!(PMPI_Type_create_subarray_c(many as c_int, first, second, third, order, of, place)),
            8 => pmpi!(PMPI_Type_dup(of, place)),
            9 => self.array(order, of, place),
            _ => self.old_datatype(of),
        };
        if checked(code) && made != ffi::DATATYPE_NULL {
            if self.script.byte() < 230 {
                assert!(checked(pmpi!(PMPI_Type_commit(&raw mut made))), "a new datatype can be committed");
            }
            self.pools.datatypes.push(made);
        }
    }

    fn array(&mut self, order: c_int, of: ProgramHandle, place: *mut ProgramHandle) -> c_int {
        let mut lists: [[c_int; 4]; 3] = core::array::from_fn(|_| core::array::from_fn(|_| self.number()));
        let mut ways: [c_int; 4] = core::array::from_fn(|_| 16 + c_int::from(self.script.byte() % 4));
        let [sizes, arguments, processes] = &mut lists;
        let (sizes, arguments) = (sizes.as_mut_ptr(), arguments.as_mut_ptr());
        let (size, rank, many) = (self.number(), self.number(), c_int::from(self.script.byte() % 5));
        let (ways, processes) = (ways.as_mut_ptr(), processes.as_mut_ptr());
        pmpi!(PMPI_Type_create_darray(size, rank, many, sizes, ways, arguments, processes, order, of, place))
    }

    /// Frees a datatype, or tells what it was made of.
    fn old_datatype(&mut self, of: ProgramHandle) -> c_int {
        let mut freed = of;
        let mut status = ProgramStatus::default();
        match self.script.byte() % 4 {
            0 => {
                let place = self.result(&mut freed);
                let code = pmpi!(PMPI_Type_free(place));
                if freed != of {
                    self.pools.datatypes.forget(of);
                }
                code
            }
            1 => {
                let (mut integers, mut addresses, mut counts) = ([0; 16], [0; 16], [0; 16]);
                let (mut types, room) = ([ffi::DATATYPE_NULL; 16], self.number().min(16).into());
                let (to_integers, to_addresses) = (integers.as_mut_ptr(), addresses.as_mut_ptr());
                let (to_counts, to_types) = (counts.as_mut_ptr(), types.as_mut_ptr());
                let code = pmpi!(PMPI_Type_get_contents_c(
                    of,
                    room,
                    16,
                    16,
                    16,
                    to_integers,
                    to_addresses,
                    to_counts,
                    to_types
                ));
                types.into_iter().for_each(|made| self.pools.datatypes.push(made));
                code
            }
            2 => pmpi!(PMPI_Status_set_elements_c(&raw mut status, of, self.count())),
            _ => {
                status.fill(self.number());
                let mut count = 0;
                pmpi!(PMPI_Get_elements_c(&raw mut status, of, self.result(&mut count)))
            }
        }
    }
}
