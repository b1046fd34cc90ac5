//! This module holds `unsafe` code: lists that the program gives.
//!
//! Constructors of datatypes and what tells how a type was made (MPI 5.0, 5.1.2 to 5.1.13).

use core::ffi::c_int;

use aldis_hal::Cause;
use aldis_kernel::datatype::{Datatype, Field, IndexedBlock, Types};

use crate::abi::{
    Handle, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_DUP, MPI_COMBINER_HINDEXED, MPI_COMBINER_HINDEXED_BLOCK,
    MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED, MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_NAMED,
    MPI_COMBINER_RESIZED, MPI_COMBINER_STRUCT, MPI_COMBINER_VECTOR, MPI_COMM_SELF, MPI_DATATYPE_NULL,
    MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_TYPE,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::attributes::{self, ObjectKind};
use crate::objects::contents::{TypeContents, TypePart};
use crate::objects::datatypes::{Type, change, insert, is_named, look};
use crate::objects::elements;
use crate::process::engine;

pub(crate) mod arrays;

/// Arguments of a constructor: those that are an `int` or address in one variant, and a count in
/// the other.
struct ConstructorArguments {
    is_large: bool,
    contents: TypeContents,
}

impl ConstructorArguments {
    fn new(combiner: c_int, is_large: bool) -> Self {
        Self { is_large, contents: TypeContents { combiner, ..TypeContents::default() } }
    }

    /// Integers in both variants.
    fn always(mut self, integers: &[i64]) -> Self {
        self.contents.integers.extend(integers);
        self
    }

    fn integers(mut self, integers: impl IntoIterator<Item = i64>) -> Self {
        let contents = &mut self.contents;
        if self.is_large {
            contents.counts.extend(integers)
        } else {
            contents.integers.extend(integers)
        }
        self
    }

    fn addresses(mut self, addresses: impl IntoIterator<Item = i64>) -> Self {
        let contents = &mut self.contents;
        if self.is_large {
            contents.counts.extend(addresses)
        } else {
            contents.addresses.extend(addresses)
        }
        self
    }

    /// Makes the type.
    fn make(
        self,
        of: &[Handle],
        made: Ptr<Handle>,
        make: impl FnOnce(&mut Types<'_>, &[Datatype]) -> Result<Datatype, Cause>,
    ) -> Result<(), CallFault> {
        let mut contents = self.contents;
        let mut datatypes = Vec::new();
        for &handle in of {
            datatypes.push(look(handle, |known| known.datatype)?);
            contents.types.push(match is_named(handle) {
                true => TypePart::Named(handle),
                false => TypePart::Made(Box::new(Type { users: 0, ..look(handle, Type::clone)? })),
            });
        }
        let mut new = engine::with(|engine| {
            let types = engine.types()?;
            let datatype = make(types, &datatypes)?;
            Type::new(types, datatype, Some(contents))
        })?;
        if let Some(contents) = &new.contents {
            new.elements = elements::of(contents, new.size)?;
        }
        made.set(insert(new)?)
    }
}

fn natural(count: i64) -> Result<u64, CallFault> {
    u64::try_from(count).map_err(|_| CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")))
}

fn many(count: i64) -> Result<usize, CallFault> {
    natural(count).map(|count| count as usize)
}

/// An array of the program's, of numbers of either width.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn wide<T: Copy + 'static>(array: Ptr<T>, count: usize) -> Result<Vec<i64>, CallFault>
where
    i64: From<T>,
{
    // SAFETY: the caller's promise.
    Ok(unsafe { array.array(count) }?.iter().map(i64::from).collect())
}

/// An array of the program's, of displacements.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn addresses(array: Ptr<isize>, count: usize) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    Ok(unsafe { array.array(count) }?.iter().map(|address| address as i64).collect())
}

fn blocks(lengths: &[i64], places: &[i64]) -> Result<Vec<IndexedBlock>, CallFault> {
    let block = |(length, displacement): (&i64, &i64)| {
        Ok(IndexedBlock { length: natural(*length)?, displacement: *displacement })
    };
    lengths.iter().zip(places).map(block).collect()
}

fn first(parts: &[Datatype]) -> Result<Datatype, Cause> {
    parts.first().copied().ok_or(Cause::Stale)
}

fn contiguous(is_large: bool, count: i64, of: Handle, made: Ptr<Handle>) -> Result<(), CallFault> {
    let number = natural(count)?;
    ConstructorArguments::new(MPI_COMBINER_CONTIGUOUS, is_large).integers([count]).make(
        &[of],
        made,
        |types, parts| types.contiguous(number, first(parts)?),
    )
}

fn vector(
    is_large: bool,
    [count, length, stride]: [i64; 3],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let (number, each) = (natural(count)?, natural(length)?);
    ConstructorArguments::new(MPI_COMBINER_VECTOR, is_large).integers([count, length, stride]).make(
        &[of],
        made,
        |types, parts| types.vector(number, each, stride, first(parts)?),
    )
}

fn hvector(
    is_large: bool,
    [count, length, stride]: [i64; 3],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let (number, each) = (natural(count)?, natural(length)?);
    ConstructorArguments::new(MPI_COMBINER_HVECTOR, is_large)
        .integers([count, length])
        .addresses([stride])
        .make(&[of], made, |types, parts| types.hvector(number, each, stride, first(parts)?))
}

fn indexed(
    is_large: bool,
    lengths: &[i64],
    places: &[i64],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let blocks = blocks(lengths, places)?;
    ConstructorArguments::new(MPI_COMBINER_INDEXED, is_large)
        .integers([lengths.len() as i64].iter().chain(lengths).chain(places).copied())
        .make(&[of], made, |types, parts| types.indexed(&blocks, first(parts)?))
}

fn hindexed(
    is_large: bool,
    lengths: &[i64],
    places: &[i64],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let blocks = blocks(lengths, places)?;
    ConstructorArguments::new(MPI_COMBINER_HINDEXED, is_large)
        .integers([lengths.len() as i64].iter().chain(lengths).copied())
        .addresses(places.iter().copied())
        .make(&[of], made, |types, parts| types.hindexed(&blocks, first(parts)?))
}

fn indexed_block(
    is_large: bool,
    length: i64,
    places: &[i64],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let each = natural(length)?;
    ConstructorArguments::new(MPI_COMBINER_INDEXED_BLOCK, is_large)
        .integers([places.len() as i64, length].iter().chain(places).copied())
        .make(&[of], made, |types, parts| types.indexed_block(each, places, first(parts)?))
}

fn hindexed_block(
    is_large: bool,
    length: i64,
    places: &[i64],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let each = natural(length)?;
    ConstructorArguments::new(MPI_COMBINER_HINDEXED_BLOCK, is_large)
        .integers([places.len() as i64, length])
        .addresses(places.iter().copied())
        .make(&[of], made, |types, parts| types.hindexed_block(each, places, first(parts)?))
}

fn structure(
    is_large: bool,
    lengths: &[i64],
    places: &[i64],
    of: &[Handle],
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let blocks = blocks(lengths, places)?;
    ConstructorArguments::new(MPI_COMBINER_STRUCT, is_large)
        .integers([lengths.len() as i64].iter().chain(lengths).copied())
        .addresses(places.iter().copied())
        .make(of, made, |types, parts| {
            let field = |(block, part): (&IndexedBlock, &Datatype)| Field {
                length: block.length,
                displacement: block.displacement,
                datatype: *part,
            };
            types.structure(&blocks.iter().zip(parts).map(field).collect::<Vec<_>>())
        })
}

fn resized(
    is_large: bool,
    [lower_bound, extent]: [i64; 2],
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    ConstructorArguments::new(MPI_COMBINER_RESIZED, is_large).addresses([lower_bound, extent]).make(
        &[of],
        made,
        |types, parts| types.resized(first(parts)?, lower_bound, extent),
    )
}

mpi! { fn MPI_Type_contiguous(count: c_int, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    contiguous(false, count.into(), of, made)?;
} }

mpi! { fn MPI_Type_contiguous_c(count: i64, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    contiguous(true, count, of, made)?;
} }

mpi! { fn MPI_Type_vector(count: c_int, length: c_int, stride: c_int, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    vector(false, [count, length, stride].map(i64::from), of, made)?;
} }

mpi! { fn MPI_Type_vector_c(count: i64, length: i64, stride: i64, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    vector(true, [count, length, stride], of, made)?;
} }

mpi! { fn MPI_Type_create_hvector(count: c_int, length: c_int, stride: isize, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    hvector(false, [count.into(), length.into(), stride as i64], of, made)?;
} }

mpi! { fn MPI_Type_create_hvector_c(count: i64, length: i64, stride: i64, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    hvector(true, [count, length, stride], of, made)?;
} }

mpi! { fn MPI_Type_indexed(count: c_int, lengths: Ptr<c_int>, places: Ptr<c_int>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { indexed(false, &wide(lengths, count)?, &wide(places, count)?, of, made) }?;
} }

mpi! { fn MPI_Type_indexed_c(count: i64, lengths: Ptr<i64>, places: Ptr<i64>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count)?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { indexed(true, &wide(lengths, count)?, &wide(places, count)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_hindexed(count: c_int, lengths: Ptr<c_int>, places: Ptr<isize>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { hindexed(false, &wide(lengths, count)?, &addresses(places, count)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_hindexed_c(count: i64, lengths: Ptr<i64>, places: Ptr<i64>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count)?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { hindexed(true, &wide(lengths, count)?, &wide(places, count)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_indexed_block(count: c_int, length: c_int, places: Ptr<c_int>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { indexed_block(false, length.into(), &wide(places, many(count.into())?)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_indexed_block_c(count: i64, length: i64, places: Ptr<i64>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { indexed_block(true, length, &wide(places, many(count)?)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_hindexed_block(count: c_int, length: c_int, places: Ptr<isize>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { hindexed_block(false, length.into(), &addresses(places, many(count.into())?)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_hindexed_block_c(count: i64, length: i64, places: Ptr<i64>, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { hindexed_block(true, length, &wide(places, many(count)?)?, of, made) }?;
} }

mpi! { fn MPI_Type_create_struct(count: c_int, lengths: Ptr<c_int>, places: Ptr<isize>, of: Ptr<Handle>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { structure(false, &wide(lengths, count)?, &addresses(places, count)?, &of.array(count)?.to_vec(), made) }?;
} }

mpi! { fn MPI_Type_create_struct_c(count: i64, lengths: Ptr<i64>, places: Ptr<i64>, of: Ptr<Handle>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let count = many(count)?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1).
    unsafe { structure(true, &wide(lengths, count)?, &wide(places, count)?, &of.array(count)?.to_vec(), made) }?;
} }

mpi! { fn MPI_Type_create_resized(of: Handle, lower_bound: isize, extent: isize, made: Ptr<Handle>) on MPI_COMM_SELF => {
    resized(false, [lower_bound as i64, extent as i64], of, made)?;
} }

mpi! { fn MPI_Type_create_resized_c(of: Handle, lower_bound: i64, extent: i64, made: Ptr<Handle>) on MPI_COMM_SELF => {
    resized(true, [lower_bound, extent], of, made)?;
} }

mpi! { fn MPI_Type_dup(of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    made.set(MPI_DATATYPE_NULL)?;
    let (given, is_committed) = look(of, |known| (known.attributes.clone(), known.is_committed))?;
    let copies = attributes::copied(ObjectKind::Datatype, of, &given)?;
    let element = look(of, |known| known.element)?;
    ConstructorArguments::new(MPI_COMBINER_DUP, false).make(&[of], made, |types, parts| types.duplicate(first(parts)?))?;
    change(made.get()?, |new| {
        (new.attributes, new.element) = (copies, element);
        new.set_committed(is_committed);
    })?;
} }

/// Returns the number of arguments of each kind that a type was made with, and its combiner.
fn envelope(datatype: Handle) -> Result<([usize; 4], c_int), CallFault> {
    look(datatype, |known| match &known.contents {
        None => ([0; 4], MPI_COMBINER_NAMED),
        Some(TypeContents { combiner, integers, addresses, counts, types }) => {
            ([integers.len(), addresses.len(), counts.len(), types.len()], *combiner)
        }
    })
}

mpi! { fn MPI_Type_get_envelope_c(datatype: Handle, integers: Ptr<i64>, addresses: Ptr<i64>, counts: Ptr<i64>, types: Ptr<i64>, combiner: Ptr<c_int>) on MPI_COMM_SELF => {
    let (numbers, made_by) = envelope(datatype)?;
    for (place, number) in [integers, addresses, counts, types].into_iter().zip(numbers) {
        place.set(number as i64)?;
    }
    combiner.set(made_by)?;
} }

mpi! { fn MPI_Type_get_envelope(datatype: Handle, integers: Ptr<c_int>, addresses: Ptr<c_int>, types: Ptr<c_int>, combiner: Ptr<c_int>) on MPI_COMM_SELF => {
    let ([own_integers, own_addresses, counts, own_types], made_by) = envelope(datatype)?;
    if counts > 0 {
        return Err(CallFault::new(MPI_ERR_TYPE, "a datatype made with large counts: MPI_Type_get_envelope_c tells"));
    }
    for (place, number) in [(integers, own_integers), (addresses, own_addresses), (types, own_types)] {
        place.set(number as c_int)?;
    }
    combiner.set(made_by)?;
} }

/// The program's arrays for the contents of a type, with their lengths.
struct ContentsRoom {
    integers: (i64, Ptr<c_int>),
    addresses: (i64, Ptr<isize>),
    counts: (i64, Ptr<i64>),
    types: (i64, Ptr<Handle>),
}

/// Tells what a type was made of.
///
/// # Safety
/// There is as much room as is said, unless it is null.
unsafe fn write_contents(datatype: Handle, room: &ContentsRoom) -> Result<(), CallFault> {
    let (own, contents) = look(datatype, |known| (known.datatype, known.contents.clone()))?;
    let named = || CallFault::new(MPI_ERR_TYPE, "a predefined datatype has no contents");
    let TypeContents { integers, addresses, counts, types, .. } = contents.ok_or_else(named)?;
    let needed = [integers.len(), addresses.len(), counts.len(), types.len()];
    let given = [room.integers.0, room.addresses.0, room.counts.0, room.types.0];
    if needed.iter().zip(given).any(|(needed, given)| (*needed as i64) > given) {
        return Err(CallFault::new(MPI_ERR_ARG, format!("contents of {needed:?} into room for {given:?}")));
    }
    // SAFETY: the caller promised room for at least as many.
    let (to_integers, to_addresses, to_counts, to_types) = unsafe {
        (
            room.integers.1.array(integers.len())?,
            room.addresses.1.array(addresses.len())?,
            room.counts.1.array(counts.len())?,
            room.types.1.array(types.len())?,
        )
    };
    to_integers.fill(integers.into_iter().map(|number| number as c_int));
    to_addresses.fill(addresses.into_iter().map(|number| number as isize));
    to_counts.fill(counts);
    for (index, part) in types.into_iter().enumerate() {
        let handle = match part {
            TypePart::Named(handle) => handle,
            TypePart::Made(known) => {
                let datatype = engine::with(|engine| Ok(engine.types()?.component(own, index)?))?;
                insert(Type { datatype, ..*known })?
            }
        };
        to_types.set(index, handle);
    }
    Ok(())
}

mpi! { fn MPI_Type_get_contents_c(datatype: Handle, integers: i64, addresses: i64, counts: i64, types: i64, to_integers: Ptr<c_int>, to_addresses: Ptr<isize>, to_counts: Ptr<i64>, to_types: Ptr<Handle>) on MPI_COMM_SELF => {
    let room = ContentsRoom {
        integers: (integers, to_integers),
        addresses: (addresses, to_addresses),
        counts: (counts, to_counts),
        types: (types, to_types),
    };
    // SAFETY: the program gives that much room (MPI 5.0, 5.1.13).
    unsafe { write_contents(datatype, &room) }?;
} }

mpi! { fn MPI_Type_get_contents(datatype: Handle, integers: c_int, addresses: c_int, types: c_int, to_integers: Ptr<c_int>, to_addresses: Ptr<isize>, to_types: Ptr<Handle>) on MPI_COMM_SELF => {
    let room = ContentsRoom {
        integers: (integers.into(), to_integers),
        addresses: (addresses.into(), to_addresses),
        counts: (0, Ptr::NULL),
        types: (types.into(), to_types),
    };
    // SAFETY: the program gives that much room (MPI 5.0, 5.1.13).
    unsafe { write_contents(datatype, &room) }?;
} }
