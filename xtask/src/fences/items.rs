//! Unsafe code of a file for which no caller answers: its implementations of unsafe traits, and its
//! safe functions that hold unsafe blocks, each with the argument of its first `SAFETY:` comment.

use super::tokens::{Token, tokens};

/// An implementation, or a function, whose author or caller has to be right.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// `Type::function`, `function` or `unsafe impl Trait for Type`.
    pub(super) name: String,
    /// The first sentence of the comment that argues for it.
    pub(super) argument: String,
}

/// A brace that is open, and what it is the body of.
enum Open {
    Function {
        name: String,
        is_unsafe: bool,
    },
    Type(String),
    /// A module of tests, which is left out.
    Tests,
    Other,
}

/// The unsafe items of a file, in its order, each once.
pub(super) fn items(text: &str) -> Vec<Item> {
    let (tokens, argument) = (tokens(text), None);
    let mut reader = Reader { tokens, at: 0, open: Vec::new(), found: Vec::new(), argument, constant: "" };
    reader.read();
    reader.found
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    open: Vec<Open>,
    found: Vec<Item>,
    /// The sentence of the last comment that argues.
    argument: Option<String>,
    /// The last constant that was named.
    constant: &'t str,
}

impl<'t> Reader<'t> {
    fn read(&mut self) {
        while let Some(token) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token {
                Token::Comment(comment) => self.comment(comment),
                Token::Word("fn") => self.function(),
                Token::Word("impl" | "trait") => self.body_of_type(),
                Token::Word("mod") => self.module(),
                Token::Word("static" | "const") => self.constant(),
                Token::Word("unsafe") if self.is(0, '{') => self.block(),
                Token::Mark('{') => self.open.push(Open::Other),
                Token::Mark('}') => drop(self.open.pop()),
                _ => {}
            }
        }
    }

    /// The token so many places further, comments left out.
    fn peek(&self, ahead: usize) -> Option<Token<'t>> {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter().filter(|token| !matches!(token, Token::Comment(_))).nth(ahead).copied()
    }

    fn is(&self, ahead: usize, mark: char) -> bool {
        self.peek(ahead) == Some(Token::Mark(mark))
    }

    /// The words in front of the one that was just read, the nearest first, as long as they can
    /// qualify it.
    fn qualifiers(&self) -> impl Iterator<Item = &'t str> + '_ {
        let before = self.tokens.get(..self.at - 1).unwrap_or_default().iter().rev();
        before.map_while(|token| match token {
            Token::Word(word @ ("unsafe" | "const" | "async" | "extern" | "pub")) => Some(*word),
            Token::Text => Some(""),
            _ => None,
        })
    }

    fn comment(&mut self, comment: &str) {
        let Some((_, words)) = comment.split_once("SAFETY:") else { return };
        let end = words.find(". ").or_else(|| words.rfind('.')).unwrap_or(words.len());
        let words = words.get(..end).unwrap_or(words).split_whitespace();
        let sentence = words.filter(|word| !word.starts_with("//")).collect::<Vec<_>>().join(" ");
        let says_so_above = ["as above", "as before"].contains(&sentence.to_lowercase().as_str());
        if !(says_so_above && self.argument.is_some()) {
            self.argument = Some(sentence);
        }
    }

    /// Reads to the body of what was just named, or to its end without one. Brackets may hold
    /// braces of their own.
    fn read_to_body(&mut self, open: Open) {
        let mut depth = 0_u32;
        while let Some(token) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token {
                Token::Comment(comment) => self.comment(comment),
                Token::Mark('(' | '[') => depth += 1,
                Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
                // A constant among the generic arguments: `Room<{ N }>`.
                Token::Mark('{') if depth == 0 && !self.is_constant() => return self.open.push(open),
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => depth = depth.saturating_sub(1),
                Token::Mark(';') if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Returns true if the brace that was just read stands where a generic argument does. Behind a
    /// comma it may also follow on a `where` clause.
    fn is_constant(&self) -> bool {
        let before = self.tokens.get(..self.at.saturating_sub(1)).unwrap_or_default();
        let is_start = |token: &&Token<'_>| matches!(token, Token::Word("fn" | "impl" | "trait"));
        match before.last() {
            Some(Token::Mark('<' | '=')) => true,
            Some(Token::Mark(',')) => {
                let mut signature = before.iter().rev().take_while(|token| !is_start(token));
                !signature.any(|token| *token == Token::Word("where"))
            }
            _ => false,
        }
    }

    fn function(&mut self) {
        // A type of functions has no name: `fn(u8)`.
        let name = match (self.peek(0), self.peek(1)) {
            (Some(Token::Word(name)), _) => name.to_owned(),
            (Some(Token::Mark('$')), Some(Token::Word(name))) => format!("${name}"),
            _ => return,
        };
        let is_unsafe = self.qualifiers().any(|word| word == "unsafe");
        let name = match self.open.iter().rev().find_map(|open| match open {
            Open::Type(of) => Some(Some(of)),
            Open::Function { .. } => Some(None),
            _ => None,
        }) {
            Some(Some(of)) => format!("{of}::{name}"),
            _ => name,
        };
        self.read_to_body(Open::Function { name, is_unsafe });
    }

    fn body_of_type(&mut self) {
        // Also `impl Trait` as a type, which is in the middle of something.
        let starts = match self.at.checked_sub(2).and_then(|before| self.tokens.get(before)) {
            None | Some(Token::Mark('}' | '{' | ';' | ']') | Token::Comment(_)) => true,
            Some(Token::Word(word)) => matches!(*word, "unsafe" | "pub"),
            Some(Token::Mark(')')) => self.tokens.get(self.at.wrapping_sub(5)) == Some(&Token::Word("pub")),
            _ => false,
        };
        if !starts {
            return;
        }
        let is_unsafe = self.qualifiers().any(|word| word == "unsafe");
        let is_impl = self.tokens.get(self.at - 1) == Some(&Token::Word("impl"));
        let start = self.at;
        let depth = self.open.len();
        self.read_to_body(Open::Other);
        let (named, of) = header(self.tokens.get(start..self.at).unwrap_or_default());
        if self.open.len() > depth {
            self.open.pop();
            self.open.push(Open::Type(of));
        }
        if is_unsafe && is_impl && !self.is_testing() {
            self.find(format!("unsafe impl {named}"));
        }
    }

    fn module(&mut self) {
        if !matches!(self.peek(0), Some(Token::Word(_))) || !self.is(1, '{') {
            return;
        }
        let before = self.tokens.get(..self.at - 1).unwrap_or_default();
        let attributes =
            before.iter().rev().take_while(|token| !matches!(token, Token::Mark('}' | ';' | '{')));
        let is_of_tests = attributes.into_iter().any(|token| *token == Token::Word("test"));
        self.read_to_body(if is_of_tests { Open::Tests } else { Open::Other });
    }

    fn constant(&mut self) {
        if let (Some(Token::Word(name)), true) = (self.peek(0), self.is(1, ':')) {
            self.constant = name;
        }
    }

    fn is_testing(&self) -> bool {
        self.open.iter().any(|open| matches!(open, Open::Tests))
    }

    fn block(&mut self) {
        let holder = self.open.iter().rev().find_map(|open| match open {
            Open::Function { name, is_unsafe } => Some((name.clone(), *is_unsafe)),
            _ => None,
        });
        match holder {
            _ if self.is_testing() => {}
            Some((_, true)) => {}
            Some((name, false)) => self.find(name),
            None => self.find(self.constant.to_owned()),
        }
    }

    fn find(&mut self, name: String) {
        if self.found.iter().all(|item| item.name != name) {
            let argument = self.argument.clone().unwrap_or_default();
            self.found.push(Item { name, argument });
        }
    }
}

/// Returns the name of an implementation, `Trait for Type` without generics, and that of the type.
fn header(tokens: &[Token<'_>]) -> (String, String) {
    let (mut depth, mut last, mut parts) = (0_i32, String::new(), Vec::new());
    let mut before = ' ';
    for token in tokens {
        match token {
            Token::Mark('<' | '(' | '[') => depth += 1,
            // Of `->` the latter half is no bracket.
            Token::Mark('>') if before == '-' => {}
            Token::Mark('>' | ')' | ']') => depth -= 1,
            Token::Word("where") | Token::Mark('{' | ';') if depth == 0 => break,
            Token::Word("for") if depth == 0 => parts.push(core::mem::take(&mut last)),
            Token::Word(word) if depth == 0 && *word != "dyn" && *word != "mut" => last = (*word).to_owned(),
            _ => {}
        }
        before = if let Token::Mark(mark) = token { *mark } else { ' ' };
    }
    parts.push(last.clone());
    (parts.join(" for "), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        items(text).into_iter().map(|item| item.name).collect()
    }

    #[test]
    fn safe_functions_with_blocks_and_unsafe_implementations_are_found() {
        let text = r"
            // SAFETY: it is alone. And more.
            unsafe impl<'a, T: Send> Send for Holder<'a, T> where T: Sync, {}
            impl<const N: usize> Holder<{ N }> {
                pub const fn get(&self) -> [u8; { N }] {
                    // SAFETY: inside
                    // of it.
                    unsafe { self.read() }
                }
                unsafe fn read(&self) { unsafe { () } }
                fn quiet(&self) -> u8 { 0 }
            }
            static ONE: Cell = Cell::of(unsafe { g() });
            fn with<E>(&self) -> Result<(), u8> where E: Sized, { unsafe { g() } }
            fn free(call: impl Fn(u8) -> u8) { let f = |x| unsafe { g(x) }; f(1) }
        ";
        assert_eq!(names(text), ["unsafe impl Send for Holder", "Holder::get", "ONE", "with", "free"]);
        let found = items(text);
        assert_eq!(found[0].argument, "it is alone");
        assert_eq!(found[1].argument, "inside of it");
    }

    #[test]
    fn tests_text_and_types_of_functions_are_left_out() {
        let text = r##"
            struct Table { call: unsafe fn(u8), other: fn() }
            fn text() { let a = "unsafe { }"; let b = r#"unsafe { "# ; let c = '{'; /* unsafe { */ }
            #[cfg(test)]
            mod tests { fn f() { unsafe { g() } } unsafe impl Send for X {} }
            fn after<'a>(x: &'a u8) { unsafe { g(x) } }
        "##;
        assert_eq!(names(text), ["after"]);
    }

    #[test]
    fn a_block_is_of_the_innermost_function_and_an_argument_above_is_the_same() {
        let text = "
            impl Trait for Thing {
                fn outer(&self) {
                    fn inner() {
                        // SAFETY: one reason.
                        unsafe { g() }
                    }
                    inner()
                }
                fn other(&self) {
                    // SAFETY: as above.
                    unsafe { g() }
                }
            }";
        assert_eq!(names(text), ["inner", "Thing::other"]);
        assert_eq!(items(text)[1].argument, "one reason");
    }
}
