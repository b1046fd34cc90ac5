//! Writes what follows from the tables in Rust: constants, and a check that each function has the
//! parameters of the table. Tells the linker what to export.

use core::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use aldis_mpi_table::{self as table, Function};

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
    write("checks.rs", functions.iter().map(check_in_rust).collect());
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

fn check_in_rust(function: &Function<'_>) -> String {
    let kinds: Vec<_> = function
        .parameters
        .iter()
        .filter(|text| !text.contains("..."))
        .map(|text| type_in_rust(&type_of(text)))
        .collect();
    let returns = type_in_rust(function.returns);
    format!("const _: unsafe extern \"C\" fn({}) -> {returns} = MPI_{};\n", kinds.join(", "), function.name)
}

/// A parameter's type: arrays are pointers.
fn type_of(parameter: &str) -> String {
    let end = parameter.find('[').unwrap_or(parameter.len());
    let (kind, _) = parameter[..end].rsplit_once(' ').unwrap_or(("...", ""));
    let kind = kind.trim_start_matches("const ").trim();
    if parameter.ends_with(']') { format!("{kind}*") } else { kind.to_owned() }
}
