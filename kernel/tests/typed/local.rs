//! Typed data that takes no message.

use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use aldis_kit::rig::{Job, Shape, pattern, together};

#[test]
fn data_is_copied_from_one_type_to_another_of_its_signature() {
    // Less than a piece, pieces that end inside an element, and none.
    for rows in [0_u64, 1, 5, 63, 64, 65, 300] {
        let (mut job, mut table) = (Job::new(2, Shape::default()), TypeTable::<8, 256>::new());
        let mut ranks = job.ranks();
        ranks[0].attach_types(table.types()).unwrap();
        let types = ranks[0].types().unwrap();
        let column = types.vector(rows, 1, 3, Basic::U64).unwrap();
        let column = types.commit(column).unwrap();
        let odd = types.hvector(rows, 1, 11, Basic::U64).unwrap();
        let odd = types.commit(odd).unwrap();
        let from = pattern(1, rows as usize * 24);
        let mut into = vec![0xEE; rows as usize * 11 + 2];
        together(&mut ranks, |one, _| {
            let from = Typed::new(&from, 1, column);
            assert_eq!(one.typed_bytes(&from), Ok(8 * rows));
            let into = one.lend(&mut into);
            one.copy_typed(&TypedMut::lent(into, 1, odd).with_origin(2), &from)?;
            Ok(())
        })
        .unwrap();
        for (at, byte) in into.into_iter().enumerate() {
            let expected = match at.checked_sub(2).map(|at| (at / 11, at % 11)) {
                Some((row, at)) if at < 8 => from[row * 24 + at],
                _ => 0xEE,
            };
            assert_eq!(byte, expected, "{rows} rows, byte {at}");
        }
    }
}

#[test]
fn what_cannot_be_copied_says_why_and_is_left_alone() {
    let (mut job, mut table) = (Job::new(2, Shape::default()), TypeTable::<8, 256>::new());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let (from, mut into) = ([1_u8; 16], [0_u8; 16]);
    together(&mut ranks, |one, _| {
        let missing = Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 };
        assert_eq!(one.typed_bytes(&Typed::new(&from, 1, Basic::U8)), Err(missing));
        Ok(())
    })
    .unwrap();
    ranks[0].attach_types(table.types()).unwrap();
    together(&mut ranks, |one, _| {
        let into = one.lend(&mut into);
        let outside = Typed::new(&from, 17, Basic::U8);
        assert_eq!(one.typed_bytes(&outside), Err(Cause::TooBig { len: 17, max: 16 }));
        let (two, whole) = (Typed::new(&from, 2, Basic::U32), TypedMut::lent(into, 4, Basic::U32));
        let differ = Cause::LengthMismatch { left: 8, right: 16 };
        assert_eq!(one.copy_typed(&whole, &two), Err(differ));
        let floats = Typed::new(&from, 4, Basic::F32);
        assert!(matches!(one.copy_typed(&whole, &floats), Err(Cause::SignatureMismatch { .. })));
        let four = Typed::new(&from, 4, Basic::U32);
        let mut receiving = one.irecv_part(&world, into, 12..16, Rank(1), Tag(1))?;
        assert_eq!(one.copy_typed(&whole, &four), Err(Cause::Busy));
        one.edit(into, 0..12, |bytes| assert_eq!(bytes, [0; 12]))?;
        one.cancel(&mut receiving);
        one.copy_typed(&whole, &four).map_err(Into::into)
    })
    .unwrap();
    assert_eq!(into, from);
}
