//! UNSAFE: arenas of plain memory.

use super::*;

fn arena(bytes: usize) -> &'static Arena {
    #[derive(Clone, Copy)]
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "memory")] [u8; 4096]);
    let pages = vec![Page([0; 4096]); bytes.div_ceil(4096)].leak();
    // SAFETY: leaked, and reached through the arena alone from here on.
    Box::leak(Box::new(unsafe { Arena::new(NonNull::from(pages).cast(), bytes, 0) }))
}

#[test]
fn blocks_are_aligned_and_apart_and_come_back() {
    let arena = arena(1 << 16);
    let (mut one, mut two) = (arena.allocate::<u8>(100).unwrap(), arena.allocate::<u64>(9).unwrap());
    let wide = arena.allocate_aligned::<u16>(3, 4096).unwrap();
    assert!(wide.as_ptr().addr().is_multiple_of(4096) && two.as_ptr().addr().is_multiple_of(64));
    one.fill(7);
    two.fill(u64::MAX);
    assert!(one.len() == 100 && one.iter().all(|&byte| byte == 7));
    assert!(two.len() == 9 && two.iter().all(|&word| word == u64::MAX));
    let inside = Memory { start: NonNull::from(&one[..]).cast(), len: 100 };
    assert!(arena.holds(inside));
    assert!(
        !arena.holds(Memory { len: 1 << 17, ..inside }) && !arena.holds(Memory { len: usize::MAX, ..inside })
    );
    drop((one, two, wide));
    assert_eq!(arena.free(), 1 << 16);
    assert_eq!(arena.allocate::<u8>(1 << 16).unwrap().len(), 1 << 16);
}

#[test]
fn what_cannot_be_had_is_told_with_a_remedy() {
    let text = |error: ArenaError| error.to_string();
    assert!(text(arena(0).allocate::<u8>(5).unwrap_err()).contains("aldis-run --arena SIZE"));
    assert_eq!(arena(0).allocate::<u64>(0).unwrap().len(), 0);
    let small = arena(8192);
    assert_eq!(small.allocate::<u64>(usize::MAX / 4).unwrap_err(), ArenaError::TooLong);
    let error = small.allocate::<u8>(8193).unwrap_err();
    assert!(text(error).contains("8192 are free") && text(error).contains("larger --arena"), "{error}");
    for align in [0, 48, 96, 2 * ALIGN_MAX] {
        assert_eq!(small.allocate_aligned::<u8>(1, align).unwrap_err(), ArenaError::Alignment { align });
    }
    let all: Vec<_> = core::iter::from_fn(|| small.allocate::<u8>(1).ok()).collect();
    assert_eq!(all.len(), 8192 / ALIGN_MIN);
}

#[test]
fn sizes_are_read_with_their_units() {
    let sizes = ["0", "4096", "64K", "3m", "2G", "1025G", "", "K", "-1", "4T", "99999999999999999999"];
    let expected = [
        Some(0),
        Some(4096),
        Some(64 << 10),
        Some(3 << 20),
        Some(2 << 30),
        None,
        None,
        None,
        None,
        None,
        None,
    ];
    assert_eq!(sizes.map(parse_bytes)[..5], expected[..5]);
    assert!(sizes[6..].iter().all(|size| parse_bytes(size).is_none()));
    assert_eq!(parse_bytes("1025G"), None);
}

#[test]
fn staging_memory_is_behind_the_blocks_and_given_away_once() {
    let pages = vec![[0u8; 4096]; 3].leak();
    // SAFETY: leaked, aligned enough for what is asked of it, and the arena's alone.
    let arena: &'static Arena =
        Box::leak(Box::new(unsafe { Arena::new(NonNull::from(pages).cast(), 3 * 4096, 4096) }));
    assert_eq!((arena.bytes(), arena.free()), (8192, 8192));
    let staging = arena.take_staging().unwrap();
    assert_eq!(staging.len(), 4096);
    assert_eq!(staging.as_ptr().addr(), arena.address() + 8192);
    assert!(arena.take_staging().is_none());
    assert!(
        arena.holds(Memory { start: NonNull::from(staging).cast(), len: 4096 }),
        "its peers have it mapped"
    );
}
