//! The cases of messages and collectives over frames of a network card.

use aldis_kit::network::{CABLE, command};
use aldis_tests::jobs::{launch, program};

#[test]
fn every_case_of_messages_and_collectives_passes_over_frames() {
    let Some(mut job) = command(CABLE, program("aldis-run")) else { return };
    let options = "-n 4 --transport ethernet --nic packet:v0";
    job.args(options.split_whitespace()).args([env!("CARGO_BIN_EXE_conformance"), "rank", "all", "7"]);
    let ended = launch(job).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}
