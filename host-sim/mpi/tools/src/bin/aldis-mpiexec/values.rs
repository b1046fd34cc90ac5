//! The values of options: checked here, so that what is wrong is told by the name that was typed.

use core::fmt::Display;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use aldis_linux::job;
use aldis_linux::transport::TransportChoice;
use aldis_run::{hosts, options};
use aldis_sys::file::metadata;

/// A check of a value. Its error begins with the value.
pub(crate) type ValueCheck = fn(&OsStr) -> Result<(), String>;

/// The folder, file or variable that cannot be taken, and why.
pub(crate) fn refused(value: &OsStr, why: impl Display) -> String {
    format!("{}: {why}", value.display())
}

/// The usual check of values that `aldis-run` looks at when it knows more.
pub(crate) fn any(_: &OsStr) -> Result<(), String> {
    Ok(())
}

/// Checks a number of seconds.
pub(crate) fn seconds(value: &OsStr) -> Result<(), String> {
    let is_time = value.to_str().and_then(job::parse_seconds).is_some();
    if is_time { Ok(()) } else { Err(refused(value, "not a number of seconds")) }
}

/// Checks the name of a transport.
pub(crate) fn transport(value: &OsStr) -> Result<(), String> {
    let is_known = value.to_str().and_then(TransportChoice::parse).is_some();
    if is_known { Ok(()) } else { Err(refused(value, "not a transport: there are auto, shm and tcp")) }
}

/// Checks a list of hosts.
pub(crate) fn host_list(value: &OsStr) -> Result<(), String> {
    hosts::list(&value.to_string_lossy()).map(drop).map_err(|why| refused(value, why))
}

/// Checks a file of hosts, if it can be read twice.
pub(crate) fn host_file(value: &OsStr) -> Result<(), String> {
    let path = Path::new(value);
    let found = metadata(path).map_err(|why| refused(value, why))?;
    if found.is_file() { hosts::file(path).map(drop) } else { Ok(()) }
}

/// Checks a folder of this machine.
pub(crate) fn folder(value: &OsStr) -> Result<(), String> {
    let found = metadata(Path::new(value)).map_err(|why| refused(value, why))?;
    if found.is_dir() { Ok(()) } else { Err(refused(value, "not a folder")) }
}

/// Checks the command that starts others elsewhere.
pub(crate) fn command(value: &OsStr) -> Result<(), String> {
    let words = hosts::words(&value.to_string_lossy()).map_err(|why| refused(value, why))?;
    if words.is_empty() { Err(refused(value, "no command")) } else { Ok(()) }
}

/// Checks an architecture: this machine's is the only one that there is a program for.
pub(crate) fn architecture(value: &OsStr) -> Result<(), String> {
    let own = std::env::consts::ARCH;
    if value == own { Ok(()) } else { Err(refused(value, format_args!("this is {own}; -host names others"))) }
}

/// Checks kinds of memory (MPI 5.0, 11.4.3): those that every program has.
pub(crate) fn memory_kinds(value: &OsStr) -> Result<(), String> {
    let text = value.to_string_lossy();
    let foreign = text.split(',').find(|kind| !matches!(*kind, "system" | "mpi" | "mpi:alloc_mem"));
    let told = |kind| format!("{text}: messages are in memory of the kinds `system` and `mpi`, not `{kind}`");
    foreign.map_or(Ok(()), |kind| Err(told(kind)))
}

/// Checks the error handler that ranks begin with; its name as the library takes it.
pub(crate) fn error_handler(value: &OsStr) -> Result<String, String> {
    const NAMES: [&str; 3] = ["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"];
    let name = value.to_string_lossy().to_lowercase();
    if NAMES.contains(&&*name) {
        return Ok(name);
    }
    Err(refused(value, format_args!("not an error handler to begin with: there are {}", NAMES.join(", "))))
}

/// Checks a number of ranks.
pub(crate) fn ranks(value: &OsStr) -> Result<u32, String> {
    let count = value.to_str().and_then(|text| text.parse::<u32>().ok()).filter(|ranks| *ranks > 0);
    let count = count.ok_or_else(|| refused(value, "not a number of ranks"))?;
    options::ranks(&count.to_string()).map_err(|why| refused(value, why))?;
    Ok(count)
}

/// The largest of the numbers of ranks in triplets `first[:last[:step]]`, with commas between
/// them, that is at most `most`.
pub(crate) fn soft(value: &OsStr, most: u32) -> Result<u32, String> {
    let text = value.to_string_lossy();
    let mut best = None;
    for triplet in text.split(',') {
        let numbers: Option<Vec<i64>> = triplet.split(':').map(|number| number.trim().parse().ok()).collect();
        let (first, last, step) = match numbers.as_deref() {
            Some([only]) => (*only, *only, 1),
            Some([first, last]) => (*first, *last, 1),
            Some([first, last, step]) if *step != 0 => (*first, *last, *step),
            _ => return Err(refused(value, format_args!("`{triplet}` is no FIRST[:LAST[:STEP]]"))),
        };
        // Upwards from the least of them.
        let length = (i128::from(last) - i128::from(first)) / i128::from(step);
        if length < 0 || (last < first) == (step > 0) && last != first {
            continue;
        }
        let end = i128::from(first) + length * i128::from(step);
        let (least, step) = (end.min(first.into()), i128::from(step).abs());
        let reach = (i128::from(most) - least).min(length * step);
        if reach >= 0 {
            best = best.max(u32::try_from(least + reach / step * step).ok().filter(|ranks| *ranks > 0));
        }
    }
    best.ok_or_else(|| refused(value, format_args!("no number of ranks in it from 1 to {most}")))
}

/// Returns a variable's name if it has one.
pub(crate) fn named(variable: OsString) -> Result<OsString, String> {
    let text = variable.to_string_lossy();
    if text.is_empty() || text.starts_with('=') {
        return Err(refused(&variable, "a variable without a name"));
    }
    Ok(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_of_ranks_that_may_be_is_taken() {
        for (text, most, ranks) in [
            ("4", 4, Some(4)),
            ("2:8", 5, Some(5)),
            ("2:8:2", 5, Some(4)),
            ("1,3,9", 8, Some(3)),
            ("9:1:-4", 8, Some(5)),
            ("-3:2", 8, Some(2)),
            ("3:2", 8, None),
            ("5:9", 4, None),
            ("0", 4, None),
            ("1:9223372036854775807", 7, Some(7)),
            ("-9223372036854775808:9223372036854775807:3", 7, Some(7)),
        ] {
            assert_eq!(soft(text.as_ref(), most).ok(), ranks, "{text}");
        }
        for wrong in ["", "a", "1:2:0", "1:2:3:4", "1,,2"] {
            assert!(soft(wrong.as_ref(), 4).unwrap_err().contains("is no FIRST"), "{wrong}");
        }
    }
}
