//! Numbers as arguments, by their names: right ones, and garbage.

use super::{Argument, moves};

/// A number by its name.
pub(super) fn number(function: &str, kind: &str, name: &str) -> Argument {
    let counted = |good: &str| Argument::new(good).bad("-1", "negative", "MPI_ERR_COUNT");
    let huge = "(MPI_Count)1 << 62";
    match name {
        "dest" | "source" if !function.starts_with("Status_") => {
            let argument = Argument::new("0")
                .bad("-77", "negative", "MPI_ERR_RANK")
                .bad("1", "beyond the last", "MPI_ERR_RANK")
                .bad("INT_MAX", "the largest", "MPI_ERR_RANK");
            match name {
                "dest" => argument.bad("MPI_ANY_SOURCE", "any", "MPI_ERR_RANK"),
                _ => argument,
            }
        }
        "root" => Argument::new("0")
            .bad("-77", "negative", "MPI_ERR_ROOT")
            .bad("1", "beyond the last", "MPI_ERR_ROOT")
            .bad("MPI_PROC_NULL", "none", "MPI_ERR_ROOT")
            .bad("INT_MIN", "the smallest", "MPI_ERR_ROOT"),
        "tag" | "sendtag" | "recvtag" if !function.starts_with("Status_") => {
            let argument = Argument::new("5").bad("-77", "negative", "MPI_ERR_TAG");
            let receives = name == "recvtag" || function.contains("ecv") || function.contains("robe");
            if receives && !function.starts_with("Precv") {
                argument
            } else {
                argument.bad("MPI_ANY_TAG", "any", "MPI_ERR_TAG")
            }
        }
        "count" | "sendcount" | "recvcount" | "incount" | "outcount" => {
            let argument = counted("1");
            let moves_data =
                kind == "MPI_Count" && (moves(function) || function.starts_with("Type_contiguous"));
            match moves_data {
                true => argument.bad(
                    huge,
                    "huge",
                    "MPI_ERR_COUNT, MPI_ERR_ARG, MPI_ERR_TYPE, MPI_ERR_NO_MEM, MPI_ERR_BUFFER",
                ),
                false => argument,
            }
        }
        "blocklength" => Argument::new("1").bad("-1", "negative", "MPI_ERR_COUNT, MPI_ERR_ARG"),
        "partitions" => Argument::new("1").bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_COUNT").bad(
            "INT_MIN",
            "the smallest",
            "MPI_ERR_ARG, MPI_ERR_COUNT",
        ),
        "partition" => Argument::new("0")
            .bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_RANK")
            .bad("1", "beyond the last", "MPI_ERR_ARG, MPI_ERR_RANK")
            .bad("INT_MAX", "the largest", "MPI_ERR_ARG, MPI_ERR_RANK"),
        "partition_low" => Argument::new("0").bad("-1", "negative", "MPI_ERR_ARG"),
        "partition_high" => Argument::new("0").bad("-1", "negative", "MPI_ERR_ARG").bad(
            "INT_MAX",
            "the largest",
            "MPI_ERR_ARG",
        ),
        "length" => Argument::new("1").bad("-1", "negative", "MPI_ERR_COUNT, MPI_ERR_ARG"),
        _ => number_of_topologies(function, kind, name),
    }
}

/// Returns the values of numbers that are about topologies and groups.
fn number_of_topologies(function: &str, kind: &str, name: &str) -> Argument {
    let refused = "MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_COUNT";
    let is_darray = function.starts_with("Type_create_darray");
    match (function, name) {
        ("Dims_create", "nnodes") => {
            Argument::new("1").bad("-1", "negative", refused).bad("0", "zero", refused)
        }
        (
            _,
            "ndims" | "maxdims" | "maxindex" | "maxedges" | "maxneighbors" | "maxindegree" | "maxoutdegree",
        ) => Argument::new("1").bad("-1", "negative", refused),
        (_, "direction") => within(refused),
        (_, "rank") if is_darray => within("MPI_ERR_ARG, MPI_ERR_RANK"),
        (_, "rank" | "local_leader" | "remote_leader") => within("MPI_ERR_RANK"),
        ("Graph_create" | "Graph_map", "nnodes") => Argument::new("1")
            .bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_TOPOLOGY")
            .bad("2", "more than ranks", "MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_COMM"),
        ("Session_get_nth_pset", "n") => Argument::new("0").bad("-1", "negative", "MPI_ERR_ARG").bad(
            "99",
            "beyond the last",
            "MPI_ERR_ARG",
        ),
        ("Info_get_nthkey", "n") => Argument::new("0")
            .bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_INFO_NOKEY")
            .bad("99", "beyond the last", "MPI_ERR_ARG, MPI_ERR_INFO_NOKEY"),
        (_, "n" | "indegree" | "outdegree") => {
            Argument::new("1").bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_COUNT")
        }
        (_, "logical_size") => Argument::new("4").bad("3", "of no logical", "MPI_ERR_ARG"),
        (_, "color") => Argument::new("0").bad("-77", "negative", "MPI_ERR_ARG"),
        (_, "split_type") => {
            Argument::new("MPI_COMM_TYPE_SHARED").bad("-77", "none that there is", "MPI_ERR_ARG")
        }
        _ => number_of_objects(function, kind, name),
    }
}

/// A number of which zero is the only one.
fn within(classes: &'static str) -> Argument {
    Argument::new("0").bad("-77", "negative", classes).bad("1", "beyond the last", classes)
}

/// Returns the values of numbers that are about datatypes, memory and attributes.
fn number_of_objects(function: &str, kind: &str, name: &str) -> Argument {
    let of_size = "MPI_ERR_ARG, MPI_ERR_SIZE, MPI_ERR_DIMS";
    let of_memory = "MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_NO_MEM, MPI_ERR_SIZE, MPI_ERR_COUNT";
    match (function, name) {
        ("Type_match_size", "size") => {
            Argument::new("4").bad("-1", "negative", of_size).bad("3", "none that there is", of_size)
        }
        ("Type_match_size", "typeclass") => {
            Argument::new("MPI_TYPECLASS_INTEGER").bad("-77", "none that there is", "MPI_ERR_ARG")
        }
        ("Alloc_mem", _) => Argument::new("64").bad("-1", "negative", of_memory),
        (_, "size") if function.contains("ttach") => Argument::new("1024").bad("-1", "negative", of_memory),
        (_, "size") => {
            Argument::new("1").bad("-1", "negative", of_size).bad("2", "not that of the grid", of_size)
        }
        (_, "order") => Argument::new("MPI_ORDER_C").bad("-77", "none that there is", "MPI_ERR_ARG"),
        (_, "p" | "r") => Argument::new("5").bad("99999", "more than there is", "MPI_ERR_ARG"),
        (_, "insize" | "outsize") => Argument::new("512")
            .bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_COUNT")
            .bad("0", "too short", "MPI_ERR_ARG, MPI_ERR_TRUNCATE, MPI_ERR_OTHER"),
        (_, "max_integers" | "max_addresses" | "max_large_counts" | "max_datatypes") => {
            Argument::new("8").bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_COUNT")
        }
        (_, "extent") => Argument::new("8").bad("-8", "negative", "ANY"),
        (_, "stride" | "lb" | "disp") => {
            let most = if kind == "int" { "INT_MAX" } else { "LONG_MAX" };
            Argument::new("0").bad(most, "the largest", "ANY")
        }
        (_, "valuelen") => Argument::new("32").bad("-1", "negative", "MPI_ERR_ARG, MPI_ERR_INFO_VALUE"),
        (_, "comm_keyval" | "type_keyval" | "keyval") => keyval(function),
        (_, "errorclass" | "errorcode") => error(function),
        (_, "argc") => Argument::new("0"),
        _ => Argument::new("0").bad("-77", "negative", "ANY").bad("INT_MAX", "the largest", "ANY"),
    }
}

/// An error class or code: that of the library is not to be changed.
fn error(function: &str) -> Argument {
    let (good, is_changed) = match function {
        "Add_error_string" | "Remove_error_string" | "Remove_error_code" => ("added_code", true),
        "Remove_error_class" => ("added_class", true),
        _ => ("MPI_ERR_OTHER", false),
    };
    let classes = if is_changed || function == "Add_error_code" { "MPI_ERR_ARG" } else { "ANY" };
    let argument =
        Argument::new(good).bad("-1", "negative", classes).bad("INT_MAX", "none that there is", classes);
    if is_changed { argument.bad("MPI_ERR_OTHER", "of the library", classes) } else { argument }
}

fn keyval(function: &str) -> Argument {
    let (good, other) =
        if function.starts_with("Type_") { ("type_key", "comm_key") } else { ("comm_key", "type_key") };
    let argument = Argument::new(good)
        .bad("MPI_KEYVAL_INVALID", "none", "MPI_ERR_KEYVAL")
        .bad("12345678", "random", "MPI_ERR_KEYVAL")
        .bad("INT_MIN", "the smallest", "MPI_ERR_KEYVAL")
        .bad(other, "of other objects", "MPI_ERR_KEYVAL");
    let argument = if function.contains("set") || function.contains("put") {
        argument.bad("freed_key", "freed", "MPI_ERR_KEYVAL")
    } else {
        argument
    };
    let is_changed = ["set", "put", "delete"].iter().any(|word| function.contains(word));
    match (is_changed, good) {
        (true, "comm_key") => argument.bad("MPI_TAG_UB", "of the library", "MPI_ERR_KEYVAL, MPI_ERR_ARG"),
        _ => argument,
    }
}

/// A list of numbers by its name.
pub(super) fn numbers(function: &str, kind: &str, name: &str) -> Argument {
    let of = |value: &str| format!("({kind}[]){{{value}, {value}, {value}}}");
    let plain = |good: &str| {
        Argument::new(of(good)).no_null("MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_COUNT, MPI_ERR_TOPOLOGY")
    };
    match name {
        "recvcounts" | "sendcounts" => Argument::new(of("1")).no_null("MPI_ERR_ARG, MPI_ERR_COUNT").bad(
            of("-1"),
            "negative",
            "MPI_ERR_COUNT",
        ),
        "displs" | "sdispls" | "rdispls" => Argument::new(of("0")).no_null("MPI_ERR_ARG"),
        "array_of_blocklengths" => Argument::new(of("1")).no_null("MPI_ERR_ARG").bad(
            of("-1"),
            "negative",
            "MPI_ERR_ARG, MPI_ERR_COUNT",
        ),
        "array_of_displacements" => Argument::new(of("0")).no_null("MPI_ERR_ARG").bad(
            of(if kind == "int" { "INT_MAX" } else { "LONG_MAX" }),
            "the largest",
            "ANY",
        ),
        "dims" if function == "Dims_create" => Argument::new("zeroes")
            .no_null("MPI_ERR_ARG, MPI_ERR_DIMS")
            .bad(of("-1"), "negative", "MPI_ERR_DIMS, MPI_ERR_ARG")
            .bad(of("2"), "not a divisor", "MPI_ERR_DIMS, MPI_ERR_ARG"),
        "dims" if function == "Cart_get" => Argument::new("numbers").no_null("MPI_ERR_ARG"),
        "dims" => plain("1")
            .bad(of("2"), "more than ranks", "MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_COMM")
            .bad(of("-1"), "negative", "MPI_ERR_DIMS, MPI_ERR_ARG"),
        "coords" if function == "Cart_rank" => plain("0").bad(of("7"), "outside", "ANY"),
        "ranks" | "ranks1" => Argument::new(of("0"))
            .no_null("MPI_ERR_ARG")
            .bad(of("-77"), "negative", "MPI_ERR_RANK")
            .bad(of("7"), "beyond the last", "MPI_ERR_RANK"),
        "ranges" => Argument::new("(int[][3]){{0, 0, 1}}")
            .no_null("MPI_ERR_ARG")
            .bad("(int[][3]){{0, 0, 0}}", "a stride of zero", "MPI_ERR_ARG")
            .bad("(int[][3]){{0, 7, 1}}", "beyond the last", "MPI_ERR_RANK, MPI_ERR_ARG")
            .bad("(int[][3]){{-7, 0, 1}}", "negative", "MPI_ERR_RANK, MPI_ERR_ARG"),
        "indx" if function == "Graph_create" || function == "Graph_map" => {
            plain("1").bad(of("-1"), "negative", "MPI_ERR_ARG, MPI_ERR_TOPOLOGY")
        }
        "edges" if function != "Graph_get" => plain("0")
            .bad(of("7"), "beyond the last", "MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_RANK")
            .bad(of("-1"), "negative", "MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_RANK"),
        "sources" | "destinations" if function.starts_with("Dist_graph_create") => plain("0")
            .bad(of("7"), "beyond the last", "MPI_ERR_ARG, MPI_ERR_RANK")
            .bad(of("-77"), "negative", "MPI_ERR_ARG, MPI_ERR_RANK"),
        "degrees" => plain("1").bad(of("-1"), "negative", "MPI_ERR_ARG, MPI_ERR_COUNT"),
        "array_of_partitions" => Argument::new(of("0"))
            .no_null("MPI_ERR_ARG")
            .bad(of("-1"), "negative", "MPI_ERR_ARG")
            .bad(of("7"), "beyond the last", "MPI_ERR_ARG"),
        _ => numbers_of_arrays(kind, name),
    }
}

/// Returns the values of arrays that datatypes are parts of.
fn numbers_of_arrays(kind: &str, name: &str) -> Argument {
    let of = |value: &str| format!("({kind}[]){{{value}, {value}, {value}}}");
    let refused = "MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_SIZE, MPI_ERR_COUNT";
    let plain = |good: &str| Argument::new(of(good)).no_null("MPI_ERR_ARG");
    match name {
        "array_of_sizes" => plain("2").bad(of("-1"), "negative", refused).bad(of("0"), "zero", refused),
        "array_of_subsizes" => {
            plain("1").bad(of("-1"), "negative", refused).bad(of("7"), "too many", refused)
        }
        "array_of_starts" => plain("0").bad(of("-1"), "negative", refused).bad(of("7"), "too far", refused),
        "array_of_gsizes" => plain("2").bad(of("-1"), "negative", refused),
        "array_of_distribs" => {
            plain("MPI_DISTRIBUTE_BLOCK").bad(of("-77"), "none that there is", "MPI_ERR_ARG")
        }
        "array_of_dargs" => plain("MPI_DISTRIBUTE_DFLT_DARG").bad(of("-77"), "negative", refused).bad(
            of("0"),
            "zero",
            refused,
        ),
        "array_of_psizes" => plain("1").bad(of("-1"), "negative", refused).bad(of("0"), "zero", refused),
        "remain_dims" | "periods" if kind == "int" => plain("1"),
        "ranks2" | "array_of_indices" | "array_of_integers" | "coords" | "neighbors" | "sources"
        | "destinations" | "indx" | "edges" => Argument::new("numbers").no_null("MPI_ERR_ARG"),
        "array_of_addresses" => Argument::new("addresses"),
        "array_of_large_counts" => Argument::new("counts"),
        _ => plain("1"),
    }
}

/// The address of a number.
pub(super) fn place_of_number(function: &str, kind: &str, name: &str) -> Argument {
    let null = "MPI_ERR_ARG";
    match (function, name) {
        ("Init" | "Init_thread", _) => Argument::new("NULL"),
        ("Comm_free_keyval" | "Keyval_free", _) => Argument::new("&own_comm_key")
            .no_null("MPI_ERR_ARG, MPI_ERR_KEYVAL")
            .bad("&(int){MPI_KEYVAL_INVALID}", "none", "MPI_ERR_KEYVAL, MPI_ERR_ARG")
            .bad("&(int){12345678}", "random", "MPI_ERR_KEYVAL")
            .bad("&(int){type_key}", "of other objects", "MPI_ERR_KEYVAL")
            .bad("&(int){freed_key}", "freed", "MPI_ERR_KEYVAL")
            .bad("&(int){MPI_TAG_UB}", "of the library", "MPI_ERR_KEYVAL, MPI_ERR_ARG"),
        ("Type_free_keyval", _) => Argument::new("&own_type_key")
            .no_null("MPI_ERR_ARG, MPI_ERR_KEYVAL")
            .bad("&(int){MPI_KEYVAL_INVALID}", "none", "MPI_ERR_KEYVAL, MPI_ERR_ARG")
            .bad("&(int){12345678}", "random", "MPI_ERR_KEYVAL")
            .bad("&(int){comm_key}", "of other objects", "MPI_ERR_KEYVAL"),
        (_, "position") => Argument::new(format!("&({kind}){{0}}"))
            .no_null(null)
            .bad(format!("&({kind}){{-1}}"), "negative", null)
            .bad(format!("&({kind}){{513}}"), "beyond the end", null),
        (_, "weights" | "sourceweights" | "destweights") if function.contains("create") => {
            Argument::new("MPI_UNWEIGHTED").bad("(int[]){-1}", "negative", null)
        }
        (_, "sourceweights" | "destweights") => Argument::new("numbers"),
        ("Session_get_nth_pset", "pset_len") => Argument::new("&(int){32}").no_null(null),
        ("Info_get_string", "buflen") => Argument::new("&(int){32}").no_null(null),
        _ => Argument::new(match kind {
            "int" => "&number",
            "MPI_Count" => "&count",
            _ => "&address",
        })
        .no_null("MPI_ERR_ARG, MPI_ERR_TYPE, MPI_ERR_DIMS, MPI_ERR_RANK"),
    }
}
