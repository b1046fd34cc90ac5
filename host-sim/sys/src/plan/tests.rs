use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn processes() -> impl Strategy<Value = PlannedProcess> {
    prop_oneof![
        any::<u32>().prop_map(PlannedProcess::Rank),
        Just(PlannedProcess::Agent),
        Just(PlannedProcess::Launcher),
        Just(PlannedProcess::Other)
    ]
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let known: Vec<Errno> = ERRORS.map(Errno::from_raw).filter(|one| *one != Errno::UnknownErrno).collect();
    prop_oneof![
        prop::sample::select(known).prop_map(Outcome::Fails),
        Just(Outcome::Short),
        any::<u32>().prop_map(Outcome::Stalls),
        any::<u32>().prop_map(Outcome::Late),
        Just(Outcome::Stops)
    ]
}

fn rules() -> impl Strategy<Value = Rule> {
    let uses = (any::<NonZeroU32>(), option::of(any::<NonZeroU32>()));
    let uses = uses.prop_map(|(first, step)| Uses { first, step });
    let parts = (option::of(processes()), prop::sample::select(Call::ALL), uses, outcomes());
    let rule = parts.prop_map(|(process, call, uses, outcome)| Rule { process, call, uses, outcome });
    rule.prop_filter("moves no bytes", |rule| rule.call.moves_bytes() || rule.outcome != Outcome::Short)
}

/// Words of plans, and others, in any order.
fn hostile() -> impl Strategy<Value = String> {
    let words = prop::sample::select(
        &[
            "rank",
            "rank0",
            "agent",
            ":",
            "read",
            "mmap",
            "@",
            "0",
            "1",
            "4294967295",
            "4294967296",
            "..",
            "+",
            "=",
            "short",
            "stop",
            "stall:",
            "late:",
            "EIO",
            "EWOULDBLOCK",
            ";",
            " ",
            "\0",
            "\u{fe0f}",
            "-1",
            "01",
        ][..],
    );
    prop_oneof![vec(words, 0..12).prop_map(|words| words.concat()), any::<String>()]
}

proptest! {
    #[test]
    fn a_plan_is_written_as_it_is_read(rules in vec(rules(), 0..6)) {
        let plan = CallPlan { rules };
        prop_assert_eq!(plan.to_string().parse(), Ok(plan));
    }

    #[test]
    fn whatever_it_says_a_plan_is_read_or_its_word_is_named(text in hostile()) {
        match text.parse::<CallPlan>() {
            Ok(plan) => prop_assert_eq!(plan.to_string().parse(), Ok(plan)),
            Err(error) => {
                prop_assert!(text.contains(&error.word));
                prop_assert!(error.to_string().contains("should be"));
            }
        }
    }
}

fn refusal(plan: &str) -> (String, RulePart) {
    let error = plan.parse::<CallPlan>().unwrap_err();
    (error.word, error.part)
}

#[test]
fn the_examples_of_the_manual_are_read() {
    let plan: CallPlan =
        "rank1:process_vm_readv@3=ENOMEM; recv@5..=short; mmap@1=stall:500; write@2..+3=stop"
            .parse()
            .unwrap();
    assert_eq!(plan.rules.len(), 4);
    assert_eq!(
        plan.outcome(PlannedProcess::Rank(1), Call::ProcessVmReadv, 3),
        Some(Outcome::Fails(Errno::ENOMEM))
    );
    assert_eq!(plan.outcome(PlannedProcess::Rank(0), Call::ProcessVmReadv, 3), None);
    assert_eq!(plan.outcome(PlannedProcess::Rank(1), Call::ProcessVmReadv, 4), None);
    assert_eq!(plan.outcome(PlannedProcess::Agent, Call::Recv, 4), None);
    assert_eq!(plan.outcome(PlannedProcess::Agent, Call::Recv, 77), Some(Outcome::Short));
    let stopped: Vec<u32> =
        (0..10).filter(|&use_| plan.outcome(PlannedProcess::Other, Call::Write, use_).is_some()).collect();
    assert_eq!(stopped, [2, 5, 8]);
}

#[test]
fn the_first_rule_for_a_use_counts() {
    let plan: CallPlan = "read@2=EIO;read@1..=EINTR;".parse().unwrap();
    let all = [1, 2, 3].map(|number| plan.outcome(PlannedProcess::Other, Call::Read, number));
    assert_eq!(all, [Errno::EINTR, Errno::EIO, Errno::EINTR].map(|errno| Some(Outcome::Fails(errno))));
}

#[test]
fn an_empty_plan_has_no_rules() {
    for text in ["", " ", "\n"] {
        assert_eq!(text.parse(), Ok(CallPlan::default()));
    }
}

#[test]
fn what_cannot_be_read_is_named_with_what_may_stand_there() {
    for (plan, word, part) in [
        ("read", "read", RulePart::Rule),
        ("read@1", "read@1", RulePart::Rule),
        (";", "", RulePart::Rule),
        ("read@1=EIO;;read@2=EIO", "", RulePart::Rule),
        ("rank:read@1=EIO", "rank", RulePart::Process),
        ("rank-1:read@1=EIO", "rank-1", RulePart::Process),
        ("rank01:read@1=EIO", "rank01", RulePart::Process),
        ("kernel:read@1=EIO", "kernel", RulePart::Process),
        ("raed@1=EIO", "raed", RulePart::Call),
        ("READ@1=EIO", "READ", RulePart::Call),
        ("read@0=EIO", "0", RulePart::Uses),
        ("read@+1=EIO", "+1", RulePart::Uses),
        ("read@=EIO", "", RulePart::Uses),
        ("read@1...=EIO", "1...", RulePart::Uses),
        ("read@1..+0=EIO", "0", RulePart::Uses),
        ("read@4294967296=EIO", "4294967296", RulePart::Uses),
        ("read@1=EWHAT", "EWHAT", RulePart::Outcome),
        ("read@1=UnknownErrno", "UnknownErrno", RulePart::Outcome),
        ("read@1=5", "5", RulePart::Outcome),
        ("read@1=stall", "stall", RulePart::Outcome),
        ("read@1=stall:-5", "stall:-5", RulePart::Outcome),
        ("mmap@1=short", "mmap@1=short", RulePart::Short),
    ] {
        assert_eq!(refusal(plan), (word.to_owned(), part), "{plan}");
    }
}

#[test]
fn other_names_of_errors_are_known() {
    for (name, errno) in [
        ("EWOULDBLOCK", Errno::EAGAIN),
        ("ENOTSUP", Errno::EOPNOTSUPP),
        ("EDEADLOCK", Errno::EDEADLK),
        ("EHWPOISON", Errno::EHWPOISON),
    ] {
        assert_eq!(name.parse(), Ok(Outcome::Fails(errno)));
    }
}
