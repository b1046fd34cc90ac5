//! Links the image by its architecture's script when it is built for bare metal.

fn main() {
    println!("cargo::rerun-if-changed=src/arch");
    let of = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of("OS") != "none" {
        return;
    }
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let arch = of("ARCH");
    println!("cargo::rustc-link-arg-bins=-T{folder}/src/arch/{arch}.ld");
    if arch == "arm" {
        // The table of log messages, which stays in the ELF file.
        println!("cargo::rustc-link-arg-bins=-Tdefmt.x");
    }
    // The image stays where it is linked to, also where the target's code could be moved.
    println!("cargo::rustc-link-arg-bins=--no-pie");
}
