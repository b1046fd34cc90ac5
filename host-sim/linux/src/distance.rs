//! The variable that says how far apart the cores of ranks are, in place of measuring it.

use aldis_drivers::shm::Distance;

use crate::error::JoinError;

/// The variable: `measured` (also if it is not set), or the distance of all ranks that share
/// memory, `near` or `far`.
pub const VARIABLE: &str = "ALDIS_DISTANCE";

/// Returns the distance that the variable gives, if it is not to be measured.
///
/// # Errors
/// [`JoinError::Variable`] for a value that is none.
pub(crate) fn from_environment() -> Result<Option<Distance>, JoinError> {
    match std::env::var(VARIABLE) {
        Err(_) => Ok(None),
        Ok(value) => parse(&value).ok_or(JoinError::Variable { name: VARIABLE, value }),
    }
}

fn parse(value: &str) -> Option<Option<Distance>> {
    Some(match value {
        "" | "measured" => None,
        "near" => Some(Distance::Near),
        "far" => Some(Distance::Far),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_documented_is_taken() {
        let parsed = ["", "measured", "near", "far", "Near", "off"].map(parse);
        let (near, far) = (Some(Some(Distance::Near)), Some(Some(Distance::Far)));
        assert_eq!(parsed, [Some(None), Some(None), near, far, None, None]);
    }
}
