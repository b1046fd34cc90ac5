//! The log shim of every no_std crate: `defmt` on a board, `log` on a host, nothing otherwise.

/// Logs at debug level through whichever of the features `defmt` and `log` is on; both off, it is
/// nothing.
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

/// `defmt::Format` for a bitflags type: its bits, since the derive cannot see through the macro.
macro_rules! defmt_bits {
    ($flags:ty) => {
        #[cfg(feature = "defmt")]
        impl defmt::Format for $flags {
            fn format(&self, f: defmt::Formatter<'_>) {
                defmt::write!(f, "{=u32:#b}", u32::from(self.bits()));
            }
        }
    };
}
