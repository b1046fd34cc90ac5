//! Chapter 8: virtual topologies.

use aldis_coll::comm::{Choice, Dimension, Grid, free};
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Tag};

use super::Outcome;

cases! {
    "8.5.1", 8: a_grid_takes_the_first_ranks_and_leaves_the_others;
    "8.5.1", 4: a_grid_that_is_too_large_is_an_error_on_all_ranks;
    "8.5.5", 6: coordinates_and_ranks_are_row_major;
    "8.5.6", 6: a_shift_goes_round_a_torus_and_ends_at_an_edge;
    "8.5.6", 9: halos_are_exchanged_on_a_torus;
    "8.5.7", 8: slices_of_a_grid_are_grids;
}

const fn along(extent: u32, is_periodic: bool) -> Dimension {
    Dimension { extent, is_periodic }
}

fn a_grid_takes_the_first_ranks_and_leaves_the_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?;
    assert_eq!(grid.is_some(), world.rank().0 < 6);
    if let Some(grid) = grid {
        assert_eq!((grid.comm().size(), grid.comm().rank()), (6, world.rank()));
        assert_eq!(grid.dimensions(), dimensions);
        free(ep, *grid.comm())?;
    }
    Ok(())
}

fn a_grid_that_is_too_large_is_an_error_on_all_ranks<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (dimensions, places) in
        [([along(5, true), along(1, true)], 5), ([along(2, false), along(0, true)], 0)]
    {
        let error = Grid::create(ep, &world, &dimensions).expect_err("it has no such places");
        assert_eq!(error.cause, Cause::LengthMismatch { left: places, right: 4 });
    }
    Ok(())
}

fn coordinates_and_ranks_are_row_major<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has six places")?;
    let mut own = [9; 2];
    for rank in 0..6 {
        grid.coordinates(Rank(rank), &mut own)?;
        assert_eq!(own, [rank / 3, rank % 3]);
        let [row, column] = own.map(|coordinate| coordinate as i32);
        for turns in [-1, 0, 2] {
            assert_eq!(grid.rank(&[row, column + 3 * turns]), Ok(Rank(rank)), "round and round");
        }
    }
    assert_eq!(grid.rank(&[2, 0]), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
    assert_eq!(grid.rank(&[1]), Err(Cause::LengthMismatch { left: 1, right: 2 }));
    assert_eq!(grid.coordinates(Rank(6), &mut own), Err(Cause::RankOutOfRange { rank: 6, size: 6 }));
    Ok(free(ep, *grid.comm())?)
}

fn a_shift_goes_round_a_torus_and_ends_at_an_edge<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has six places")?;
    let me = world.rank().0;
    let (row, column) = (me / 3, me % 3);
    let at = |column: u32| Rank(row * 3 + column % 3);
    assert_eq!(grid.shift(1, 1), Ok((at(column + 2), at(column + 1))));
    assert_eq!(grid.shift(1, -2), Ok((at(column + 2), at(column + 1))), "two back is one on");
    let down = if row == 0 { (Rank::NULL, Rank(me + 3)) } else { (Rank(me - 3), Rank::NULL) };
    assert_eq!(grid.shift(0, 1), Ok(down));
    assert_eq!(grid.shift(2, 1), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
    let (from, to) = down;
    let mut got = [99];
    ep.sendrecv(grid.comm(), &[me], to, Tag(0), &mut got, from, Tag(0))?;
    assert_eq!(got, [if row == 0 { 99 } else { me - 3 }]);
    Ok(free(ep, *grid.comm())?)
}

fn halos_are_exchanged_on_a_torus<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(3, true); 2]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has nine places")?;
    let (me, comm) = (world.rank().0, *grid.comm());
    for step in 0..3 {
        let edge = [1000 * step + me; 50];
        let mut rims = [[0_u32; 50]; 4];
        ep.scope(|scope| {
            let mut requests = Vec::new();
            for (side, rim) in (0..).zip(&mut rims) {
                let (from, _) =
                    grid.shift(side / 2, if side % 2 == 0 { 1 } else { -1 }).expect("two dimensions");
                requests.push(scope.irecv(&comm, rim, from, Tag(side as u32))?);
            }
            for side in 0..4 {
                let (_, to) =
                    grid.shift(side / 2, if side % 2 == 0 { 1 } else { -1 }).expect("two dimensions");
                requests.push(scope.isend(&comm, &edge, to, Tag(side as u32))?);
            }
            scope.wait_all(&mut requests)
        })?;
        let at = |row: u32, column: u32| [1000 * step + row % 3 * 3 + column % 3; 50];
        let (row, column) = (me / 3, me % 3);
        let due = [at(row + 2, column), at(row + 1, column), at(row, column + 2), at(row, column + 1)];
        assert_eq!(rims, due);
    }
    Ok(free(ep, comm)?)
}

fn slices_of_a_grid_are_grids<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(2, true), along(2, false)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has eight places")?;
    let me = world.rank().0;
    let (mut scratch, mut kept) = ([Choice::NONE; 8], [Dimension::default(); 3]);
    let plane = grid.sub(ep, &[true, false, true], &mut kept, &mut scratch)?;
    assert_eq!(plane.dimensions(), [along(2, false), along(2, false)]);
    let (deep, low) = (me / 4, me % 2);
    assert_eq!(plane.comm().rank(), Rank(2 * deep + low));
    let members: Vec<u32> = ep.group(plane.comm())?.processes().map(|process| process.0).collect();
    let middle = me / 2 % 2 * 2;
    assert_eq!(members, [middle, middle + 1, middle + 4, middle + 5]);
    let plane = *plane.comm();
    let mut got = [0];
    let other = Rank(3 - plane.rank().0);
    ep.sendrecv(&plane, &[me], other, Tag(1), &mut got, other, Tag(1))?;
    assert_eq!(got, [members[other.0 as usize]]);
    free(ep, plane)?;
    Ok(free(ep, *grid.comm())?)
}
