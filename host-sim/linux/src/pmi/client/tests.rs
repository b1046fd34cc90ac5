//! A client against managers that say what Hydra and Slurm say, and against those that do not.

use core::time::Duration;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use super::*;

/// The answers of Hydra to a process of version 1, by command, in the words of mpich 4.0.2.
const HYDRA: [(&str, &str); 6] = [
    (
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
    ),
    ("cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
    ("cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1\n"),
    ("cmd=put kvsname=kvs_1 key=a-0 value=1:4869\n", "cmd=put_result rc=0 msg=success\n"),
    ("cmd=barrier_in\n", "cmd=barrier_out\n"),
    ("cmd=get kvsname=kvs_1 key=a-0\n", "cmd=get_result rc=0 msg=success value=1:4869\n"),
];

/// The answers of Slurm to a process of version 2, in the words of slurm 22.05.
const SLURM: [(&str, &str); 6] = [
    (
        "cmd=init pmi_version=2 pmi_subversion=0\n",
        "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
    ),
    (
        "    49cmd=fullinit;pmijobid=0;pmirank=1;threaded=FALSE;",
        "114   cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
    ),
    ("    14cmd=job-getid;", "38    cmd=job-getid-response;rc=0;jobid=7.0;"),
    ("    33cmd=kvs-put;key=a-0;value=1:4869;", "26    cmd=kvs-put-response;rc=0;"),
    ("    14cmd=kvs-fence;", "28    cmd=kvs-fence-response;rc=0;"),
    (
        "    39cmd=kvs-get;jobid=7.0;srcid=-1;key=a-0;",
        "50    cmd=kvs-get-response;rc=0;found=TRUE;value=1:4869;",
    ),
];

/// A manager that knows these answers, and the place of its only process. It closes when it
/// receives anything else.
fn manager(version: Version, script: &[(&str, &str)]) -> (ManagedRank, JoinHandle<()>) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let script: Vec<_> = script.iter().map(|(ask, say)| ((*ask).to_owned(), (*say).to_owned())).collect();
    let talk = std::thread::spawn(move || {
        for (ask, say) in script {
            let mut heard = vec![0; ask.len()];
            if ours.read_exact(&mut heard).is_err() || heard != ask.as_bytes() {
                return;
            }
            // By byte and byte: messages come in any pieces. A process that gives up listens no
            // more.
            let _ = say.bytes().try_for_each(|byte| ours.write_all(&[byte]));
        }
    });
    (ManagedRank { socket: theirs.into(), rank: 1, size: 2, version, job: "0".into() }, talk)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// The first error of a process that goes all the way.
fn talk(managed_rank: ManagedRank) -> Result<Vec<u8>, PmiError> {
    let mut client = Client::introduce(managed_rank, soon())?;
    assert_eq!((client.rank(), client.size()), (1, 2));
    client.put("a", b"Hi", soon())?;
    client.fence(soon())?;
    client.get("a", soon())
}

#[test]
fn both_versions_go_all_the_way() {
    for (version, script) in [(Version::One, &HYDRA), (Version::Two, &SLURM)] {
        let (managed_rank, manager) = manager(version, script);
        assert_eq!(talk(managed_rank), Ok(b"Hi".to_vec()), "{version:?}");
        manager.join().unwrap();
    }
}

#[test]
fn whatever_a_manager_says_instead_is_told_with_the_command() {
    let dialogues = [(Version::One, &HYDRA), (Version::Two, &SLURM)];
    for (version, script) in dialogues {
        for (at, (command, _)) in script.iter().enumerate() {
            for (nonsense, told) in [
                ("", "closed the connection"),
                ("cmd=huh rc=0\n", "cmd=huh"),
                ("    13cmd=huh;rc=0;", "cmd=huh"),
                ("\n\n\n\n\n\n\n", "no message of PMI"),
                ("  9999cmd", "closed the connection"),
                ("999999cmd", "9cmd"),
            ] {
                let mut broken = script[..=at].to_vec();
                broken[at].1 = nonsense;
                let (managed_rank, manager) = manager(version, &broken);
                let error = talk(managed_rank).unwrap_err();
                manager.join().unwrap();
                let PmiError::Command { command: named, fault } = &error else { panic!("{error}") };
                assert!(command.contains(named), "{named} is not {command}");
                let cut = matches!(fault, AnswerFault::Closed | AnswerFault::TooLong);
                assert!(
                    cut || error.to_string().contains(told) || matches!(fault, AnswerFault::Malformed { .. }),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn answers_without_what_they_are_for_are_refused() {
    for (at, said, told) in [
        (1, "cmd=maxes kvsname_max=256 vallen_max=1024\n", "no sound `keylen_max`"),
        (1, "cmd=maxes keylen_max=-1 vallen_max=1024\n", "no sound `keylen_max`"),
        (1, "cmd=maxes keylen_max=64 vallen_max=5\n", "room for 4 characters a value"),
        (1, "cmd=maxes keylen_max=3 vallen_max=64\n", "room for 2 characters a key"),
        (2, "cmd=my_kvsname kvsname=\n", "no sound `kvsname`"),
        (
            3,
            "cmd=put_result rc=-1 msg=duplicate_key a-0\n",
            "`put`: refused: cmd=put_result rc=-1 msg=duplicate_key a-0",
        ),
        (5, "cmd=get_result rc=-1 msg=key_a-0_not_found value=unknown\n", "no rank has put a-0"),
        (5, "cmd=get_result rc=0 msg=success value=1:486\n", "a does not decode"),
        (5, "cmd=get_result rc=0 msg=success value=nonsense\n", "a does not decode"),
    ] {
        let mut broken = HYDRA.to_vec();
        broken[at].1 = said;
        let (managed_rank, _) = manager(Version::One, &broken);
        let error = talk(managed_rank).unwrap_err().to_string();
        assert!(error.contains(told), "{said}: {error}");
    }
    let mut other = SLURM.to_vec();
    other[1].1 = "    51cmd=fullinit-response;rc=0;rank=0;size=2;appnum=-1;";
    let (managed_rank, _) = manager(Version::Two, &other);
    assert!(
        talk(managed_rank).unwrap_err().to_string().contains("no sound `rank`"),
        "another rank than PMI_RANK"
    );
}

#[test]
fn silence_ends_at_the_deadline() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let managed_rank =
        ManagedRank { socket: theirs.into(), rank: 0, size: 1, version: Version::One, job: "0".into() };
    let deadline = Instant::now() + Duration::from_millis(20);
    let error = Client::introduce(managed_rank, deadline).unwrap_err();
    assert_eq!(error, AnswerFault::TimedOut.of("init"));
    assert!(Instant::now() >= deadline);
    drop(ours);
}

#[test]
fn long_values_go_in_pieces() {
    let script = [
        HYDRA[0],
        ("cmd=get_maxes\n", "cmd=maxes kvsname_max=9 keylen_max=64 vallen_max=9\n"),
        HYDRA[2],
        ("cmd=put kvsname=kvs_1 key=a-0 value=2:616263\n", "cmd=put_result rc=0\n"),
        ("cmd=put kvsname=kvs_1 key=a-1 value=64\n", "cmd=put_result rc=0\n"),
        ("cmd=get kvsname=kvs_1 key=a-0\n", "cmd=get_result rc=0 value=2:616263\n"),
        ("cmd=get kvsname=kvs_1 key=a-1\n", "cmd=get_result rc=0 value=64\n"),
    ];
    let (managed_rank, manager) = manager(Version::One, &script);
    let mut client = Client::introduce(managed_rank, soon()).unwrap();
    client.put("a", b"abcd", soon()).unwrap();
    assert_eq!(client.get("a", soon()), Ok(b"abcd".to_vec()));
    manager.join().unwrap();
}
