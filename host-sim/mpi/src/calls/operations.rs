//! This module holds `unsafe` code: operands that the program gives.
//!
//! Operations of reductions (MPI 5.0, 6.9), and reductions without communication.

use core::ffi::c_int;

use aldis_coll::schedule::Order;
use aldis_kernel::hal::Cause;

use crate::abi::{Handle, MPI_COMM_SELF, MPI_OP_NULL};
use crate::calls::collectives::Operand;
use crate::ffi::{Address, Ptr};
use crate::objects::datatypes::{aliased, piece_memory};
use crate::objects::operations::{UserOperation, commutes, free, insert, local_kernel, of_number};
use crate::process::handles::to_int;
use crate::process::spare::Spare;

mpi! { fn MPI_Op_create(function: usize, commutes: c_int, op: Ptr<Handle>) on MPI_COMM_SELF => {
    op.set(insert(UserOperation { function, commutes: commutes != 0, is_large: false })?)?;
} }

mpi! { fn MPI_Op_create_c(function: usize, commutes: c_int, op: Ptr<Handle>) on MPI_COMM_SELF => {
    op.set(insert(UserOperation { function, commutes: commutes != 0, is_large: true })?)?;
} }

mpi! { fn MPI_Op_free(op: Ptr<Handle>) on MPI_COMM_SELF => {
    free(op.get()?)?;
    op.set(MPI_OP_NULL)?;
} }

mpi! { fn MPI_Op_commutative(op: Handle, flag: Ptr<c_int>) on MPI_COMM_SELF => { flag.set(commutes(op)?.into())?; } }

mpi! { fn MPI_Reduce_local_c(input: Address, into: Address, count: i64, datatype: Handle, op: Handle) on MPI_COMM_SELF => {
    input.check("inbuf")?;
    into.check("inoutbuf")?;
    let kernel = local_kernel(op, datatype)?;
    let pieces = piece_memory(input, count, datatype).zip(piece_memory(into, count, datatype));
    if let Some((given, result)) = pieces.filter(|(given, result)| !given.overlaps(*result)) {
        // SAFETY: the arguments are the program's, which leaves them alone meanwhile, and apart.
        match kernel.run(unsafe { result.bytes() }, unsafe { given.shown() }, Order::FromFirst) {
            Err(Cause::Unaligned { .. }) => {}
            done => return Ok(done?),
        }
    }
    let operand = Operand::new(count, datatype)?;
    // SAFETY: the arguments are the program's (MPI 5.0, 6.9.7).
    let (input, into) = unsafe { (operand.data(input)?, operand.data(into)?) };
    if input.overlaps(&into)? {
        return Err(aliased());
    }
    let (mut given, mut result) = (Spare::new(operand.bytes())?, Spare::new(operand.bytes())?);
    operand.read(&input, given.bytes())?;
    operand.read(&into, result.bytes())?;
    kernel.run(result.bytes(), given.as_bytes(), Order::FromFirst)?;
    operand.write(result.as_bytes(), &into)?;
} }

mpi! { fn MPI_Reduce_local(
    inbuf: Address, inoutbuf: Address, count: c_int, datatype: Handle, op: Handle,
) as MPI_Reduce_local_c(inbuf, inoutbuf, count.into(), datatype, op) }

mpi! { fn MPI_Op_toint(op: Handle) -> c_int { to_int(op) } }

mpi! { fn MPI_Op_fromint(number: c_int) -> Handle { of_number(number) } }
