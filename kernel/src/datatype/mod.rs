//! Datatypes and the convertor: data that lies scattered in memory, described once, packed and
//! unpacked in any pieces (MPI 4.1, chapter 5).
//!
//! A [`TypeTable`] is memory of the user's; its [`Types`] make, tell about and free types, and a
//! [`Convertor`] moves data with them. Nothing allocates, recurses or panics.
//!
//! | file | what it holds |
//! |---|---|
//! | `basic`, `handle` | basic types, names of types |
//! | `signature` | sequences of basic types as a hash |
//! | `table` | slots with generations and reference counts; the words that types share |
//! | `construct` | the constructors: rows, vectors, indexed types, structures |
//! | `array` | subarray and darray |
//! | `compile`, `node`, `layout` | what they become: nodes to walk, and facts to ask for |
//! | `contents`, `query` | what a type was made of; sizes, extents, type map, overlap |
//! | `walk` | from any position of the packed stream on, run by run |
//! | `convertor`, `transfer` | pieces of the stream; the tight loops |
//! | `external` | external32 and the other byte order |
//! | `held` | what messages under way are of |
//!
//! # A column of a matrix
//!
//! ```
//! use aldis_kernel::datatype::{Basic, Form, TypeTable};
//! # fn main() -> Result<(), aldis_kernel::hal::Cause> {
//! let mut table = TypeTable::<8, 128>::new();
//! let mut types = table.types();
//! // Row-major, 3 x 4. Resized to one element, so that a count of two means two neighbouring
//! // columns.
//! let matrix: [[u8; 4]; 3] = [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]];
//! let column = types.vector(3, 1, 4, Basic::U8)?;
//! let column = types.resized(column, 0, 1)?;
//! let column = types.commit(column)?;
//! let mut packed = [0; 6];
//! types.pack(Form::Native, matrix.as_flattened(), 2, column, &mut packed, &mut 0)?;
//! assert_eq!(packed, [0, 10, 20, 1, 11, 21]);
//! # Ok(())
//! # }
//! ```
//!
//! # A structure with padding
//!
//! ```
//! use core::mem::offset_of;
//! use aldis_kernel::datatype::{Basic, Field, Form, TypeTable};
//! # fn main() -> Result<(), aldis_kernel::hal::Cause> {
//! #[repr(C)]
//! struct Particle {
//!     kind: u8,
//!     mass: f64,
//!     place: [f32; 3],
//! }
//! let mut table = TypeTable::<8, 128>::new();
//! let mut types = table.types();
//! let particle = types.structure(&[
//!     Field::new(offset_of!(Particle, kind), Basic::U8),
//!     Field::new(offset_of!(Particle, mass), Basic::F64),
//!     Field::array(offset_of!(Particle, place), 3, Basic::F32),
//! ])?;
//! assert_eq!(types.extent(particle)?.extent, size_of::<Particle>() as i64);
//! assert_eq!(types.size(particle)?, 1 + 8 + 12);
//! // What two machines must agree upon is the signature, not the layout.
//! let flat = types.structure(&[
//!     Field::new(0, Basic::U8),
//!     Field::new(1, Basic::F64),
//!     Field::array(9, 3, Basic::F32),
//! ])?;
//! assert_eq!(types.signature(particle, 5)?, types.signature(flat, 5)?);
//! # Ok(())
//! # }
//! ```
//!
//! # The halo of a box
//!
//! ```
//! use aldis_kernel::datatype::{Basic, Convertor, Form, Order, Slice, TypeTable};
//! # fn main() -> Result<(), aldis_kernel::hal::Cause> {
//! let mut table = TypeTable::<8, 128>::new();
//! let mut types = table.types();
//! // 4 x 4 cells inside a rim of one: the eastern rim is filled from a neighbour.
//! let rim = [Slice { size: 6, count: 4, start: 1 }, Slice { size: 6, count: 1, start: 5 }];
//! let rim = types.subarray(&rim, Order::C, Basic::F64)?;
//! let rim = types.commit(rim)?;
//! let mut cells = [[0.0f64.to_ne_bytes(); 6]; 6];
//! let arrived = [5.0f64.to_be_bytes(); 4];
//! // The numbers arrive big-endian, and in pieces that end inside one.
//! let mut convertor = Convertor::new(&types, rim, 1, Form::External32)?;
//! for piece in arrived.as_flattened().chunks(5) {
//!     convertor.unpack(&types, cells.as_flattened_mut().as_flattened_mut(), piece)?;
//! }
//! assert_eq!(convertor.remaining(), 0);
//! assert!((1..5).all(|row| f64::from_ne_bytes(cells[row][5]) == 5.0));
//! assert!((1..5).all(|row| f64::from_ne_bytes(cells[row][4]) == 0.0));
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! A constructor writes two things into the table's words: its arguments, for [`Types::contents`],
//! and a compiled node. A node is a *grid* (regular loops around one part) or a *list* (stretches
//! of parts anywhere). Compiling is where things get simple: a grid of a grid is one grid, loops
//! that continue each other are one loop, adjacent blocks are one block, regular blocks are a loop,
//! a type that is one run of bytes is a leaf. So a matrix column, a subarray and a duplicate of a
//! resized vector are all one loop of the same tight copy. Types are compiled when they are made,
//! once; [`Types::commit`] is a proof for the compiler, not work.
//!
//! Types refer to the types that they are made of and count those references: a freed type keeps
//! its slot and words until nothing is made of it, as MPI 4.1, 5.1.9 demands. Copying descriptions
//! instead would be as simple, but costs the words again at every use, and compilation hardly needs
//! the parts anyway. Words have no holes: when a type is freed, those behind it move down.
//!
//! The packed stream of (type, count) has positions. A convertor is one; a call walks down from
//! there with a fixed array of [`DEPTH_MAX`] frames, by division in grids and by bisection in
//! lists. So pieces may be packed in any order, by any holder of the sixty-four bytes, and nothing
//! needs to be undone when a piece is lost.
//!
//! Limits: sizes, extents and displacements of 63 bits, checked when a type is made; memory checked
//! once a call. No reordering: entries that overlap are packed like any others, and are the
//! receiver's error, which [`Types::overlaps`] finds. There is no `MPI_PACKED`: packed data is sent
//! as [`Basic::Byte`]. There are no complex and no pair types: they are two elements in a row.
#![forbid(unsafe_code)]

mod array;
mod basic;
mod compile;
mod construct;
mod contents;
mod convertor;
mod external;
mod handle;
mod held;
mod layout;
mod node;
mod order;
mod query;
mod signature;
mod table;
mod transfer;
mod walk;

pub use array::{Distribution, Order, Slice, Spread};
pub use basic::Basic;
pub use construct::{Field, IndexedBlock};
pub use contents::{Combiner, ConstructorBlocks, Contents, Envelope, Slices, Spreads};
pub use convertor::Convertor;
pub(crate) use convertor::addresses;
pub use external::Form;
pub use handle::{Committed, Datatype};
pub(crate) use held::Held;
pub use query::{DataSpan, Extent, Placed, TypeMap};
pub use signature::Signature;
pub use table::{TypeTable, Types};

/// Levels of lists (indexed types, structures) in each other, with the grids between them. The walk
/// keeps a frame of 32 bytes for each on the stack.
pub const DEPTH_MAX: usize = 16;
/// Dimensions of a subarray or darray, and of nested regular types that are walked as one level.
/// Fortran has 15.
pub const DIMENSIONS_MAX: usize = 16;
