//! The tests are tested: each defect, in the machine or in its caller, must be found by what finds
//! nothing without it.

use std::println;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};

use super::hostile::lies;
use super::pair::{Broken, Pair};
use super::paths::PATHS;
use super::plans;
use crate::sabotage::{Defect, with};

const DEFECTS: [Defect; 16] = [
    Defect::NoKarn,
    Defect::NoBackOff,
    Defect::NoFastRetransmit,
    Defect::NoCongestionWindow,
    Defect::NoDelayTimer,
    Defect::NoPersistence,
    Defect::PlainCompare,
    Defect::TrustsAcks,
    Defect::IgnoresBitmap,
    Defect::NeverRepeats,
    Defect::HandsUpTwice,
    Defect::ForgetsDuplicates,
    Defect::ReleasesEarly,
    Defect::AdmitsStale,
    Defect::ClaimsStored,
    Defect::TrustsChecksum,
];

/// Checks everything: the situations, the lies and, last, some adverse networks.
fn inspect() -> Result<(), Broken> {
    for (_, path) in PATHS {
        path()?;
    }
    lies()?;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(RunnerConfig::default(), rng);
    for _ in 0..60 {
        let plan = plans().new_tree(&mut runner).map_err(|reason| std::format!("{reason}"))?.current();
        Pair::new(plan).run()?;
    }
    Ok(())
}

#[test]
fn every_defect_is_found() {
    assert_eq!(with(None, inspect), Ok(()));
    for defect in DEFECTS {
        let verdict = with(Some(defect), inspect);
        println!("{defect:?}: {verdict:?}");
        assert!(verdict.is_err(), "not found: {defect:?}");
    }
}
