//! Variables of the environment that say yes or no.

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
