//! Probe: section 3.8.1.

use aldis_coll::comm::{dup, free};
use aldis_hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::{LENGTHS, message};

cases! {
    "3.8.1", 2: a_probe_tells_of_a_message_and_leaves_it;
    "3.8.1", 1: iprobe_finds_nothing_where_nothing_is;
    "3.8.1", 2: a_probe_tells_of_the_message_that_a_receive_would_get;
    "3.8.1", 3: a_probe_of_any_source_and_a_receive_from_it_are_about_one_message;
    "3.8.1", 2: a_probe_looks_into_its_own_communicator;
    "3.8.1", 2: a_probe_finds_every_tag_in_any_order;
    "3.8.1", 2: iprobe_finds_a_message_in_the_end;
}

fn a_probe_tells_of_a_message_and_leaves_it<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            ep.send(&world, &message(number, len), Rank(1), Tag(number))?;
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(100))?;
            continue;
        }
        for _ in 0..3 {
            let status = ep.probe(&world, Rank(0), Tag(number))?;
            assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(number), len as u64));
            let again = ep.iprobe(&world, Source::Any, TagMatch::Any)?;
            assert_eq!(again, Some(status));
        }
        let mut buffer = vec![0; len];
        ep.recv(&world, &mut buffer, Rank(0), Tag(number))?;
        assert_eq!(buffer, message(number, len));
        assert_eq!(ep.iprobe(&world, Rank(0), Tag(number))?, None, "it was received");
        ep.send::<u8>(&world, &[], Rank(0), Tag(100))?;
    }
    Ok(())
}

fn iprobe_finds_nothing_where_nothing_is<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8]);
    assert_eq!(ep.iprobe(&world, Source::Any, TagMatch::Any)?, None);
    ep.scope(|scope| {
        let sending = scope.isend(&world, &[1_u8], Rank(0), Tag(1))?;
        drop(sending);
        let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
        scope.wait(receiving)
    })?;
    assert_eq!(ep.iprobe(&world, Source::Any, TagMatch::Any)?, None, "it was received");
    Ok(())
}

fn a_probe_tells_of_the_message_that_a_receive_would_get<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..9).map(|number| message(number, 11 * number as usize)).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in (0..).zip(&data) {
                sends.push(scope.isend(&world, data, Rank(1), Tag(number % 2))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for number in [1, 0, 3, 5, 2, 4, 7, 6, 8] {
        let status = ep.probe(&world, Rank(0), Tag(number % 2))?;
        assert_eq!(status.bytes, 11 * u64::from(number), "the first of this tag that is left");
        let mut buffer = vec![0; status.bytes as usize];
        ep.recv(&world, &mut buffer, Rank(0), Tag(number % 2))?;
        assert_eq!(buffer, message(number, 11 * number as usize));
    }
    Ok(())
}

fn a_probe_of_any_source_and_a_receive_from_it_are_about_one_message<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let me = world.rank().0;
    if me > 0 {
        for number in 0..6 {
            ep.send(&world, &message(10 * me + number, (50 * me + number) as usize), Rank(0), Tag(number))?;
        }
        return Ok(());
    }
    let mut next = [0; 3];
    for _ in 0..12 {
        let status = ep.probe(&world, Source::Any, TagMatch::Any)?;
        let (from, number) = (status.source.0, status.tag.0);
        assert_eq!(number, next[from as usize], "in the order of sending");
        let mut buffer = vec![0; status.bytes as usize];
        let received = ep.recv(&world, &mut buffer, status.source, status.tag)?;
        assert_eq!(received, status);
        assert_eq!(buffer, message(10 * from + number, (50 * from + number) as usize));
        next[from as usize] += 1;
    }
    Ok(())
}

fn a_probe_looks_into_its_own_communicator<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0_u8; 2]);
    let copy = dup(ep, &world)?;
    if world.rank() == Rank(0) {
        ep.send(&copy, &[1_u8], Rank(1), Tag(1))?;
        ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
        ep.send(&world, &[2_u8; 2], Rank(1), Tag(1))?;
    } else {
        assert_eq!(ep.probe(&copy, Source::Any, TagMatch::Any)?.bytes, 1);
        assert_eq!(ep.iprobe(&world, Source::Any, TagMatch::Any)?, None);
        ep.send::<u8>(&world, &[], Rank(0), Tag(2))?;
        assert_eq!(ep.probe(&world, Source::Any, TagMatch::Any)?.bytes, 2);
        ep.recv(&world, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, [2; 2]);
        ep.recv(&copy, &mut buffer, Rank(0), Tag(1))?;
        assert_eq!(buffer, [1, 2]);
    }
    Ok(free(ep, copy)?)
}

fn a_probe_finds_every_tag_in_any_order<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..20).map(|number| message(number, 20 * number as usize)).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in (0..).zip(&data) {
                sends.push(scope.isend(&world, data, Rank(1), Tag(number))?);
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for number in (0..20).map(|step| step * 7 % 20) {
        assert_eq!(ep.probe(&world, Source::Any, Tag(number))?.bytes, 20 * u64::from(number));
    }
    for number in 0..20 {
        let mut buffer = vec![0; 20 * number as usize];
        assert_eq!(
            ep.recv(&world, &mut buffer, Rank(0), TagMatch::Any)?.tag,
            Tag(number),
            "a probe moves nothing"
        );
        assert_eq!(buffer, message(number, 20 * number as usize));
    }
    Ok(())
}

/// Asked again and again, it finds what has been sent.
fn iprobe_finds_a_message_in_the_end<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for (number, len) in (0..).zip(LENGTHS) {
        if world.rank() == Rank(0) {
            ep.send(&world, &message(number, len), Rank(1), Tag(number))?;
            continue;
        }
        let status = loop {
            if let Some(status) = ep.iprobe(&world, Source::Any, Tag(number))? {
                break status;
            }
        };
        assert_eq!((status.source, status.bytes), (Rank(0), len as u64));
        let mut buffer = vec![0; len];
        ep.recv(&world, &mut buffer, Rank(0), Tag(number))?;
        assert_eq!(buffer, message(number, len));
    }
    Ok(())
}
