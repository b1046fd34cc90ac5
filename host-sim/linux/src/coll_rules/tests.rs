use super::*;

fn error(text: &str) -> String {
    RuleFile::new("tuned.rules", text).unwrap_err().to_string()
}

#[test]
fn rules_are_read_with_their_lines() {
    let text = "# a comment\n\nallreduce 2-8 -4K recursive_doubling # small\n\
                * * 1M- shared\nreduce 16 * auto segment=64K reproducible\n";
    let file = RuleFile::new("tuned.rules", text).unwrap();
    let [small, large, sure] = file.list.as_slice() else { panic!("three rules") };
    assert_eq!((small.operation, small.line), (Some(Operation::Allreduce), 3));
    assert_eq!(small.ranks, Extent { least: 2, most: 8 });
    assert_eq!(small.bytes, Extent { least: 0, most: 4096 });
    assert!(matches!(small.choice, Choice::Named(algorithm) if algorithm.name() == "recursive_doubling"));
    assert_eq!((large.operation, large.ranks, large.line), (None, Extent::ALL, 4));
    assert_eq!(large.bytes, Extent { least: 1 << 20, most: u64::MAX });
    assert!(matches!(large.choice, Choice::Shared));
    assert_eq!(sure.ranks, Extent { least: 16, most: 16 });
    assert!(sure.reproducible && matches!(sure.choice, Choice::Auto));
    assert_eq!(sure.segment_bytes.map(NonZeroU64::get), Some(64 << 10));
}

/// Every rank reads what the launcher has read, to the line.
#[test]
fn rules_are_carried_without_comments_and_with_their_lines() {
    let text = "# one\n  bcast * * binomial # two\n\nbarrier * * tree";
    let file = RuleFile::new("tuned.rules", text).unwrap();
    assert_eq!(file.carried(), "tuned.rules\n\nbcast * * binomial\n\nbarrier * * tree");
    let carried = file.carried();
    let (name, text) = carried.split_once('\n').unwrap();
    let again = RuleFile::new(name, text).unwrap();
    assert_eq!(format!("{:?}", again.list), format!("{:?}", file.list));
}

#[test]
fn a_wrong_line_is_named_with_the_word_and_what_would_be_right() {
    for (text, answer) in [
        ("\nallredcue * * ring", "2: `allredcue`: no collective operation; known: *, barrier, bcast,"),
        ("allreduce * *", "1: `allreduce * *`: a rule is OPERATION RANKS BYTES ALGORITHM"),
        ("allreduce many * ring", "1: `many`: not a number of ranks, such as 4, 2-8, 16- or *"),
        ("allreduce 8-2 * ring", "1: `8-2`: not a number of ranks"),
        ("allreduce - * ring", "1: `-`: not a number of ranks"),
        ("allreduce * 1T ring", "1: `1T`: not a number of bytes, such as 8, 1K-64K"),
        (
            "allreduce * * rong",
            "1: `rong`: no allreduce algorithm is called `rong`; known: auto, recursive_doubling,",
        ),
        ("* * * ring", "1: `ring`: for every operation there are auto and shared"),
        (
            "bcast * * chain segments=4K",
            "1: `segments=4K`: not an option; known: segment=BYTES, reproducible",
        ),
        ("bcast * * chain segment=0", "1: `segment=0`: not a number of bytes, such as segment=64K"),
        ("bcast * * chain reproducible", "1: `reproducible`: the operation reduces nothing"),
        (
            "allreduce * * ring reproducible",
            "1: `ring`: not reproducible over so many ranks; take auto or recursive_doubling, rabenseifner",
        ),
        ("allreduce * * shared reproducible", "1: `shared`: its results need not have the bits"),
        ("barrier 3- * two_processes", "1: `two_processes`: it is not made for so many ranks"),
        ("gatherv * 1M- linear", "1: `bytes`: blocks of unlike lengths"),
    ] {
        let said = error(text);
        assert!(said.starts_with(answer), "{text}: {said}");
    }
    assert!(
        error(&"barrier * * tree\n".repeat(RULES_MAX + 1))
            .starts_with("257: `barrier * * tree`: there may be at most 256")
    );
    assert!(error(&" ".repeat(TEXT_BYTES_MAX + 1)).contains("at most 32768 bytes"));
    assert_eq!(
        RuleFile::read("/no/such.rules").unwrap_err(),
        "/no/such.rules: No such file or directory (os error 2)"
    );
}

#[test]
fn every_algorithm_can_be_named() {
    for operation in COLLECTIVES {
        for algorithm in aldis_coll::catalog::algorithms(operation) {
            let line = format!("{operation} * * {}", algorithm.name());
            assert!(RuleFile::new("", &line).is_ok(), "{line}");
        }
    }
}

#[test]
fn the_example_is_right() {
    let example = include_str!("../../../../docs/collectives.rules");
    let page = include_str!("../../../../docs/collectives.md");
    assert!(RuleFile::new("collectives.rules", example).is_ok_and(|file| !file.list.is_empty()));
    assert!(page.contains(example), "the page shows the example as it is");
}

#[test]
fn a_question_is_answered_by_the_rules() {
    let question = Question::parse("allreduce:8:1M").unwrap();
    let file = RuleFile::new("tuned.rules", "allreduce 4 * tree\n");
    assert!(file.is_err());
    let file =
        RuleFile::new("tuned.rules", "allreduce 4 * ring\nallreduce * 1M bcube segment=64K\n").unwrap();
    let answer = question.answer(Some(&file));
    assert!(
        answer.contains("segments of 8192 (16, 4 at once); taken, named by rule tuned.rules:2"),
        "{answer}"
    );
    assert!(answer.ends_with("decided by rule tuned.rules:2"), "{answer}");
    assert!(question.answer(None).contains("taken, the cheapest"));
    for (text, answer) in [
        ("allreduce", "not OPERATION:RANKS:BYTES, such as allreduce:8:1M"),
        ("allreduce:0:1", "not a number of ranks"),
        ("allreduce:2:x", "not a number of bytes, such as 8, 64K or 1M"),
        ("*:2:1", "name one operation"),
        ("send:2:1", "no collective operation; known: *, barrier"),
    ] {
        assert!(Question::parse(text).unwrap_err().starts_with(answer), "{text}");
    }
}
