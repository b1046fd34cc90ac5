//! Elements of predefined types in a message or part of one (MPI 5.0, 5.1.11): a pair has two, a
//! complex number is one.

use crate::abi::{MPI_COMBINER_STRUCT, MPI_ERR_INTERN};
use crate::fault::CallFault;
use crate::objects::contents::{TypeContents, TypePart};
use crate::objects::datatypes::{Type, look};

/// Elements in one of a new type of so many bytes.
pub(crate) fn of(contents: &TypeContents, size: i64) -> Result<i64, CallFault> {
    if contents.types.is_empty() && contents.combiner != MPI_COMBINER_STRUCT {
        // One that was asked for by what it is to hold.
        return Ok(1);
    }
    let mut all = 0_i64;
    for (count, part) in sequence(contents, size)? {
        all = all.saturating_add(count.saturating_mul(part.with(|part| part.elements)?));
    }
    Ok(all)
}

impl TypePart {
    fn with<R>(&self, work: impl FnOnce(&Type) -> R) -> Result<R, CallFault> {
        match self {
            Self::Named(handle) => look(*handle, work),
            Self::Made(known) => Ok(work(known)),
        }
    }
}

/// The parts of a type in the order of its data, each with how many of it follow each other.
fn sequence(contents: &TypeContents, size: i64) -> Result<Vec<(i64, &TypePart)>, CallFault> {
    if contents.combiner == MPI_COMBINER_STRUCT {
        // Whichever are empty belong to the other variant of the constructor.
        let lengths = contents.integers.iter().chain(&contents.counts).skip(1);
        return Ok(lengths.copied().zip(&contents.types).collect());
    }
    let mut parts = Vec::new();
    for part in contents.types.iter().take(1) {
        let bytes = part.with(|part| part.size)?;
        parts.push((size.checked_div(bytes).unwrap_or(0), part));
    }
    Ok(parts)
}

/// Elements in `bytes` of a type; `None` if they end within one.
pub(crate) fn count(known: &Type, bytes: i64) -> Result<Option<i64>, CallFault> {
    let (Some(whole), Some(rest)) = (bytes.checked_div(known.size), bytes.checked_rem(known.size)) else {
        return Ok((bytes == 0).then_some(0));
    };
    let all = whole.saturating_mul(known.elements);
    if rest == 0 {
        return Ok(Some(all));
    }
    Ok(count_within(known, rest)?.map(|more| all.saturating_add(more)))
}

/// Elements in fewer bytes than one of the type has.
fn count_within(known: &Type, mut bytes: i64) -> Result<Option<i64>, CallFault> {
    let Some(contents) = &known.contents else {
        return Ok((known.first_of_two == Some(bytes)).then_some(1));
    };
    let mut all = 0_i64;
    for (length, part) in sequence(contents, known.size)? {
        let (here, elements) =
            part.with(|part| (length.saturating_mul(part.size), length.saturating_mul(part.elements)))?;
        if bytes < here {
            let more = part.with(|part| count(part, bytes))??;
            return Ok(more.map(|more| all.saturating_add(more)));
        }
        (bytes, all) = (bytes - here, all.saturating_add(elements));
    }
    Ok((bytes == 0).then_some(all))
}

/// Bytes of the first so many elements of copies of a type.
pub(crate) fn bytes(known: &Type, elements: i64) -> Result<i64, CallFault> {
    let (Some(whole), Some(rest)) =
        (elements.checked_div(known.elements), elements.checked_rem(known.elements))
    else {
        return Ok(0);
    };
    Ok(whole.saturating_mul(known.size).saturating_add(bytes_within(known, rest)?))
}

/// Bytes of fewer elements than one of the type has.
fn bytes_within(known: &Type, mut elements: i64) -> Result<i64, CallFault> {
    let mut all = 0_i64;
    let Some(contents) = known.contents.as_ref().filter(|_| elements > 0) else {
        return Ok(if elements == 1 { known.first_of_two.unwrap_or(0) } else { 0 });
    };
    for (length, part) in sequence(contents, known.size)? {
        let (here, size) =
            part.with(|part| (length.saturating_mul(part.elements), length.saturating_mul(part.size)))?;
        if elements < here {
            let more = part.with(|part| bytes(part, elements))??;
            return Ok(all.saturating_add(more));
        }
        (elements, all) = (elements - here, all.saturating_add(size));
    }
    Err(CallFault::new(MPI_ERR_INTERN, "a type with fewer elements than it says"))
}
