//! The corpora, tried again: what was found once is not lost.
#![allow(missing_docs)]

use std::path::Path;

use aldis_fuzz::TARGETS;

#[test]
fn every_target_passes_on_its_corpus() {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let files = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}; cargo xtask fuzz --keep", folder.display()));
        let mut count = 0;
        for file in files {
            let path = file.unwrap().path();
            println!("aldis-fuzz {} {}", target.name, path.display());
            (target.run)(&std::fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }
}

/// Bytes that a generator of a line makes, on every target: none needs an engine that knows the
/// code.
#[test]
fn every_target_passes_on_noise() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    for target in TARGETS {
        for len in 0..300 {
            let bytes: Vec<u8> = (0..len).map(|_| next()).collect();
            (target.run)(&bytes);
        }
    }
}
