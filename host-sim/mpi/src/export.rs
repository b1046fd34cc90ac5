//! This module holds `unsafe` code: the attribute that gives a function the name that C programs
//! call it by.
//!
//! Each function has two names: `PMPI_X`, and the weak `MPI_X`, which a profiling tool may define
//! instead (MPI 5.0, 15.2).

/// Exports a function of MPI.
///
/// `fn MPI_X(a: T) on comm => { .. }` runs a body that may fail; what it fails with goes to the
/// error handler of `comm`. `fn MPI_X(a: T) as MPI_Y(b)` is another function. `fn MPI_X(a: T) -> R
/// { .. }` cannot fail. What begins with `unlocked` does not touch the state of the process, or has
/// its turn already.
macro_rules! mpi {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) on $comm:expr => $body:block) => {
        mpi! {
            unlocked
            $(#[$meta])*
            fn $name($($arg: $kind),*) -> core::ffi::c_int {
                let _inside = $crate::process::threads::enter();
                let outcome = (|| -> Result<(), $crate::fault::CallFault> { $body; Ok(()) })();
                match outcome {
                    Ok(()) => $crate::abi::MPI_SUCCESS,
                    Err(fault) => $crate::objects::errors::raise(stringify!($name), $comm, &fault),
                }
            }
        }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) as $other:ident($($given:expr),*)) => {
        mpi! { unlocked $(#[$meta])* fn $name($($arg: $kind),*) -> core::ffi::c_int {
            // SAFETY: the same arguments as the caller's, wider ones perhaps.
            unsafe { $other($($given),*) }
        } }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $returns:ty $body:block) => {
        mpi! {
            unlocked
            $(#[$meta])*
            fn $name($($arg: $kind),*) -> $returns {
                let _inside = $crate::process::threads::enter();
                $body
            }
        }
    };
    (unlocked $(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $returns:ty $body:block) => {
        $(#[$meta])*
        #[expect(clippy::allow_attributes, reason = "not all of them are of that form")]
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::redundant_closure_call, reason = "as MPI has it")]
        // SAFETY: no other function has the name.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) -> $returns $body

        core::arch::global_asm!(concat!(
            ".weak ", stringify!($name), "\n",
            ".type ", stringify!($name), ",@function\n",
            ".set ", stringify!($name), ", P", stringify!($name),
        ));
    };
}
