//! One log shim for every no_std crate: `defmt` on a board, `log` on a host, nothing otherwise.

/// Logs at debug level through whichever of the features `defmt` and `log` is on; both off, it is nothing.
#[macro_export]
macro_rules! debug {
    ($text:literal $(, $value:expr)* $(,)?) => {{
        #[cfg(feature = "defmt")]
        ::defmt::debug!($text $(, $value)*);
        #[cfg(all(feature = "log", not(feature = "defmt")))]
        ::log::debug!($text $(, $value)*);
        #[cfg(not(any(feature = "defmt", feature = "log")))]
        { $( let _ = &$value; )* }
    }};
}
