//! The rank programs of `tests/programs` on threads: by themselves over loopback, and several over
//! shared memory.

use core::time::Duration;

use aldis_linux::cores;
use aldis_programs::heat::{Plate, PlateMemory};
use aldis_programs::{DIGEST, Parameters, Program, ProgramFailure, digest, flood, run};

/// Runs a program on so many ranks; what each printed.
fn play(program: Program, ranks: u32, count: u32) -> Vec<String> {
    let parameters = Parameters { count: Some(count), deadline: Duration::from_secs(60), sharing: 3 };
    let outputs = cores::run(ranks, |ep| {
        let mut out = String::new();
        run(program, ep, &parameters, &mut out)?;
        Ok(out)
    });
    outputs.unwrap()
}

/// The verdict, which must be the last line.
fn verdict(output: &str) -> &str {
    output
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("verdict: OK "))
        .unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn pairs_play_ping_pong_and_who_has_no_partner_plays_alone() {
    for ranks in [1, 2, 5] {
        for (rank, output) in play(Program::Pingpong, ranks, 40).into_iter().enumerate() {
            assert_eq!(verdict(&output), "pingpong messages=120");
            // Of each pair one rank reports.
            let partner = if rank as u32 ^ 1 < ranks { rank ^ 1 } else { rank };
            assert_eq!(output.lines().count(), if rank <= partner { 4 } else { 1 });
            assert!(rank > partner || output.contains(&format!("64 B to rank {partner} and back: mean ")));
        }
    }
}

/// The plate of the program, computed the plainest way.
fn heated(steps: u32) -> u64 {
    const SIDE: usize = 32;
    let mut plate = vec![vec![0.0; SIDE + 2]; SIDE + 2];
    for (row, column) in (0..SIDE).flat_map(|row| (0..SIDE).map(move |column| (row, column))) {
        plate[row + 1][column + 1] = ((row * 37 + column * 23 + row * column * 7) % 101) as f64;
    }
    for _ in 0..steps {
        let old = plate.clone();
        for (row, column) in (1..=SIDE).flat_map(|row| (1..=SIDE).map(move |column| (row, column))) {
            let (north, south) = (old[row - 1][column], old[row + 1][column]);
            let (west, east) = (old[row][column - 1], old[row][column + 1]);
            let here = old[row][column];
            plate[row][column] = here + 0.2 * ((north + south) + (west + east) - 4.0 * here);
        }
    }
    let rows = (0..).zip(&plate[1..=SIDE]);
    let hash = |(row, cells): (u64, &Vec<f64>)| {
        cells[1..=SIDE].iter().fold(digest(DIGEST, row), |hash, cell| digest(hash, cell.to_bits()))
    };
    rows.map(hash).fold(0, u64::wrapping_add)
}

#[test]
fn heat_has_one_digest_on_any_number_of_ranks() {
    let expected = format!("heat steps=100 digest={:016x}", heated(100));
    for ranks in [1, 2, 3, 4, 7] {
        for output in play(Program::Heat, ranks, 100) {
            assert_eq!(verdict(&output), expected);
        }
    }
}

#[test]
fn a_plate_has_no_strip_for_more_ranks_than_rows() {
    let plate = Plate { width: 4, height: 2 };
    let failed = cores::run(3, |ep| {
        let mut memory = [[0.0; 32]; 2];
        let [cells, next] = &mut memory;
        Ok(plate.solve(ep, Duration::from_secs(1), 1, PlateMemory { cells, next }))
    });
    assert!(
        failed.unwrap().into_iter().all(|result| result == Err(ProgramFailure::Ranks { min: 1, max: 2 }))
    );
}

#[test]
fn collectives_are_right_on_every_rank() {
    for ranks in [1, 2, 3, 4] {
        let outputs = play(Program::Collectives, ranks, 3);
        let verdicts: Vec<&str> = outputs.iter().map(|output| verdict(output)).collect();
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{verdicts:?}");
        assert!(verdicts[0].starts_with("collectives steps="), "{verdicts:?}");
        assert!(outputs[0].contains(&format!("collectives over {ranks} ranks: mean ")));
    }
}

#[test]
fn a_flood_is_read_late_and_in_order() {
    let outputs = play(Program::Flood, 4, 10);
    let each = 10 * (flood::BURST + 1);
    assert_eq!(verdict(&outputs[0]), format!("flood messages={}", 3 * each));
    assert!(outputs[1..].iter().all(|output| verdict(output) == format!("flood messages={each}")));
}

#[test]
fn a_rank_of_one_core_plays_those_that_share() {
    for ranks in [2, 3] {
        for output in play(Program::Sharing, ranks, 5) {
            assert_eq!(verdict(&output), "sharing messages=17");
        }
    }
}

#[test]
fn a_program_that_fails_says_so_last_and_ends_the_job() {
    let parameters = Parameters { count: Some(1), deadline: Duration::from_millis(20), sharing: 1 };
    let outputs = cores::run(1, |ep| {
        let mut out = String::new();
        let failure = run(Program::Flood, ep, &parameters, &mut out).unwrap_err();
        Ok((out, failure, ep.aborted().is_some()))
    });
    let (out, failure, aborted) = outputs.unwrap().remove(0);
    assert_eq!(out, format!("verdict: FAILED {failure}\n"));
    assert_eq!(failure, ProgramFailure::Ranks { min: 2, max: u32::MAX });
    assert!(aborted);
}
