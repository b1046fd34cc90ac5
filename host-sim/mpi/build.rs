//! Writes what follows from the tables in Rust: constants, functions that are not supported yet,
//! those that are made of their variants of large counts, and a check that each function written by
//! hand has the parameters of the table. Tells the linker what to export.

use core::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

#[path = "table/read.rs"]
#[expect(dead_code, reason = "a part of it is for xtask")]
mod table;

use table::{Function, State};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells where the crate is"));
    let read = |name: &str| {
        let path = here.join("table").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(path).expect("a table of the crate")
    };
    let (functions, constants) = (read("functions.txt"), read("constants.txt"));
    let functions = table::functions(&functions).expect("a table of functions");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo tells where to write"));
    let write = |name: &str, text: String| fs::write(out.join(name), text).expect("a file in OUT_DIR");
    write("constants.rs", constants_in_rust(&constants));
    write("functions.rs", functions.iter().filter_map(function_in_rust).collect());
    write("checks.rs", functions.iter().filter_map(check_in_rust).collect());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // The weak names, which rustc does not know of.
    println!("cargo::rerun-if-changed=exports.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", here.join("exports.map").display());
}

fn constants_in_rust(text: &str) -> String {
    let mut rust = String::new();
    for row in table::rows(text) {
        match row[..] {
            ["number", name, value] => writeln!(rust, "pub(crate) const {name}: c_int = {value};"),
            ["typed", name, "-1", _] => writeln!(rust, "pub(crate) const {name}: i64 = -1;"),
            ["typed", name, value, _] => writeln!(rust, "pub(crate) const {name}: usize = {value};"),
            _ => Ok(()),
        }
        .expect("a string has room");
    }
    rust
}

/// A type of C in Rust.
fn type_in_rust(kind: &str) -> String {
    if kind.ends_with("_function*") || kind.ends_with("_function_c*") {
        return "usize".to_owned();
    }
    if let Some(inner) = kind.strip_suffix('*') {
        return format!("Ptr<{}>", type_in_rust(inner));
    }
    match kind.trim_start_matches("const ").trim() {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int".to_owned(),
        "char" => "c_char".to_owned(),
        "double" => "f64".to_owned(),
        "void" => "c_void".to_owned(),
        "MPI_Aint" => "isize".to_owned(),
        "MPI_Count" | "MPI_Offset" => "i64".to_owned(),
        "MPI_Status" => "Status".to_owned(),
        // A handle, or a function.
        _ => "usize".to_owned(),
    }
}

/// A handle that has an error handler, among a function's parameters.
fn judge(function: &Function<'_>) -> String {
    let of_comm = function.parameters.iter().map(|text| parameter(text)).find(|(kind, _)| kind == "MPI_Comm");
    of_comm.map_or("MPI_COMM_SELF".to_owned(), |(_, name)| safe(name))
}

/// A name that is no word of Rust.
fn safe(name: &str) -> String {
    if matches!(name, "type" | "in" | "ref" | "fn") { format!("{name}_") } else { name.to_owned() }
}

fn function_in_rust(function: &Function<'_>) -> Option<String> {
    let fixed: Vec<_> =
        function.parameters.iter().filter(|text| !text.contains("...")).map(|text| parameter(text)).collect();
    let (name, comm) = (function.name, judge(function));
    let is_used = |name: &str| function.state == State::Wrapped || safe(name) == comm;
    let declare = |(kind, name): &(String, &str)| {
        format!("{}{}: {}", if is_used(name) { "" } else { "_" }, safe(name), type_in_rust(kind))
    };
    let declared = fixed.iter().map(declare).collect::<Vec<_>>().join(", ");
    match function.state {
        State::Written => None,
        State::Unsupported => Some(format!(
            "mpi! {{ fn MPI_{name}({declared}) on {comm} => {{ Err(Fault::unsupported())?; }} }}
"
        )),
        State::Wrapped => {
            let given: Vec<_> = fixed
                .iter()
                .map(|(kind, name)| {
                    let is_count = kind == "int" && (name.ends_with("count") || *name == "size");
                    if is_count { format!("i64::from({name})") } else { safe(name) }
                })
                .collect();
            Some(format!("mpi! {{ fn MPI_{name}({declared}) as MPI_{name}_c({}) }}\n", given.join(", ")))
        }
    }
}

fn check_in_rust(function: &Function<'_>) -> Option<String> {
    if function.state == State::Unsupported {
        return None;
    }
    let kinds: Vec<_> = function
        .parameters
        .iter()
        .filter(|text| !text.contains("..."))
        .map(|text| type_in_rust(&parameter(text).0))
        .collect();
    let returns = type_in_rust(function.returns);
    Some(format!(
        "const _: unsafe extern \"C\" fn({}) -> {returns} = MPI_{};\n",
        kinds.join(", "),
        function.name
    ))
}

/// A parameter's type and name: arrays are pointers.
fn parameter(text: &str) -> (String, &str) {
    let array = text.ends_with(']');
    let end = text.find('[').unwrap_or(text.len());
    let (kind, name) = text[..end].rsplit_once(' ').unwrap_or(("...", ""));
    let kind = kind.trim_start_matches("const ").trim();
    (if array { format!("{kind}*") } else { kind.to_owned() }, name)
}
