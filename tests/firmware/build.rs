//! Links the image by `link.x` when it is built for bare metal.

fn main() {
    println!("cargo::rerun-if-changed=link.x");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.x");
        // The image stays where it is linked to, also where the target's code could be moved.
        println!("cargo::rustc-link-arg-bins=--no-pie");
    }
}
