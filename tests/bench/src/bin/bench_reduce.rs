//! The program of `cargo xtask bench reduce`: reductions of one slice into another, by the way that
//! the processor is found to allow and by each narrower one, beside a copy of as many bytes. One
//! line of JSON for each figure.

use core::error::Error;
use core::hint::black_box;
use std::time::Instant as Clock;

use aldis_coll::op::{Complex, Element, Max, MinLoc, Product, Reduce, Sum, TwoInt, bf16, f16};
use aldis_kernel::vector::{Width, Work, widest};

/// Bytes reduced in a batch, however large a slice is.
const BATCH_BYTES: usize = 1 << 20;

/// A way to combine two slices.
type Path<E> = Box<dyn Fn(&mut [E], &[E])>;

/// The loop of an operation, to be run in vectors of any width.
struct Loop<'l, R, E>(R, &'l mut [E], &'l [E]);

impl<R: Reduce<E>, E: Element> Work for Loop<'_, R, E> {
    #[inline(always)]
    fn run(self) {
        R::reduce_all(self.1, self.2);
    }
}

fn paths<R: Reduce<E> + Copy + 'static, E: Element>(operation: R) -> Vec<(&'static str, Path<E>)> {
    let copy: Path<E> = Box::new(|into: &mut [E], from: &[E]| into.copy_from_slice(from));
    let chosen: Path<E> =
        Box::new(move |into: &mut [E], from: &[E]| widest(size_of_val(into), Loop(operation, into, from)));
    let mut paths = vec![("memcpy", copy), ("chosen", chosen)];
    for width in Width::all() {
        paths.push((width.name(), Box::new(move |into, from| width.run(Loop(operation, into, from)))));
    }
    paths
}

/// An operation on elements of a type, and their names.
struct NamedReduction<R, E> {
    name: &'static str,
    operation: R,
    element: &'static str,
    one: E,
}

const fn named<R, E>(
    name: &'static str,
    operation: R,
    element: &'static str,
    one: E,
) -> NamedReduction<R, E> {
    NamedReduction { name, operation, element, one }
}

impl<R: Reduce<E> + Copy + 'static, E: Element> NamedReduction<R, E> {
    /// Measures every path in turn, batch after batch, and prints the 5th percentile of each as a
    /// rate.
    fn measure(self, bytes: usize, batches: usize) {
        let Self { name, operation, element, one } = self;
        let (mut into, from) = (vec![one; bytes / size_of::<E>()], vec![one; bytes / size_of::<E>()]);
        let paths = paths::<R, E>(operation);
        let mut samples = vec![Vec::with_capacity(batches); paths.len()];
        let times = (BATCH_BYTES / bytes).max(1);
        for _ in 0..batches {
            for ((_, path), samples) in paths.iter().zip(&mut samples) {
                into.fill(one);
                let start = Clock::now();
                (0..times).for_each(|_| path(black_box(&mut into), black_box(&from)));
                samples.push(start.elapsed().as_nanos() as f64 / (times * bytes) as f64);
            }
        }
        for ((path, _), mut samples) in paths.iter().zip(samples) {
            samples.sort_by(f64::total_cmp);
            let rate = 1.0 / samples[(samples.len() - 1) * 5 / 100];
            println!(
                r#"{{"operation":"{name}","element":"{element}","bytes":{bytes},"path":"{path}","gb_s":{rate:.2}}}"#
            );
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage =
        "usage: BATCHES BYTES[,BYTES...]: at least one batch, and bytes a multiple of 16 from 16 to 2^26";
    let mut words = std::env::args().skip(1);
    let (Some(batches), Some(sizes), None) = (words.next(), words.next(), words.next()) else {
        return Err(usage.into());
    };
    let batches: usize = batches.parse().ok().filter(|batches| *batches > 0).ok_or(usage)?;
    for bytes in sizes.split(',') {
        let fits = |bytes: &usize| (16..=1 << 26).contains(bytes) && bytes.is_multiple_of(16);
        let bytes = bytes.parse().ok().filter(fits).ok_or(usage)?;
        named("sum", Sum, "f32", 0.0_f32).measure(bytes, batches);
        named("sum", Sum, "f64", 0.0_f64).measure(bytes, batches);
        named("sum", Sum, "f16", f16::from_bits(0)).measure(bytes, batches);
        named("sum", Sum, "bf16", bf16::from_bits(0)).measure(bytes, batches);
        named("sum", Sum, "complex f32", Complex::new(0.0_f32, 0.0)).measure(bytes, batches);
        named("product", Product, "complex f64", Complex::new(0.0_f64, 0.0)).measure(bytes, batches);
        named("sum", Sum, "u64", 0_u64).measure(bytes, batches);
        named("max", Max, "i32", 0_i32).measure(bytes, batches);
        named("max", Max, "f64", 0.0_f64).measure(bytes, batches);
        named("minloc", MinLoc, "2int", TwoInt::new(0, 0)).measure(bytes, batches);
    }
    Ok(())
}
