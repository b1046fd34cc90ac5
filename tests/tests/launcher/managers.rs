//! Ranks under a process manager of this test's own, which knows both versions of PMI and
//! misbehaves when asked to.

use core::time::Duration;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use aldis_linux::pmi::{Message, MessageForm};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;

use crate::harness::{Ended, Job, RANK, launch};

/// The variables in the environment of each rank beside PMI's.
type Variables = fn(usize) -> Vec<(&'static str, &'static str)>;

/// A fault of a manager in one command; it does all others well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mischief {
    None,
    /// Closes the connection.
    Close(&'static str),
    /// Says nothing.
    Ignore(&'static str),
    /// Says something else.
    Babble(&'static str),
}

/// The state that all conversations of a job have in common.
struct SharedState {
    ranks: usize,
    mischief: Mischief,
    /// The value that is given for `vallen_max`.
    room: usize,
    state: Mutex<ManagerState>,
    changed: Condvar,
}

#[derive(Default)]
struct ManagerState {
    /// The values that were put behind the last fence, and before it.
    fresh: HashMap<String, String>,
    values: HashMap<String, String>,
    waiting: usize,
    fences: usize,
    finalized: usize,
    aborted: Vec<String>,
}

/// A job under the manager.
struct Managed {
    ranks: Vec<Job>,
    shared: Arc<SharedState>,
    talks: Vec<JoinHandle<()>>,
}

/// The manager of a job.
struct ProcessManager {
    mischief: Mischief,
    /// The value that is given for `vallen_max`.
    room: usize,
}

/// A manager that behaves.
const GOOD: ProcessManager = ProcessManager { mischief: Mischief::None, room: 1024 };

/// Starts so many ranks with these variables, told apart by rank.
fn manage(manager: ProcessManager, ranks: usize, behaviour: &str, variables: Variables) -> Managed {
    let ProcessManager { mischief, room } = manager;
    let shared = SharedState { ranks, mischief, room, state: Mutex::default(), changed: Condvar::new() };
    let mut job = Managed { ranks: Vec::new(), shared: Arc::new(shared), talks: Vec::new() };
    for rank in 0..ranks {
        let (ours, theirs) = UnixStream::pair().unwrap();
        fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let mut command = Command::new(RANK);
        command.arg(behaviour).env("PMI_FD", theirs.as_raw_fd().to_string());
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", ranks.to_string()).envs(variables(rank));
        job.ranks.push(launch(command));
        let shared = Arc::clone(&job.shared);
        job.talks.push(std::thread::spawn(move || converse(ours, rank, &shared)));
    }
    job
}

impl Managed {
    /// Waits for all ranks; once one has asked for the end, the others are ended, as managers do.
    fn wait(mut self) -> (Vec<Ended>, ManagerState) {
        if self.shared.mischief == Mischief::None {
            while !self.ranks.iter_mut().all(Job::has_ended) {
                if !self.shared.state.lock().unwrap().aborted.is_empty() {
                    std::thread::sleep(Duration::from_millis(20));
                    self.ranks.iter().for_each(|rank| rank.signal(Signal::SIGKILL));
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let ended = self.ranks.into_iter().map(Job::wait).collect();
        self.talks.into_iter().for_each(|talk| talk.join().unwrap());
        (ended, core::mem::take(&mut *self.shared.state.lock().unwrap()))
    }
}

/// Serves one rank until it is gone.
fn converse(mut socket: UnixStream, rank: usize, shared: &SharedState) {
    let (mut form, mut came, mut room) = (MessageForm::Line, Vec::new(), [0; 512]);
    while let Ok(length @ 1..) = socket.read(&mut room) {
        came.extend(&room[..length]);
        while let Some(message) = Message::take(form, &mut came).expect("ranks speak well") {
            let command = message.command();
            let answer = match shared.mischief {
                Mischief::Close(which) if which == command => return,
                Mischief::Ignore(which) if which == command => continue,
                Mischief::Babble(which) if which == command => Message::new("nonsense").encode(form).unwrap(),
                _ => {
                    let Some(answer) = shared.answer(form, rank, &message) else { continue };
                    answer.encode(form).unwrap()
                }
            };
            if command == "init" && message.field("pmi_version") == Some("2") {
                form = MessageForm::Counted;
            }
            if socket.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

impl SharedState {
    fn answer(&self, form: MessageForm, rank: usize, message: &Message) -> Option<Message> {
        let field = |name| message.field(name).unwrap_or_default().to_owned();
        let fine = |name: &str| Message::new(name).with("rc", 0);
        let mut state = self.state.lock().unwrap();
        Some(match message.command() {
            "init" => fine("response_to_init").with("pmi_version", field("pmi_version")),
            "fullinit" => fine("fullinit-response").with("rank", rank).with("size", self.ranks),
            "get_maxes" => fine("maxes").with("keylen_max", 64).with("vallen_max", self.room),
            "get_my_kvsname" => fine("my_kvsname").with("kvsname", "store"),
            "job-getid" => fine("job-getid-response").with("jobid", "store"),
            put @ ("put" | "kvs-put") => {
                state.fresh.insert(field("key"), field("value"));
                fine(if put == "put" { "put_result" } else { "kvs-put-response" })
            }
            get @ ("get" | "kvs-get") => {
                let name = if get == "get" { "get_result" } else { "kvs-get-response" };
                match state.values.get(&field("key")) {
                    Some(value) => fine(name).with("value", value),
                    None => Message::new(name).with("rc", -1),
                }
            }
            fence @ ("barrier_in" | "kvs-fence") => {
                state.waiting += 1;
                let due = state.fences + 1;
                if state.waiting == self.ranks {
                    (state.waiting, state.fences) = (0, due);
                    let fresh = core::mem::take(&mut state.fresh);
                    state.values.extend(fresh);
                    self.changed.notify_all();
                }
                let limit = Duration::from_secs(20);
                drop(self.changed.wait_timeout_while(state, limit, |state| state.fences < due).unwrap());
                fine(if fence == "kvs-fence" { "kvs-fence-response" } else { "barrier_out" })
            }
            "finalize" => {
                state.finalized += 1;
                fine(if form == MessageForm::Line { "finalize_ack" } else { "finalize-response" })
            }
            "abort" => {
                state.aborted.push(field("exitcode"));
                return None;
            }
            other => panic!("no manager says {other}"),
        })
    }
}

fn quick(_: usize) -> Vec<(&'static str, &'static str)> {
    vec![("ALDIS_JOIN_TIMEOUT", "20")]
}

#[test]
fn ranks_of_either_version_find_each_other_on_every_transport() {
    let jobs: [Variables; 4] = [
        |_| vec![],
        |_| vec![("ALDIS_TRANSPORT", "tcp"), ("ALDIS_TCP_LINKS", "2")],
        |_| vec![("ALDIS_TRANSPORT", "shm"), ("ALDIS_ARENA", "1M")],
        |_| vec![("ALDIS_TRANSPORT", "tcp"), ("ALDIS_TCP_FAMILY", "4")],
    ];
    for (number, variables) in jobs.into_iter().enumerate() {
        // A store of short values cuts them into pieces.
        let room = [1024, 24][number % 2];
        let (ended, state) = manage(ProcessManager { room, ..GOOD }, 3, "rounds", variables).wait();
        for rank in &ended {
            assert_eq!((rank.code, rank.err.as_str()), (Some(0), ""), "{ended:#?}");
            assert!(rank.out.contains("all came back"), "{ended:#?}");
        }
        assert_eq!((state.finalized, state.fences), (3, 3));
    }
    let (ended, _) = manage(GOOD, 2, "rounds", |_| vec![("ALDIS_PMI", "2")]).wait();
    assert!(ended.iter().all(|rank| rank.code == Some(0)), "{ended:#?}");
}

#[test]
fn whoever_fails_says_it_once_and_the_manager_ends_the_job() {
    for (behaviour, code, told) in [
        ("fail", "1", "rank 1 failed: the input makes no sense"),
        ("panic", "1", "rank 1 failed: panicked at"),
        ("abort", "42", "rank 1 aborted the job with code 42: nothing to be done"),
        ("abort-call", "43", "rank 1 aborted the job with code 43"),
    ] {
        let (ended, state) = manage(GOOD, 2, behaviour, quick).wait();
        assert_eq!(state.aborted.first().map(String::as_str), Some(code), "{behaviour}: {ended:#?}");
        let said: String = ended.iter().map(|rank| rank.err.as_str()).collect();
        assert_eq!(said.matches(told).count(), 1, "{behaviour}: {ended:#?}");
        assert_eq!(state.finalized, 0);
    }
}

#[test]
fn a_manager_that_misbehaves_is_told_with_the_command() {
    for (mischief, told) in [
        (Mischief::Close("init"), "process manager, `init`: it has closed the connection"),
        (Mischief::Close("barrier_in"), "process manager, `barrier_in`: it has closed the connection"),
        (Mischief::Ignore("get_my_kvsname"), "process manager, `get_my_kvsname`: no answer in time"),
        (Mischief::Ignore("barrier_in"), "process manager, `barrier_in`: no answer in time"),
        (Mischief::Babble("get"), "answered by cmd=nonsense where `get_result` was due"),
    ] {
        let soon = |_| vec![("ALDIS_JOIN_TIMEOUT", "0.4")];
        let (ended, _) = manage(ProcessManager { mischief, ..GOOD }, 2, "rounds", soon).wait();
        for rank in &ended {
            assert_eq!(rank.code, Some(1), "{ended:#?}");
            assert!(rank.err.contains(told), "{ended:#?}");
        }
    }
}

#[test]
fn environments_that_cannot_be_or_differ_are_named_by_one_rank() {
    let jobs: [(Variables, &str); 5] = [
        (
            |rank| vec![("ALDIS_TRANSPORT", ["auto", "tcp"][rank])],
            "rank 0: cannot join the job: ALDIS_TRANSPORT of rank 1 is not that of rank 0",
        ),
        (
            |rank| vec![("ALDIS_TRANSPORT", ["auto", "pigeon"][rank])],
            "rank 1: cannot join the job: ALDIS_TRANSPORT cannot be \"pigeon\": it is auto, shm, tcp, verbs, shm-verbs, ethernet or shm-ethernet",
        ),
        (
            |rank| if rank == 0 { Vec::new() } else { vec![("ALDIS_NIC", "packet:lo")] },
            "rank 0: cannot join the job: ALDIS_NIC of rank 1 is not that of rank 0",
        ),
        (
            |rank| vec![("ALDIS_TCP_LINKS", ["x", "1"][rank])],
            "rank 0: cannot join the job: ALDIS_TCP_LINKS cannot be \"x\": not a number of connections",
        ),
        (
            |rank| vec![("ALDIS_COLL_RULES", ["/no/such/file", "/dev/null"][rank])],
            "ALDIS_COLL_RULES cannot be \"/no/such/file\"",
        ),
    ];
    for (variables, told) in jobs {
        let (ended, state) = manage(GOOD, 2, "rounds", variables).wait();
        let said: String = ended.iter().map(|rank| rank.err.as_str()).collect();
        assert_eq!(
            (said.matches("cannot join").count(), said.contains(told)),
            (1, true),
            "{told}: {ended:#?}"
        );
        assert_eq!(state.aborted, ["1"], "{ended:#?}");
    }
}

#[test]
fn a_descriptor_of_something_else_is_no_manager() {
    let mut command = Command::new(RANK);
    command.arg("rounds").env("PMI_FD", "4099").env("PMI_RANK", "0").env("PMI_SIZE", "1");
    let told = ["PMI_FD is \"4099\" and should be the number of an open socket to the process manager"];
    launch(command).wait().says(1, &told);
}
