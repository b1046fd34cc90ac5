//! Jobs whose connections are encrypted: what the user gives is what the ranks get.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::harness::behave;
use crate::hosts::folder;

/// Two ranks on two nodes, given these files of the folder.
fn options(paths: &[String; 3]) -> Vec<&str> {
    let [certificate, key, authority] = paths;
    let host = ["--host", "local:a,local:b"];
    [&host[..], &["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authority]].concat()
}

#[test]
fn ranks_with_certificates_talk_and_others_are_told_what_is_wrong() {
    let folder = folder("tls");
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = write("ca.pem", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["aldis".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let mut paths = [write("a.pem", certificate.pem()), write("a.key", key.serialize_pem()), authority];
    let ended = behave(2, &options(&paths), "rounds");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 2, "{ended:#?}");
    paths[1] = folder.join("missing.key").to_str().unwrap().to_owned();
    behave(2, &options(&paths), "rounds")
        .says(1, &["cannot join the job: rank ", "missing.key cannot be read"]);
}
