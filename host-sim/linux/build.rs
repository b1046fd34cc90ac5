//! Makes the calls of librdmacm known to the transport over verbs. Nothing is to be done without
//! that feature.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "verbs")]
    rdmacm();
}

/// Its types that libibverbs has are those of `ibverbs_sys`, and addresses are libc's.
#[cfg(feature = "verbs")]
fn rdmacm() {
    println!("cargo:rustc-link-lib=rdmacm");
    let folder = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    let made = bindgen::Builder::default()
        .header_contents("rdmacm.h", "#include <rdma/rdma_cma.h>")
        .allowlist_function("rdma_(create|destroy)_(event_channel|id)")
        .allowlist_function(
            "rdma_(get|ack)_cm_event|rdma_(bind|resolve)_addr|rdma_resolve_route|rdma_get_src_port",
        )
        .allowlist_function("rdma_(listen|connect|accept|reject|establish|disconnect|init_qp_attr)")
        .allowlist_type("rdma_cm_event_type|rdma_port_space")
        .blocklist_type("_?ibv_.*|sockaddr.*|__sockaddr.*|__ss.*|in6?_addr.*|in_port_t|sa_family_t")
        .opaque_type("rdma_route|rdma_addr|rdma_ud_param")
        .raw_line(
            "use ibverbs_sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_qp_attr, ibv_srq};",
        )
        .raw_line("use ibverbs_sys::ibv_qp_type::Type as ibv_qp_type;")
        .raw_line("use nix::libc::sockaddr;")
        .prepend_enum_name(false)
        .derive_debug(false)
        .layout_tests(false)
        .generate()
        .expect("bindings of <rdma/rdma_cma.h> (Debian: librdmacm-dev libclang-dev)");
    made.write_to_file(format!("{folder}/rdmacm.rs")).expect("cargo's OUT_DIR can be written to");
}
