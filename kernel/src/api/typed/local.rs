//! Typed data that takes no message: measured, and copied from one place of a process to another.

use aldis_hal::{Cause, Platform, Transport};

use super::{OfScope, Typed, TypedMut};
use crate::api::scope::Scope;
use crate::datatype::Form;
use crate::tables::elements::{DataPiece, Elements, ElementsMut, LaidOut, NO_TYPES, TypedData};

/// Bytes that are on their way at a time, on the stack.
const PIECE_BYTES: usize = 512;

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// See [`ScopePlane::copy_typed`](crate::plane::ScopePlane::copy_typed).
    pub(crate) fn copy_typed<I: OfScope<'scope>, F: OfScope<'scope>>(
        &mut self,
        into: &TypedMut<'scope, I>,
        from: &Typed<'scope, F>,
    ) -> Result<(), Cause> {
        self.copy_elements(&into.room, &from.data)
    }

    fn copy_elements(&mut self, into: &ElementsMut, from: &Elements) -> Result<(), Cause> {
        let (engine, native) = (&mut self.within.endpoint.engine, Form::Native);
        let LaidOut { layout: mut source, len } =
            engine.lay_out(TypedData::native(from.memory, &from.place))?;
        let LaidOut { layout: mut target, len: room } =
            engine.lay_out(TypedData::native(into.memory, &into.place))?;
        if len != room {
            return Err(Cause::LengthMismatch { left: len as u64, right: room as u64 });
        }
        if self.in_use(target.memory(), true) || self.in_use(source.memory(), false) {
            return Err(Cause::Busy);
        }
        let engine = &mut self.within.endpoint.engine;
        let types = &engine.conversion.as_ref().ok_or(NO_TYPES)?.types;
        let label = source.label(types, len as u64);
        if let Some(differs) = target.judge(types, native, len as u64, &label) {
            return Err(differs);
        }
        let mut piece = [0; PIECE_BYTES];
        for start in (0..len).step_by(PIECE_BYTES) {
            let piece = piece.get_mut(..PIECE_BYTES.min(len.saturating_sub(start))).unwrap_or_default();
            source.pack(types, start as u64, piece)?;
            let piece = DataPiece { offset: start as u64, payload: piece, typed: true, checked: false };
            target.unpack(types, native, &piece)?;
        }
        Ok(())
    }
}
