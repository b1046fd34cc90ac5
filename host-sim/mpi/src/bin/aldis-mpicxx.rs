//! `aldis-mpicxx`: the C++ compiler for programs of MPI over Aldis.

use std::process::ExitCode;

#[path = "../wrapper.rs"]
mod wrapper;

fn main() -> ExitCode {
    wrapper::run("aldis-mpicxx", "ALDIS_MPICXX", "c++")
}
