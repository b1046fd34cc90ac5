//! Reductions on bytes, whose operation and element type are known when the program runs.

use core::marker::PhantomData;
use core::num::NonZeroU32;

use aldis_kernel::hal::copy::Store;
use aldis_kernel::hal::{self, Cause};
use aldis_kernel::vector::{self, Work};
use zerocopy::FromBytes;

use super::{Element, Reduce};
use crate::schedule::Order;

/// An operation that is known only when the program runs, as those of `MPI_Op_create`: reduces
/// `from` into `into`, the bytes of as many elements, where they are aligned as what the call was
/// given is. Elements of `into` are the left operands if the order says that it is first. `token`
/// is what [`Kernel::of_function`] was given: it tells operations apart that share a function.
pub type Function = fn(token: usize, into: &mut [u8], from: &[u8], order: Order) -> Result<(), Cause>;

/// An operation on an element type with the types erased: what the executor carries.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    run: Function,
    token: usize,
    element_bytes: u32,
    commutes: bool,
}

impl Kernel {
    /// The loop of operation `R` over elements `E`.
    pub const fn of<R: Reduce<E>, E: Element>() -> Self {
        const { assert!(size_of::<E>() > 0, "an element needs at least one byte") };
        Self {
            run: reduce_bytes::<R, E>,
            token: 0,
            element_bytes: size_of::<E>() as u32,
            commutes: R::COMMUTES,
        }
    }

    /// A function over elements of that many bytes, which commutes to the last bit or does not.
    ///
    /// ```
    /// use aldis_coll::{op::{Function, Kernel}, schedule::Order};
    /// use core::num::NonZeroU32;
    ///
    /// /// The sum modulo `token` of numbers of a byte.
    /// const MODULAR: Function = |token, into, from, _order| {
    ///     let wide = |left: u8, right: u8| usize::from(left) + usize::from(right);
    ///     let sum = |left: u8, right: u8| (wide(left, right) % token) as u8;
    ///     into.iter_mut().zip(from).for_each(|(into, from)| *into = sum(*into, *from));
    ///     Ok(())
    /// };
    /// let mut into = [5, 6];
    /// let modular = Kernel::of_function(MODULAR, 7, NonZeroU32::MIN, true);
    /// modular.run(&mut into, &[6, 1], Order::IntoFirst)?;
    /// assert_eq!(into, [4, 0]);
    /// # Ok::<(), aldis_kernel::hal::Cause>(())
    /// ```
    pub const fn of_function(
        function: Function,
        token: usize,
        element_bytes: NonZeroU32,
        commutes: bool,
    ) -> Self {
        Self { run: function, token, element_bytes: element_bytes.get(), commutes }
    }

    /// Bytes of an element.
    pub const fn element_bytes(&self) -> u32 {
        self.element_bytes
    }

    /// Returns true if the operation commutes.
    pub const fn commutes(&self) -> bool {
        self.commutes
    }

    /// Reduces `from` into `into`, both the bytes of a slice of the element type.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] when they are not the same whole number of elements,
    /// [`Cause::Unaligned`] when one is not aligned as the element type is; what a [`Function`]
    /// says.
    pub fn run(&self, into: &mut [u8], from: &[u8], order: Order) -> Result<(), Cause> {
        (self.run)(self.token, into, from, order)
    }
}

/// Copies `from` into `into`: what a collective does that reduces nothing.
///
/// # Errors
/// [`Cause::LengthMismatch`].
pub(crate) fn copy(into: &mut [u8], from: &[u8]) -> Result<(), Cause> {
    if into.len() != from.len() {
        return Err(Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 });
    }
    hal::copy::copy(into, from);
    Ok(())
}

/// Copies like [`copy`] by such stores as are best for those who read it.
pub(crate) fn publish(into: &mut [u8], from: &[u8], store: Store) -> Result<(), Cause> {
    if into.len() != from.len() {
        return Err(Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 });
    }
    hal::copy::publish(into, from, store);
    Ok(())
}

/// Reduces the bytes of `from` into those of `into` if there is an order, else copies them.
///
/// # Errors
/// [`Cause::Unsupported`] for a reduction without a kernel; what the kernel refuses;
/// [`Cause::LengthMismatch`].
pub(crate) fn combine(
    kernel: Option<Kernel>,
    into: &mut [u8],
    from: &[u8],
    order: Option<Order>,
) -> Result<(), Cause> {
    match (kernel, order) {
        (Some(kernel), Some(order)) => kernel.run(into, from, order),
        (None, Some(_)) => Err(Cause::Unsupported),
        (_, None) => copy(into, from),
    }
}

/// The loop over two slices.
pub(super) struct PairwiseLoop<'l, R, E> {
    into: &'l mut [E],
    from: &'l [E],
    operation: PhantomData<R>,
}

impl<'l, R: Reduce<E>, E: Element> PairwiseLoop<'l, R, E> {
    /// The loop of `R` from one into the other.
    pub(super) fn new(into: &'l mut [E], from: &'l [E]) -> Self {
        Self { into, from, operation: PhantomData }
    }
}

impl<R: Reduce<E>, E: Element> Work for PairwiseLoop<'_, R, E> {
    #[inline(always)]
    fn run(self) {
        R::reduce_all(self.into, self.from);
    }
}

fn reduce_bytes<R: Reduce<E>, E: Element>(
    _token: usize,
    into: &mut [u8],
    from: &[u8],
    order: Order,
) -> Result<(), Cause> {
    let mismatch = Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 };
    let unaligned = Cause::Unaligned { need: align_of::<E>() as u32 };
    if into.len() != from.len() || !into.len().is_multiple_of(size_of::<E>()) {
        return Err(mismatch);
    }
    let into = <[E]>::mut_from_bytes(into).map_err(|_| unaligned)?;
    let from = <[E]>::ref_from_bytes(from).map_err(|_| unaligned)?;
    // One loop where the order cannot be seen in the result: half the code.
    if R::COMMUTES || order == Order::IntoFirst {
        vector::widest(size_of_val(into), PairwiseLoop::<R, E>::new(into, from));
    } else {
        for (into, from) in into.iter_mut().zip(from) {
            *into = R::reduce(*from, *into);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
