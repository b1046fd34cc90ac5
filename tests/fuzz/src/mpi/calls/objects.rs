//! The calls of a script about packed data, groups, communicators and what they carry, and about
//! partitioned messages.

use core::ffi::{c_int, c_void};

use super::super::ffi::{self, ProgramHandle, ProgramStatus, pmpi};
use super::super::pools::Pools;
use super::super::{Player, checked};
use super::TEXT_BYTES;

impl Player<'_> {
    pub(super) fn pack(&mut self) {
        let (data, count, datatype) = self.data(1);
        let (mut room, size) = ([0_u8; 256], i64::from(self.number().min(256)).max(-2));
        let size = if self.script.byte() < 200 { 256 } else { size };
        let mut position =
            if self.script.byte() < 200 { i64::from(self.script.byte() % 16) } else { self.count() };
        let (stream, comm) = (room.as_mut_ptr().cast(), self.pools.comms.pick(&mut self.script));
        let stream = if self.script.byte() == 255 { core::ptr::null_mut() } else { stream };
        let (at, name) = (self.result(&mut position), self.text());
        let code = match self.script.byte() % 5 {
            0 => pmpi!(PMPI_Pack_c(data, count, datatype, stream, size, at, comm)),
            1 => pmpi!(PMPI_Unpack_c(stream, size, at, data, count, datatype, comm)),
            2 => pmpi!(PMPI_Pack_external_c(name, data, count, datatype, stream, size, at)),
            3 => pmpi!(PMPI_Unpack_external_c(name, stream, size, at, data, count, datatype)),
            _ => pmpi!(PMPI_Pack_external_size_c(name, count, datatype, at)),
        };
        checked(code);
    }

    /// Numbers of a list, none of which says that another list is longer than it is.
    pub(super) fn list(&mut self) -> [c_int; 12] {
        core::array::from_fn(|_| match self.script.byte() {
            byte @ 0..240 => c_int::from(byte % 3),
            240..248 => -1,
            _ => ffi::PROC_NULL,
        })
    }

    pub(super) fn group(&mut self) {
        let [one, other] = core::array::from_fn(|_| self.pools.groups.pick(&mut self.script));
        let (mut made, mut list, mut found) = (ffi::GROUP_NULL, self.list(), [0; 12]);
        let (place, count) = (self.result(&mut made), c_int::from(self.script.byte() % 6) - 1);
        let ranks = list.as_mut_ptr();
        let code = match self.script.byte() % 7 {
            0 => pmpi!(PMPI_Comm_group(self.pools.comms.pick(&mut self.script), place)),
            1 => pmpi!(PMPI_Group_incl(one, count, ranks, place)),
            2 => pmpi!(PMPI_Group_range_excl(one, count.min(4), ranks, place)),
            3 => pmpi!(PMPI_Group_union(one, other, place)),
            4 => pmpi!(PMPI_Group_difference(one, other, place)),
            5 => pmpi!(PMPI_Group_translate_ranks(one, count, ranks, other, found.as_mut_ptr())),
            _ => {
                made = one;
                let code = pmpi!(PMPI_Group_free(&raw mut made));
                if made != one {
                    self.pools.groups.forget(one);
                }
                code
            }
        };
        if checked(code) {
            self.pools.groups.push(made);
        }
    }

    pub(super) fn communicator(&mut self) {
        let comm = self.pools.comms.pick(&mut self.script);
        let (group, info) =
            (self.pools.groups.pick(&mut self.script), self.pools.infos.pick(&mut self.script));
        let (mut made, [colour, key]) = (ffi::COMM_NULL, core::array::from_fn(|_| self.number()));
        let place = self.result(&mut made);
        let code = match self.script.byte() % 9 {
            0 => pmpi!(PMPI_Comm_dup_with_info(comm, info, place)),
            1 => pmpi!(PMPI_Comm_create(comm, group, place)),
            2 => pmpi!(PMPI_Comm_create_group(comm, group, colour, place)),
            3 => pmpi!(PMPI_Comm_split(comm, colour, key, place)),
            4 => pmpi!(PMPI_Comm_split_type(comm, 221_i32.wrapping_add(colour), key, info, place)),
            5 => {
                let peer = self.pools.comms.pick(&mut self.script);
                pmpi!(PMPI_Intercomm_create(comm, self.rank(), peer, self.rank(), colour, place))
            }
            6 => pmpi!(PMPI_Comm_set_info(comm, info)),
            7 => self.handler(comm),
            _ => {
                Pools::drain(comm);
                made = comm;
                let code = pmpi!(PMPI_Comm_free(&raw mut made));
                if made != comm {
                    self.pools.comms.forget(comm);
                }
                code
            }
        };
        if checked(code) {
            self.pools.comms.push(made);
        }
    }

    pub(super) fn handler(&mut self, comm: ProgramHandle) -> c_int {
        let picked = self.pools.handlers.pick(&mut self.script);
        let mut handler = picked;
        let place = self.result(&mut handler);
        match self.script.byte() % 4 {
            0 => pmpi!(PMPI_Comm_set_errhandler(comm, picked)),
            1 => pmpi!(PMPI_Comm_get_errhandler(comm, place)),
            2 => {
                let function = Some(ffi::hear as ffi::Hearing).filter(|_| self.script.byte() < 250);
                let code = pmpi!(PMPI_Comm_create_errhandler(function, place));
                if code == ffi::SUCCESS {
                    self.pools.handlers.push(handler);
                }
                code
            }
            _ => {
                let code = pmpi!(PMPI_Errhandler_free(place));
                if handler != picked {
                    self.pools.handlers.forget(picked);
                }
                code
            }
        }
    }

    pub(super) fn attribute(&mut self) {
        let comm = self.pools.comms.pick(&mut self.script);
        let (key, mut flag) = (self.pools.keys.pick(&mut self.script) as c_int, 0);
        let (mut made, mut value) = (key, core::ptr::null_mut::<c_void>());
        let place = self.result(&mut value).cast();
        let nothing = core::ptr::null_mut();
        let code = match self.script.byte() % 6 {
            0 => {
                let copies = usize::from(self.script.byte() % 2);
                let code = pmpi!(PMPI_Comm_create_keyval(copies, 0, self.result(&mut made), nothing));
                if code == ffi::SUCCESS {
                    self.pools.keys.push(made as ProgramHandle);
                }
                code
            }
            1 => pmpi!(PMPI_Comm_set_attr(comm, key, nothing)),
            2 => pmpi!(PMPI_Comm_get_attr(comm, key, place, self.result(&mut flag))),
            3 => pmpi!(PMPI_Comm_delete_attr(comm, key)),
            4 => {
                let code = pmpi!(PMPI_Comm_free_keyval(self.result(&mut made)));
                if made != key {
                    self.pools.keys.forget(key as ProgramHandle);
                }
                code
            }
            _ => pmpi!(PMPI_Type_set_attr(self.pools.datatypes.pick(&mut self.script), key, nothing)),
        };
        checked(code);
    }

    pub(super) fn hint(&mut self) {
        let picked = self.pools.infos.pick(&mut self.script);
        let (mut info, [key, value]) = (ffi::INFO_NULL, core::array::from_fn(|_| self.text()));
        let (mut room, mut flag, mut text) = (self.number(), 0, [0; TEXT_BYTES]);
        room = room.min(TEXT_BYTES as c_int);
        let (place, into) = (self.result(&mut info), text.as_mut_ptr());
        let comm = self.pools.comms.pick(&mut self.script);
        let code = match self.script.byte() % 9 {
            0 | 1 => pmpi!(PMPI_Info_create(place)),
            2 => pmpi!(PMPI_Info_dup(picked, place)),
            3 => pmpi!(PMPI_Info_set(picked, key, value)),
            4 => pmpi!(PMPI_Info_delete(picked, key)),
            5 => pmpi!(PMPI_Info_get_nthkey(picked, room, into)),
            6 => {
                pmpi!(PMPI_Info_get_string(picked, key, self.result(&mut room), into, self.result(&mut flag)))
            }
            7 => pmpi!(PMPI_Comm_get_info(comm, place)),
            _ => {
                info = picked;
                let code = pmpi!(PMPI_Info_free(&raw mut info));
                if info != picked {
                    self.pools.infos.forget(picked);
                }
                code
            }
        };
        if checked(code) {
            self.pools.infos.push(info);
        }
        checked(pmpi!(PMPI_Comm_set_name(comm, key)));
    }

    pub(super) fn topology(&mut self) {
        let (comm, info) = (self.pools.comms.pick(&mut self.script), self.pools.infos.pick(&mut self.script));
        let (mut made, mut lists) = (ffi::COMM_NULL, [self.list(), self.list(), self.list()]);
        let (place, count) = (self.result(&mut made), c_int::from(self.script.byte() % 5) - 1);
        let [first, second, third] = lists.each_mut().map(|list| list.as_mut_ptr());
        let weights = core::ptr::without_provenance_mut(ffi::UNWEIGHTED);
        let number = self.number();
        let code = match self.script.byte() % 10 {
            0 => pmpi!(PMPI_Cart_create(comm, count, first, second, 0, place)),
            1 => pmpi!(PMPI_Cart_coords(comm, number, count, first)),
            2 => pmpi!(PMPI_Cart_shift(comm, number, self.number(), first, second)),
            3 => pmpi!(PMPI_Cart_sub(comm, first, place)),
            4 => pmpi!(PMPI_Cart_map(comm, count, first, second, third)),
            5 => pmpi!(PMPI_Dims_create(number, count, first)),
            6 => pmpi!(PMPI_Graph_create(comm, count, first, second, 0, place)),
            7 => pmpi!(PMPI_Graph_neighbors(comm, number, count, first)),
            8 => pmpi!(PMPI_Dist_graph_create_adjacent(
                comm, count, first, weights, count, second, third, info, 0, place
            )),
            _ => match self.script.byte() % 2 {
                0 => {
                    pmpi!(PMPI_Dist_graph_create(comm, count, first, second, third, weights, info, 0, place))
                }
                _ => pmpi!(PMPI_Dist_graph_neighbors(comm, count, first, weights, count, second, third)),
            },
        };
        if checked(code) {
            self.pools.comms.push(made);
        }
    }

    /// A message in parts from this rank to itself, which is over when this returns.
    pub(super) fn partitioned(&mut self) {
        let (mut sends, mut receives) = (ffi::REQUEST_NULL, ffi::REQUEST_NULL);
        let (parts, count, [tag, which]) = (
            c_int::from(self.script.byte() % 80),
            self.count().min(2),
            core::array::from_fn(|_| self.number()),
        );
        let info = self.pools.infos.pick(&mut self.script);
        let (from, into) = (self.place(1024), self.place(1024));
        let (code, other) = (
            pmpi!(PMPI_Psend_init_c(from, parts, count, ffi::INT, 0, tag, ffi::SELF, info, &raw mut sends)),
            pmpi!(PMPI_Precv_init_c(
                into,
                parts,
                count,
                ffi::INT,
                0,
                tag,
                ffi::SELF,
                info,
                &raw mut receives
            )),
        );
        if checked(code) & checked(other) {
            checked(pmpi!(PMPI_Pready(which, self.pools.requests.pick(&mut self.script))));
            checked(pmpi!(PMPI_Pready(which, receives)));
            checked(pmpi!(PMPI_Start(&raw mut receives)));
            checked(pmpi!(PMPI_Start(&raw mut sends)));
            let mut flag = 0;
            checked(pmpi!(PMPI_Parrived(receives, which, self.result(&mut flag))));
            checked(pmpi!(PMPI_Pready_range(which, self.number(), sends)));
            for part in 0..parts {
                checked(pmpi!(PMPI_Pready(part, sends)));
            }
            let (mut both, mut statuses) = ([sends, receives], [ProgramStatus::default(); 2]);
            for _ in 0..1000 {
                checked(pmpi!(PMPI_Testall(2, both.as_mut_ptr(), &raw mut flag, statuses.as_mut_ptr())));
                if flag != 0 {
                    break;
                }
            }
            assert_ne!(flag, 0, "a message whose parts are ready arrives");
        }
        for mut request in [sends, receives] {
            let _ = pmpi!(PMPI_Request_free(&raw mut request));
        }
    }
}
