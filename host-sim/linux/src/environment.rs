//! Variables of the environment that say yes or no, or what a type reads.

use core::fmt::Display;
use core::str::FromStr;

use crate::error::JoinError;

/// Returns true unless this variable is `off`.
///
/// # Errors
/// [`JoinError::Variable`] for any other value than `on` and `off`.
pub(crate) fn is_on(name: &'static str) -> Result<bool, JoinError> {
    match std::env::var(name) {
        Err(_) => Ok(true),
        Ok(value) if value == "on" => Ok(true),
        Ok(value) if value == "off" => Ok(false),
        Ok(value) => Err(JoinError::Variable { name, value }),
    }
}

/// The value of this variable, as its type reads it; `None` if it is not set.
///
/// # Errors
/// [`JoinError::Setting`], with what the type says of it.
pub(crate) fn setting<T: FromStr<Err: Display>>(name: &'static str) -> Result<Option<T>, JoinError> {
    let Ok(value) = std::env::var(name) else { return Ok(None) };
    match value.parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(why) => Err(JoinError::Setting { name, why: T::Err::to_string(&why), value }),
    }
}
