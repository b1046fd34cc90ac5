//! Wire-up with a launcher or a rank that is not what it should be.

use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use aldis_linux::board::Label;
use aldis_linux::segment::{self, DepartureTable, FileShape};
use aldis_linux::shape::NodePlan;
use aldis_linux::wireup::{
    CardTable, Channel, FromLauncher, FromRank, Node, SOCKET_VARIABLE, SharedCards, VERSION, WireError,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::harness::{RANK, run};

const JOB: u64 = 0xA1D1_5000;

/// A node with all ranks of a job.
const fn node(ranks: u32) -> Node {
    Node { first: 0, ranks, cores: 2, shares_memory: true, per_node: ranks }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A rank whose launcher is the test.
struct Rank {
    channel: Channel,
    child: Child,
}

impl Rank {
    /// Starts it and receives its hello.
    fn start() -> Self {
        // Children of other tests inherit what is open without close-on-exec, for the moment
        // between the two calls.
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (channel, theirs) = Channel::pair().unwrap();
        fcntl(theirs.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let mut command = Command::new(RANK);
        command.arg("greet").env(SOCKET_VARIABLE, theirs.as_fd().as_raw_fd().to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop((theirs, guard));
        let received = channel.receive(soon()).unwrap();
        assert!(
            matches!(received.message(), Ok(FromRank::Hello { version: VERSION, pid }) if pid == child.id())
        );
        Self { channel, child }
    }

    fn welcome(&self, rank: u32, size: u32) {
        let plan = NodePlan::of(2).unwrap();
        let welcome = FromLauncher::Welcome {
            version: VERSION,
            job: JOB,
            rank,
            size,
            node: node(size),
            shape: plan.shape,
            segment_bytes: plan.segment_bytes as u64,
            deadline_ms: 5_000,
            tcp: None,
        };
        self.channel.send(&welcome, soon()).unwrap();
    }

    fn segments(&self, files: &[OwnedFd]) {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        assert!(self.channel.try_send(&FromLauncher::Segments, &files).unwrap());
    }

    /// The rank gives up: it tells the launcher why, says so, and exits with code 1.
    #[track_caller]
    fn fails_with(self, texts: &[&str]) {
        let received = self.channel.receive(soon()).unwrap();
        let Ok(FromRank::Failed { text, .. }) = received.message() else { panic!("{received:?}") };
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        for expected in texts {
            assert!(
                text.contains(expected) && said.contains(expected),
                "{expected:?} is missing in {text:?}"
            );
        }
    }
}

/// The file of the segments of two ranks.
fn segments(job: u64, bytes: usize) -> OwnedFd {
    let shape = FileShape { ranks: 2, segment_bytes: bytes, table_bytes: 0 };
    segment::create_all(Label { job, rank: 0, size: 2 }, shape).unwrap().0
}

#[test]
fn a_truncated_segment_names_rank_expected_and_found() {
    let (rank, bytes) = (Rank::start(), NodePlan::of(2).unwrap().segment_bytes);
    rank.welcome(0, 2);
    rank.segments(&[segments(JOB, bytes - 4096)]);
    rank.fails_with(&["segment of rank 0: truncated", " bytes expected, "]);
}

#[test]
fn a_foreign_segment_names_rank_expected_and_found() {
    let (rank, bytes) = (Rank::start(), NodePlan::of(2).unwrap().segment_bytes);
    rank.welcome(1, 2);
    rank.segments(&[segments(5, bytes)]);
    rank.fails_with(&[
        "segment of rank 1: a segment of rank 1 of 2 of job 0000000000000005",
        "00000000a1d15000",
    ]);
}

#[test]
fn a_file_that_is_no_segment_is_refused() {
    let rank = Rank::start();
    rank.welcome(0, 2);
    rank.segments(&[std::fs::File::open("/dev/zero").unwrap().into()]);
    rank.fails_with(&["segment of rank 0: truncated", "0 found"]);
}

#[test]
fn files_that_do_not_belong_to_the_segments_are_refused() {
    let bytes = NodePlan::of(2).unwrap().segment_bytes;
    let of_another_job = || DepartureTable::create(JOB, 65).unwrap().file().try_clone_to_owned().unwrap();
    let [none, three, other] = [0, 3, 2].map(|count| {
        let rank = Rank::start();
        rank.welcome(0, 2);
        let files = [segments(JOB, bytes), of_another_job(), of_another_job()];
        rank.segments(&files[..count]);
        rank
    });
    none.fails_with(&["0 files came with the segments where 1 or 2 were expected"]);
    three.fails_with(&["3 files came with the segments"]);
    other
        .fails_with(&["the table of ranks that have left: truncated or of another layout: 8 bytes expected"]);
}

#[test]
fn a_launcher_out_of_line_is_refused() {
    let rank = Rank::start();
    rank.channel.send(&FromLauncher::Cards { bytes: 1 }, soon()).unwrap();
    rank.fails_with(&["wire-up message `cards` where `welcome` was due"]);
    let rank = Rank::start();
    rank.welcome(2, 2);
    rank.fails_with(&["no inboxes can be laid out for 2 ranks"]);
    let rank = Rank::start();
    rank.channel.send(&FromLauncher::Refused { text: "not today" }, soon()).unwrap();
    rank.fails_with(&["refused by the launcher: not today"]);
    let rank = Rank::start();
    nix::unistd::write(&rank.channel, &[0xFF; 9]).unwrap();
    rank.fails_with(&["a wire-up message of 9 bytes that does not decode"]);
}

/// Starts rank 0 of two and takes its card; returns the rank and the card.
fn introduced() -> (Rank, Vec<u8>) {
    let (rank, bytes) = (Rank::start(), NodePlan::of(2).unwrap().segment_bytes);
    rank.welcome(0, 2);
    rank.segments(&[segments(JOB, bytes)]);
    let received = rank.channel.receive(soon()).unwrap();
    let Ok(FromRank::Card { bytes }) = received.message() else { panic!("{received:?}") };
    let card = bytes.to_vec();
    (rank, card)
}

#[test]
fn a_card_of_another_rank_is_refused() {
    let (rank, card) = introduced();
    let SharedCards { file, bytes } = CardTable::of(&[card.clone(), card]).share(JOB).unwrap();
    assert!(rank.channel.try_send(&FromLauncher::Cards { bytes }, &[file.as_fd()]).unwrap());
    rank.fails_with(&["the card of rank 1 introduces rank 0"]);
}

#[test]
fn a_table_of_cards_that_is_not_as_told_is_refused() {
    let (rank, card) = introduced();
    let SharedCards { file, bytes } = CardTable::of(&[card.clone(), card]).share(JOB).unwrap();
    assert!(rank.channel.try_send(&FromLauncher::Cards { bytes: bytes + 1 }, &[file.as_fd()]).unwrap());
    rank.fails_with(&["the cards of the job: truncated"]);
    let (rank, card) = introduced();
    let SharedCards { file, bytes } = CardTable::of(&[card, Vec::new()]).share(JOB).unwrap();
    assert!(rank.channel.try_send(&FromLauncher::Cards { bytes }, &[file.as_fd()]).unwrap());
    rank.fails_with(&["the card of rank 1 does not decode"]);
    let (rank, _) = introduced();
    let open = segment::create(Label { job: JOB, rank: 0, size: 2 }, segment::LEAST_BYTES).unwrap();
    let bytes = segment::LEAST_BYTES as u64;
    assert!(rank.channel.try_send(&FromLauncher::Cards { bytes }, &[open.as_fd()]).unwrap());
    rank.fails_with(&["the cards of the job: not sealed as agreed"]);
    let (rank, _) = introduced();
    rank.channel.send(&FromLauncher::Cards { bytes }, soon()).unwrap();
    rank.fails_with(&["wire-up message `cards without a file` where `cards` was due"]);
}

#[test]
fn a_launcher_that_goes_away_or_says_nothing_is_not_waited_for() {
    let mut rank = Rank::start();
    drop(rank.channel);
    assert_eq!(rank.child.wait().unwrap().code(), Some(1));
    let (rank, started) = (Rank::start(), Instant::now());
    let plan = NodePlan::of(2).unwrap();
    let welcome = FromLauncher::Welcome {
        version: VERSION,
        job: JOB,
        rank: 0,
        size: 2,
        node: node(2),
        shape: plan.shape,
        segment_bytes: plan.segment_bytes as u64,
        deadline_ms: 100,
        tcp: None,
    };
    rank.channel.send(&welcome, soon()).unwrap();
    rank.fails_with(&["nothing came over the wire-up socket before the deadline"]);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn another_version_is_told_by_name() {
    let rank = Rank::start();
    let plan = NodePlan::of(1).unwrap();
    let welcome = FromLauncher::Welcome {
        version: VERSION + 1,
        job: JOB,
        rank: 0,
        size: 1,
        node: node(1),
        shape: plan.shape,
        segment_bytes: plan.segment_bytes as u64,
        deadline_ms: 100,
        tcp: None,
    };
    rank.channel.send(&welcome, soon()).unwrap();
    rank.fails_with(&["program and aldis-run are of different builds"]);
}

#[test]
fn a_variable_that_names_no_socket_is_told() {
    for number in ["0", "nonsense", "900"] {
        let output = Command::new(RANK).arg("greet").env(SOCKET_VARIABLE, number).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(&WireError::NoSocket.to_string()), "{text}");
    }
}

#[test]
fn a_rank_that_talks_nonsense_ends_the_job() {
    let script = "eval \"printf nonsense >&$ALDIS_WIREUP_FD\"; sleep 60";
    run(["-n", "2", "bash", "-c", script])
        .says(1, &["could not be brought into the job", "a wire-up message of 8 bytes that does not decode"]);
}
