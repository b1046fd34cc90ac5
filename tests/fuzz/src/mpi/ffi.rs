//! This module holds `unsafe` code: the functions of C, and what calls them.
//!
//! The C interface as it is linked: handles are addresses that are never followed.

use core::ffi::{c_char, c_int, c_void};

// Links the library, whose symbols the functions below are.
use mpi_abi as _;

pub(super) type ProgramHandle = usize;
type Data = *mut c_void;
type To<T> = *mut T;

/// Room for a status of C.
pub(super) type ProgramStatus = [c_int; 8];

pub(super) const SUCCESS: c_int = 0;
pub(super) const LASTCODE: c_int = 0x3FFF;
/// `MPI_MAX_ERROR_STRING`.
pub(super) const ERROR_TEXT_BYTES: usize = 512;
pub(super) const IN_PLACE: usize = 1;
pub(super) const UNWEIGHTED: usize = 10;
pub(super) const ANY_SOURCE: c_int = -1;
pub(super) const ANY_TAG: c_int = -2;
pub(super) const PROC_NULL: c_int = -3;
pub(super) const COMM_NULL: ProgramHandle = 0x100;
pub(super) const WORLD: ProgramHandle = 0x101;
pub(super) const SELF: ProgramHandle = 0x102;
pub(super) const GROUP_NULL: ProgramHandle = 0x108;
pub(super) const GROUP_EMPTY: ProgramHandle = 0x109;
pub(super) const MESSAGE_NULL: ProgramHandle = 0x128;
pub(super) const INFO_NULL: ProgramHandle = 0x130;
pub(super) const INFO_ENV: ProgramHandle = 0x131;
pub(super) const ERRHANDLER_NULL: ProgramHandle = 0x140;
pub(super) const ERRORS_RETURN: ProgramHandle = 0x143;
pub(super) const REQUEST_NULL: ProgramHandle = 0x180;
pub(super) const DATATYPE_NULL: ProgramHandle = 0x200;
pub(super) const INT: ProgramHandle = 0x209;
pub(super) const DOUBLE_INT: ProgramHandle = 0x229;
pub(super) const BYTE: ProgramHandle = 0x247;
pub(super) const OP_NULL: ProgramHandle = 0x20;
pub(super) const TAG_UB: c_int = 501;

/// Calls a function of the interface.
macro_rules! pmpi {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: data, results and lists are null or in memory that is there, as long as the
        // function is to have them; handles and numbers may be any. One thread at a time calls.
        unsafe { $crate::mpi::ffi::$name($($argument),*) }
    }};
}
pub(super) use pmpi;

/// Declares functions of C that have the same arguments: their names, then those.
macro_rules! functions {
    ($($($name:ident)+: $arguments:tt;)+) => {
        unsafe extern "C" {
            $($(pub(super) fn $name $arguments -> c_int;)+)+
        }
    };
}

functions! {
    PMPI_Init: (argc: To<c_int>, argv: To<To<To<c_char>>>);
    PMPI_Error_class: (code: c_int, class: To<c_int>);
    PMPI_Error_string: (code: c_int, text: To<c_char>, len: To<c_int>);

    // Messages.
    PMPI_Isend_c PMPI_Issend_c PMPI_Irsend_c PMPI_Ibsend_c PMPI_Irecv_c PMPI_Send_init_c
    PMPI_Bsend_init_c PMPI_Recv_init_c:
        (data: Data, count: i64, datatype: ProgramHandle, to: c_int, tag: c_int, comm: ProgramHandle,
         request: To<ProgramHandle>);
    PMPI_Recv_c:
        (data: Data, count: i64, datatype: ProgramHandle, from: c_int, tag: c_int, comm: ProgramHandle,
         status: To<ProgramStatus>);
    PMPI_Sendrecv:
        (data: Data, count: c_int, datatype: ProgramHandle, to: c_int, tag: c_int, into: Data, room: c_int,
         kind: ProgramHandle, from: c_int, from_tag: c_int, comm: ProgramHandle, status: To<ProgramStatus>);
    PMPI_Isendrecv_c:
        (data: Data, count: i64, datatype: ProgramHandle, to: c_int, tag: c_int, into: Data, room: i64,
         kind: ProgramHandle, from: c_int, from_tag: c_int, comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Isendrecv_replace_c:
        (data: Data, count: i64, datatype: ProgramHandle, to: c_int, tag: c_int, from: c_int,
         from_tag: c_int, comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Iprobe: (from: c_int, tag: c_int, comm: ProgramHandle, flag: To<c_int>, status: To<ProgramStatus>);
    PMPI_Improbe:
        (from: c_int, tag: c_int, comm: ProgramHandle, flag: To<c_int>, message: To<ProgramHandle>,
         status: To<ProgramStatus>);
    PMPI_Imrecv_c:
        (data: Data, count: i64, datatype: ProgramHandle, message: To<ProgramHandle>, request: To<ProgramHandle>);
    PMPI_Mrecv_c:
        (data: Data, count: i64, datatype: ProgramHandle, message: To<ProgramHandle>, status: To<ProgramStatus>);
    PMPI_Psend_init_c PMPI_Precv_init_c:
        (data: Data, partitions: c_int, count: i64, datatype: ProgramHandle, to: c_int, tag: c_int,
         comm: ProgramHandle, info: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Pready: (partition: c_int, request: ProgramHandle);
    PMPI_Pready_range: (low: c_int, high: c_int, request: ProgramHandle);
    PMPI_Parrived: (request: ProgramHandle, partition: c_int, flag: To<c_int>);
    PMPI_Buffer_attach: (buffer: Data, size: c_int);
    PMPI_Buffer_detach: (place: Data, size: To<c_int>);
    PMPI_Comm_attach_buffer: (comm: ProgramHandle, buffer: Data, size: c_int);

    // Requests.
    PMPI_Test: (request: To<ProgramHandle>, flag: To<c_int>, status: To<ProgramStatus>);
    PMPI_Testall: (count: c_int, requests: To<ProgramHandle>, flag: To<c_int>, statuses: To<ProgramStatus>);
    PMPI_Testany PMPI_Testsome:
        (count: c_int, requests: To<ProgramHandle>, index: To<c_int>, flag: To<c_int>, status: To<ProgramStatus>);
    PMPI_Wait: (request: To<ProgramHandle>, status: To<ProgramStatus>);
    PMPI_Request_get_status: (request: ProgramHandle, flag: To<c_int>, status: To<ProgramStatus>);
    PMPI_Request_free PMPI_Cancel PMPI_Start: (request: To<ProgramHandle>);
    PMPI_Startall: (count: c_int, requests: To<ProgramHandle>);
    PMPI_Grequest_start:
        (query: Option<Query>, free: Option<Free>, cancel: Option<Cancel>, extra: Data,
         request: To<ProgramHandle>);
    PMPI_Grequest_complete: (request: ProgramHandle);

    // Collectives.
    PMPI_Bcast_c: (data: Data, count: i64, datatype: ProgramHandle, root: c_int, comm: ProgramHandle);
    PMPI_Ibcast_c:
        (data: Data, count: i64, datatype: ProgramHandle, root: c_int, comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Allreduce_c PMPI_Scan_c PMPI_Reduce_scatter_block_c:
        (data: Data, into: Data, count: i64, datatype: ProgramHandle, op: ProgramHandle, comm: ProgramHandle);
    PMPI_Iallreduce_c PMPI_Iexscan_c:
        (data: Data, into: Data, count: i64, datatype: ProgramHandle, op: ProgramHandle, comm: ProgramHandle,
         request: To<ProgramHandle>);
    PMPI_Allreduce_init_c:
        (data: Data, into: Data, count: i64, datatype: ProgramHandle, op: ProgramHandle, comm: ProgramHandle,
         info: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Reduce_c:
        (data: Data, into: Data, count: i64, datatype: ProgramHandle, op: ProgramHandle, root: c_int,
         comm: ProgramHandle);
    PMPI_Reduce_local_c: (data: Data, into: Data, count: i64, datatype: ProgramHandle, op: ProgramHandle);
    PMPI_Gather_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, room: i64, kind: ProgramHandle, root: c_int,
         comm: ProgramHandle);
    PMPI_Iscatter_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, room: i64, kind: ProgramHandle, root: c_int,
         comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Allgather_c PMPI_Neighbor_allgather_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, room: i64, kind: ProgramHandle,
         comm: ProgramHandle);
    PMPI_Allgather_init_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, room: i64, kind: ProgramHandle,
         comm: ProgramHandle, info: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Ialltoall_c PMPI_Ineighbor_alltoall_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, room: i64, kind: ProgramHandle,
         comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Alltoallw_c:
        (data: Data, lens: To<i64>, starts: To<isize>, of: To<ProgramHandle>, into: Data, rooms: To<i64>,
         ends: To<isize>, kinds: To<ProgramHandle>, comm: ProgramHandle);
    PMPI_Gatherv_c:
        (data: Data, count: i64, datatype: ProgramHandle, into: Data, rooms: To<i64>, starts: To<isize>,
         kind: ProgramHandle, root: c_int, comm: ProgramHandle);
    PMPI_Barrier: (comm: ProgramHandle);
    PMPI_Ibarrier: (comm: ProgramHandle, request: To<ProgramHandle>);
    PMPI_Op_create: (function: Option<Reduction>, commutes: c_int, op: To<ProgramHandle>);
    PMPI_Op_free: (op: To<ProgramHandle>);

    // Datatypes.
    PMPI_Type_contiguous_c: (count: i64, of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_vector_c PMPI_Type_create_hvector_c:
        (count: i64, length: i64, stride: i64, of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_indexed_c:
        (count: i64, lengths: To<i64>, places: To<i64>, of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_create_hindexed_block_c:
        (count: i64, length: i64, places: To<i64>, of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_create_struct_c:
        (count: i64, lengths: To<i64>, places: To<i64>, of: To<ProgramHandle>, made: To<ProgramHandle>);
    PMPI_Type_create_resized_c: (of: ProgramHandle, lower_bound: i64, extent: i64, made: To<ProgramHandle>);
    PMPI_Type_create_subarray_c:
        (dimensions: c_int, sizes: To<i64>, counts: To<i64>, starts: To<i64>, order: c_int,
         of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_create_darray:
        (size: c_int, rank: c_int, dimensions: c_int, sizes: To<c_int>, distributions: To<c_int>,
         arguments: To<c_int>, processes: To<c_int>, order: c_int, of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_dup: (of: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Type_commit PMPI_Type_free: (datatype: To<ProgramHandle>);
    PMPI_Type_size_c: (datatype: ProgramHandle, size: To<i64>);
    PMPI_Type_get_extent_c PMPI_Type_get_true_extent_c:
        (datatype: ProgramHandle, lower_bound: To<i64>, extent: To<i64>);
    PMPI_Type_get_contents_c:
        (datatype: ProgramHandle, integers: i64, addresses: i64, counts: i64, types: i64,
         to_integers: To<c_int>, to_addresses: To<isize>, to_counts: To<i64>, to_types: To<ProgramHandle>);
    PMPI_Get_elements_c: (status: To<ProgramStatus>, datatype: ProgramHandle, count: To<i64>);
    PMPI_Status_set_elements_c: (status: To<ProgramStatus>, datatype: ProgramHandle, count: i64);
    PMPI_Pack_c:
        (data: Data, count: i64, datatype: ProgramHandle, stream: Data, size: i64, position: To<i64>,
         comm: ProgramHandle);
    PMPI_Unpack_c:
        (stream: Data, size: i64, position: To<i64>, data: Data, count: i64, datatype: ProgramHandle,
         comm: ProgramHandle);
    PMPI_Pack_external_c:
        (name: *const c_char, data: Data, count: i64, datatype: ProgramHandle, stream: Data, size: i64,
         position: To<i64>);
    PMPI_Unpack_external_c:
        (name: *const c_char, stream: Data, size: i64, position: To<i64>, data: Data, count: i64,
         datatype: ProgramHandle);
    PMPI_Pack_external_size_c: (name: *const c_char, count: i64, datatype: ProgramHandle, size: To<i64>);

    // Groups and communicators.
    PMPI_Comm_group PMPI_Comm_get_errhandler PMPI_Comm_get_info: (comm: ProgramHandle, group: To<ProgramHandle>);
    PMPI_Group_incl PMPI_Group_range_excl:
        (group: ProgramHandle, count: c_int, ranks: To<c_int>, made: To<ProgramHandle>);
    PMPI_Group_union PMPI_Group_difference PMPI_Comm_dup_with_info PMPI_Comm_create:
        (one: ProgramHandle, other: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Group_translate_ranks:
        (one: ProgramHandle, count: c_int, given: To<c_int>, other: ProgramHandle, found: To<c_int>);
    PMPI_Group_free PMPI_Errhandler_free PMPI_Comm_free: (group: To<ProgramHandle>);
    PMPI_Comm_set_errhandler PMPI_Comm_set_info: (comm: ProgramHandle, handler: ProgramHandle);
    PMPI_Comm_create_errhandler: (function: Option<Hearing>, handler: To<ProgramHandle>);
    PMPI_Comm_create_group: (comm: ProgramHandle, group: ProgramHandle, tag: c_int, made: To<ProgramHandle>);
    PMPI_Comm_split: (comm: ProgramHandle, colour: c_int, key: c_int, made: To<ProgramHandle>);
    PMPI_Comm_split_type: (comm: ProgramHandle, kind: c_int, key: c_int, info: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Intercomm_create:
        (local: ProgramHandle, leader: c_int, peer: ProgramHandle, remote: c_int, tag: c_int, made: To<ProgramHandle>);
    PMPI_Comm_set_name: (comm: ProgramHandle, name: *const c_char);

    // Attributes and hints.
    PMPI_Comm_create_keyval: (copy: usize, delete: usize, key: To<c_int>, extra: Data);
    PMPI_Comm_free_keyval: (key: To<c_int>);
    PMPI_Comm_set_attr PMPI_Type_set_attr: (comm: ProgramHandle, key: c_int, value: Data);
    PMPI_Comm_get_attr: (comm: ProgramHandle, key: c_int, value: Data, flag: To<c_int>);
    PMPI_Comm_delete_attr: (comm: ProgramHandle, key: c_int);
    PMPI_Info_create PMPI_Info_free: (info: To<ProgramHandle>);
    PMPI_Info_dup: (info: ProgramHandle, made: To<ProgramHandle>);
    PMPI_Info_set: (info: ProgramHandle, key: *const c_char, value: *const c_char);
    PMPI_Info_delete: (info: ProgramHandle, key: *const c_char);
    PMPI_Info_get_nthkey: (info: ProgramHandle, number: c_int, key: To<c_char>);
    PMPI_Info_get_string:
        (info: ProgramHandle, key: *const c_char, room: To<c_int>, value: To<c_char>, flag: To<c_int>);

    // Topologies.
    PMPI_Cart_create PMPI_Graph_create:
        (comm: ProgramHandle, count: c_int, dims: To<c_int>, periods: To<c_int>, reorder: c_int,
         made: To<ProgramHandle>);
    PMPI_Cart_coords PMPI_Graph_neighbors:
        (comm: ProgramHandle, rank: c_int, room: c_int, coords: To<c_int>);
    PMPI_Cart_shift:
        (comm: ProgramHandle, direction: c_int, distance: c_int, source: To<c_int>,
         destination: To<c_int>);
    PMPI_Cart_sub: (comm: ProgramHandle, remain: To<c_int>, made: To<ProgramHandle>);
    PMPI_Cart_map:
        (comm: ProgramHandle, count: c_int, dims: To<c_int>, periods: To<c_int>, rank: To<c_int>);
    PMPI_Dims_create: (nodes: c_int, count: c_int, dims: To<c_int>);
    PMPI_Dist_graph_create_adjacent:
        (comm: ProgramHandle, indegree: c_int, sources: To<c_int>, source_weights: To<c_int>,
         outdegree: c_int, destinations: To<c_int>, destination_weights: To<c_int>, info: ProgramHandle,
         reorder: c_int, made: To<ProgramHandle>);
    PMPI_Dist_graph_create:
        (comm: ProgramHandle, count: c_int, sources: To<c_int>, degrees: To<c_int>,
         destinations: To<c_int>, weights: To<c_int>, info: ProgramHandle, reorder: c_int,
         made: To<ProgramHandle>);
    PMPI_Dist_graph_neighbors:
        (comm: ProgramHandle, in_room: c_int, sources: To<c_int>, source_weights: To<c_int>,
         out_room: c_int, destinations: To<c_int>, destination_weights: To<c_int>);
}

pub(super) type Query = extern "C" fn(Data, To<ProgramStatus>) -> c_int;
pub(super) type Free = extern "C" fn(Data) -> c_int;
pub(super) type Cancel = extern "C" fn(Data, c_int) -> c_int;
pub(super) type Reduction = extern "C" fn(Data, Data, To<c_int>, To<ProgramHandle>);
pub(super) type Hearing = extern "C" fn(To<ProgramHandle>, To<c_int>);

pub(super) extern "C" fn query(_: Data, _: To<ProgramStatus>) -> c_int {
    SUCCESS
}

pub(super) extern "C" fn free(_: Data) -> c_int {
    SUCCESS
}

pub(super) extern "C" fn cancel(_: Data, _: c_int) -> c_int {
    SUCCESS
}

pub(super) extern "C" fn reduce(_: Data, _: Data, _: To<c_int>, _: To<ProgramHandle>) {}

pub(super) extern "C" fn hear(_: To<ProgramHandle>, _: To<c_int>) {}
