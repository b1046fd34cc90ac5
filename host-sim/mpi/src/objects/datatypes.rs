//! This module holds `unsafe` code: data of the program's as a call describes them; state of the
//! process.
//!
//! Datatypes (MPI 5.0, chapter 5): handles for the kernel's, with what is asked for often, and data
//! of them.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;

use aldis_kernel::datatype::{Basic, Committed, Convertor, Datatype, Form, Types};
use aldis_kernel::{Typed, TypedMut};

use crate::abi::{
    Handle, MPI_BYTE, MPI_DATATYPE_NULL, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_NO_MEM, MPI_ERR_TRUNCATE,
    MPI_ERR_TYPE, MPI_PACKED, MPI_UNDEFINED,
};
use crate::fault::CallFault;
use crate::ffi::{Address, Region, too_many};
use crate::objects::attributes::{self, Attributes, ObjectKind};
use crate::objects::contents::TypeContents;
use crate::objects::predefined::{self, ReductionElement};
use crate::objects::used_types;
use crate::process::handles::{HandleKind, HandleTable};
use crate::process::{Owned, engine, spare};

/// A datatype, with what is asked for often.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) datatype: Datatype,
    /// Fit for communication, whether or not the program has said so.
    pub(crate) committed: Committed,
    pub(crate) is_committed: bool,
    /// Elements follow each other without a gap, and their parts in the order in which they are
    /// sent.
    pub(crate) is_dense: bool,
    /// Committed and dense, with so few bytes that data of it are a [`ContiguousData`].
    pub(crate) makes_pieces: bool,
    pub(crate) size: i64,
    /// Elements of predefined types in one of it.
    pub(crate) elements: i64,
    pub(crate) lower_bound: i64,
    pub(crate) extent: i64,
    pub(crate) true_lower_bound: i64,
    pub(crate) true_extent: i64,
    /// The bytes of the first of two elements of a predefined type.
    pub(crate) first_of_two: Option<i64>,
    /// The element that a predefined operation takes it for.
    pub(crate) element: Option<ReductionElement>,
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
    /// Operations under way that use it.
    pub(crate) users: u32,
    /// The constructor and arguments of the type; `None` if it is predefined.
    pub(crate) contents: Option<TypeContents>,
}

impl Type {
    /// A type of the kernel's.
    pub(crate) fn new(
        types: &Types<'_>,
        datatype: Datatype,
        contents: Option<TypeContents>,
    ) -> Result<Self, CallFault> {
        let (bounds, data) = (types.extent(datatype)?, types.true_extent(datatype)?);
        let committed = types.commit(datatype)?;
        let size = types.size(datatype)?.cast_signed();
        // Of two elements, so that it is known how one follows the other.
        let two = Convertor::new(types, committed, 2, Form::Native);
        let run = two.and_then(|two| two.contiguous(types)).ok().flatten();
        let mut made = Self {
            datatype,
            committed,
            is_dense: size == bounds.extent && run.is_some_and(|run| run.start == 0),
            is_committed: false,
            makes_pieces: false,
            size,
            elements: 1,
            lower_bound: bounds.lower_bound,
            extent: bounds.extent,
            true_lower_bound: data.lower_bound,
            true_extent: data.extent,
            first_of_two: None,
            element: None,
            name: String::new(),
            attributes: Attributes::new(),
            users: 0,
            contents,
        };
        made.set_committed(made.contents.is_none());
        Ok(made)
    }

    /// Says whether the program has said that it is fit for communication.
    pub(crate) fn set_committed(&mut self, is_committed: bool) {
        self.is_committed = is_committed;
        self.makes_pieces = is_committed && self.is_dense && self.size <= PIECE_TYPE_BYTES_MAX;
    }
}

// SAFETY: only calls of MPI use it.
static TYPES: Owned<RefCell<HandleTable<Type>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Datatype))) };

/// The predefined types, by handle from the first on.
// SAFETY: only calls of MPI use it.
static NAMED: Owned<RefCell<Vec<Option<Type>>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// The size of a predefined type that makes pieces, and the kernel's name for it, if it is not sent
/// as bytes alone.
#[derive(Clone, Copy, Debug)]
struct NamedPiece {
    size: u32,
    committed: Option<Committed>,
}

/// The predefined types that make pieces, by handle from the first on.
// SAFETY: only calls of MPI use it.
static NAMED_PIECES: Owned<[Cell<Option<NamedPiece>>; 0x100]> =
    unsafe { Owned::new([const { Cell::new(None) }; 0x100]) };

/// Makes the predefined types.
pub(crate) fn start() -> Result<(), CallFault> {
    engine::with(|engine| {
        let types = engine.types()?;
        let mut named = NAMED.borrow_mut();
        for row in predefined::all() {
            let datatype = row.form.make(types)?;
            let mut made = Type::new(types, datatype, None)?;
            (made.element, made.name) = (row.element, row.name.to_owned());
            made.first_of_two = row.form.first_of_two();
            made.elements = 1 + i64::from(made.first_of_two.is_some());
            let place = row.handle - MPI_DATATYPE_NULL;
            if let Some(piece) = NAMED_PIECES.get(place).filter(|_| made.makes_pieces) {
                let committed = (!is_raw(row.handle)).then_some(made.committed);
                piece.set(Some(NamedPiece { size: made.size as u32, committed }));
            }
            if named.len() <= place {
                named.resize_with(place + 1, || None);
            }
            if let Some(place) = named.get_mut(place) {
                *place = Some(made);
            }
        }
        Ok(())
    })
}

#[cold]
fn missing(handle: Handle) -> CallFault {
    match handle {
        MPI_DATATYPE_NULL => CallFault::new(MPI_ERR_TYPE, "MPI_DATATYPE_NULL where a datatype belongs"),
        handle => CallFault::handle(MPI_ERR_TYPE, "datatype", handle),
    }
}

#[cold]
pub(crate) fn uncommitted() -> CallFault {
    CallFault::new(MPI_ERR_TYPE, "a datatype that was not committed")
}

/// Looks at a type.
#[inline]
pub(crate) fn look<R>(handle: Handle, look: impl FnOnce(&Type) -> R) -> Result<R, CallFault> {
    let found = match handle.checked_sub(MPI_DATATYPE_NULL) {
        Some(place @ 1..0x100) => NAMED.borrow().get(place).and_then(Option::as_ref).map(look),
        _ => {
            let types = TYPES.borrow();
            match types.get(handle) {
                Some(known) => Some(look(known)),
                None => used_types::look(handle, look),
            }
        }
    };
    found.ok_or_else(|| missing(handle))
}

/// Works with what is kept with a type.
pub(crate) fn change<R>(handle: Handle, work: impl FnOnce(&mut Type) -> R) -> Result<R, CallFault> {
    let found = match handle.checked_sub(MPI_DATATYPE_NULL) {
        Some(place @ 1..0x100) => NAMED.borrow_mut().get_mut(place).and_then(Option::as_mut).map(work),
        _ => TYPES.borrow_mut().get_mut(handle).map(work),
    };
    found.ok_or_else(|| missing(handle))
}

/// Returns true if a handle is of a predefined type.
pub(crate) const fn is_named(handle: Handle) -> bool {
    handle > MPI_DATATYPE_NULL && handle < MPI_DATATYPE_NULL + 0x100
}

/// A handle for a new type.
pub(crate) fn insert(made: Type) -> Result<Handle, CallFault> {
    TYPES.borrow_mut().insert(made).ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many datatypes"))
}

/// More elements than this, and types of more bytes, are no [`ContiguousData`]: so its length needs
/// no check.
const PIECE_COUNT_MAX: u64 = i32::MAX as u64;

const PIECE_TYPE_BYTES_MAX: i64 = 0xFFFF;

/// More than any process has addresses for.
const MEMORY_BYTES_MAX: i64 = 1 << 48;

/// Data of the program's in one piece, as most are.
pub(crate) enum ContiguousData {
    /// Bytes: they match whatever types a message was sent as.
    Bytes(Region),
    /// So many elements of a type.
    Elements(Region, u64, Committed),
}

impl ContiguousData {
    const fn memory(self) -> Region {
        match self {
            Self::Bytes(memory) | Self::Elements(memory, ..) => memory,
        }
    }
}

/// The piece that a call names, if it is one in memory: of a predefined type, as most are, nothing
/// but a row of a table is looked at.
#[inline(always)]
pub(crate) fn piece(address: Address, count: i64, datatype: Handle) -> Option<ContiguousData> {
    let number = count as u64;
    if number > PIECE_COUNT_MAX {
        return None;
    }
    let Some(NamedPiece { size, committed }) = named(datatype) else {
        return elements(address, count, datatype);
    };
    let memory = address.region_in_memory(0, number as usize * size as usize)?;
    Some(match committed {
        None => ContiguousData::Bytes(memory),
        Some(committed) => ContiguousData::Elements(memory, number, committed),
    })
}

/// The memory of the [piece] that a call names, whatever it is of.
#[inline(always)]
pub(crate) fn piece_memory(address: Address, count: i64, datatype: Handle) -> Option<Region> {
    let number = count as u64;
    if number > PIECE_COUNT_MAX {
        return None;
    }
    match named(datatype) {
        Some(NamedPiece { size, .. }) => address.region_in_memory(0, number as usize * size as usize),
        None => elements(address, count, datatype).map(ContiguousData::memory),
    }
}

/// Returns the row of a predefined type that makes pieces.
#[inline(always)]
fn named(datatype: Handle) -> Option<NamedPiece> {
    NAMED_PIECES.get(datatype.wrapping_sub(MPI_DATATYPE_NULL)).and_then(Cell::get)
}

/// The piece that so many elements of a datatype are, of which there are at most
/// [`PIECE_COUNT_MAX`].
#[inline(never)]
fn elements(address: Address, count: i64, datatype: Handle) -> Option<ContiguousData> {
    let found = look(datatype, |known| known.makes_pieces.then_some((known.size, known.committed)));
    let Ok(Some((size, committed))) = found else { return None };
    let memory = address.region_in_memory(0, count.wrapping_mul(size) as usize);
    memory.map(|memory| ContiguousData::Elements(memory, count as u64, committed))
}

const fn is_raw(datatype: Handle) -> bool {
    matches!(datatype, MPI_BYTE | MPI_PACKED)
}

/// Data of the program's: elements of a datatype at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramData {
    address: Address,
    count: u64,
    datatype: Committed,
    /// From the address to the lowest byte and past the highest one.
    reach: (isize, isize),
    /// Bytes without what lies between them.
    pub(crate) bytes: usize,
    is_dense: bool,
    is_raw: bool,
}

impl ProgramData {
    /// Returns the data that a call of MPI names; refused if the type is not committed.
    ///
    /// # Safety
    /// The elements are in memory, unless the address is null: they may be read, and written if
    /// they are received into, for as long as this is used, or an operation that is begun with it.
    /// Nothing else writes them meanwhile, nor reads them if they are received into; an operation
    /// of the same call may.
    #[inline(always)]
    pub(crate) unsafe fn new(address: Address, count: i64, datatype: Handle) -> Result<Self, CallFault> {
        // Of bytes all is known: what would be looked up, and moved about, takes longer than a
        // short message is under way.
        if datatype == MPI_BYTE && count as u64 <= PIECE_COUNT_MAX {
            return Ok(Self::of_bytes(address, count as usize));
        }
        Self::described(address, count, datatype)
    }

    /// Returns the data of a message that goes to no process or comes from none: nothing, in
    /// whatever buffer. `MPI_IN_PLACE` is none.
    pub(crate) fn without_peer(self) -> Self {
        if self.address.is_in_place() { self } else { Self::of_bytes(Address::NULL, 0) }
    }

    /// So many bytes.
    #[inline(always)]
    fn of_bytes(address: Address, bytes: usize) -> Self {
        Self {
            address,
            count: bytes as u64,
            datatype: Basic::Byte.into(),
            reach: (0, bytes.cast_signed()),
            bytes,
            is_dense: true,
            is_raw: true,
        }
    }

    #[inline(never)]
    fn described(address: Address, count: i64, datatype: Handle) -> Result<Self, CallFault> {
        if count == 0 && datatype == MPI_DATATYPE_NULL {
            // Nothing is of any type: programs give it to messages of no elements, and to those
            // with no peer.
            return Ok(Self::of_bytes(address, 0));
        }
        let Ok(number) = u64::try_from(count) else {
            return Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")));
        };
        if !is_named(datatype) {
            used_types::note(datatype);
        }
        look(datatype, |known| {
            if !known.is_committed {
                return Err(uncommitted());
            }
            let last = (count - 1).max(0).saturating_mul(known.extent);
            let low = known.true_lower_bound.saturating_add(last.min(0));
            let high = known.true_lower_bound.saturating_add(known.true_extent).saturating_add(last.max(0));
            let reach = if count == 0 || known.size == 0 { (0, 0) } else { (low as isize, high as isize) };
            let bytes = count.saturating_mul(known.size);
            if bytes.max(high.saturating_sub(low)) > MEMORY_BYTES_MAX && bytes > 0 {
                return Err(too_many());
            }
            Ok(Self {
                address,
                count: number,
                datatype: known.committed,
                reach,
                bytes: bytes as usize,
                is_dense: known.is_dense,
                is_raw: is_raw(datatype),
            })
        })?
    }

    /// Its bytes, if it takes those of any message, whatever types they were sent as: as `MPI_BYTE`
    /// or `MPI_PACKED`.
    #[inline]
    pub(crate) fn raw(&self) -> Result<Option<Region>, CallFault> {
        if self.is_raw { self.stretch(self.bytes).map(Some) } else { Ok(None) }
    }

    /// The memory that it reaches over.
    fn memory(&self) -> Result<Region, CallFault> {
        let (low, high) = self.reach;
        self.address.check("a buffer of a message or of what is packed")?;
        self.address.region(low, high.saturating_sub(low) as usize)
    }

    /// Returns it as it is, if there is memory where there are data.
    pub(crate) fn there(self) -> Result<Self, CallFault> {
        self.memory().map(|_| self)
    }

    /// Returns true if the two are in one piece each, and have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> Result<bool, CallFault> {
        Ok(self.is_dense && other.is_dense && self.memory()?.overlaps(other.memory()?))
    }

    /// The data as the kernel sends them.
    ///
    /// # Safety
    /// It is handed to the kernel at once, before a slice to write to any of the bytes is made.
    #[inline]
    pub(crate) unsafe fn typed(&self) -> Result<Typed<'static>, CallFault> {
        // SAFETY: `new`'s caller promised that they are there and that nothing writes them until
        // the operation is over; no slice to write to them exists, as the caller promises.
        let memory: &'static [u8] = unsafe { self.memory()?.shown() };
        Ok(Typed::new(memory, self.count, self.datatype).with_origin(-self.reach.0))
    }

    /// The data as the kernel receives them.
    ///
    /// # Safety
    /// It is handed to the kernel at once, before another slice of any of the bytes is made.
    #[inline]
    pub(crate) unsafe fn typed_mut(&self) -> Result<TypedMut<'static>, CallFault> {
        // SAFETY: `new`'s caller promised that they are there and that nothing touches them until
        // the operation is over; no other slice of them exists, as the caller promises.
        let memory = unsafe { self.memory()?.bytes() };
        Ok(TypedMut::new(memory, self.count, self.datatype).with_origin(-self.reach.0))
    }

    /// Its bytes, if they are in one piece.
    pub(crate) fn dense(&self) -> Result<Option<Region>, CallFault> {
        if self.is_dense { self.stretch(self.bytes).map(Some) } else { Ok(None) }
    }

    /// The first bytes from its address on.
    #[inline]
    pub(crate) fn stretch(&self, bytes: usize) -> Result<Region, CallFault> {
        self.address.region(0, bytes)
    }

    /// A copy in memory of its own, gaps and all.
    ///
    /// # Safety
    /// The memory is kept, unchanged, for as long as the data in it are used, as for
    /// [`new`](Self::new).
    pub(crate) unsafe fn copied(&self) -> Result<(Vec<u8>, Self), CallFault> {
        // SAFETY: `new`'s caller promised that nothing writes them.
        let mut memory = spare::copy(unsafe { self.memory()?.shown() })?;
        let start = memory.as_mut_ptr().expose_provenance().wrapping_sub(self.reach.0.cast_unsigned());
        // Where no byte is, no address is needed: that of an empty vector is `MPI_IN_PLACE`.
        let address = if memory.is_empty() { Address::NULL } else { Address::of(start) };
        Ok((memory, Self { address, ..*self }))
    }

    /// A copy of its bytes in one piece.
    pub(crate) fn packed(&self) -> Result<Vec<u8>, CallFault> {
        let mut stream = spare::cleared(self.bytes)?;
        self.pack_into(Form::Native, &mut stream, &mut 0)?;
        Ok(stream)
    }

    /// Packs it behind `position` of bytes of the program's.
    ///
    /// # Safety
    /// Nothing else touches them meanwhile.
    pub(crate) unsafe fn pack(
        &self,
        form: Form,
        stream: Region,
        position: &mut usize,
    ) -> Result<(), CallFault> {
        if self.is_apart(stream)? {
            // SAFETY: the data are not of them; the rest is the caller's promise.
            return self.pack_into(form, unsafe { stream.bytes() }, position);
        }
        // By way of a copy, as no two references may lie over each other.
        // SAFETY: the caller's promise.
        let mut copy = spare::copy(unsafe { stream.shown() })?;
        self.pack_into(form, &mut copy, position)?;
        // SAFETY: as above.
        unsafe { stream.bytes() }.copy_from_slice(&copy);
        Ok(())
    }

    /// Unpacks it from behind `position` of bytes of the program's.
    ///
    /// # Safety
    /// Nothing else writes them meanwhile.
    pub(crate) unsafe fn unpack(
        &self,
        form: Form,
        stream: Region,
        position: &mut usize,
    ) -> Result<(), CallFault> {
        if self.is_apart(stream)? {
            // SAFETY: the data are not of them; the rest is the caller's promise.
            return self.unpack_from(form, unsafe { stream.shown() }, position);
        }
        // By way of a copy, as no two references may lie over each other.
        // SAFETY: the caller's promise.
        let copy = spare::copy(unsafe { stream.shown() })?;
        self.unpack_from(form, &copy, position)
    }

    /// Returns true if the memory that it reaches over and `other` are apart. Data with gaps may
    /// lie around it.
    ///
    /// # Errors
    /// It is in one piece and has bytes of `other`.
    pub(crate) fn is_apart(&self, other: Region) -> Result<bool, CallFault> {
        let is_apart = !self.memory()?.overlaps(other);
        if !is_apart && self.is_dense { Err(aliased()) } else { Ok(is_apart) }
    }

    /// Packs it behind `position`.
    pub(crate) fn pack_into(
        &self,
        form: Form,
        stream: &mut [u8],
        position: &mut usize,
    ) -> Result<(), CallFault> {
        // SAFETY: `new`'s caller promised that nothing writes them; the stream is apart, as an
        // exclusive borrow is.
        let memory = unsafe { self.memory()?.shown() };
        if form == Form::Native && self.is_dense {
            let place = stream.get_mut(*position..).and_then(|rest| rest.get_mut(..memory.len()));
            let short = || CallFault::new(MPI_ERR_TRUNCATE, "a buffer too short for what is to be packed");
            place.ok_or_else(short)?.copy_from_slice(memory);
            *position += memory.len();
            return Ok(());
        }
        self.convert(form, |types, convertor| {
            let rest = stream.get_mut(*position..).unwrap_or_default();
            let len = convertor.packed_len() as usize;
            if len > rest.len() {
                return Err(CallFault::new(MPI_ERR_TRUNCATE, format!("{len} bytes into {}", rest.len())));
            }
            *position += convertor.pack(types, memory, rest.get_mut(..len).unwrap_or_default())?;
            Ok(())
        })
    }

    /// Unpacks it from behind `position`; from a stream that ends early, as much as there is.
    pub(crate) fn unpack_from(
        &self,
        form: Form,
        stream: &[u8],
        position: &mut usize,
    ) -> Result<(), CallFault> {
        // SAFETY: `new`'s caller promised that nothing touches them; the stream is apart, as a
        // borrow is.
        let memory = unsafe { self.memory()?.bytes() };
        self.convert(form, |types, convertor| {
            let rest = stream.get(*position..).unwrap_or_default();
            let len = rest.len().min(convertor.packed_len() as usize);
            *position += convertor.unpack(types, memory, rest.get(..len).unwrap_or_default())?;
            Ok(())
        })
    }

    fn convert(
        &self,
        form: Form,
        work: impl FnOnce(&Types<'_>, &mut Convertor) -> Result<(), CallFault>,
    ) -> Result<(), CallFault> {
        engine::with(|engine| {
            let types = engine.types()?;
            let convertor = Convertor::new(types, self.datatype, self.count, form)?;
            work(types, &mut convertor.with_origin(-self.reach.0))
        })
    }
}

#[cold]
pub(crate) fn aliased() -> CallFault {
    CallFault::new(MPI_ERR_BUFFER, "two buffers of a call share memory; MPI_IN_PLACE says that they are one")
}

/// Frees a type's handle.
pub(crate) fn free(handle: Handle) -> Result<(), CallFault> {
    if is_named(handle) || predefined::is_asked_for(handle) {
        return Err(CallFault::new(MPI_ERR_TYPE, "a predefined datatype cannot be freed"));
    }
    let mut attributes = change(handle, |own| core::mem::take(&mut own.attributes))?;
    let deleted = attributes::deleted(ObjectKind::Datatype, handle, &mut attributes);
    change(handle, |own| own.attributes.append(&mut attributes))?;
    deleted?;
    let freed = TYPES.borrow_mut().remove(handle).ok_or_else(|| missing(handle))?;
    used_types::free(handle, freed)
}

/// A count for a program that has so many bits for it.
pub(crate) fn small(count: i64) -> c_int {
    c_int::try_from(count).unwrap_or(MPI_UNDEFINED)
}

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    TYPES.borrow().handle_of(number)
}
