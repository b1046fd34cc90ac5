//! Rust's source as words and marks: as much of its grammar as it takes to tell code from text, and
//! to match braces.

/// A piece of source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'t> {
    /// A name, a keyword or a number.
    Word(&'t str),
    Mark(char),
    /// A string or a character, whatever it holds.
    Text,
    /// Lines of comments that follow each other are one, without what opens them.
    Comment(&'t str),
}

/// The tokens of a text. A comment of several lines keeps the marks in front of them.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            '/' if rest.starts_with("//") => {
                let len = comment_end(rest);
                (Some(Token::Comment(&rest[..len])), len)
            }
            '/' if rest.starts_with("/*") => (None, block_comment_end(rest)),
            '"' => (Some(Token::Text), string_end(rest, 0)),
            'r' | 'b' | 'c' if raw_start(rest).is_some() => {
                (Some(Token::Text), raw_start(rest).map_or(1, |start| string_end(rest, start)))
            }
            '\'' => character(rest),
            _ if is_word(first) => {
                let len = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
                (Some(Token::Word(&rest[..len])), len)
            }
            _ => ((!first.is_whitespace()).then_some(Token::Mark(first)), first.len_utf8()),
        };
        found.extend(token);
        rest = rest.get(len..).unwrap_or("");
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the end of a comment that goes on over the lines that hold nothing else.
fn comment_end(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if end > 0 && !line.trim_start().starts_with("//") {
            break;
        }
        end += line.len();
    }
    end
}

fn block_comment_end(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let step = match rest {
            _ if rest.starts_with("/*") => {
                depth += 1;
                2
            }
            _ if rest.starts_with("*/") => {
                depth -= 1;
                2
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the beginning of the quotes of a string that has letters or hashes in front of them.
fn raw_start(text: &str) -> Option<usize> {
    let letters = text.find(|letter| !matches!(letter, 'r' | 'b' | 'c'))?;
    if letters > 2 {
        return None;
    }
    let hashes = text.get(letters..)?.find(|letter| letter != '#')?;
    let start = letters + hashes;
    let is_raw = text.get(..letters)?.contains('r');
    (text.get(start..)?.starts_with('"') && (hashes == 0 || is_raw)).then_some(start)
}

/// Returns the end of a string whose quotes begin at `start`.
fn string_end(text: &str, start: usize) -> usize {
    let opening = text.get(..start).unwrap_or("");
    let body = start + 1;
    if opening.contains('r') {
        let closing = format!("\"{}", "#".repeat(opening.matches('#').count()));
        return text
            .get(body..)
            .and_then(|rest| rest.find(&closing))
            .map_or(text.len(), |at| body + at + closing.len());
    }
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at < body) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character, or the mark of a lifetime.
fn character(text: &str) -> (Option<Token<'_>>, usize) {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            let end =
                text.get(from..).and_then(|rest| rest.find('\'')).map_or(text.len(), |end| from + end + 1);
            (Some(Token::Text), end)
        }
        (Some(_), Some((at, '\''))) => (Some(Token::Text), at + 1),
        _ => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_distinguished_from_code() {
        let text = r###"a "b\"{" 'c' '\'' '\u{7b}' 'd r#"{"}"# br"{" b'x' /* { /* } */ */ // {
            // more
            e"###;
        let found = tokens(text);
        assert!(!found.contains(&Token::Mark('{')) && !found.contains(&Token::Mark('}')), "{found:?}");
        let words =
            found.iter().filter_map(|token| if let Token::Word(word) = token { Some(*word) } else { None });
        assert_eq!(words.collect::<Vec<_>>(), ["a", "d", "b", "e"]);
        assert_eq!(found.iter().filter(|token| matches!(token, Token::Comment(_))).count(), 1);
    }
}
