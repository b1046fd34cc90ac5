//! Links the image by the script that ArceOS writes for its platform.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    // Where `axhal` puts it: in the folder of this profile.
    println!("cargo::rustc-link-arg-bins=-T{}/../../../linker_x86-pc.lds", of("OUT_DIR"));
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Its lists of handlers are found by the ends of their sections.
    println!("cargo::rustc-link-arg-bins=-znostart-stop-gc");
}
