//! The operands of reductions.

use aldis_kernel::datatype::Form;

use crate::abi::{Handle, MPI_ERR_TYPE};
use crate::datatypes::{Data, look};
use crate::edge::Address;
use crate::errors::Fault;
use crate::spare::Spare;

/// The elements of a reduction as they lie in memory, gaps and all: what its function expects.
pub(crate) struct Operand(Spare);

impl Operand {
    /// Room for so many.
    pub(crate) fn new(count: i64, datatype: Handle) -> Result<Self, Fault> {
        let (_, extent, _) = Self::shape(Address::at(0), count, datatype)?;
        Ok(Self(Spare::new((count * extent) as usize)))
    }

    /// Copies the program's.
    pub(crate) fn read(&mut self, from: Address, count: i64, datatype: Handle) -> Result<(), Fault> {
        let (data, _, is_dense) = Self::shape(from, count, datatype)?;
        match data.dense()? {
            Some(dense) if is_dense => self.bytes().copy_from_slice(dense),
            _ => self.data(count, datatype)?.unpack_from(Form::Native, &data.packed()?, &mut 0)?,
        }
        Ok(())
    }

    fn shape(from: Address, count: i64, datatype: Handle) -> Result<(Data, i64, bool), Fault> {
        let data = Data::new(from, count, datatype)?;
        let (extent, is_dense, is_inside) = look(datatype, |known| {
            let end = known.true_lower_bound.saturating_add(known.true_extent);
            let is_inside = known.true_lower_bound >= 0 && end <= known.extent;
            (known.extent, known.is_dense, is_inside || known.size == 0)
        })?;
        if !is_inside {
            // Its elements would lie over each other, and over what is not theirs.
            return Err(Fault::new(
                MPI_ERR_TYPE,
                "a reduction of a datatype whose data reach beyond its extent",
            ));
        }
        Ok((data, extent.max(0), is_dense))
    }

    /// The same as data.
    fn data(&mut self, count: i64, datatype: Handle) -> Result<Data, Fault> {
        Data::new(Address::at(self.bytes().as_mut_ptr().expose_provenance()), count, datatype)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.0.bytes()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Puts it where the program wants it.
    pub(crate) fn write_to(&mut self, into: Address, count: i64, datatype: Handle) -> Result<(), Fault> {
        let (place, _, is_dense) = Self::shape(into, count, datatype)?;
        match place.dense()? {
            Some(dense) if is_dense => dense.copy_from_slice(self.as_bytes()),
            _ => {
                let stream = self.data(count, datatype)?.packed()?;
                place.unpack_from(Form::Native, &stream, &mut 0)?;
            }
        }
        Ok(())
    }
}
