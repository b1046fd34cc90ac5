//! `mpi.h`, written from the tables.

use core::fmt::Write;
use std::fs;

use anyhow::{Result, anyhow};

use super::{folder, put};
use aldis_mpi_table::{Function, functions, rows};

/// The text in front of the constants.
const HEAD: &str = "\
/* The C interface of MPI 5.0 with its standard binary interface, for Aldis.
 * Written by `cargo xtask mpi generate` from host-sim/mpi/table; do not edit. */
#ifndef ALDIS_MPI_H
#define ALDIS_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;
";

/// The types whose conversions stand behind the functions: handles as integers of Fortran.
const CONVERSIONS: [&str; 9] =
    ["Comm", "Group", "Type", "Op", "Request", "Errhandler", "Info", "Message", "File"];

/// Writes the header, or checks it.
pub(super) fn write(check: bool) -> Result<()> {
    let read = |name: &str| fs::read_to_string(folder().join("table").join(name));
    let (constants, listed) = (read("constants.txt")?, read("functions.txt")?);
    let mut text = String::from(HEAD);
    constants_in_c(&mut text, &constants)?;
    text.push('\n');
    let functions = functions(&listed).map_err(|error| anyhow!(error))?;
    for prefix in ["MPI_", "PMPI_"] {
        for function in &functions {
            writeln!(text, "{};", declaration(prefix, function))?;
        }
        text.push('\n');
    }
    for name in CONVERSIONS {
        let kind = if name == "Type" { "Datatype" } else { name };
        writeln!(
            text,
            "static inline MPI_Fint MPI_{name}_c2f(MPI_{kind} handle) {{ return MPI_{name}_toint(handle); }}"
        )?;
        writeln!(
            text,
            "static inline MPI_{kind} MPI_{name}_f2c(MPI_Fint handle) {{ return MPI_{name}_fromint(handle); }}"
        )?;
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    put(&folder().join("include/mpi.h"), &text, check)
}

fn constants_in_c(text: &mut String, table: &str) -> Result<()> {
    for row in rows(table) {
        match row[..] {
            ["handle", name] => writeln!(text, "\ntypedef struct ALDIS_{name} *{name};")?,
            ["number", name, value] => match value.starts_with('-') {
                true => writeln!(text, "#define {name} ({value})")?,
                false => writeln!(text, "#define {name} {value}")?,
            },
            ["typed", name, value, kind] => writeln!(text, "#define {name} (({kind}) {value})")?,
            ["alias", name, other] => writeln!(text, "#define {name} {other}")?,
            ["function", name, parameters, returns] => {
                let parameters = parameters.split("; ").collect::<Vec<_>>().join(", ");
                writeln!(text, "typedef {returns} ({name})({parameters});")?;
            }
            ["name", name, other] => writeln!(text, "typedef {other} {name};")?,
            ["enum", name] => writeln!(text, "typedef int {name};")?,
            _ => return Err(anyhow!("not a row of constants: {row:?}")),
        }
    }
    Ok(())
}

fn declaration(prefix: &str, function: &Function<'_>) -> String {
    let parameters = match function.parameters.join(", ") {
        nothing if nothing.is_empty() => "void".to_owned(),
        some => some,
    };
    format!("{} {prefix}{}({parameters})", function.returns, function.name)
}
