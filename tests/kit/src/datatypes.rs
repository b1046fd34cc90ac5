//! The definition of datatypes, spelled out: a type map as a vector, made by copying and shifting.

mod random;

use aldis_kernel::datatype::{
    Basic, Datatype, Distribution, Field, IndexedBlock, Order, Slice, Spread, Types,
};
use aldis_kernel::hal::Cause;

pub use self::random::{ENTRIES_MAX, recipes};

/// The way to make a type: a constructor, its arguments and what it is made of.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the constructor of its name, with its arguments in order")]
pub enum Recipe {
    Basic(Basic),
    Contiguous(u64, Box<Recipe>),
    Vector(u64, u64, i64, Box<Recipe>),
    Hvector(u64, u64, i64, Box<Recipe>),
    Indexed(Vec<(u64, i64)>, Box<Recipe>),
    Hindexed(Vec<(u64, i64)>, Box<Recipe>),
    IndexedBlock(u64, Vec<i64>, Box<Recipe>),
    HindexedBlock(u64, Vec<i64>, Box<Recipe>),
    Struct(Vec<(u64, i64, Recipe)>),
    Subarray(Vec<Slice>, Order, Box<Recipe>),
    Darray(u32, Vec<Spread>, Order, Box<Recipe>),
    Resized(i64, i64, Box<Recipe>),
    Dup(Box<Recipe>),
}

/// A type map (MPI 4.1, 5.1): entries in order, and the bound markers, if there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeMap {
    /// Displacements and basic types, in order.
    pub entries: Vec<(i64, Basic)>,
    /// The bound markers, lower and upper.
    pub marks: Option<(i64, i64)>,
}

impl TypeMap {
    fn put(&mut self, part: &Self, at: i64) {
        self.entries.extend(part.entries.iter().map(|(displacement, basic)| (at + displacement, *basic)));
        if let Some((low, high)) = part.marks {
            let (old_low, old_high) = self.marks.unwrap_or((i64::MAX, i64::MIN));
            self.marks = Some((old_low.min(at + low), old_high.max(at + high)));
        }
    }

    /// Returns the bounds of the data.
    pub fn true_bounds(&self) -> (i64, i64) {
        let low = self.entries.iter().map(|(at, _)| *at).min().unwrap_or(0);
        (low, self.entries.iter().map(|(at, basic)| at + basic.size() as i64).max().unwrap_or(0))
    }

    /// Returns the bounds (MPI 4.1, 5.1.7). With markers they are the outermost of those; otherwise
    /// those of the data, and the upper one is moved up until the extent is a multiple of every
    /// alignment.
    pub fn bounds(&self) -> (i64, i64) {
        if let Some(marks) = self.marks {
            return marks;
        }
        let (low, mut high) = self.true_bounds();
        while self.entries.iter().any(|(_, basic)| (high - low) % basic.alignment() as i64 != 0) {
            high += 1;
        }
        (low, high)
    }

    /// Returns the difference of the bounds.
    pub fn extent(&self) -> i64 {
        self.bounds().1 - self.bounds().0
    }

    /// Returns the map of `count` elements, one after the other.
    pub fn times(&self, count: u64) -> Self {
        let mut map = Self::default();
        (0..count as i64).for_each(|index| map.put(self, index * self.extent()));
        map
    }

    /// Returns the bytes of data.
    pub fn size(&self) -> u64 {
        self.entries.iter().map(|(_, basic)| basic.size() as u64).sum()
    }

    /// Returns true if two entries share a byte.
    pub fn overlaps(&self) -> bool {
        let mut bytes: Vec<i64> = self
            .entries
            .iter()
            .flat_map(|(at, basic)| (0..basic.size() as i64).map(move |byte| at + byte))
            .collect();
        bytes.sort_unstable();
        bytes.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl Recipe {
    /// Returns the number of entries of the map, without making it.
    pub fn entries(&self) -> u64 {
        let blocks = |blocks: &[(u64, i64)]| blocks.iter().map(|block| block.0).sum::<u64>();
        match self {
            Self::Basic(_) => 1,
            Self::Contiguous(count, of) => count * of.entries(),
            Self::Vector(count, length, _, of) | Self::Hvector(count, length, _, of) => {
                count * length * of.entries()
            }
            Self::Indexed(list, of) | Self::Hindexed(list, of) => blocks(list) * of.entries(),
            Self::IndexedBlock(length, list, of) | Self::HindexedBlock(length, list, of) => {
                length * list.len() as u64 * of.entries()
            }
            Self::Struct(fields) => fields.iter().map(|(length, _, of)| length * of.entries()).sum(),
            Self::Subarray(slices, _, of) => {
                slices.iter().map(|slice| slice.size).product::<u64>() * of.entries()
            }
            Self::Darray(_, spreads, _, of) => {
                spreads.iter().map(|spread| spread.size).product::<u64>() * of.entries()
            }
            Self::Resized(_, _, of) | Self::Dup(of) => of.entries(),
        }
    }

    /// Makes the map.
    pub fn map(&self) -> TypeMap {
        let mut map = TypeMap::default();
        match self {
            Self::Basic(basic) => map.entries.push((0, *basic)),
            Self::Contiguous(count, of) => map = of.map().times(*count),
            Self::Vector(count, length, stride, of) => {
                let part = of.map();
                (0..*count as i64)
                    .for_each(|block| map.put(&part.times(*length), block * stride * part.extent()));
            }
            Self::Hvector(count, length, stride, of) => {
                (0..*count as i64).for_each(|block| map.put(&of.map().times(*length), block * stride));
            }
            Self::Indexed(blocks, of) => {
                let part = of.map();
                blocks.iter().for_each(|(length, at)| map.put(&part.times(*length), at * part.extent()));
            }
            Self::Hindexed(blocks, of) => {
                blocks.iter().for_each(|(length, at)| map.put(&of.map().times(*length), *at));
            }
            Self::IndexedBlock(length, displacements, of) => {
                let part = of.map();
                displacements.iter().for_each(|at| map.put(&part.times(*length), at * part.extent()));
            }
            Self::HindexedBlock(length, displacements, of) => {
                displacements.iter().for_each(|at| map.put(&of.map().times(*length), *at));
            }
            Self::Struct(fields) => {
                fields.iter().for_each(|(length, at, of)| map.put(&of.map().times(*length), *at));
            }
            Self::Subarray(slices, order, of) => {
                let sizes: Vec<u64> = slices.iter().map(|slice| slice.size).collect();
                map = array(&of.map(), &sizes, *order, |dimension, index| {
                    let Slice { start, count, .. } = slices[dimension];
                    (start..start + count).contains(&index)
                });
            }
            Self::Darray(rank, spreads, order, of) => {
                let sizes: Vec<u64> = spreads.iter().map(|spread| spread.size).collect();
                let places = places(*rank, spreads);
                map = array(&of.map(), &sizes, *order, |dimension, index| {
                    owner(&spreads[dimension], index) == places[dimension]
                });
            }
            Self::Resized(low, extent, of) => {
                map = TypeMap { marks: Some((*low, low + extent)), ..of.map() };
            }
            Self::Dup(of) => map = of.map(),
        }
        map
    }

    /// Makes the type, and frees all that it is made of: that must not matter.
    pub fn build(&self, types: &mut Types<'_>) -> Result<Datatype, Cause> {
        let part = match self {
            Self::Basic(basic) => return Ok((*basic).into()),
            Self::Struct(fields) => return build_structure(fields, types),
            Self::Contiguous(_, of)
            | Self::Vector(_, _, _, of)
            | Self::Hvector(_, _, _, of)
            | Self::Indexed(_, of)
            | Self::Hindexed(_, of)
            | Self::IndexedBlock(_, _, of)
            | Self::HindexedBlock(_, _, of)
            | Self::Subarray(_, _, of)
            | Self::Darray(_, _, _, of)
            | Self::Resized(_, _, of)
            | Self::Dup(of) => of.build(types)?,
        };
        let whole = match self {
            Self::Contiguous(count, _) => types.contiguous(*count, part),
            Self::Vector(count, length, stride, _) => types.vector(*count, *length, *stride, part),
            Self::Hvector(count, length, stride, _) => types.hvector(*count, *length, *stride, part),
            Self::Indexed(list, _) => types.indexed(&blocks(list), part),
            Self::Hindexed(list, _) => types.hindexed(&blocks(list), part),
            Self::IndexedBlock(length, list, _) => types.indexed_block(*length, list, part),
            Self::HindexedBlock(length, list, _) => types.hindexed_block(*length, list, part),
            Self::Subarray(slices, order, _) => types.subarray(slices, *order, part),
            Self::Darray(rank, spreads, order, _) => types.darray(*rank, spreads, *order, part),
            Self::Resized(low, extent, _) => types.resized(part, *low, *extent),
            Self::Dup(_) => types.duplicate(part),
            Self::Basic(_) | Self::Struct(_) => unreachable!(),
        };
        release(types, part);
        whole
    }
}

fn build_structure(parts: &[(u64, i64, Recipe)], types: &mut Types<'_>) -> Result<Datatype, Cause> {
    let mut fields = Vec::new();
    for (length, displacement, of) in parts {
        let datatype = of.build(types)?;
        fields.push(Field { length: *length, displacement: *displacement, datatype });
    }
    let whole = types.structure(&fields);
    fields.iter().for_each(|field| release(types, field.datatype));
    whole
}

fn release(types: &mut Types<'_>, datatype: Datatype) {
    if datatype.basic().is_none() {
        types.free(datatype).unwrap();
        assert_eq!(types.size(datatype), Err(Cause::Stale));
    }
}

fn blocks(list: &[(u64, i64)]) -> Vec<IndexedBlock> {
    list.iter().map(|&(length, displacement)| IndexedBlock { length, displacement }).collect()
}

/// The elements of a whole array that are taken, in the order of memory.
fn array(part: &TypeMap, sizes: &[u64], order: Order, taken: impl Fn(usize, u64) -> bool) -> TypeMap {
    let all: u64 = sizes.iter().product();
    let mut map = TypeMap::default();
    for element in 0..all {
        let mut rest = element;
        let mut dimensions: Vec<usize> = (0..sizes.len()).collect();
        if order == Order::C {
            dimensions.reverse();
        }
        if dimensions.into_iter().all(|dimension| {
            let index = rest % sizes[dimension];
            rest /= sizes[dimension];
            taken(dimension, index)
        }) {
            map.put(part, element as i64 * part.extent());
        }
    }
    map.marks = Some((0, all as i64 * part.extent()));
    map
}

/// MPI 4.1, 5.1.4: ranks run through the process grid with the last dimension fastest.
fn places(rank: u32, spreads: &[Spread]) -> Vec<u64> {
    let mut rest = u64::from(rank);
    let mut places: Vec<u64> = spreads
        .iter()
        .rev()
        .map(|spread| {
            let place = rest % spread.processes;
            rest /= spread.processes;
            place
        })
        .collect();
    places.reverse();
    places
}

fn owner(spread: &Spread, index: u64) -> u64 {
    match spread.distribution {
        Distribution::None => 0,
        Distribution::Block(block) => index / block.unwrap_or(spread.size.div_ceil(spread.processes)),
        Distribution::Cyclic(block) => index / block.unwrap_or(1) % spread.processes,
    }
}
