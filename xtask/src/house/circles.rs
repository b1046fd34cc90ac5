//! Circles of imports among the modules of a crate.
//!
//! A module is a file at the top of the crate together with the files below it. A folder whose own
//! file holds nothing but modules and uses is a shelf: in a crate that is measured at
//! [`Depth::OnShelves`] the modules that stand on it count, each by itself, so that putting modules
//! in folders hides no circle among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree};

use super::source::SourceFile;

/// The module of the crate's root itself.
const ROOT: &str = "lib";

/// The modules of a crate that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    /// Those at the top of the crate.
    Top,
    /// Those at the top of the crate, and those on a shelf in place of the shelf.
    OnShelves,
}

/// The modules that each module uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The modules of a crate, and the names that lead to them.
#[derive(Default)]
struct ModuleNames {
    /// Folders whose own file holds nothing but modules and uses.
    shelves: BTreeSet<String>,
    /// The modules that are measured, by their paths from the root.
    modules: BTreeSet<String>,
    /// The names that the root and the shelves give out, by their paths, each with its module.
    given: BTreeMap<String, String>,
}

impl ModuleNames {
    fn of(sources: &[&SourceFile], folder: &str, depth: Depth) -> Self {
        let mut names = Self::default();
        for source in sources {
            let path = path(source, folder);
            let is_module =
                |item: &Item| matches!(item, Item::Mod(ItemMod { content: None, .. }) | Item::Use(_));
            let items = &source.file.items;
            let has_modules = items.iter().any(|item| matches!(item, Item::Mod(_)));
            if depth == Depth::OnShelves
                && path.len() == 1
                && path[0] != ROOT
                && has_modules
                && items.iter().all(is_module)
            {
                names.shelves.insert(path[0].clone());
            }
        }
        for source in sources {
            let path = path(source, folder);
            names.modules.extend(names.module(&path));
        }
        for source in sources {
            let path = path(source, folder);
            if path[0] == ROOT || path.len() == 1 && names.shelves.contains(&path[0]) {
                let here = if path[0] == ROOT { &[][..] } else { &path[..] };
                let given = names.exports(&source.file.items, here);
                names.given.extend(given);
            }
        }
        names
    }

    /// The module that a file of this path belongs to; none for the root and a shelf's own file.
    fn module(&self, path: &[String]) -> Option<String> {
        match path {
            [first, ..] if first == ROOT => None,
            [first, rest @ ..] if self.shelves.contains(first) => Some(format!("{first}::{}", rest.first()?)),
            [first, ..] => Some(first.clone()),
            [] => None,
        }
    }

    /// The module that a path from the root leads to.
    fn resolve(&self, path: &[String]) -> Option<String> {
        let module = self.module(path);
        if let Some(module) = module.filter(|module| self.modules.contains(module)) {
            return Some(module);
        }
        (1..=path.len()).find_map(|end| self.given.get(&path[..end].join("::")).cloned())
    }

    /// The names that a file at `here` gives out of modules, each with its module.
    fn exports(&self, items: &[Item], here: &[String]) -> BTreeMap<String, String> {
        let mut given = BTreeMap::new();
        for item in items {
            let Item::Use(ItemUse { tree, .. }) = item else { continue };
            let mut paths = Vec::new();
            flatten(tree, &mut Vec::new(), &mut paths);
            for path in paths {
                let from_root = path.first().is_some_and(|part| part == "crate");
                let before = if from_root { &[][..] } else { here };
                let inner = path.iter().filter(|part| !matches!(part.as_str(), "self" | "crate"));
                let full: Vec<String> = before.iter().chain(inner).cloned().collect();
                if let (Some(module), Some(last)) = (self.module(&full), full.last())
                    && self.modules.contains(&module)
                {
                    let name: Vec<String> = here.iter().chain([last]).cloned().collect();
                    given.insert(name.join("::"), module);
                }
            }
        }
        given
    }
}

/// The circles of a crate whose sources are in this folder: the modules of each that use each
/// other, directly or by way of others. Tests in files of their own count for their module.
pub(super) fn of<'a>(
    sources: impl Iterator<Item = &'a SourceFile>,
    folder: &str,
    depth: Depth,
) -> Vec<Vec<String>> {
    let sources: Vec<&SourceFile> = sources.collect();
    let names = ModuleNames::of(&sources, folder, depth);
    let mut arrows = Arrows::new();
    for source in sources {
        let path = path(source, folder);
        let Some(module) = names.module(&path) else { continue };
        if path.iter().any(|part| part == "tests") {
            continue;
        }
        let mut found = PathVisitor { path: &path, names: &names, uses: BTreeSet::new() };
        found.visit_file(&source.file);
        found.uses.remove(&module);
        arrows.entry(module).or_default().extend(found.uses);
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
    names: &'a ModuleNames,
    uses: BTreeSet<String>,
}

impl PathVisitor<'_> {
    /// Takes a path as it is written in the file.
    fn take(&mut self, parts: &[String]) {
        let ups = parts.iter().take_while(|part| *part == "super").count();
        let (before, rest) = match parts.first().map(String::as_str) {
            Some("crate") => (&[][..], &parts[1..]),
            // As many as the file is deep lead to the root.
            Some("super") => (&self.path[..self.path.len().saturating_sub(ups)], &parts[ups..]),
            _ => return,
        };
        let full: Vec<String> = before.iter().chain(rest).cloned().collect();
        self.uses.extend(self.names.resolve(&full));
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
        found_at(Depth::OnShelves, files)
    }

    fn found_at(depth: Depth, files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<SourceFile> =
            files.iter().map(|(name, text)| SourceFile::parse(name, (*text).into()).unwrap()).collect();
        of(sources.iter(), "x/src", depth)
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
    fn a_folder_of_nothing_but_modules_hides_no_circle_among_them() {
        let circles = found(&[
            ("x/src/lib.rs", "mod shelf; mod low; pub use shelf::b::B;"),
            ("x/src/shelf/mod.rs", "//! Words.\nmod a; mod b; mod c; pub use c::C;"),
            ("x/src/shelf/a.rs", "use crate::B;"),
            ("x/src/shelf/b.rs", "use super::C;"),
            ("x/src/shelf/c/deep.rs", "use super::super::a::A; use crate::low::Low;"),
            ("x/src/low.rs", "use core::fmt;"),
        ]);
        assert_eq!(circles, [["shelf::a", "shelf::b", "shelf::c"].map(str::to_owned).to_vec()]);
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
