//! Prints the bytes that a rank on Linux sets aside for another, a figure a line, for
//! `cargo xtask size`.

use aldis_linux::peer_bytes::{ALL, PeerBytes};

fn main() {
    for PeerBytes { name, bytes } in ALL {
        println!("{bytes}\t{name}");
    }
}
