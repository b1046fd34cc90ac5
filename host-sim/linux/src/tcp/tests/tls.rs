//! Ranks under TLS, and those that are kept out by it.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use aldis_kit::scratch::ScratchFolder;
use aldis_protocols::stream::StreamRefusal;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::pair::{
    WAYS, comes_before_it_is_lost, is_told_who_left_unmet, says_goodbye_on_what_it_has_chosen,
};
use super::*;
use crate::tcp::TcpError;
use crate::tcp::tls::{Files, TlsError};

/// An authority and what it has issued: `NAME.crt`, `NAME.key` and, for itself, `authority.crt`.
struct Authority<'a> {
    folder: &'a ScratchFolder,
    name: &'static str,
    issuer: Issuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn new(folder: &'a ScratchFolder, name: &'static str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        folder.write(&format!("{name}.crt"), &certificate.pem());
        Self { folder, name, issuer: Issuer::new(params, key) }
    }

    /// Files of a rank whose certificate is made out for `name`.
    fn issue(&self, file: &str, name: &str) -> Files {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = format!("{}-{file}", self.name);
        Files {
            certificate: self.folder.write(&format!("{file}.crt"), &certificate.pem()),
            key: self.folder.write(&format!("{file}.key"), &key.serialize_pem()),
            authority: self.folder.path().join(format!("{}.crt", self.name)),
            name: name.into(),
        }
    }
}

fn encrypted(files: Files) -> TcpConfig {
    TcpConfig { tls: Some(files), ..config(Family::V4) }
}

/// A job, each of whose ranks has its own configuration.
fn job_of(configs: &[TcpConfig]) -> Vec<Rank> {
    let ranks = configs.len() as u32;
    let mut all: Vec<_> =
        configs.iter().zip(0..).map(|(config, me)| Rank::listen(me, ranks, config)).collect();
    introduce(&mut all);
    all
}

#[test]
fn messages_pass_under_tls() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    let configs = ["a", "b", "c"].map(|rank| TcpConfig {
        links: 2,
        send_buffer: Some(8 << 10),
        ..encrypted(authority.issue(rank, "aldis"))
    });
    let mut ranks = job_of(&configs);
    let lengths = [1, 100, 5_000, 20_000, 60_000, 250_000];
    for round in 0..18 {
        let (from, to, length) = (round % 3, (round + 1 + round / 9) % 3, lengths[round % 6]);
        send(&mut ranks, from, to as u32, [b"head", &pattern(round, length)]);
        until(&mut ranks, "arrival", |ranks| !ranks[to].log.messages.is_empty());
        let (sender, message) = ranks[to].log.messages.pop().unwrap();
        assert_eq!(sender, from as u32);
        assert!(message == [b"head", &pattern(round, length)[..]].concat(), "round {round}");
    }
    // Many at once: most of them wait for the socket.
    for round in 0..40 {
        send(&mut ranks[..2], 0, 1, [b"", &pattern(round, 30_000)]);
    }
    until(&mut ranks, "arrivals", |ranks| ranks[1].log.messages.len() == 40);
    let all = ranks[1].log.messages.iter().enumerate();
    assert!(all.clone().all(|(round, (_, message))| *message == pattern(round, 30_000)));
    until(&mut ranks, "rest", |ranks| ranks.iter().all(|rank| rank.tcp.is_idle()));
    ranks.remove(0);
    until(&mut ranks, "farewell", |ranks| ranks.iter().all(|rank| !rank.log.lost.is_empty()));
    assert!(ranks.iter().all(|rank| rank.log.lost == [(0, Cause::PeerLeft)]));
}

#[test]
fn departures_are_told_under_tls() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    for links in 1..3 {
        let configs =
            ["a", "b", "c", "d"].map(|rank| TcpConfig { links, ..encrypted(authority.issue(rank, "aldis")) });
        is_told_who_left_unmet(job_of(&configs));
        WAYS.into_iter().for_each(|way| comes_before_it_is_lost(job_of(&configs[..2]), way));
        (0..2).for_each(|dials| says_goodbye_on_what_it_has_chosen(job_of(&configs[..2]), dials));
    }
}

/// Of three ranks the last does not fit. It is kept out whichever side begins, and the others go
/// on.
fn kept_out(fitting: [TcpConfig; 2], other: TcpConfig, refused: StreamRefusal, told: &[StreamRefusal]) {
    let [one, two] = fitting;
    let all = [one, two, other].map(|config| TcpConfig { connect_timeout: Duration::from_secs(2), ..config });
    let mut ranks = job_of(&all);
    ranks[2].tcp.expect(PeerId(0));
    ranks[1].tcp.expect(PeerId(2));
    until(&mut ranks, "refusals", |ranks| {
        ranks[0].counters().refused(refused) > 0 && ranks[1].log.lost.iter().any(|(peer, _)| *peer == 2)
    });
    send(&mut ranks, 0, 1, [b"", b"all the same"]);
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.len() == 1);
    assert_eq!(ranks[2].counters().opened, 0);
    let heard: u64 = told.iter().map(|why| ranks[2].counters().refused(*why)).sum();
    assert!(heard > 0, "{}", ranks[2].counters());
    assert!(ranks[0].log.lost.iter().all(|(peer, _)| *peer == 2));
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let folder = ScratchFolder::new("tls");
    let (authority, other) = (Authority::new(&folder, "authority"), Authority::new(&folder, "other"));
    let fitting = ["a", "b"].map(|rank| encrypted(authority.issue(rank, "aldis")));
    // It trusts the job's authority, as a thief would, but has a certificate of its own.
    let own = other.issue("thief", "aldis");
    kept_out(fitting, encrypted(own), StreamRefusal::Untrusted, &[StreamRefusal::Untrusted]);
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    let fitting = ["a", "b"].map(|rank| encrypted(authority.issue(rank, "aldis")));
    let web = authority.issue("web", "www.example.org");
    kept_out(fitting, encrypted(web), StreamRefusal::Untrusted, &[StreamRefusal::Untrusted]);
}

#[test]
fn plain_text_is_refused() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    let fitting = ["a", "b"].map(|rank| encrypted(authority.issue(rank, "aldis")));
    let told = [StreamRefusal::Foreign, StreamRefusal::Unreachable, StreamRefusal::Truncated];
    kept_out(fitting, config(Family::V4), StreamRefusal::Foreign, &told);
}

#[test]
fn strangers_at_a_rank_with_tls_do_no_harm() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    let patience = Duration::from_secs(3);
    let configs = ["a", "b"]
        .map(|rank| TcpConfig { connect_timeout: patience, ..encrypted(authority.issue(rank, "aldis")) });
    let mut ranks = job_of(&configs);
    let address = ranks[0].tcp.listens_at()[0];
    let connect = || TcpStream::connect(address).unwrap();
    connect().write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    drop(connect());
    // Records of a handshake that never come to their end.
    let mut slow = [connect(), connect()];
    for (stranger, length) in slow.iter_mut().zip([3, 100]) {
        let record = [&b"\x16\x03\x01\x40\0\x01\0\x3F\xFC\x03\x03"[..], &[7; 100]].concat();
        stranger.write_all(&record[..length]).unwrap();
    }
    send(&mut ranks, 1, 0, [b"", b"through"]);
    until(&mut ranks, "refusals", |ranks| {
        let refused = |why| ranks[0].counters().refused(why);
        ranks[0].log.messages.len() == 1
            && (refused(StreamRefusal::Foreign), refused(StreamRefusal::Silent), refused(StreamRefusal::Slow))
                == (1, 1, 2)
    });
    assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()));
}

#[test]
fn the_key_of_the_job_is_asked_for_under_tls_too() {
    let folder = ScratchFolder::new("tls");
    let authority = Authority::new(&folder, "authority");
    let configs = ["a", "b"].map(|rank| encrypted(authority.issue(rank, "aldis")));
    let mut ranks: Vec<_> = vec![Rank::listen(0, 2, &configs[0])];
    let stranger =
        Tcp::listen(TcpIdentity { key: JobKey::new([8; 32]), ..identity(1, 2) }, &configs[1]).unwrap();
    ranks.push(Rank { tcp: stranger, log: Log::default() });
    introduce(&mut ranks);
    ranks[1].tcp.expect(PeerId(0));
    until(&mut ranks, "refusal", |ranks| ranks[0].counters().refused(StreamRefusal::Job) > 0);
    assert_eq!(ranks[0].counters().opened, 0);
}

#[test]
fn what_is_wrong_with_which_file_is_named() {
    let folder = ScratchFolder::new("tls");
    let (authority, other) = (Authority::new(&folder, "authority"), Authority::new(&folder, "other"));
    let good = authority.issue("good", "aldis");
    let second = authority.issue("second", "aldis");
    let missing = folder.path().join("missing");
    let empty = folder.write("empty", "nothing here\n");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = folder.write("locked", locked);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let broken = folder.write("broken", broken);

    let refused = |files: &Files| {
        let refused = Tcp::listen(identity(0, 1), &encrypted(files.clone()));
        match refused.map(drop) {
            Err(TcpError::Tls(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let with = |change: &dyn Fn(&mut Files)| {
        let mut files = good.clone();
        change(&mut files);
        refused(&files)
    };
    let read = TlsError::Read { path: missing.clone(), kind: ErrorKind::NotFound };
    assert_eq!(with(&|files| files.certificate = missing.clone()), read);
    assert_eq!(with(&|files| files.key = missing.clone()), read);
    assert_eq!(with(&|files| files.authority = missing.clone()), read);
    let what = "private key";
    assert_eq!(with(&|files| files.key = empty.clone()), TlsError::Empty { path: empty.clone(), what });
    assert_eq!(with(&|files| files.key = locked.clone()), TlsError::Encrypted { path: locked.clone() });
    let what = "certificate";
    assert_eq!(with(&|files| files.authority = empty.clone()), TlsError::Empty { path: empty.clone(), what });
    let unusable = with(&|files| files.authority = broken.clone());
    assert!(matches!(&unusable, TlsError::Unusable { path, .. } if *path == broken), "{unusable}");
    let mismatch = TlsError::Mismatch { certificate: good.certificate.clone(), key: second.key.clone() };
    assert_eq!(with(&|files| files.key = second.key.clone()), mismatch);
    let name = "not a name".to_owned();
    assert_eq!(with(&|files| files.name = name.clone()), TlsError::Name { name: name.clone() });
    let elsewhere = authority.issue("elsewhere", "www.example.org");
    for files in [
        Files { name: "aldis".into(), ..elsewhere },
        Files { authority: folder.path().join("authority.crt"), ..other.issue("own", "aldis") },
    ] {
        let error = refused(&files);
        assert!(matches!(&error, TlsError::Refused { path, .. } if *path == files.certificate), "{error}");
        assert!(error.to_string().contains(&files.certificate.display().to_string()), "{error}");
    }
    assert_eq!(refused(&Files::new(missing.clone(), &good.key, &good.authority)), read);
}
