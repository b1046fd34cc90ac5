//! # aldis-mpi-table: the tables of the C interface, read
//!
//! The functions and constants of MPI 5.0 stand in text beside this crate. The build script of
//! `aldis-mpi` reads them, and `cargo xtask mpi`, which writes `mpi.h`.
#![forbid(unsafe_code)]

/// A function of the interface.
#[derive(Debug)]
pub struct Function<'t> {
    /// Without `MPI_`.
    pub name: &'t str,
    /// The extent of its use, `T0` to `T5`.
    pub tier: &'t str,
    /// The code that carries it out.
    pub state: FunctionState,
    /// In order; a type of C and a name each, `...` for the rest.
    pub parameters: Vec<&'t str>,
    /// A type of C.
    pub returns: &'t str,
}

/// The code that carries a function out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionState {
    /// A function of its own.
    Written,
    /// No code: the function is not supported.
    Unsupported,
}

/// The rows of a table: cells of each line that is no comment.
pub fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// All functions, in the order of the table.
///
/// # Errors
/// Which row is not as the table says.
pub fn functions(text: &str) -> Result<Vec<Function<'_>>, String> {
    rows(text).map(|row| function(&row).ok_or(format!("not a function: {row:?}"))).collect()
}

fn function<'t>(row: &[&'t str]) -> Option<Function<'t>> {
    let state = match *row.get(2)? {
        "+" => FunctionState::Written,
        "." => FunctionState::Unsupported,
        _ => return None,
    };
    let parameters = row.get(3)?.split("; ").filter(|parameter| !parameter.is_empty()).collect();
    Some(Function {
        name: row[0],
        tier: row[1],
        state,
        parameters,
        returns: row.get(4).copied().unwrap_or("int"),
    })
}
