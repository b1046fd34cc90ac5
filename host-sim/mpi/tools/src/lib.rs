//! # aldis-mpi-tools: compilers and launcher for programs of MPI
//!
//! The compiler wrappers `aldis-mpicc` and `aldis-mpicxx`: a compiler with the options that
//! programs of MPI need. Beside them stands `aldis-mpiexec`, the launcher in the form of the
//! standard. They link no library of MPI.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use aldis_linux::output;
use aldis_sys::file::canonicalize;
use aldis_sys::process::{Command, current_exe, exec};

/// The folder that this program is installed in: it holds `bin`, `include` and `lib`.
fn prefix() -> Option<PathBuf> {
    let own = canonicalize(current_exe().ok()?).ok()?;
    Some(own.parent()?.parent()?.to_owned())
}

/// Runs the compiler that `variable` names, or `usual`, with what else is given.
///
/// `-show` prints the command instead. Options that link stand last, behind the objects that need
/// them.
pub fn run(name: &str, variable: &str, usual: &str) -> ExitCode {
    let Some(prefix) = prefix() else {
        eprintln!("{name}: cannot tell where it is installed");
        return ExitCode::FAILURE;
    };
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    let shows =
        |word: &OsString| ["-show", "--show", "-compile-info", "-link-info"].iter().any(|show| word == show);
    let only_compiles =
        given.iter().any(|word| ["-c", "-E", "-S", "-M", "-MM"].iter().any(|stop| word == stop));
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let mut words = vec![std::env::var_os(variable).unwrap_or_else(|| usual.into())];
    words.extend(given.iter().filter(|word| !shows(word)).cloned());
    words.push(joined("-I", &include));
    if !only_compiles {
        words.extend([joined("-L", &lib), joined("-Wl,-rpath,", &lib), "-lmpi_abi".into()]);
    }
    if given.iter().any(shows) {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let said = output::print(format_args!("{}\n", words.join(" ")));
        return said.map_or_else(|lost| output::failed(name, &lost), |()| ExitCode::SUCCESS);
    }
    let compiler = words.remove(0);
    let error = exec(Command::new(&compiler).args(words));
    eprintln!("{name}: cannot run {}: {error}; {variable} names another compiler", compiler.display());
    ExitCode::FAILURE
}

fn joined(option: &str, folder: &std::path::Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(folder);
    word
}
