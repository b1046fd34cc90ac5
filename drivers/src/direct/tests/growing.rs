//! This module holds `unsafe` code: regions whose bytes are put in place after they are shown.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A region that grows is read as far as it has, whatever its length and from wherever the read
    /// begins: no byte before it is in place, and all of them in the end.
    #[test]
    fn what_grows_is_read_as_it_grows(
        len in 1usize..700_000, first in 0usize..1000, mut steps in proptest::collection::vec(1usize..200_000, 0..12),
    ) {
        let ([mut owner, mut reader], _) = pair(true, false);
        let (data, whole) = (vec![0u8; first + len], pattern(first + len));
        let (mut into, untouched) = (vec![0xEE; len], vec![0xEE; len]);
        let access = Access::LOCAL_READ | Access::REMOTE_READ | Access::GROWS;
        let shown = register(&mut owner, PeerId(1), &data, access).unwrap();
        let mut key = [0; 8];
        owner.pack_key(shown, &mut key).unwrap();
        let remote = RemoteAddress { key: &key, offset: first as u64 };
        prop_assert!(matches!(reader.mapped(PeerId(0), remote, len as u64), Err(Cause::Unsupported)));
        let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
        let local = Gather { region, offset: 0, len };
        prop_assert_eq!(reader.get(PeerId(0), local, remote, TOKEN), Post::Queued);
        prop_assert_eq!(poll(&mut reader), []);
        steps.push(first + len);
        let (mut ready, start) = (0, data.as_ptr().cast_mut());
        for step in steps {
            let next = (ready + step).min(first + len);
            // SAFETY: these bytes are not in place yet, so that nothing reads them.
            unsafe { start.add(ready).copy_from_nonoverlapping(whole[ready..].as_ptr(), next - ready) };
            ready = next;
            owner.grow(shown, ready as u64);
            prop_assert_eq!(poll(&mut owner), []);
            let mut log = Vec::new();
            (0..8).for_each(|_| log.extend(poll(&mut reader)));
            let there = ready.saturating_sub(first);
            prop_assert_eq!(&into[..there], &whole[first..first + there]);
            prop_assert_eq!(&into[there..], &untouched[there..]);
            if ready == first + len {
                prop_assert_eq!(log, [(TOKEN, Ok(()))]);
                break;
            }
            prop_assert_eq!(log, []);
        }
        into[0] = 0;
    }
}

/// Nothing that was taken back before all of it was in place is taken for what was asked for.
#[test]
fn a_region_that_is_taken_back_before_it_has_grown_is_stale() {
    let ([mut owner, mut reader], _) = pair(false, false);
    let (data, into) = (pattern(40_000), vec![0; 40_000]);
    let access = Access::LOCAL_READ | Access::REMOTE_READ | Access::GROWS;
    let shown = register(&mut owner, PeerId(1), &data, access).unwrap();
    let mut key = [0; 8];
    owner.pack_key(shown, &mut key).unwrap();
    let region = register(&mut reader, PeerId(0), &into, Access::LOCAL_WRITE).unwrap();
    let local = Gather { region, offset: 0, len: 40_000 };
    let remote = RemoteAddress { key: &key, offset: 0 };
    assert_eq!(reader.get(PeerId(0), local, remote, TOKEN), Post::Queued);
    owner.grow(shown, 10_000);
    assert_eq!(poll(&mut reader), []);
    owner.deregister(shown).unwrap();
    assert_eq!(poll(&mut reader), [(TOKEN, Err(Cause::Stale))]);
    // Nor is one grown that does not: a name that is stale, or a region shown whole.
    owner.grow(shown, 1);
    let whole = register(&mut owner, PeerId(1), &data, Access::LOCAL_READ | Access::REMOTE_READ).unwrap();
    owner.grow(whole, 1);
    owner.pack_key(whole, &mut key).unwrap();
    assert_eq!(reader.get(PeerId(0), local, RemoteAddress { key: &key, offset: 0 }, TOKEN), Post::Queued);
    assert_eq!(poll(&mut reader), [(TOKEN, Ok(()))]);
    assert_eq!(into, data);
}
