//! Parsers of what processes of a host read: messages of the wire-up and of process managers, files
//! of rules.

use aldis_linux::arena::parse_bytes;
use aldis_linux::coll_rules::{Question, RuleFile};
use aldis_linux::job::parse_seconds;
use aldis_linux::pmi::{Message, MessageForm};
use aldis_linux::wireup::{FromLauncher, FromRank, bounded};

pub(crate) fn wireup(bytes: &[u8]) {
    if let Ok(message) = postcard::from_bytes::<FromLauncher<'_>>(bytes) {
        assert!(!message.name().is_empty());
    }
    if let Ok(message) = postcard::from_bytes::<FromRank<'_>>(bytes) {
        assert!(!message.name().is_empty());
    }
    let text = String::from_utf8_lossy(bytes);
    assert!(text.starts_with(bounded(&text)));
}

pub(crate) fn pmi(bytes: &[u8]) {
    for form in [MessageForm::Line, MessageForm::Counted] {
        let mut stream = bytes.to_vec();
        while let Ok(Some(message)) = Message::take(form, &mut stream) {
            if let Ok(mut again) = message.encode(form) {
                let read = Message::take(form, &mut again).expect("it was written here");
                assert_eq!(read.as_ref().map(Message::command), Some(message.command()));
                assert!(again.is_empty(), "one message");
            }
        }
    }
}

pub(crate) fn rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = RuleFile::new("file", &text).ok();
    if let Some(file) = &file {
        let carried = file.carried();
        let (name, rest) = carried.split_once('\n').expect("a line for the name");
        assert!(RuleFile::new(name, rest).is_ok(), "ranks read what the launcher has read");
    }
    if let Ok(question) = Question::parse(text.lines().next().unwrap_or_default()) {
        assert!(!question.answer(None).is_empty());
    }
    let _ = (parse_bytes(&text), parse_seconds(&text));
}
