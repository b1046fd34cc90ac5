//! Circles of imports among the top-level modules of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree};

use super::source::SourceFile;

/// The module of the crate's root itself.
const ROOT: &str = "lib";

/// The modules that each module uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The circles of a crate whose sources are in this folder: the modules of each that use each
/// other, directly or by way of others. Tests in files of their own count for their module.
pub(super) fn of<'a>(sources: impl Iterator<Item = &'a SourceFile>, folder: &str) -> Vec<Vec<String>> {
    let sources: Vec<&SourceFile> = sources.collect();
    let root = format!("{folder}/lib.rs");
    let names: BTreeSet<String> = sources.iter().map(|source| path(source, folder)[0].clone()).collect();
    let given: BTreeMap<String, String> = sources
        .iter()
        .find(|source| source.name == root)
        .map(|source| exports(&source.file.items, &names))
        .unwrap_or_default();
    let mut arrows = Arrows::new();
    for source in sources {
        let path = path(source, folder);
        if path[0] == ROOT || path.iter().any(|part| part == "tests") {
            continue;
        }
        let mut found = PathVisitor { path: &path, names: &names, given: &given, uses: BTreeSet::new() };
        found.visit_file(&source.file);
        found.uses.remove(&path[0]);
        arrows.entry(path[0].clone()).or_default().extend(found.uses);
    }
    circles(&arrows)
}

/// The module of a file, from the crate's root on.
fn path(source: &SourceFile, folder: &str) -> Vec<String> {
    let below = Path::new(&source.name).strip_prefix(folder).unwrap_or(Path::new(""));
    let below = below.with_extension("");
    let mut parts: Vec<String> =
        below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.len() > 1 && parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    if parts.is_empty() {
        parts.push(ROOT.into());
    }
    parts
}

/// The names that the root gives out of its modules, each with its module.
fn exports(items: &[Item], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    for item in items {
        if let Item::Use(ItemUse { tree, .. }) = item {
            let mut paths = Vec::new();
            flatten(tree, &mut Vec::new(), &mut paths);
            for path in paths {
                let mut path = path.iter().filter(|part| *part != "self" && *part != "crate");
                if let (Some(first), Some(last)) = (path.next(), path.next_back())
                    && modules.contains(first)
                {
                    given.insert(last.clone(), first.clone());
                }
            }
        }
    }
    given
}

/// Every path of a use, with the name that it gets as its last part.
fn flatten(tree: &UseTree, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut leaf = |name: String| paths.push(before.iter().cloned().chain([name]).collect());
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, paths);
            before.pop();
        }
        UseTree::Name(name) => leaf(name.ident.to_string()),
        UseTree::Rename(name) => leaf(name.rename.to_string()),
        UseTree::Glob(_) => leaf("*".into()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, paths)),
    }
}

/// The modules that a file names.
struct PathVisitor<'a> {
    path: &'a [String],
    names: &'a BTreeSet<String>,
    given: &'a BTreeMap<String, String>,
    uses: BTreeSet<String>,
}

impl PathVisitor<'_> {
    /// Takes a path as it is written in the file.
    fn take(&mut self, parts: &[String]) {
        let ups = parts.iter().take_while(|part| *part == "super").count();
        let (from_root, rest) = match parts.first().map(String::as_str) {
            Some("crate") => (true, &parts[1..]),
            // As many as the file is deep lead to the root.
            Some("super") => (ups >= self.path.len(), &parts[ups..]),
            _ => return,
        };
        let Some(first) = rest.first().filter(|_| from_root) else { return };
        let module = if self.names.contains(first) { Some(first) } else { self.given.get(first) };
        self.uses.extend(module.cloned());
    }
}

impl<'ast> Visit<'ast> for PathVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // Tests may use what they like.
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut paths = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut paths);
        paths.iter().for_each(|path| self.take(path));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.take(&parts);
        visit::visit_path(self, path);
    }
}

/// The strongly connected components of more than one module.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for other in arrows.get(&module).into_iter().flatten() {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|module| (module, reached(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, there) in &reach {
        let back = |other: &&String| reach.get(other).is_some_and(|theirs| theirs.contains(*module));
        let circle: Vec<String> = there.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<SourceFile> =
            files.iter().map(|(name, text)| SourceFile::parse(name, (*text).into()).unwrap()).collect();
        of(sources.iter(), "x/src")
    }

    #[test]
    fn a_circle_by_way_of_a_third_and_of_the_root_is_found() {
        let circles = found(&[
            ("x/src/lib.rs", "mod a; mod b; mod c; mod d; pub use c::Thing;"),
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b/deep.rs", "fn f(_: super::super::Thing) {}"),
            ("x/src/c.rs", "pub struct Thing; fn g() { crate::a::h(); }"),
            ("x/src/d.rs", "use crate::a;"),
        ]);
        assert_eq!(circles, [["a", "b", "c"].map(str::to_owned).to_vec()]);
    }

    #[test]
    fn tests_and_arrows_within_a_module_are_none() {
        let circles = found(&[
            ("x/src/lib.rs", "mod a; mod b;"),
            ("x/src/a.rs", "use crate::b::B; mod deep;"),
            ("x/src/a/deep.rs", "use super::A;"),
            ("x/src/b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
        ]);
        assert!(circles.is_empty(), "{circles:?}");
    }
}
