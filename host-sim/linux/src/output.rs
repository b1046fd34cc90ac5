//! UNSAFE: runs before `main`. Where what a tool has to say goes: all of it arrives, or the tool
//! fails.

use core::error::Error;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Write, stdout};
use std::process::ExitCode;

use aldis_sys::Errno;
use aldis_sys::file::{is_open, write_all};

/// True for each standard output that was closed when the process started. The standard library has
/// put `/dev/null` there by `main`.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Standard output, in [`CLOSED`] and among descriptors.
const OUT: usize = 1;

// SAFETY: functions of this section are called once, before `main`, and this one makes two system
// calls and allocates nothing.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for (closed, number) in CLOSED.iter().zip(1..) {
        closed.store(!is_open(number), Ordering::Relaxed);
    }
}

/// Fails if the descriptor, standard output (1) or errors (2), was closed when the process started.
///
/// # Errors
/// `EBADF`.
pub fn check(number: usize) -> Result<(), Errno> {
    let closed = CLOSED.get(number.wrapping_sub(OUT)).is_some_and(|closed| closed.load(Ordering::Relaxed));
    if closed { Err(Errno::EBADF) } else { Ok(()) }
}

/// Error of a tool whose output was not taken.
#[derive(Debug)]
pub struct Lost(io::Error);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {} (write failed)", self.0)
    }
}

impl Error for Lost {}

impl From<Lost> for io::Error {
    fn from(lost: Lost) -> Self {
        Self::new(lost.0.kind(), lost)
    }
}

/// Writes to standard output, to the end.
///
/// # Errors
/// [`Lost`].
pub fn print(text: impl fmt::Display) -> Result<(), Lost> {
    let mut out = stdout().lock();
    let open = check(OUT).map_err(io::Error::from);
    // What others have printed comes first.
    let flushed = open.and_then(|()| out.flush());
    flushed.and_then(|()| write_all(&out, text.to_string().as_bytes())).map_err(Lost)
}

/// Tells why `program` fails; returns the exit code. It does not fail if a reader has stopped to
/// read its output, which then has read enough.
pub fn failed(program: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let kind = error.downcast_ref::<Lost>().map(|lost| lost.0.kind());
    if kind.or_else(|| error.downcast_ref::<io::Error>().map(io::Error::kind))
        == Some(io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    // Where that fails too only the exit code is left.
    let _ = writeln!(io::stderr(), "{program}: {error}");
    ExitCode::FAILURE
}

/// Ends a tool whose command line asks for help or the version, or is wrong (`is_error`), once
/// `print` has written what there is to say; returns the exit code.
pub fn end(program: &str, code: i32, is_error: bool, print: impl FnOnce() -> io::Result<()>) -> ExitCode {
    let told = if is_error {
        // The exit code says it too.
        let _ = print();
        Ok(())
    } else {
        check(OUT).map_err(io::Error::from).and_then(|()| print()).and_then(|()| stdout().flush())
    };
    match told {
        Ok(()) => ExitCode::from(u8::try_from(code).unwrap_or(2)),
        Err(error) => failed(program, &Lost(error)),
    }
}
