//! Reports of an endpoint about the requests that are under way.

use aldis_kernel::{Rank, Scope, Source, Standing, Tag, TagMatch};
use aldis_kit::rig::{Clock, Job, Shape, Wire, settle, together};

fn told(scope: &mut Scope<'_, '_, '_, Wire, Clock>) -> Vec<String> {
    let mut lines = Vec::new();
    scope.diagnostics().pending(|request| lines.push(request.to_string()));
    lines
}

#[test]
fn every_request_in_use_is_told_with_whom_and_what_and_how_far_it_is() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = [ranks[0].world(), ranks[1].world()];
    let (long, mut memory) = ([1_u8; 900], [0_u8; 8]);
    let (mut any, mut exact, mut own, mut whole) = ([0_u8; 8], [0_u8; 4], [0_u8; 2], [0_u8; 900]);
    together(&mut ranks, |one, other| {
        let sending = one.isend(&worlds[0], &long, Rank(1), Tag(7))?;
        settle(one, other);
        assert_eq!(told(one), ["send sending, rank 1, tag 7, communicator 0, 0 of 900 bytes"]);
        let memory = other.lend(&mut memory);
        let idle = other.send_init(&worlds[1], memory, 0..8, Rank(0), Tag(4))?;
        let exact = other.irecv(&worlds[1], &mut exact, Rank(0), Tag(2))?;
        let own = other.irecv(&worlds[1], &mut own, Rank(1), Tag(3))?;
        let itself = other.isend(&worlds[1], &[5_u8; 2], Rank(1), Tag(3))?;
        settle(one, other);
        let matched = other.mprobe(&worlds[1], Rank(0), Tag(7))?;
        let any = other.irecv(&worlds[1], &mut any, Source::Any, TagMatch::Any)?;
        assert_eq!(
            told(other),
            [
                "send idle, rank 0, tag 4, communicator 0, 0 of 8 bytes",
                "recv posted, rank 0, tag 2, communicator 0, 0 of 4 bytes",
                "recv complete, rank 1, tag 3, communicator 0, 2 of 2 bytes",
                "recv matched, rank 0, tag 7, communicator 0, 0 of 900 bytes",
                "recv posted, any rank, any tag, communicator 0, 0 of 8 bytes",
            ]
        );
        let mut requests = [exact, any];
        for request in &mut requests {
            assert!(other.cancel(request));
        }
        let receiving = other.imrecv(matched, &mut whole)?;
        other.detach(receiving);
        let mut standings = Vec::new();
        other.diagnostics().pending(|request| standings.push((request.standing, request.is_let_go)));
        assert!(standings.contains(&(Standing::Receiving, false)), "{standings:?}");
        settle(one, other);
        other.wait(own)?;
        other.wait(itself)?;
        one.wait(sending)?;
        drop(idle);
        Ok(())
    })
    .unwrap();
    for rank in &mut ranks {
        rank.diagnostics().pending(|request| panic!("{request} is left"));
    }
    assert_eq!(whole, long);
}
