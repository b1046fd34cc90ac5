//! The functions that are not supported yet: each answers `MPI_ERR_UNSUPPORTED_OPERATION`, through
//! the error handler.

use core::ffi::{c_char, c_int};

use crate::abi::{Handle, MPI_COMM_SELF, Status};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};

macro_rules! unsupported {
    ($(fn $name:ident($($arg:ident: $kind:ty),* $(,)?) on $comm:expr;)*) => {$(
        mpi! { fn $name($($arg: $kind),*) on $comm => {
            let _ = ($($arg,)*);
            Err(CallFault::unsupported())?;
        } }
    )*};
}

unsupported! {
    fn MPI_Accumulate(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, op: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Accumulate_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, op: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Close_port(port_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Comm_accept(
        port_name: Ptr<c_char>, info: Handle, root: c_int, comm: Handle, newcomm: Ptr<Handle>,
    ) on comm;
    fn MPI_Comm_connect(
        port_name: Ptr<c_char>, info: Handle, root: c_int, comm: Handle, newcomm: Ptr<Handle>,
    ) on comm;
    fn MPI_Comm_join(fd: c_int, intercomm: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Comm_spawn(
        command: Ptr<c_char>, argv: Ptr<Ptr<c_char>>, maxprocs: c_int, info: Handle, root: c_int,
        comm: Handle, intercomm: Ptr<Handle>, array_of_errcodes: Ptr<c_int>,
    ) on comm;
    fn MPI_Comm_spawn_multiple(
        count: c_int, array_of_commands: Ptr<Ptr<c_char>>, array_of_argv: Ptr<Ptr<Ptr<c_char>>>,
        array_of_maxprocs: Ptr<c_int>, array_of_info: Ptr<Handle>, root: c_int, comm: Handle,
        intercomm: Ptr<Handle>, array_of_errcodes: Ptr<c_int>,
    ) on comm;
    fn MPI_Compare_and_swap(
        origin_addr: Address, compare_addr: Address, result_addr: Address, datatype: Handle,
        target_rank: c_int, target_disp: isize, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Fetch_and_op(
        origin_addr: Address, result_addr: Address, datatype: Handle, target_rank: c_int, target_disp: isize,
        op: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_call_errhandler(fh: Handle, errorcode: c_int) on MPI_COMM_SELF;
    fn MPI_File_close(fh: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_File_create_errhandler(file_errhandler_fn: usize, errhandler: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_File_delete(filename: Ptr<c_char>, info: Handle) on MPI_COMM_SELF;
    fn MPI_File_get_amode(fh: Handle, amode: Ptr<c_int>) on MPI_COMM_SELF;
    fn MPI_File_get_atomicity(fh: Handle, flag: Ptr<c_int>) on MPI_COMM_SELF;
    fn MPI_File_get_byte_offset(fh: Handle, offset: i64, disp: Ptr<i64>) on MPI_COMM_SELF;
    fn MPI_File_get_errhandler(file: Handle, errhandler: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_File_get_group(fh: Handle, group: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_File_get_info(fh: Handle, info_used: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_File_get_position(fh: Handle, offset: Ptr<i64>) on MPI_COMM_SELF;
    fn MPI_File_get_position_shared(fh: Handle, offset: Ptr<i64>) on MPI_COMM_SELF;
    fn MPI_File_get_size(fh: Handle, size: Ptr<i64>) on MPI_COMM_SELF;
    fn MPI_File_get_type_extent(fh: Handle, datatype: Handle, extent: Ptr<isize>) on MPI_COMM_SELF;
    fn MPI_File_get_type_extent_c(fh: Handle, datatype: Handle, extent: Ptr<i64>) on MPI_COMM_SELF;
    fn MPI_File_get_view(
        fh: Handle, disp: Ptr<i64>, etype: Ptr<Handle>, filetype: Ptr<Handle>, datarep: Ptr<c_char>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_all(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_all_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_at(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_at_all(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_at_all_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_at_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_shared(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iread_shared_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_all(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_all_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_at(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_at_all(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_at_all_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_at_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_shared(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_iwrite_shared_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_File_open(
        comm: Handle, filename: Ptr<c_char>, amode: c_int, info: Handle, fh: Ptr<Handle>,
    ) on comm;
    fn MPI_File_preallocate(fh: Handle, size: i64) on MPI_COMM_SELF;
    fn MPI_File_read(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_all(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_all_begin(fh: Handle, buf: Address, count: c_int, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_read_all_begin_c(fh: Handle, buf: Address, count: i64, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_read_all_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_all_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_read_at(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_at_all(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_at_all_begin(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_at_all_begin_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_at_all_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_at_all_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_read_at_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_ordered(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_ordered_begin(fh: Handle, buf: Address, count: c_int, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_read_ordered_begin_c(fh: Handle, buf: Address, count: i64, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_read_ordered_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_ordered_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_read_shared(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_read_shared_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_seek(fh: Handle, offset: i64, whence: c_int) on MPI_COMM_SELF;
    fn MPI_File_seek_shared(fh: Handle, offset: i64, whence: c_int) on MPI_COMM_SELF;
    fn MPI_File_set_atomicity(fh: Handle, flag: c_int) on MPI_COMM_SELF;
    fn MPI_File_set_errhandler(file: Handle, errhandler: Handle) on MPI_COMM_SELF;
    fn MPI_File_set_info(fh: Handle, info: Handle) on MPI_COMM_SELF;
    fn MPI_File_set_size(fh: Handle, size: i64) on MPI_COMM_SELF;
    fn MPI_File_set_view(
        fh: Handle, disp: i64, etype: Handle, filetype: Handle, datarep: Ptr<c_char>, info: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_sync(fh: Handle) on MPI_COMM_SELF;
    fn MPI_File_write(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_all(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_all_begin(fh: Handle, buf: Address, count: c_int, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_write_all_begin_c(fh: Handle, buf: Address, count: i64, datatype: Handle) on MPI_COMM_SELF;
    fn MPI_File_write_all_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_all_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_write_at(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_at_all(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_at_all_begin(
        fh: Handle, offset: i64, buf: Address, count: c_int, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_at_all_begin_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_at_all_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_at_all_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_write_at_c(
        fh: Handle, offset: i64, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_ordered(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_ordered_begin(
        fh: Handle, buf: Address, count: c_int, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_ordered_begin_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_ordered_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_ordered_end(fh: Handle, buf: Address, status: Ptr<Status>) on MPI_COMM_SELF;
    fn MPI_File_write_shared(
        fh: Handle, buf: Address, count: c_int, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_File_write_shared_c(
        fh: Handle, buf: Address, count: i64, datatype: Handle, status: Ptr<Status>,
    ) on MPI_COMM_SELF;
    fn MPI_Get(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Get_accumulate(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, result_addr: Address,
        result_count: c_int, result_datatype: Handle, target_rank: c_int, target_disp: isize,
        target_count: c_int, target_datatype: Handle, op: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Get_accumulate_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, result_addr: Address,
        result_count: i64, result_datatype: Handle, target_rank: c_int, target_disp: isize, target_count: i64,
        target_datatype: Handle, op: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Get_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Lookup_name(service_name: Ptr<c_char>, info: Handle, port_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Open_port(info: Handle, port_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Publish_name(service_name: Ptr<c_char>, info: Handle, port_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Put(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Put_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, win: Handle,
    ) on MPI_COMM_SELF;
    fn MPI_Raccumulate(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, op: Handle, win: Handle,
        request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Raccumulate_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, op: Handle, win: Handle,
        request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Register_datarep(
        datarep: Ptr<c_char>, read_conversion_fn: usize, write_conversion_fn: usize,
        dtype_file_extent_fn: usize, extra_state: Address,
    ) on MPI_COMM_SELF;
    fn MPI_Register_datarep_c(
        datarep: Ptr<c_char>, read_conversion_fn: usize, write_conversion_fn: usize,
        dtype_file_extent_fn: usize, extra_state: Address,
    ) on MPI_COMM_SELF;
    fn MPI_Rget(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Rget_accumulate(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, result_addr: Address,
        result_count: c_int, result_datatype: Handle, target_rank: c_int, target_disp: isize,
        target_count: c_int, target_datatype: Handle, op: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Rget_accumulate_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, result_addr: Address,
        result_count: i64, result_datatype: Handle, target_rank: c_int, target_disp: isize, target_count: i64,
        target_datatype: Handle, op: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Rget_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Rput(
        origin_addr: Address, origin_count: c_int, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Rput_c(
        origin_addr: Address, origin_count: i64, origin_datatype: Handle, target_rank: c_int,
        target_disp: isize, target_count: i64, target_datatype: Handle, win: Handle, request: Ptr<Handle>,
    ) on MPI_COMM_SELF;
    fn MPI_Unpublish_name(service_name: Ptr<c_char>, info: Handle, port_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Win_allocate(
        size: isize, disp_unit: c_int, info: Handle, comm: Handle, baseptr: Address, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_allocate_c(
        size: isize, disp_unit: isize, info: Handle, comm: Handle, baseptr: Address, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_allocate_shared(
        size: isize, disp_unit: c_int, info: Handle, comm: Handle, baseptr: Address, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_allocate_shared_c(
        size: isize, disp_unit: isize, info: Handle, comm: Handle, baseptr: Address, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_attach(win: Handle, base: Address, size: isize) on MPI_COMM_SELF;
    fn MPI_Win_call_errhandler(win: Handle, errorcode: c_int) on MPI_COMM_SELF;
    fn MPI_Win_complete(win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_create(
        base: Address, size: isize, disp_unit: c_int, info: Handle, comm: Handle, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_create_c(
        base: Address, size: isize, disp_unit: isize, info: Handle, comm: Handle, win: Ptr<Handle>,
    ) on comm;
    fn MPI_Win_create_dynamic(info: Handle, comm: Handle, win: Ptr<Handle>) on comm;
    fn MPI_Win_create_errhandler(win_errhandler_fn: usize, errhandler: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Win_create_keyval(
        win_copy_attr_fn: usize, win_delete_attr_fn: usize, win_keyval: Ptr<c_int>, extra_state: Address,
    ) on MPI_COMM_SELF;
    fn MPI_Win_delete_attr(win: Handle, win_keyval: c_int) on MPI_COMM_SELF;
    fn MPI_Win_detach(win: Handle, base: Address) on MPI_COMM_SELF;
    fn MPI_Win_fence(assert: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_flush(rank: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_flush_all(win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_flush_local(rank: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_flush_local_all(win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_free(win: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Win_free_keyval(win_keyval: Ptr<c_int>) on MPI_COMM_SELF;
    fn MPI_Win_get_attr(
        win: Handle, win_keyval: c_int, attribute_val: Address, flag: Ptr<c_int>,
    ) on MPI_COMM_SELF;
    fn MPI_Win_get_errhandler(win: Handle, errhandler: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Win_get_group(win: Handle, group: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Win_get_info(win: Handle, info_used: Ptr<Handle>) on MPI_COMM_SELF;
    fn MPI_Win_get_name(win: Handle, win_name: Ptr<c_char>, resultlen: Ptr<c_int>) on MPI_COMM_SELF;
    fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_lock_all(assert: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_post(group: Handle, assert: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_set_attr(win: Handle, win_keyval: c_int, attribute_val: Address) on MPI_COMM_SELF;
    fn MPI_Win_set_errhandler(win: Handle, errhandler: Handle) on MPI_COMM_SELF;
    fn MPI_Win_set_info(win: Handle, info: Handle) on MPI_COMM_SELF;
    fn MPI_Win_set_name(win: Handle, win_name: Ptr<c_char>) on MPI_COMM_SELF;
    fn MPI_Win_shared_query(
        win: Handle, rank: c_int, size: Ptr<isize>, disp_unit: Ptr<c_int>, baseptr: Address,
    ) on MPI_COMM_SELF;
    fn MPI_Win_shared_query_c(
        win: Handle, rank: c_int, size: Ptr<isize>, disp_unit: Ptr<isize>, baseptr: Address,
    ) on MPI_COMM_SELF;
    fn MPI_Win_start(group: Handle, assert: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_sync(win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_test(win: Handle, flag: Ptr<c_int>) on MPI_COMM_SELF;
    fn MPI_Win_unlock(rank: c_int, win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_unlock_all(win: Handle) on MPI_COMM_SELF;
    fn MPI_Win_wait(win: Handle) on MPI_COMM_SELF;
}
