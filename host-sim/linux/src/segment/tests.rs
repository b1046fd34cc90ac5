//! UNSAFE: reads and writes a mapped inbox.

use std::io::Write;

use super::*;
use crate::board::{LifePhase, MAGIC};

const LABEL: Label = Label { job: 0xA1D15, rank: 1, size: 4 };
const BYTES: usize = BOARD_BYTES + 8192 + STAND_BYTES;

/// A memfd of `bytes` bytes with the seals asked for and nothing in it.
fn bare(bytes: usize, seals: SealFlag) -> OwnedFd {
    let file = memfd_create("test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    ftruncate(&file, off_t::try_from(bytes).unwrap()).unwrap();
    add_seals(&file, seals).unwrap();
    file
}

#[test]
fn two_mappings_of_a_segment_share_board_and_inbox() {
    let file = create(LABEL, BYTES).unwrap();
    let (owner, peer) =
        (Segment::open(&file, LABEL, BYTES).unwrap(), Segment::open(&file, LABEL, BYTES).unwrap());
    let view = BoardView::map(file.as_fd()).unwrap();
    drop(file);
    owner.board().enter(LifePhase::Running);
    assert_eq!(peer.board().read(0).phase, Some(LifePhase::Running));
    assert_eq!(view.board().read(0).phase, Some(LifePhase::Running));
    let [(ours, len), (theirs, _)] = [&owner, &peer].map(|segment| segment.parts(8192).unwrap().inbox);
    assert_eq!(len, 8192);
    // SAFETY: both mappings are alive, in bounds, and this thread is the only one that touches
    // them.
    unsafe {
        assert_eq!(theirs.add(len - 1).read_volatile(), 0, "a new inbox is zeroed");
        ours.add(len - 1).write_volatile(0x5A);
        assert_eq!(theirs.add(len - 1).read_volatile(), 0x5A);
    }
}

#[test]
fn a_segment_is_private_backed_and_sealed() {
    let file = create(LABEL, BYTES).unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!(stat.st_mode & 0o777, 0o600);
    assert_eq!(stat.st_blocks * 512, BYTES as i64, "every page is there");
    assert_eq!(ftruncate(&file, 4096), Err(Errno::EPERM), "sealed against shrinking");
    assert_eq!(ftruncate(&file, 1 << 20), Err(Errno::EPERM), "sealed against growing");
    assert_eq!(stat.st_nlink, 0, "no name in any file system");
}

#[test]
fn too_little_memory_is_an_error_with_both_numbers() {
    let need = 1_usize << 50;
    match create(LABEL, need) {
        Err(error @ SegmentError::NoMemory { need: told, have, refused: None }) => {
            assert_eq!(told, need as u64);
            assert!(have < told);
            assert!(error.to_string().contains("bytes needed"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_truncated_segment_is_refused() {
    let file = create(LABEL, BYTES - 4096).unwrap();
    assert_eq!(
        Segment::open(&file, LABEL, BYTES).unwrap_err(),
        SegmentError::Size { expected: BYTES as u64, found: BYTES as u64 - 4096 }
    );
    assert_eq!(
        Segment::open(&file, LABEL, 64).unwrap_err(),
        SegmentError::Size { expected: LEAST_BYTES as u64, found: 64 }
    );
}

#[test]
fn an_unsealed_segment_is_refused() {
    let expected = SEALS.bits();
    let file = bare(BYTES, SealFlag::F_SEAL_GROW);
    let found = SealFlag::F_SEAL_GROW.bits();
    assert_eq!(Segment::open(&file, LABEL, BYTES).unwrap_err(), SegmentError::Unsealed { expected, found });
}

#[test]
fn a_file_that_cannot_be_sealed_is_refused() {
    let mut file = std::fs::File::open("/dev/zero").unwrap();
    assert!(matches!(Segment::open(&file.into(), LABEL, BYTES), Err(SegmentError::Size { found: 0, .. })));
    let path = std::env::temp_dir().join(format!("aldis-segment-test-{}", std::process::id()));
    file = std::fs::File::create_new(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&[0; BYTES]).unwrap();
    assert!(matches!(Segment::open(&file.into(), LABEL, BYTES), Err(SegmentError::Unsealed { .. })));
}

#[test]
fn a_foreign_segment_is_refused() {
    let file = bare(BYTES, SEALS);
    assert_eq!(
        Segment::open(&file, LABEL, BYTES).unwrap_err(),
        SegmentError::Foreign { expected: MAGIC, found: 0 }
    );
    let other = Label { job: LABEL.job + 1, ..LABEL };
    let file = create(other, BYTES).unwrap();
    assert_eq!(
        Segment::open(&file, LABEL, BYTES).unwrap_err(),
        SegmentError::Mislabelled { expected: LABEL, found: other }
    );
}

/// The segments of three ranks and a table.
const SHAPE: FileShape = FileShape { ranks: 3, segment_bytes: BYTES - 64, table_bytes: 4224 };

#[test]
fn the_segments_of_a_node_stand_in_one_file_each_at_a_page() {
    let first = Label { rank: 1, ..LABEL };
    let (file, boards) = create_all(first, SHAPE).unwrap();
    let own = Label { rank: 2, ..LABEL };
    let OpenFile { segments, table } = Segment::open_all(&file, 1, own, SHAPE).unwrap();
    let table = table.unwrap().leak();
    assert_eq!(table.addr().get() - segments[0].bytes.start.addr().get(), 3 * BYTES);
    assert_eq!(table.len(), SHAPE.table_bytes);
    for (place, segment) in segments.iter().enumerate() {
        assert!(segment.bytes.start.addr().get().is_multiple_of(PAGE_BYTES));
        let label = Label { rank: place as u32 + 1, ..LABEL };
        assert_eq!(segment.board().check(label, BYTES as u64 - 64), Ok(()));
        segment.board().enter(LifePhase::Running);
        assert_eq!(boards[place].board().read(0).phase, Some(LifePhase::Running));
        assert!(
            boards[place + 1..].iter().all(|board| board.board().read(0).phase != Some(LifePhase::Running))
        );
    }
    let (start, bytes) = segments[2].parts(8192 - 64).unwrap().arena;
    assert_eq!((start.addr().get() - segments[2].bytes.start.addr().get(), bytes), (BYTES - 64, 0));
    let other = Label { job: 5, ..own };
    let found = Segment::open_all(&file, 1, other, SHAPE).unwrap_err();
    assert_eq!(found, SegmentError::Mislabelled { expected: other, found: own });
    for shape in [FileShape { ranks: 4, ..SHAPE }, FileShape { table_bytes: 0, ..SHAPE }] {
        assert!(matches!(Segment::open_all(&file, 1, own, shape), Err(SegmentError::Size { .. })));
    }
}

#[test]
fn every_error_reads_as_a_sentence() {
    let errors = [
        SegmentError::Foreign { expected: MAGIC, found: 1 },
        SegmentError::Mislabelled { expected: LABEL, found: Label { rank: 3, ..LABEL } },
        SegmentError::System { call: "mmap", errno: Errno::ENOMEM },
    ];
    let texts = errors.map(|error| error.to_string());
    assert!(texts[0].contains("where 0x01474553"), "{}", texts[0]);
    assert!(texts[1].starts_with("a segment of rank 3 of 4"), "{}", texts[1]);
    assert_eq!(texts[2], "mmap failed: Out of memory");
}

#[test]
fn pages_are_made_and_nothing_else() {
    let label = Label { job: 7, rank: 0, size: 1 };
    let bytes = LEAST_BYTES + 3 * PAGE_BYTES;
    let file = create(label, bytes).unwrap();
    let segment = Segment::open(&file, label, bytes).unwrap().leak();
    let (start, len) = segment.parts(3 * PAGE_BYTES).unwrap().inbox;
    // SAFETY: the mapping is alive, and this thread is the only one that touches it.
    unsafe { start.add(150).write_volatile(0x5A) };
    for stretch in [0..len, 100..200, len - 1..len, 5..5, len..len + PAGE_BYTES, 0..usize::MAX] {
        segment.populate(start, stretch);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { start.add(150).read_volatile() }, 0x5A);
    segment.board().check(label, bytes as u64).unwrap();
}
