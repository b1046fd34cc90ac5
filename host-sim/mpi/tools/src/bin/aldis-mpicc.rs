//! `aldis-mpicc`: the C compiler for programs of MPI over Aldis.

use std::process::ExitCode;

fn main() -> ExitCode {
    aldis_mpi_tools::run("aldis-mpicc", "ALDIS_MPICC", "cc")
}
