use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SOURCES: u32 = 3;
const TAGS: u32 = 2;

fn envelope() -> impl Strategy<Value = OracleMessage> {
    (0..2_u32, 0..SOURCES, 0..TAGS).prop_map(|(context, source, tag)| OracleMessage { context, source, tag })
}

fn receive() -> impl Strategy<Value = OracleReceive> {
    let wild = |end| proptest::option::of(0..end);
    (0..2_u32, wild(SOURCES), wild(TAGS)).prop_map(|(context, source, tag)| OracleReceive {
        context,
        source,
        tag,
        got: None,
    })
}

/// An event at the rank: its next receive is posted, or the next message of a stream arrives.
#[derive(Clone, Copy, Debug)]
enum OracleEvent {
    Post,
    Arrive(u32, u32),
}

/// Matching as the standard words it, with two plain lists.
#[derive(Clone)]
struct Matcher<'a> {
    messages: &'a [OracleMessage],
    receives: Vec<OracleReceive>,
    posted: usize,
    unexpected: Vec<usize>,
    arrived: BTreeSet<usize>,
}

impl<'a> Matcher<'a> {
    fn new(messages: &'a [OracleMessage], receives: &[OracleReceive]) -> Self {
        let receives = receives.to_vec();
        Self { messages, receives, posted: 0, unexpected: Vec::new(), arrived: BTreeSet::new() }
    }

    /// False if there is nothing left of that kind.
    fn happen(&mut self, event: OracleEvent) -> bool {
        match event {
            OracleEvent::Post => {
                let Some(receive) = self.receives.get_mut(self.posted) else { return false };
                self.posted += 1;
                let oldest = self.unexpected.iter().position(|&index| receive.takes(&self.messages[index]));
                receive.got = oldest.map(|place| self.unexpected.remove(place));
            }
            OracleEvent::Arrive(context, source) => {
                let next = (0..self.messages.len()).find(|index| {
                    let message = &self.messages[*index];
                    (message.context, message.source) == (context, source) && !self.arrived.contains(index)
                });
                let Some(index) = next else { return false };
                self.arrived.insert(index);
                let posted = &mut self.receives[..self.posted];
                let waiting =
                    posted.iter_mut().find(|one| one.got.is_none() && one.takes(&self.messages[index]));
                match waiting {
                    Some(receive) => receive.got = Some(index),
                    None => self.unexpected.push(index),
                }
            }
        }
        true
    }

    /// Finds what the receives get in every order in which all messages can arrive, with receives
    /// posted anywhere in between.
    fn outcomes(self, found: &mut BTreeSet<Vec<Option<usize>>>) {
        let arrivals =
            (0..2).flat_map(|context| (0..SOURCES).map(move |source| OracleEvent::Arrive(context, source)));
        let mut is_over = true;
        for event in [OracleEvent::Post].into_iter().chain(arrivals) {
            let mut next = self.clone();
            if next.happen(event) {
                is_over = false;
                next.outcomes(found);
            }
        }
        if is_over && self.unexpected.is_empty() {
            found.insert(self.receives.iter().map(|receive| receive.got).collect());
        }
    }
}

/// Finds what the receives can get by the rules alone: all are pending, and so are all messages; in
/// each step some receive gets some message as the rules allow, until none can.
fn allowed(messages: &[OracleMessage], receives: &[OracleReceive], found: &mut BTreeSet<Vec<Option<usize>>>) {
    let pending = |message: &usize| receives.iter().all(|receive| receive.got != Some(*message));
    let mut is_over = true;
    for (at, receive) in receives.iter().enumerate().filter(|(_, receive)| receive.got.is_none()) {
        for message in (0..messages.len()).filter(pending).filter(|&one| receive.takes(&messages[one])) {
            let earlier = |older: &usize| messages[*older].is_of_stream(&messages[message]);
            let mut older = (0..message).filter(pending).filter(earlier);
            let mut before = receives[..at].iter().filter(|other| other.got.is_none());
            is_over = false;
            if older.any(|older| receive.takes(&messages[older]))
                || before.any(|other| other.takes(&messages[message]))
            {
                continue;
            }
            let mut next = receives.to_vec();
            next[at].got = Some(message);
            allowed(messages, &next, found);
        }
    }
    if is_over && (0..messages.len()).all(|message| !pending(&message)) {
        found.insert(receives.iter().map(|receive| receive.got).collect());
    }
}

/// Every way in which all messages could go to the receives, legal or not.
fn assignments(messages: usize, receives: usize) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![vec![None; receives]];
    for message in 0..messages {
        let grow = |one: &Vec<Option<usize>>| {
            let free: Vec<usize> = (0..receives).filter(|&place| one[place].is_none()).collect();
            let one = one.clone();
            free.into_iter().map(move |place| {
                let mut next = one.clone();
                next[place] = Some(message);
                next
            })
        };
        all = all.iter().flat_map(grow).collect();
    }
    all
}

fn with(receives: &[OracleReceive], got: &[Option<usize>]) -> Vec<OracleReceive> {
    receives.iter().zip(got).map(|(receive, got)| OracleReceive { got: *got, ..*receive }).collect()
}

proptest! {
    /// The oracle allows exactly what the rules do.
    #[test]
    fn what_is_legal_is_what_the_rules_allow(
        messages in proptest::collection::vec(envelope(), 0..5),
        receives in proptest::collection::vec(receive(), 4..6),
    ) {
        let mut possible = BTreeSet::new();
        allowed(&messages, &receives, &mut possible);
        for got in assignments(messages.len(), receives.len()) {
            let verdict = judge(&messages, &with(&receives, &got));
            prop_assert_eq!(verdict.is_ok(), possible.contains(&got), "{:?}: {:?}", got, verdict);
        }
    }

    /// Whatever arrives when, and whenever receives are posted: what comes about is legal.
    #[test]
    fn nothing_that_comes_about_is_refused(
        messages in proptest::collection::vec(envelope(), 0..5),
        receives in proptest::collection::vec(receive(), 0..5),
    ) {
        let mut possible = BTreeSet::new();
        Matcher::new(&messages, &receives).outcomes(&mut possible);
        for got in possible {
            prop_assert_eq!(judge(&messages, &with(&receives, &got)), Ok(()));
        }
    }

    /// Long histories of wildcards are legal, and two receives of one source that got each other's
    /// messages are not.
    #[test]
    fn exchanged_messages_are_noticed(
        messages in proptest::collection::vec(envelope(), 2..40),
        order in proptest::collection::vec((any::<bool>(), 0..2_u32, 0..SOURCES), 400),
    ) {
        let any = |message: &OracleMessage| OracleReceive { context: message.context, source: None, tag: None, got: None };
        let receives: Vec<OracleReceive> = messages.iter().map(any).collect();
        let mut matcher = Matcher::new(&messages, &receives);
        for (post, context, source) in order {
            matcher.happen(if post { OracleEvent::Post } else { OracleEvent::Arrive(context, source) });
        }
        while matcher.happen(OracleEvent::Post) {}
        for (context, source) in (0..2).flat_map(|context| (0..SOURCES).map(move |source| (context, source))) {
            while matcher.happen(OracleEvent::Arrive(context, source)) {}
        }
        let receives = matcher.receives;
        prop_assert_eq!(judge(&messages, &receives), Ok(()));
        for (one, other) in (0..receives.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let [first, second] = [one, other].map(|place| receives[place].got.unwrap());
            if (messages[first].context, messages[first].source)
                == (messages[second].context, messages[second].source)
            {
                let mut exchanged = receives.clone();
                (exchanged[one].got, exchanged[other].got) = (Some(second), Some(first));
                let verdict = judge(&messages, &exchanged);
                prop_assert!(matches!(verdict, Err(Violation::Overtaken { .. })), "{:?}", verdict);
            }
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let messages = [OracleMessage { context: 0, source: 1, tag: 2 }];
    let receive = |tag, got| OracleReceive { context: 0, source: None, tag, got };
    assert_eq!(judge(&messages, &[]), Err(Violation::Left { message: 0 }));
    let wrong = judge(&messages, &[receive(Some(3), Some(0))]);
    assert_eq!(wrong, Err(Violation::Wrong { receive: 0, message: 0 }));
    let never = judge(&messages, &[receive(None, Some(7))]);
    assert_eq!(never, Err(Violation::Wrong { receive: 0, message: 7 }));
    let twice = judge(&messages, &[receive(None, Some(0)), receive(None, Some(0))]);
    assert_eq!(twice, Err(Violation::Twice { message: 0, receives: [0, 1] }));
    let both = [messages[0], messages[0]];
    let overtaken = judge(&both, &[receive(None, Some(1)), receive(Some(2), Some(0))]);
    assert_eq!(overtaken, Err(Violation::Overtaken { receives: [0, 1], messages: [0, 1] }));
    let passed = judge(&messages, &[receive(None, None), receive(None, Some(0))]);
    assert_eq!(passed, Err(Violation::Passed { receive: 0, message: 0 }));
    for violation in [wrong, never, twice, overtaken, passed] {
        assert!(violation.unwrap_err().to_string().contains(" 0"));
    }
    assert_eq!(judge(&messages, &[receive(Some(3), None), receive(None, Some(0))]), Ok(()));
}
