//! Output of the tools that cannot be written: each tells it and fails, and keeps quiet towards a
//! reader that has read enough.

use aldis_kit::outputs::{self, PrintingCall};

const SHORT: [PrintingCall; 6] = [
    (env!("CARGO_BIN_EXE_aldis-run"), "--help"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--version"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--list-algorithms"),
    (env!("CARGO_BIN_EXE_aldis-run"), "--explain-collective allreduce:8:1M"),
    (env!("CARGO_BIN_EXE_aldis-nic"), "--help"),
    (env!("CARGO_BIN_EXE_aldis-nic"), "list"),
];

#[test]
fn a_full_device_is_an_error() {
    outputs::a_full_device_is_an_error(&SHORT);
}

#[test]
fn a_closed_output_is_an_error() {
    outputs::a_closed_output_is_an_error(&SHORT);
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    outputs::a_reader_that_has_gone_is_no_error(&SHORT);
}

#[test]
fn an_output_that_is_thrown_away_is_no_error() {
    outputs::an_output_that_is_thrown_away_is_no_error(&SHORT);
}
