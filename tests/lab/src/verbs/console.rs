//! The output of a guest's console, and what it means.

/// The beginning of a line of the guest's first program that is for xtask.
const MARK: &str = "aldis: ";
/// Lines that are shown of a command that failed.
const LAST_LINES: usize = 12;

/// A command that a guest was given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ran {
    /// The lines that it said, without empty ones.
    pub(super) lines: Vec<String>,
    /// Its exit code, once it has ended.
    pub(super) code: Option<i32>,
}

impl Ran {
    /// All that it said.
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// A guest as its console shows it.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// The lines of its kernel and its first program.
    pub(super) asides: Vec<String>,
    /// The commands that were begun.
    pub(super) ran: Vec<Ran>,
    /// The reason why it gave up, if it did.
    failed: Option<String>,
    /// True if its watchdog ended it. What it says after that is the state of the machine.
    barked: bool,
    /// True once it has run all commands.
    over: bool,
}

impl Console {
    /// The next line, without its end.
    pub(super) fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        let Some(words) = line.strip_prefix(MARK) else {
            match self.ran.last_mut().filter(|ran| ran.code.is_none()) {
                _ if line.is_empty() => {}
                Some(ran) => ran.lines.push(line.into()),
                None => self.asides.push(line.into()),
            }
            return;
        };
        let words: Vec<&str> = words.split(' ').collect();
        match words.as_slice() {
            ["begin", _] => self.ran.push(Ran::default()),
            ["end", _, code] => {
                if let Some(ran) = self.ran.last_mut() {
                    ran.code = code.parse().ok();
                }
            }
            ["failed", what @ ..] => self.failed = Some(what.join(" ")),
            ["watchdog"] => self.barked = true,
            ["over"] => self.over = true,
            _ => {}
        }
    }

    /// Returns what is wrong with it, if anything is. `commands` are those that it was given.
    pub(super) fn fault(&self, commands: &[String]) -> Option<String> {
        let failed = self.ran.iter().zip(commands).find(|(ran, _)| ran.code.is_some_and(|code| code != 0));
        if let Some((Ran { lines, code }, command)) = failed {
            let code = code.unwrap_or_default();
            return Some(format!("`{command}` ended with code {code}\n{}", last(lines)));
        }
        if self.over && self.ran.len() == commands.len() {
            return None;
        }
        let running = self.ran.iter().zip(commands).find(|(ran, _)| ran.code.is_none());
        let lines = running.map_or(&self.asides, |(ran, _)| &ran.lines);
        let place = match (&self.failed, running) {
            (Some(what), _) => format!("`{what}` failed while it started"),
            (None, Some((_, command))) => format!("`{command}` did not end"),
            (None, None) => "it did not get through its start".into(),
        };
        // A watchdog's dump is to be seen as a whole.
        let shown = if self.barked { lines.join("\n") } else { last(lines) };
        Some(format!("{place}; it said\n{shown}"))
    }
}

fn last(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        text.lines().for_each(|line| console.hear(line));
        console
    }

    fn commands() -> Vec<String> {
        ["true", "ls"].map(String::from).into()
    }

    #[test]
    fn commands_end_with_codes() {
        let console = console(
            "[ 0.1] x\r\n\naldis: up\n\naldis: begin 000\none\r\n\ntwo\naldis: end 000 0\naldis: begin 001\naldis: end 001 0\naldis: over\n",
        );
        assert_eq!(console.fault(&commands()), None);
        assert_eq!((console.ran[0].text().as_str(), console.ran[0].code), ("one\ntwo", Some(0)));
        assert_eq!(console.asides, ["[ 0.1] x"]);
    }

    #[test]
    fn what_went_wrong_is_told() {
        for (said, told) in [
            ("", "it did not get through its start"),
            ("oops\naldis: failed insmod x.ko\n", "`insmod x.ko` failed while it started; it said\noops"),
            ("aldis: begin 000\naldis: end 000 7\naldis: begin 001\n", "`true` ended with code 7"),
            ("aldis: begin 000\naldis: end 000 0\naldis: over\n", "it did not get through its start"),
            ("aldis: begin 000\nx\naldis: watchdog\nPID 1\n", "`true` did not end; it said\nx\nPID 1"),
        ] {
            let fault = console(said).fault(&commands()).unwrap();
            assert!(fault.starts_with(told), "{fault}");
        }
    }
}
