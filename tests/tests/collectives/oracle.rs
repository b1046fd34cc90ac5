//! Random calls, their inputs, and what must come out, worked out one rank after another.

use core::num::NonZeroUsize;

use aldis_coll::allreduce;
use aldis_coll::barrier;
use aldis_coll::bcast;
use aldis_coll::catalog::algorithms;
use aldis_coll::exscan;
use aldis_coll::op::{BitXor, Element, Max, Min, Product, Reduce, Sum};
use aldis_coll::reduce;
use aldis_coll::scan;
use aldis_coll::schedule::least_scratch;
use aldis_coll::{Collective, ContiguousCall, Options};
use aldis_kernel::hal::Operation;
use aldis_kernel::{Comm, Error, Rank};
use aldis_tests::thread_jobs::Scope;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Composition of affine maps x -> a x + b: associative, does not commute.
#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Affine {
    pub(crate) a: u32,
    pub(crate) b: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Compose;
impl Reduce<Affine> for Compose {
    const COMMUTES: bool = false;
    fn reduce(left: Affine, right: Affine) -> Affine {
        Affine { a: left.a.wrapping_mul(right.a), b: left.a.wrapping_mul(right.b).wrapping_add(left.b) }
    }
}

/// Element `index` of `rank` in the job `seed`: SplitMix64.
pub(crate) fn noise(seed: u64, rank: u32, index: usize) -> u64 {
    let mut z = seed
        .wrapping_add(u64::from(rank).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .wrapping_add((index as u64).wrapping_mul(0xD1B5_4A32_D192_ED03));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Inputs, of which a sum over a few ranks is exact whatever its order.
pub(crate) trait Sample: Copy + PartialEq + core::fmt::Debug {
    fn sample(noise: u64) -> Self;
}
impl Sample for i8 {
    fn sample(noise: u64) -> Self {
        noise as i8
    }
}
impl Sample for u16 {
    fn sample(noise: u64) -> Self {
        noise as u16
    }
}
impl Sample for i32 {
    fn sample(noise: u64) -> Self {
        noise as i32
    }
}
impl Sample for u64 {
    fn sample(noise: u64) -> Self {
        noise
    }
}
impl Sample for f32 {
    fn sample(noise: u64) -> Self {
        f32::from(noise as i16)
    }
}
impl Sample for f64 {
    fn sample(noise: u64) -> Self {
        f64::from(noise as i32)
    }
}
impl Sample for Affine {
    fn sample(noise: u64) -> Self {
        Self { a: noise as u32, b: (noise >> 32) as u32 }
    }
}

pub(crate) fn inputs<E: Sample>(seed: u64, rank: u32, count: usize) -> Vec<E> {
    (0..count).map(|index| E::sample(noise(seed, rank, index))).collect()
}

/// A call of a random job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomCall {
    pub(crate) operation: Operation,
    /// The number of the algorithm among the operation's; the one that selection takes where there
    /// are not so many, or it cannot.
    pub(crate) algorithm: usize,
    /// The root, if the operation has one.
    pub(crate) root: u32,
    /// The type that is reduced, and the operation on it.
    pub(crate) kind: u8,
    pub(crate) count: usize,
    pub(crate) scratch: usize,
    /// Elements of a segment, if the call says so.
    pub(crate) segment: Option<NonZeroUsize>,
}

/// Buffers of a call: data and scratch.
#[derive(Debug, PartialEq)]
pub(crate) enum Data {
    None,
    I8(Vec<i8>, Vec<i8>),
    U16(Vec<u16>, Vec<u16>),
    I32(Vec<i32>, Vec<i32>),
    U64(Vec<u64>, Vec<u64>),
    F32(Vec<f32>, Vec<f32>),
    F64(Vec<f64>, Vec<f64>),
    Affine(Vec<Affine>, Vec<Affine>),
}

pub(crate) fn fold<E: Sample + Element, R: Reduce<E>>(_: R, seed: u64, size: u32, count: usize) -> Vec<E> {
    let all: Vec<Vec<E>> = (0..size).map(|rank| inputs(seed, rank, count)).collect();
    (0..count).map(|index| all.iter().map(|one| one[index]).reduce(R::reduce).unwrap()).collect()
}

impl RandomCall {
    pub(crate) fn data(&self, seed: u64, rank: u32) -> Data {
        fn pair<E: Sample>(seed: u64, rank: u32, count: usize, scratch: usize) -> (Vec<E>, Vec<E>) {
            (inputs(seed, rank, count), vec![E::sample(7); scratch])
        }
        macro_rules! of {
            ($kind:ident) => {{
                let (data, scratch) = pair(seed, rank, self.count, self.scratch);
                Data::$kind(data, scratch)
            }};
        }
        match (self.operation, self.kind) {
            (Operation::Barrier, _) => Data::None,
            (Operation::Bcast, _) => Data::I32(inputs(seed, rank, self.count), Vec::new()),
            (_, 0) => of!(I8),
            (_, 1) => of!(U16),
            (_, 2) => of!(I32),
            (_, 3) => of!(U64),
            (_, 4) => of!(F32),
            (_, 5) => of!(F64),
            _ => of!(Affine),
        }
    }

    pub(crate) fn options(&self, size: u32, by_control_slots: bool) -> Options {
        let commutes = self.kind < 6;
        let named = algorithms(self.operation).get(self.algorithm).filter(|it| it.serves(size));
        let named = named.filter(|it| self.scratch >= least_scratch(**it, size));
        let options = match named.filter(|it| commutes || it.keeps_rank_order()) {
            _ if by_control_slots && !self.scans() => Options::shared(),
            Some(&named) => Options::using(named),
            None => Options::default(),
        };
        Options { segment: self.segment, ..options }
    }

    fn scans(&self) -> bool {
        matches!(self.operation, Operation::Scan | Operation::Exscan)
    }

    /// Starts it.
    pub(crate) fn start<'scope>(
        &self,
        scope: &mut Scope<'scope, '_, '_, '_>,
        world: &Comm,
        data: &'scope mut Data,
        options: Options,
    ) -> Result<Collective<'scope>, Error> {
        self.begin(scope, world, data, options, false)
    }

    /// Makes it, to be started any number of times.
    pub(crate) fn persistent<'scope>(
        &self,
        scope: &mut Scope<'scope, '_, '_, '_>,
        world: &Comm,
        data: &'scope mut Data,
        options: Options,
    ) -> Result<Collective<'scope>, Error> {
        self.begin(scope, world, data, options, true)
    }

    fn begin<'scope>(
        &self,
        scope: &mut Scope<'scope, '_, '_, '_>,
        world: &Comm,
        data: &'scope mut Data,
        options: Options,
        is_persistent: bool,
    ) -> Result<Collective<'scope>, Error> {
        let root = Rank(self.root);
        let mut begin = |call: ContiguousCall<'scope>| match is_persistent {
            true => call.with(&options).persistent(scope, world),
            false => call.with(&options).start(scope, world),
        };
        macro_rules! reduce {
            ($op:ident, $data:ident, $scratch:ident) => {
                match self.operation {
                    Operation::Allreduce => begin(allreduce($op, $data, $scratch)),
                    Operation::Scan => begin(scan($op, $data, $scratch)),
                    Operation::Exscan => begin(exscan($op, $data, $scratch)),
                    _ => begin(reduce($op, $data, $scratch, root)),
                }
            };
        }
        match (self.operation, data) {
            (Operation::Bcast, Data::I32(data, _)) => begin(bcast(data, root)),
            (_, Data::None) => begin(barrier()),
            (_, Data::I8(data, scratch)) => reduce!(Sum, data, scratch),
            (_, Data::U16(data, scratch)) => reduce!(BitXor, data, scratch),
            (_, Data::I32(data, scratch)) => reduce!(Min, data, scratch),
            (_, Data::U64(data, scratch)) => reduce!(Product, data, scratch),
            (_, Data::F32(data, scratch)) => reduce!(Max, data, scratch),
            (_, Data::F64(data, scratch)) => reduce!(Sum, data, scratch),
            (_, Data::Affine(data, scratch)) => reduce!(Compose, data, scratch),
        }
    }

    /// Gives it other data, before it is started again.
    pub(crate) fn refill<'scope>(
        &self,
        scope: &mut Scope<'scope, '_, '_, '_>,
        started: &mut Collective<'scope>,
        seed: u64,
        rank: u32,
    ) -> Result<(), Error> {
        macro_rules! fill {
            ($element:ty) => {
                started.edit(scope, |data: &mut [$element]| {
                    data.copy_from_slice(&inputs(seed, rank, self.count));
                })
            };
        }
        match (self.operation, self.kind) {
            (Operation::Barrier, _) => Ok(()),
            (Operation::Bcast, _) => fill!(i32),
            (_, 0) => fill!(i8),
            (_, 1) => fill!(u16),
            (_, 2) => fill!(i32),
            (_, 3) => fill!(u64),
            (_, 4) => fill!(f32),
            (_, 5) => fill!(f64),
            _ => fill!(Affine),
        }
    }

    /// Checks that `rank` has ended with what it must.
    pub(crate) fn check(&self, seed: u64, rank: u32, size: u32, data: &Data) {
        let count = self.count;
        // The ranks whose data are reduced, from 0 on.
        let size = match self.operation {
            Operation::Reduce if self.root != rank => return,
            Operation::Scan => rank + 1,
            Operation::Exscan => rank.max(1),
            _ => size,
        };
        match (self.operation, data) {
            (Operation::Bcast, Data::I32(data, _)) => {
                assert_eq!(*data, inputs::<i32>(seed, self.root, count));
            }
            (_, Data::None) => {}
            (_, Data::I8(data, _)) => assert_eq!(*data, fold::<i8, _>(Sum, seed, size, count)),
            (_, Data::U16(data, _)) => assert_eq!(*data, fold::<u16, _>(BitXor, seed, size, count)),
            (_, Data::I32(data, _)) => assert_eq!(*data, fold::<i32, _>(Min, seed, size, count)),
            (_, Data::U64(data, _)) => assert_eq!(*data, fold::<u64, _>(Product, seed, size, count)),
            (_, Data::F32(data, _)) => assert_eq!(*data, fold::<f32, _>(Max, seed, size, count)),
            (_, Data::F64(data, _)) => assert_eq!(*data, fold::<f64, _>(Sum, seed, size, count)),
            (_, Data::Affine(data, _)) => assert_eq!(*data, fold::<Affine, _>(Compose, seed, size, count)),
        }
    }
}
