//! Messages of PMI as bytes, in the forms of both versions.

use core::fmt;

use super::error::shown;

/// The longest message, in bytes. Managers bound theirs by 1 to 64 KiB, and the longest that is
/// answered to Aldis has a value.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The digits of the count in front of a counted message.
const COUNT_BYTES: usize = 6;

/// The form by which messages are told apart on the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageForm {
    /// `cmd=put key=a value=b`, ended by a newline: version 1, and the greeting of both.
    Line,
    /// ` 25cmd=kvs-put;key=a;value=b;` behind six digits: version 2. A semicolon in a value is
    /// doubled.
    Counted,
}

/// A command or an answer: named fields, the first of which is `cmd`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    fields: Vec<(String, String)>,
}

/// The reason why bytes are no message, or a message cannot become bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageError {
    /// More than [`MESSAGE_BYTES_MAX`] bytes.
    TooLong,
    /// A field that would not come back as it is.
    Unspeakable {
        /// The field.
        text: String,
    },
    /// Not a message.
    Malformed {
        /// The beginning of what came.
        found: String,
    },
}

impl Message {
    /// The command or answer of this name.
    pub fn new(command: &str) -> Self {
        Self { fields: vec![("cmd".into(), command.into())] }
    }

    /// This message with one more field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.fields.push((name.into(), value.to_string()));
        self
    }

    /// Its name.
    pub fn command(&self) -> &str {
        self.field("cmd").unwrap_or_default()
    }

    /// The value of a field, if there is one of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`MessageError::Unspeakable`], [`MessageError::TooLong`].
    pub fn encode(&self, form: MessageForm) -> Result<Vec<u8>, MessageError> {
        if let Some((name, value)) = self.fields.iter().find(|field| !is_speakable(field, form)) {
            return Err(MessageError::Unspeakable { text: shown(format!("{name}={value}").as_bytes()) });
        }
        let fields = self.fields.iter();
        let text = match form {
            MessageForm::Line => {
                let words: Vec<_> = fields.map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}\n", words.join(" "))
            }
            MessageForm::Counted => {
                let doubled = fields.map(|(name, value)| format!("{name}={};", value.replace(';', ";;")));
                let body: String = doubled.collect();
                format!("{:COUNT_BYTES$}{body}", body.len())
            }
        };
        if text.len() > MESSAGE_BYTES_MAX { Err(MessageError::TooLong) } else { Ok(text.into_bytes()) }
    }

    /// Takes the first message off `bytes`; `None`, and all is left as it is, if it is not there as
    /// a whole.
    ///
    /// # Errors
    /// [`MessageError::Malformed`], [`MessageError::TooLong`]: the stream is of no more use then.
    pub fn take(form: MessageForm, bytes: &mut Vec<u8>) -> Result<Option<Self>, MessageError> {
        let (start, end) = match form {
            MessageForm::Line => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => (0, end + 1),
                None if bytes.len() >= MESSAGE_BYTES_MAX => return Err(MessageError::TooLong),
                None => return Ok(None),
            },
            MessageForm::Counted => match bytes.get(..COUNT_BYTES) {
                Some(digits) => (COUNT_BYTES, COUNT_BYTES + count(digits)?),
                None => return Ok(None),
            },
        };
        if end > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong);
        }
        if bytes.len() < end {
            return Ok(None);
        }
        let whole: Vec<u8> = bytes.drain(..end).collect();
        let body = whole.get(start..).unwrap_or_default();
        parse(form, body).map(Some).ok_or_else(|| MessageError::Malformed { found: shown(&whole) })
    }
}

/// Shows the line, as errors do.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&shown(words.join(" ").as_bytes()))
    }
}

/// Returns true if a field comes back as it is.
fn is_speakable((name, value): &(String, String), form: MessageForm) -> bool {
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'=' && byte != b';';
    let is_value = |byte: u8| byte.is_ascii_graphic() || (byte == b' ' && form == MessageForm::Counted);
    !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value)
}

/// The number in front of a counted message: digits, with blanks in front (as MPICH has it) or
/// behind (Slurm).
fn count(digits: &[u8]) -> Result<usize, MessageError> {
    let malformed = || MessageError::Malformed { found: shown(digits) };
    let text = core::str::from_utf8(digits).map_err(|_| malformed())?.trim_matches(' ');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(malformed)
}

/// The fields of a message; `None` if it has none, or another than `cmd` first.
fn parse(form: MessageForm, body: &[u8]) -> Option<Message> {
    let text = core::str::from_utf8(body).ok()?;
    let words: Vec<String> = match form {
        MessageForm::Line => text.split_ascii_whitespace().map(str::to_owned).collect(),
        MessageForm::Counted => split_undoubled(text),
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    for word in words {
        match (word.split_once('='), fields.last_mut()) {
            (Some((name, value)), _) if !name.is_empty() => fields.push((name.into(), value.into())),
            // Explanations have blanks in them.
            (None, Some((_, value))) if form == MessageForm::Line => *value = format!("{value} {word}"),
            _ => return None,
        }
    }
    (fields.first()?.0 == "cmd").then_some(Message { fields })
}

/// The parts between single semicolons, doubled ones made one.
fn split_undoubled(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_end = character == ';' && characters.next_if_eq(&';').is_none();
        match parts.last_mut() {
            Some(part) if !is_end => part.push(character),
            _ => parts.push(String::new()),
        }
    }
    // Each part ends with a semicolon, so that the last is empty; managers may leave out the last
    // one.
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(form: MessageForm, bytes: &[u8]) -> Result<Option<Message>, MessageError> {
        Message::take(form, &mut bytes.to_vec())
    }

    #[test]
    fn golden_bytes() {
        let put = Message::new("put").with("kvsname", "kvs_7").with("key", "a").with("value", "b");
        assert_eq!(put.encode(MessageForm::Line).unwrap(), b"cmd=put kvsname=kvs_7 key=a value=b\n");
        let put = Message::new("kvs-put").with("key", "a").with("value", "b;c");
        assert_eq!(put.encode(MessageForm::Counted).unwrap(), b"    29cmd=kvs-put;key=a;value=b;;c;");
        assert_eq!(taken(MessageForm::Counted, b"    29cmd=kvs-put;key=a;value=b;;c;"), Ok(Some(put)));
    }

    #[test]
    fn what_hydra_and_slurm_say_is_read() {
        let said = b"cmd=get_result rc=-1 msg=key_nothing_not_found value=unknown\n";
        let message = taken(MessageForm::Line, said).unwrap().unwrap();
        assert_eq!((message.command(), message.field("rc")), ("get_result", Some("-1")));
        let said = b"cmd=get_result rc=0 msg=success value=(vector,(0,1,1))\n";
        assert_eq!(taken(MessageForm::Line, said).unwrap().unwrap().field("value"), Some("(vector,(0,1,1))"));
        let said = b"    68cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,1));rc=0;";
        assert_eq!(
            taken(MessageForm::Counted, said).unwrap().unwrap().field("value"),
            Some("(vector,(0,1,1))")
        );
        let said = b"26    cmd=kvs-put-response;rc=0;";
        assert_eq!(taken(MessageForm::Counted, said).unwrap().unwrap().command(), "kvs-put-response");
        let said = b"cmd=put_result rc=1 msg=no more room\n";
        assert_eq!(taken(MessageForm::Line, said).unwrap().unwrap().field("msg"), Some("no more room"));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (form, bytes) in [
            (MessageForm::Line, &b"\n"[..]),
            (MessageForm::Line, b"HTTP/1.1 400 Bad Request\n"),
            (MessageForm::Line, b"rc=0 cmd=put_result\n"),
            (MessageForm::Line, b"cmd=x =y\n"),
            (MessageForm::Line, b"cmd=\xFF\n"),
            (MessageForm::Counted, b"cmd=put_result rc=0\n"),
            (MessageForm::Counted, b"     0"),
            (MessageForm::Counted, b"    +5cmd=a"),
            (MessageForm::Counted, b"      cmd=a;"),
            (MessageForm::Counted, b"     5rc=0;"),
            (MessageForm::Counted, b"    11cmd=a;word;"),
        ] {
            let text = String::from_utf8_lossy(bytes);
            assert!(matches!(taken(form, bytes), Err(MessageError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(taken(MessageForm::Line, &[b'a'; MESSAGE_BYTES_MAX]), Err(MessageError::TooLong));
        assert_eq!(taken(MessageForm::Counted, b"999999cmd"), Err(MessageError::TooLong));
        let long = Message::new("put").with("value", "x".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(long.encode(MessageForm::Line), Err(MessageError::TooLong));
        for (name, value) in [("a b", ""), ("a=", ""), ("", "x"), ("a", "x\ny"), ("a", "\u{e4}")] {
            let message = Message::new("put").with(name, value);
            for form in [MessageForm::Line, MessageForm::Counted] {
                assert!(matches!(message.encode(form), Err(MessageError::Unspeakable { .. })), "{message}");
            }
        }
        assert!(Message::new("put").with("value", "x y").encode(MessageForm::Line).is_err(), "two words");
    }

    proptest! {
        #[test]
        fn messages_come_back_one_by_one_however_they_are_cut(
            names in prop::collection::vec("[a-z_-]{1,9}", 1..4), value in "[!-:<-~;]{0,40}", cut in 0_usize..99
        ) {
            for form in [MessageForm::Line, MessageForm::Counted] {
                let message = names.iter().fold(Message::new("put"), |message, name| message.with(name, &value));
                let bytes = message.encode(form).unwrap();
                let mut stream = [&bytes[..], &bytes[..]].concat();
                let rest = stream.split_off(cut.min(stream.len()));
                let mut back = Vec::new();
                back.extend(Message::take(form, &mut stream).unwrap());
                stream.extend(rest);
                while let Some(message) = Message::take(form, &mut stream).unwrap() {
                    back.push(message);
                }
                prop_assert_eq!(&back, &[message.clone(), message]);
                prop_assert!(stream.is_empty());
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), counted: bool) {
            let form = if counted { MessageForm::Counted } else { MessageForm::Line };
            let before = bytes.clone();
            match Message::take(form, &mut bytes) {
                Ok(None) => prop_assert_eq!(bytes, before),
                Ok(Some(message)) => prop_assert!(bytes.len() < before.len() && !message.fields.is_empty()),
                Err(_) => {}
            }
        }
    }
}
