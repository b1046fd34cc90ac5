//! Trials of "safe means sound": what a program without `unsafe` can try on memory that it has lent, with two endpoints
//! at a time. What it must not be able to say at all does not compile: `kernel/src/buffer.rs` and `kernel/src/typed.rs` have
//! those examples.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use aldis_drivers::Loopback;
use aldis_hal::{Cause, Epoch, PeerId};
use aldis_host_sim::platform::{HostPlatform, Patience};
use aldis_kernel::{Config, Endpoint, Rank, Storage, Tag, storage_type};

type Room = storage_type!(1, 8, 2, 8, 2, 256, 2, 16);
type Alone<'m> = Endpoint<'m, Loopback<'m>, HostPlatform>;

/// The memory of a job of one.
struct Home {
    room: Box<Room>,
    frames: Vec<u8>,
}

impl Home {
    fn new() -> Self {
        Self { room: Box::new(Storage::new()), frames: vec![0; 4096] }
    }

    fn endpoint(&mut self) -> Alone<'_> {
        let transport = Loopback::new(PeerId(0), &mut self.frames, 512).unwrap();
        let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
        let platform = HostPlatform::unwatched(Patience::SHARED);
        Endpoint::new(self.room.memory(), transport, platform, config).unwrap()
    }
}

/// Both scopes work on what they were lent, one inside of the other, and neither sees anything of the other's.
#[test]
fn nested_scopes_of_two_endpoints_each_have_their_own_memory() {
    let (mut here, mut there) = (Home::new(), Home::new());
    let (mut one, mut two) = (here.endpoint(), there.endpoint());
    let (first, second) = (one.world(), two.world());
    let (mut left, mut right) = ([0u8; 16], [0u8; 16]);
    one.scope(|outer| {
        let left = outer.lend(&mut left);
        let mut coming = outer.irecv_part(&first, left, 0..8, Rank(0), Tag(1))?;
        two.scope(|inner| {
            let right = inner.lend(&mut right);
            let mut coming = inner.irecv_part(&second, right, 8..16, Rank(0), Tag(1))?;
            assert_eq!(inner.edit(right, 0..9, |_| ()).unwrap_err().cause, Cause::Busy);
            let mut going = inner.isend(&second, &[2u8; 8], Rank(0), Tag(1))?;
            inner.wait_for(&mut going)?;
            inner.wait_for(&mut coming)?;
            outer.edit(left, 8..16, |ours| {
                inner.edit(right, 0..8, |theirs| theirs.fill(4)).unwrap();
                ours.fill(3);
            })
        })?;
        let mut going = outer.isend(&first, &[1u8; 8], Rank(0), Tag(1))?;
        outer.wait_for(&mut going)?;
        outer.wait_for(&mut coming).map(drop)
    })
    .unwrap();
    assert_eq!(
        (left, right),
        ([1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3], [4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2])
    );
}
