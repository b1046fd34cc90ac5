//! The counts of one file of source.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{
    FnArg, ImplItem, ItemEnum, ItemImpl, ItemMod, ItemStruct, ItemType, ItemUnion, Pat, Signature, Type,
    Visibility,
};

/// Columns of a line of comment.
const COLUMNS_MAX: usize = 100;
/// Parameters beside self of which a function has too many.
const PARAMETERS_MANY: usize = 5;
/// A doc comment begins with none of these.
const OPENINGS: [&str; 8] = ["What", "Whether", "Who", "How", "Where", "As", "It", "One"];
/// The sources whose signatures are those of C.
const OF_C: &str = "host-sim/mpi/";

/// A file of source.
pub(super) struct SourceFile {
    /// From the root of the checkout.
    pub(super) name: String,
    text: String,
    pub(super) file: syn::File,
}

impl SourceFile {
    pub(super) fn parse(name: &str, text: String) -> Result<Self> {
        let file = syn::parse_file(&text).with_context(|| format!("reading {name}"))?;
        Ok(Self { name: name.into(), text, file })
    }
}

/// Counts over files.
#[derive(Default)]
pub(super) struct SourceCounts {
    /// Doc comments, and those that open as they should not.
    pub(super) docs: usize,
    pub(super) openings: Vec<String>,
    /// Sections about errors, and those that only refer to others.
    pub(super) errors: usize,
    pub(super) errors_as: Vec<String>,
    /// Lines of comment that are too wide.
    pub(super) wide: Vec<String>,
    /// Functions, and those with many parameters.
    pub(super) functions: usize,
    pub(super) many: Vec<String>,
    /// Parameters that are tuples.
    pub(super) tuples: Vec<String>,
    /// Modules whose file is named.
    pub(super) paths: Vec<String>,
    /// The places that define types of a name.
    pub(super) types: BTreeMap<String, Vec<String>>,
    /// Public methods of types of the kernel.
    pub(super) methods: BTreeMap<String, Vec<String>>,
    /// Conditions on the feature.
    pub(super) compact: Vec<String>,
    name: String,
}

impl SourceCounts {
    /// Adds a file.
    pub(super) fn take(&mut self, source: &SourceFile) {
        self.name.clone_from(&source.name);
        for (line, number) in source.text.lines().zip(1..) {
            let place = || format!("{}:{number}", source.name);
            if line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX {
                self.wide.push(place());
            }
            if line.contains("feature = \"compact\"") {
                self.compact.push(place());
            }
        }
        self.visit_file(&source.file);
        docs(&source.text).iter().for_each(|lines| self.documented(lines));
    }

    /// Counts a doc comment.
    fn documented(&mut self, lines: &[&str]) {
        let Some(first) = lines.iter().find(|line| !line.is_empty()) else { return };
        self.docs += 1;
        let word = first.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if OPENINGS.contains(&word) {
            self.openings.push(format!("{}: {first}", self.name));
        }
        let mut lines = lines.iter().copied().skip_while(|line| *line != "# Errors");
        if lines.next().is_some() {
            self.errors += 1;
            let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with('#')).collect();
            let text = text.join(" ");
            // One sentence, and it refers to another place.
            if text.trim_start().starts_with("As ") && text.matches(". ").count() == 0 {
                self.errors_as.push(format!("{}: {}", self.name, text.trim()));
            }
        }
    }

    fn defined(&mut self, name: &syn::Ident) {
        self.types.entry(name.to_string()).or_default().push(self.name.clone());
    }
}

/// The doc comments of a text: lines of the same mark one below the other.
fn docs(text: &str) -> Vec<Vec<&str>> {
    let mark = |line: &str| ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let blocks = lines.chunk_by(|a, b| mark(a) == mark(b));
    let of_docs = blocks.filter(|block| block.first().is_some_and(|line| mark(line).is_some()));
    of_docs.map(|block| block.iter().map(|line| line[3..].trim()).collect()).collect()
}

impl<'ast> Visit<'ast> for SourceCounts {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.functions += 1;
        let typed: Vec<&Type> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) if !is_self(&typed.pat) => Some(&*typed.ty),
                _ => None,
            })
            .collect();
        let place = || format!("{}: {}", self.name, signature.ident);
        if typed.len() >= PARAMETERS_MANY && !self.name.starts_with(OF_C) {
            self.many.push(place());
        }
        let is_tuple = |kind: &&&Type| matches!(kind, Type::Tuple(tuple) if !tuple.elems.is_empty());
        let tuples = typed.iter().filter(is_tuple).count();
        self.tuples.extend((0..tuples).map(|_| place()));
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (None, Type::Path(path), true) =
            (&item.trait_, &*item.self_ty, self.name.starts_with("kernel/src/"))
            && let Some(last) = path.path.segments.last()
        {
            let public = item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) if matches!(method.vis, Visibility::Public(_)) => {
                    Some(format!("{}: {}", self.name, method.sig.ident))
                }
                _ => None,
            });
            self.methods.entry(last.ident.to_string()).or_default().extend(public);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
            self.paths.push(format!("{}: {}", self.name, item.ident));
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.defined(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.defined(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.defined(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.defined(&item.ident);
        visit::visit_item_type(self, item);
    }
}

fn is_self(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Ident(name) if name.ident == "self")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> SourceCounts {
        let mut tally = SourceCounts::default();
        tally.take(&SourceFile::parse("kernel/src/a.rs", text.into()).unwrap());
        tally
    }

    #[test]
    fn doc_comments_are_judged_by_the_first_word_and_errors_sections_by_a_single_sentence() {
        let tally = tally(
            "//! What it is.\n\n/// Sends.\n///\n/// # Errors\n/// As [`b`].\nfn a() {}\n\n/// Items.\n///\n/// # Errors\n\
             /// As there. And another.\nfn b() {}\n",
        );
        assert_eq!((tally.docs, tally.openings.len()), (3, 1));
        assert_eq!((tally.errors, tally.errors_as.len()), (2, 1));
    }

    #[test]
    fn parameters_are_counted_without_self() {
        let tally = tally(
            "struct A; impl A { fn a(&self, b: u8, c: u8, d: u8, e: u8) {} }\nfn f(a: u8, b: u8, c: u8, d: u8, e: (u8, u8)) {}\n",
        );
        assert_eq!((tally.functions, tally.many.len(), tally.tuples.len()), (2, 1, 1));
    }

    #[test]
    fn public_methods_are_those_of_the_type_itself() {
        let tally = tally(
            "struct A; impl A { pub fn a() {} pub(crate) fn b() {} fn c() {} }\nimpl Clone for A { fn clone(&self) -> A { A } }\n",
        );
        assert_eq!(tally.methods["A"].len(), 1);
        assert_eq!(tally.types["A"].len(), 1);
    }
}
