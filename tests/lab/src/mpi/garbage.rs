//! Calls of the C interface with one argument that is garbage each: written from the table of
//! functions, for `garbage.c`, which says what the names here stand for.

use core::fmt::Write;

use aldis_mpi_table::{Function, FunctionState};

mod numbers;

use numbers::{number, numbers, place_of_number};

/// An argument: the value that makes the call right, and those that make it wrong.
#[derive(Default)]
struct Argument {
    good: String,
    bad: Vec<Bad>,
}

/// A value that is garbage.
struct Bad {
    value: String,
    /// A few words on it.
    what: &'static str,
    /// The error classes with which it may be refused.
    classes: &'static str,
}

impl Argument {
    fn new(good: impl Into<String>) -> Self {
        Self { good: good.into(), bad: Vec::new() }
    }

    fn bad(mut self, value: impl Into<String>, what: &'static str, classes: &'static str) -> Self {
        self.bad.push(Bad { value: value.into(), what, classes });
        self
    }

    /// Refused if it is null.
    fn no_null(self, classes: &'static str) -> Self {
        self.bad("NULL", "null", classes)
    }
}

/// Functions that end the program, that begin it, or that take what cannot be wrong.
const LEFT_OUT: [&str; 8] =
    ["Abort", "Init", "Init_thread", "Finalize", "Pcontrol", "Aint_add", "Aint_diff", "T_finalize"];

/// Returns the calls of the functions, a line each.
pub(super) fn calls(functions: &[Function<'_>]) -> String {
    let mut text = String::new();
    let mut names = Vec::new();
    for function in functions {
        let is_called = function.state != FunctionState::Unsupported && !LEFT_OUT.contains(&function.name);
        if !is_called || function.returns == "double" {
            continue;
        }
        let arguments: Vec<_> =
            function.parameters.iter().map(|parameter| argument(function.name, parameter)).collect();
        let good: Vec<_> = arguments.iter().map(|argument| argument.good.as_str()).collect();
        writeln!(text, "static void try_{}(void) {{", function.name).expect("a string has room");
        let (what, classes) = ("as it is to be", of_good(function.name));
        line(&mut text, function, &TriedCall { what, given: &good, classes });
        for (place, argument) in arguments.iter().enumerate() {
            let name = name_of(function.parameters[place]);
            for Bad { value, what, classes } in &argument.bad {
                let mut given = good.clone();
                given[place] = value;
                let what = &format!("{name}: {what}");
                line(&mut text, function, &TriedCall { what, given: &given, classes });
            }
        }
        text.push_str("}\n");
        names.push(function.name);
    }
    text.push_str("static void try_all(void) {\n");
    for name in names {
        writeln!(text, "    try_{name}();").expect("a string has room");
    }
    text.push_str("}\n");
    text
}

/// A call that is tried: in a word, its arguments, and the classes of errors that it may have.
struct TriedCall<'a> {
    what: &'a str,
    given: &'a [&'a str],
    classes: &'a str,
}

fn line(text: &mut String, function: &Function<'_>, tried: &TriedCall<'_>) {
    let &TriedCall { what, given, classes } = tried;
    let Function { name, returns, .. } = function;
    let call = format!("MPI_{name}({})", given.join(", "));
    let call = match needs(name) {
        Some(need) => format!("({need}(), {call})"),
        None => call,
    };
    let (call, classes) = match *returns {
        "int" if name.ends_with("toint") => (call, "ANY"),
        "int" => (call, classes),
        _ => (format!("({call}, 0)"), "ANY"),
    };
    writeln!(text, "    TRY(\"MPI_{name}\", \"{what}\", {call}, {classes});").expect("a string has room");
}

/// The preparation by `garbage.c` for a call, so that one with right arguments is right.
fn needs(function: &str) -> Option<&'static str> {
    match function.strip_suffix("_c").unwrap_or(function) {
        "Bsend" | "Ibsend" => Some("with_buffer"),
        "Ssend" | "Rsend" | "Issend" | "Irsend" => Some("with_receive"),
        _ => None,
    }
}

/// The result of a call with right arguments.
fn of_good(function: &str) -> &'static str {
    match function {
        // They are for intercommunicators, of which one rank alone has none.
        "Comm_remote_size"
        | "Comm_remote_group"
        | "Intercomm_merge"
        | "Intercomm_create"
        | "Intercomm_create_from_groups" => "REFUSED",
        _ if function.starts_with("T_") => "ANY",
        _ => "MPI_SUCCESS",
    }
}

fn name_of(parameter: &str) -> &str {
    let end = parameter.find('[').unwrap_or(parameter.len());
    parameter[..end].rsplit_once(' ').map_or("", |(_, name)| name)
}

fn argument(function: &str, parameter: &str) -> Argument {
    let name = name_of(parameter);
    let kind = parameter.trim_start_matches("const ");
    let kind = kind.split(' ').next().unwrap_or_default();
    let is_array = parameter.ends_with(']');
    if function.starts_with("T_") {
        return of_tools(kind, name, is_array);
    }
    match kind {
        "MPI_Comm" => communicator(function),
        "MPI_Datatype" if is_array => datatypes(function, name),
        "MPI_Datatype" => datatype(function, name),
        "MPI_Session" => session(function),
        "MPI_Group" => handle("group", "MPI_Group", "MPI_GROUP_NULL", "MPI_ERR_GROUP"),
        "MPI_Op" => operation(function),
        "MPI_Info" => info(function),
        "MPI_Errhandler" => {
            handle("MPI_ERRORS_RETURN", "MPI_Errhandler", "MPI_ERRHANDLER_NULL", "ERR_ERRHANDLER")
        }
        "MPI_Request" if is_array => requests(function),
        "MPI_Request" => request(function),
        "MPI_Message" => handle("message", "MPI_Message", "MPI_MESSAGE_NULL", "MPI_ERR_REQUEST"),
        "MPI_Comm*" | "MPI_Datatype*" | "MPI_Group*" | "MPI_Op*" | "MPI_Info*" | "MPI_Errhandler*"
        | "MPI_Request*" | "MPI_Message*" | "MPI_Session*" => {
            place_of_handle(function, kind.trim_end_matches('*'), name)
        }
        "MPI_Status*" => status(function),
        "int" | "MPI_Count" | "MPI_Aint" if is_array => numbers(function, kind, name),
        "int" | "MPI_Count" | "MPI_Aint" => number(function, kind, name),
        "int*" | "MPI_Count*" | "MPI_Aint*" => place_of_number(function, kind.trim_end_matches('*'), name),
        "char" | "char*" => text(function, name),
        "void*" => memory(function, name),
        _ => called_back(function, kind),
    }
}

/// A handle: null, freed, of another kind, and two that never were any.
fn handle(good: &str, kind: &'static str, null: &str, classes: &'static str) -> Argument {
    Argument::new(good)
        .bad(null, "null", classes)
        .bad(format!("freed_{kind}"), "freed", classes)
        .bad(format!("OTHER({kind})"), "of another kind", classes)
        .bad(format!("RANDOM({kind})"), "random", classes)
        .bad(format!("SMALL({kind})"), "a small number", classes)
}

fn without(mut argument: Argument, what: &str) -> Argument {
    argument.bad.retain(|bad| bad.what != what);
    argument
}

fn communicator(function: &str) -> Argument {
    let is_graph = function.starts_with("Graph_") || function.starts_with("Graphdims");
    let good = match function {
        "Cart_create" | "Cart_map" | "Graph_create" | "Graph_map" => "MPI_COMM_WORLD",
        _ if function.starts_with("Cart") || function.contains("eighbor_") => "cart",
        _ if is_graph => "graph",
        _ if function.starts_with("Dist_graph_neighbors") => "dist",
        "Comm_detach_buffer" | "Comm_detach_buffer_c" => "buffered",
        _ if function.starts_with("Comm_set") || function.starts_with("Comm_attach") => "own",
        "Comm_delete_attr" | "Attr_delete" => "marked",
        _ => "MPI_COMM_WORLD",
    };
    let argument = handle(good, "MPI_Comm", "MPI_COMM_NULL", "MPI_ERR_COMM");
    match good {
        "cart" => argument.bad("MPI_COMM_WORLD", "of another topology", "MPI_ERR_TOPOLOGY, MPI_ERR_COMM"),
        "graph" | "dist" => argument.bad("cart", "of another topology", "MPI_ERR_TOPOLOGY, MPI_ERR_COMM"),
        _ if function == "Comm_get_name" => without(argument, "null"),
        _ => argument,
    }
}

fn session(function: &str) -> Argument {
    let good = match function {
        _ if function.starts_with("Session_detach") => "buffered_session",
        _ if function.starts_with("Session_attach") || function.starts_with("Session_set") => "own_session",
        _ => "session",
    };
    handle(good, "MPI_Session", "MPI_SESSION_NULL", "MPI_ERR_SESSION")
}

/// Functions that move data, for which a datatype is to be committed.
fn moves(function: &str) -> bool {
    let others = ["Type_", "Get_", "Status_", "Pack_size", "Pack_external_size"];
    !others.iter().any(|other| function.starts_with(other))
}

fn datatype(function: &str, name: &str) -> Argument {
    let good = match function {
        "Type_get_contents" | "Type_get_envelope" => "vector",
        "Type_get_contents_c" | "Type_get_envelope_c" => "vector",
        "Type_delete_attr" => "marked_type",
        "Type_get_value_index" if name == "value_type" => "MPI_DOUBLE",
        _ => "MPI_INT",
    };
    let argument = handle(good, "MPI_Datatype", "MPI_DATATYPE_NULL", "MPI_ERR_TYPE");
    match function {
        "Type_get_name" => without(argument, "null"),
        "Type_get_contents" | "Type_get_contents_c" => argument.bad("MPI_INT", "predefined", "MPI_ERR_TYPE"),
        _ if moves(function) => argument.bad("uncommitted", "not committed", "MPI_ERR_TYPE"),
        _ => argument,
    }
}

fn datatypes(function: &str, name: &str) -> Argument {
    if name == "array_of_datatypes" {
        return Argument::new("some_types").no_null("MPI_ERR_ARG");
    }
    let argument = Argument::new("ints")
        .no_null("MPI_ERR_ARG, MPI_ERR_TYPE")
        .bad("(MPI_Datatype[]){MPI_DATATYPE_NULL}", "null handles", "MPI_ERR_TYPE")
        .bad("(MPI_Datatype[]){freed_MPI_Datatype}", "freed", "MPI_ERR_TYPE")
        .bad("(MPI_Datatype[]){OTHER(MPI_Datatype)}", "of another kind", "MPI_ERR_TYPE")
        .bad("(MPI_Datatype[]){RANDOM(MPI_Datatype)}", "random", "MPI_ERR_TYPE");
    if moves(function) {
        return argument.bad("(MPI_Datatype[]){uncommitted}", "not committed", "MPI_ERR_TYPE");
    }
    argument
}

fn operation(function: &str) -> Argument {
    let argument = handle("MPI_SUM", "MPI_Op", "MPI_OP_NULL", "MPI_ERR_OP");
    if function.starts_with("Op_") {
        return argument;
    }
    argument.bad("MPI_MAXLOC", "not for the datatype", "MPI_ERR_OP")
}

fn info(function: &str) -> Argument {
    let (good, classes) = ("MPI_INFO_NULL", "MPI_ERR_INFO");
    if function.starts_with("Info_") || function == "Abi_set_fortran_info" {
        return handle("info", "MPI_Info", good, classes);
    }
    without(handle(good, "MPI_Info", good, classes), "null")
}

fn request(function: &str) -> Argument {
    let classes = "MPI_ERR_REQUEST";
    let good = match function {
        "Grequest_complete" => "general",
        "Parrived" => "arriving",
        _ if function.starts_with("Pready") => "leaving",
        _ => "MPI_REQUEST_NULL",
    };
    let argument = handle(good, "MPI_Request", "MPI_REQUEST_NULL", classes);
    // A null request awaits nothing, which is no error of what asks whether it is there.
    let argument = if good == "leaving" || good == "general" { argument } else { without(argument, "null") };
    match good {
        "MPI_REQUEST_NULL" => argument,
        _ => argument.bad("persistent", "of another operation", "MPI_ERR_REQUEST, MPI_ERR_ARG"),
    }
}

fn requests(function: &str) -> Argument {
    let of = |value: &str| format!("(MPI_Request[]){{{value}}}");
    let classes = "MPI_ERR_REQUEST";
    let good = if function == "Startall" { "persistent" } else { "MPI_REQUEST_NULL" };
    let argument = Argument::new(of(good))
        .no_null("MPI_ERR_ARG, MPI_ERR_REQUEST")
        .bad(of("freed_MPI_Request"), "freed", classes)
        .bad(of("OTHER(MPI_Request)"), "of another kind", classes)
        .bad(of("RANDOM(MPI_Request)"), "random", classes);
    match function {
        "Startall" => argument.bad(of("MPI_REQUEST_NULL"), "null handles", classes),
        _ => argument,
    }
}

/// The address of a handle.
fn place_of_handle(function: &str, kind: &str, name: &str) -> Argument {
    let into = Argument::new(format!("&new_{kind}")).no_null("MPI_ERR_ARG");
    let (good, null, classes) = match (function, name) {
        ("Comm_free" | "Comm_disconnect", _) => ("own", "MPI_COMM_NULL", "MPI_ERR_COMM"),
        ("Type_free" | "Type_commit", _) => ("own_type", "MPI_DATATYPE_NULL", "MPI_ERR_TYPE"),
        ("Session_finalize", _) => ("own_session", "MPI_SESSION_NULL", "MPI_ERR_SESSION"),
        ("Group_free", _) => ("own_group", "MPI_GROUP_NULL", "MPI_ERR_GROUP"),
        ("Op_free", _) => ("own_op", "MPI_OP_NULL", "MPI_ERR_OP"),
        ("Info_free", _) => ("own_info", "MPI_INFO_NULL", "MPI_ERR_INFO"),
        ("Errhandler_free", _) => ("own_handler", "MPI_ERRHANDLER_NULL", "ERR_ERRHANDLER"),
        ("Mrecv" | "Mrecv_c" | "Imrecv" | "Imrecv_c", "message") => {
            ("message", "MPI_MESSAGE_NULL", "MPI_ERR_REQUEST")
        }
        ("Cancel", _) => ("receiving", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
        ("Request_free", _) => ("own_request", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
        ("Start", _) => ("persistent", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
        ("Test" | "Wait", _) => ("no_request", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
        _ => return into,
    };
    let of = |value: String| format!("&({kind}){{{value}}}");
    let argument = Argument::new(format!("&{good}"))
        .no_null("MPI_ERR_ARG, MPI_ERR_REQUEST")
        .bad(of(null.into()), "a null handle", classes)
        .bad(of(format!("freed_{kind}")), "freed", classes)
        .bad(of(format!("OTHER({kind})")), "of another kind", classes)
        .bad(of(format!("RANDOM({kind})")), "random", classes)
        .bad(of(format!("SMALL({kind})")), "a small number", classes);
    match function {
        "Comm_free" | "Comm_disconnect" => {
            argument.bad(of("MPI_COMM_WORLD".into()), "of the library", "MPI_ERR_COMM")
        }
        "Type_free" => argument.bad(of("MPI_INT".into()), "of the library", "MPI_ERR_TYPE"),
        "Op_free" => argument.bad(of("MPI_SUM".into()), "of the library", "MPI_ERR_OP"),
        "Start" => argument.bad("&receiving", "not persistent", "MPI_ERR_REQUEST"),
        "Test" | "Wait" => without(argument, "a null handle"),
        _ => argument,
    }
}

fn status(function: &str) -> Argument {
    let is_read =
        function.starts_with("Get_") || function.starts_with("Status_") || function == "Test_cancelled";
    match (is_read, function) {
        (true, _) => Argument::new("&status").bad("MPI_STATUS_IGNORE", "ignored", "MPI_ERR_ARG"),
        (false, "Mrecv" | "Mrecv_c" | "Recv" | "Recv_c") => Argument::new("MPI_STATUS_IGNORE"),
        (false, _) => Argument::new("statuses"),
    }
}

fn text(function: &str, name: &str) -> Argument {
    match (function, name) {
        (_, "datarep") => Argument::new("\"external32\"")
            .no_null("MPI_ERR_ARG, MPI_ERR_UNSUPPORTED_DATAREP")
            .bad("\"none\"", "none that there is", "MPI_ERR_ARG, MPI_ERR_UNSUPPORTED_DATAREP"),
        ("Info_get_nthkey", "key") => Argument::new("room").no_null("MPI_ERR_ARG, MPI_ERR_INFO_KEY"),
        (_, "key") => {
            let argument = Argument::new("\"key\"")
                .no_null("MPI_ERR_ARG, MPI_ERR_INFO_KEY")
                .bad("\"\"", "empty", "MPI_ERR_INFO_KEY")
                .bad("long_text", "too long", "MPI_ERR_INFO_KEY");
            match function {
                "Info_delete" => argument.bad("\"other\"", "none that there is", "MPI_ERR_INFO_NOKEY"),
                _ => argument,
            }
        }
        ("Info_set", "value") => Argument::new("\"value\"").no_null("MPI_ERR_ARG, MPI_ERR_INFO_VALUE").bad(
            "long_text",
            "too long",
            "MPI_ERR_INFO_VALUE",
        ),
        (_, "value" | "name" | "string" | "version") if function != "Add_error_string" => {
            Argument::new("room").no_null("MPI_ERR_ARG, MPI_ERR_INFO_VALUE")
        }
        ("Comm_get_name" | "Type_get_name", _) => Argument::new("room").no_null("MPI_ERR_ARG"),
        ("Session_get_nth_pset", _) => Argument::new("room").no_null("MPI_ERR_ARG"),
        (_, "pset_name") => Argument::new("\"mpi://SELF\"").no_null("MPI_ERR_ARG").bad(
            "\"text\"",
            "none that there is",
            "MPI_ERR_ARG",
        ),
        ("Info_create_env", _) => Argument::new("NULL"),
        _ => Argument::new("\"text\"").no_null("MPI_ERR_ARG"),
    }
}

fn memory(function: &str, name: &str) -> Argument {
    let buffer = |good: &str| Argument::new(good).no_null("MPI_ERR_BUFFER");
    match (function, name) {
        (_, "attribute_val") if function.contains("get") => Argument::new("&pointer").no_null("MPI_ERR_ARG"),
        (_, "attribute_val" | "extra_state" | "location" | "base") => Argument::new("NULL"),
        // The first rank of an exclusive scan has no result.
        (_, "recvbuf") if function.contains("xscan") => Argument::new("out").no_null("ANY"),
        (_, "baseptr" | "buffer_addr") => Argument::new("&pointer").no_null("MPI_ERR_ARG, MPI_ERR_BUFFER"),
        _ if function.contains("ttach") => buffer("own_buffer"),
        (_, "inbuf") if function.starts_with("Unpack") => buffer("packed"),
        (_, "outbuf") if function.starts_with("Pack") => buffer("room"),
        ("Abi_set_fortran_booleans", "logical_true") => buffer("&(int){1}"),
        ("Abi_set_fortran_booleans", "logical_false") => buffer("&(int){0}"),
        (_, "sendbuf" | "inbuf") => buffer("in"),
        (_, "buf") if function.contains("end") => buffer("in"),
        _ => buffer("out"),
    }
}

fn called_back(function: &str, kind: &str) -> Argument {
    match kind {
        "MPI_User_function*" | "MPI_User_function_c*" => {
            Argument::new(if function.ends_with("_c") { "add_c" } else { "add" })
                .no_null("MPI_ERR_ARG, MPI_ERR_OP")
        }
        "MPI_Session_errhandler_function*" => Argument::new("hear_session").no_null("MPI_ERR_ARG"),
        "MPI_Comm_errhandler_function*" => Argument::new("hear").no_null("MPI_ERR_ARG"),
        "MPI_Comm_copy_attr_function*" => Argument::new("MPI_COMM_NULL_COPY_FN"),
        "MPI_Comm_delete_attr_function*" => Argument::new("MPI_COMM_NULL_DELETE_FN"),
        "MPI_Type_copy_attr_function*" => Argument::new("MPI_TYPE_NULL_COPY_FN"),
        "MPI_Type_delete_attr_function*" => Argument::new("MPI_TYPE_NULL_DELETE_FN"),
        "MPI_Copy_function*" => Argument::new("MPI_NULL_COPY_FN"),
        "MPI_Delete_function*" => Argument::new("MPI_NULL_DELETE_FN"),
        "MPI_Grequest_query_function*" => Argument::new("query"),
        "MPI_Grequest_free_function*" => Argument::new("let_go"),
        "MPI_Grequest_cancel_function*" => Argument::new("cancel"),
        _ => Argument::new("NULL"),
    }
}

/// Arguments of the interface of tools, whose functions refuse with codes of their own.
fn of_tools(kind: &str, name: &str, is_array: bool) -> Argument {
    match kind {
        "int" if !is_array => {
            Argument::new("0").bad("-1", "negative", "ANY").bad("INT_MAX", "the largest", "ANY")
        }
        "char*" if name == "name" => Argument::new("room").no_null("ANY"),
        _ if kind.ends_with('*') || kind.ends_with("_function") || is_array => Argument::new("NULL"),
        _ => Argument::new(format!("AS({kind}, 0)")).bad(format!("AS({kind}, BITS)"), "random", "ANY"),
    }
}
