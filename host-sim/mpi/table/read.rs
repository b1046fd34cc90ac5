//! The tables of functions and constants as text, read: for the build script, and for `cargo xtask
//! mpi`, which writes `mpi.h`.

/// A function of the interface.
#[derive(Debug)]
pub(crate) struct Function<'t> {
    /// Without `MPI_`.
    pub(crate) name: &'t str,
    /// The extent of its use, `T0` to `T5`.
    pub(crate) tier: &'t str,
    /// The code that carries it out.
    pub(crate) state: State,
    /// In order; a type of C and a name each, `...` for the rest.
    pub(crate) parameters: Vec<&'t str>,
    /// A type of C.
    pub(crate) returns: &'t str,
}

/// The code that carries a function out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A function of its own.
    Written,
    /// No code: the function is not supported.
    Unsupported,
}

/// The rows of a table: cells of each line that is no comment.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// All functions, in the order of the table.
///
/// # Errors
/// Which row is not as the table says.
pub(crate) fn functions(text: &str) -> Result<Vec<Function<'_>>, String> {
    rows(text).map(|row| function(&row).ok_or(format!("not a function: {row:?}"))).collect()
}

fn function<'t>(row: &[&'t str]) -> Option<Function<'t>> {
    let state = match *row.get(2)? {
        "+" => State::Written,
        "." => State::Unsupported,
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
