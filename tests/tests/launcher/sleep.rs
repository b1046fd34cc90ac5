//! Ranks that wait for long sleep until a peer rings, and burn no core meanwhile.

use std::process::Command;

use aldis_sys::fault::PLAN_VARIABLE;

use crate::harness::{Ended, RANK, launch, program};

/// A job of more ranks than cores, of which all but the last wait until the system says that they
/// sleep.
fn doze(ranks: u32, name: &str, value: &str) -> Ended {
    let mut command = Command::new(program("aldis-run"));
    command.env(name, value).args(["-n", &ranks.to_string(), "--timeout", "55"]);
    command.args(["--transport", "shm", RANK, "doze"]);
    let ended = launch(command).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended
}

/// Numbers in the lines that have this word.
fn numbers(ended: &Ended, word: &str) -> Vec<u64> {
    let lines = ended.out.lines().filter_map(|line| line.split_once(word));
    lines.flat_map(|(_, said)| said.split(' ').filter_map(|part| part.parse().ok())).collect()
}

/// The sleeps and yields of each rank.
fn counts(ended: &Ended) -> Vec<[u64; 2]> {
    numbers(ended, "counts: ").chunks(2).map(|pair| [pair[0], pair[1]]).collect()
}

/// By naps alone each would sleep ten times a millisecond, and without sleep offer its core as
/// often.
#[test]
fn many_ranks_on_few_cores_sleep_until_they_are_woken() {
    let ranks = 32;
    let ended = doze(ranks, "ALDIS_SLEEP", "on");
    let (counts, waited) = (counts(&ended), numbers(&ended, "waited: "));
    assert_eq!((counts.len(), waited.len()), (ranks as usize, 1), "{ended:#?}");
    let [sleeps, yields] = counts.iter().fold([0, 0], |sum, rank| [sum[0] + rank[0], sum[1] + rank[1]]);
    let ranks = u64::from(ranks);
    assert!((ranks - 1..ranks * (128 + waited[0] / 4)).contains(&sleeps), "{sleeps} sleeps in {waited:?} ms");
    assert!(yields < ranks * 8192, "{yields} yields");
    assert!(!ended.out.contains("ranks that wait nap"), "{ended:#?}");
}

#[test]
fn ranks_that_their_system_lets_no_peer_wake_nap_and_say_so() {
    let refused = "; ranks that wait nap, as the system refuses membarrier(2) to one of them";
    let told = "; ranks that wait nap, as ALDIS_SLEEP says";
    for (variable, says) in [
        ((PLAN_VARIABLE, "membarrier@1..=EPERM"), refused),
        ((PLAN_VARIABLE, "rank1:membarrier@1=ENOSYS"), refused),
        (("ALDIS_SLEEP", "off"), told),
        // Refused when it comes to it.
        ((PLAN_VARIABLE, "membarrier@2..=EPERM"), ""),
        ((PLAN_VARIABLE, "futex@1..=ENOSYS"), ""),
        ((PLAN_VARIABLE, "rank1:futex@1..=EPERM"), ""),
    ] {
        let ended = doze(6, variable.0, variable.1);
        let counts = counts(&ended);
        let napped = counts.iter().filter(|[sleeps, _]| *sleeps > 0).count();
        assert!(counts.len() == 6 && napped >= 5, "{variable:?}: {ended:#?}");
        assert!(ended.out.contains(says), "{variable:?}: {ended:#?}");
        assert_eq!(ended.out.contains("ranks that wait nap"), !says.is_empty(), "{variable:?}: {ended:#?}");
    }
}
