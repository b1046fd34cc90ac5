//! The library exports every function by both of its names, the first of them weak, and nothing
//! else.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use object::{Object, ObjectSymbol};

/// The library that was built with this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libmpi_abi.so")
}

/// Functions that MPI 3.0 removed, which programs call all the same.
const REMOVED: [&str; 10] = [
    "Address",
    "Errhandler_create",
    "Errhandler_get",
    "Errhandler_set",
    "Type_extent",
    "Type_hindexed",
    "Type_hvector",
    "Type_lb",
    "Type_struct",
    "Type_ub",
];

#[test]
fn every_function_is_exported_by_both_names() {
    let table = include_str!("../table/functions.txt");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let mut names: Vec<&str> = rows.filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names.len(), 664);
    names.extend(REMOVED);
    let bytes = fs::read(library()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let exported = |is_weak: bool| {
        let symbols = file
            .dynamic_symbols()
            .filter(move |symbol| symbol.is_definition() && symbol.is_weak() == is_weak);
        symbols.map(|symbol| symbol.name().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(exported(true), names.iter().map(|name| format!("MPI_{name}")).collect());
    assert_eq!(exported(false), names.iter().map(|name| format!("PMPI_{name}")).collect());
}

#[test]
fn what_the_table_calls_unsupported_is_written_as_such_and_nothing_else() {
    let table = include_str!("../table/functions.txt");
    let rows = table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t'));
    let unsupported = rows.filter_map(|mut row| {
        let name = row.next()?;
        (row.nth(1) == Some(".")).then_some(name)
    });
    let source = include_str!("../src/calls/unsupported.rs");
    let written = source.split("fn MPI_").skip(1).filter_map(|rest| rest.split('(').next());
    assert_eq!(written.collect::<BTreeSet<_>>(), unsupported.collect::<BTreeSet<_>>());
}
