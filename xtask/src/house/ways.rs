//! The ways of messages that ARCHITECTURE.md walks, held to the code.

use anyhow::{Result, bail};
use syn::{Ident, ImplItem, Item, TraitItem, Type};

use super::source::SourceFile;

/// The ways, by the headings of their tables; the functions and the files that each has at most.
pub(super) const WAYS: [(&str, usize, usize); 4] = [
    ("A blocking send of 8 bytes", 15, 8),
    ("A message of 8 bytes arrives", 18, 9),
    ("An allreduce of 8 bytes by control slots", 22, 9),
    ("An allreduce by messages", 22, 9),
];

/// A row of such a table.
#[derive(Debug, PartialEq)]
pub(super) struct WayStep<'t> {
    /// `Type::function`, or `function`.
    pub(super) function: &'t str,
    pub(super) file: &'t str,
}

impl WayStep<'_> {
    /// Returns true if the file has that function.
    pub(super) fn is_in(&self, sources: &[SourceFile]) -> bool {
        let (of, name) = match self.function.split_once("::") {
            Some((of, name)) => (Some(of), name),
            None => (None, self.function),
        };
        let source = sources.iter().find(|source| source.name == self.file);
        source.is_some_and(|source| has(&source.file.items, of, name))
    }
}

/// Returns the rows of the table below a heading.
pub(super) fn steps<'t>(text: &'t str, heading: &str) -> Result<Vec<WayStep<'t>>> {
    let is_heading = |line: &str| line.trim_start_matches('#').trim() == heading && line.starts_with('#');
    let below = text.lines().skip_while(|line| !is_heading(line)).skip(1);
    let rows = below.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    let steps: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split('|').skip(1).map(|cell| cell.trim().trim_matches('`'));
            WayStep { function: cells.next().unwrap_or_default(), file: cells.next().unwrap_or_default() }
        })
        .collect();
    if steps.is_empty() {
        bail!("ARCHITECTURE.md has no table of functions below \"{heading}\"");
    }
    Ok(steps)
}

/// Returns true if the items have a function of this name, of that type or trait if one is given.
fn has(items: &[Item], of: Option<&str>, name: &str) -> bool {
    let is = |ident: &Ident| ident == name;
    items.iter().any(|item| match item {
        Item::Fn(item) => of.is_none() && is(&item.sig.ident),
        Item::Impl(item) => {
            let own = matches!(&*item.self_ty, Type::Path(own) if own.path.segments.last()
                .is_some_and(|last| of.is_some_and(|of| last.ident == of)));
            own && item.items.iter().any(|item| matches!(item, ImplItem::Fn(item) if is(&item.sig.ident)))
        }
        Item::Trait(item) => {
            let own = of.is_some_and(|of| item.ident == of);
            own && item.items.iter().any(|item| matches!(item, TraitItem::Fn(item) if is(&item.sig.ident)))
        }
        Item::Mod(item) => item.content.as_ref().is_some_and(|(_, items)| has(items, of, name)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_where_its_table_says() {
        let text = "# A\n## Way\ntext\n\n| function | file | what |\n|---|---|---|\n| `B::c` | `d.rs` | e |\n# F\n| `g` | `h` |";
        let steps = steps(text, "Way").unwrap();
        assert_eq!(steps, [WayStep { function: "B::c", file: "d.rs" }]);
        let source = |text: &str| vec![SourceFile::parse("d.rs", text.into()).unwrap()];
        assert!(steps[0].is_in(&source("impl<T> X for B<T> { fn c() {} }")));
        assert!(!steps[0].is_in(&source("impl B { fn d() {} } fn c() {} impl C { fn c() {} }")));
        assert!(super::steps(text, "F of another name").is_err());
    }
}
