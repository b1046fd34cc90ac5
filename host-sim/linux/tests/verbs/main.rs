//! The transport over verbs, on a machine with soft RoCE (`rxe`) and on one without any RDMA device
//! (`none`): `cargo xtask verbs test` runs the first in a guest.

mod rxe;

mod none {
    use aldis_hal::{Epoch, PeerId};
    use aldis_linux::verbs::{Verbs, VerbsConfig, VerbsError};

    #[test]
    fn a_machine_without_a_device_is_told() {
        let error = Verbs::open(PeerId(0), Epoch(1), 2, &VerbsConfig::default()).unwrap_err();
        assert_eq!(error, VerbsError::NoDevice);
        assert!(error.to_string().starts_with("no RDMA device found"), "{error}");
    }
}
