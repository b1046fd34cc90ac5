//! Checks for what must not be in a firmware: panic machinery and a heap, recognised by their
//! symbols.

use anyhow::{Result, bail};

/// Parts of the names under which the compiler and core keep what leads to a panic message. The
/// panic handler itself (`rust_begin_unwind`) is linked only when something can reach it.
const PANIC: [&str; 8] = [
    "panic",
    "rust_begin_unwind",
    "unwrap_failed",
    "expect_failed",
    "slice_index_fail",
    "slice_error_fail",
    "len_mismatch_fail",
    "rust_eh_personality",
];

/// Names that only a heap brings.
const HEAP: [&str; 8] =
    ["__rust_alloc", "__rust_dealloc", "__rust_realloc", "__rg_", "__rdl_", "alloc::", "malloc", "sbrk"];

/// The symbols of an image that lead to a panic or to a heap.
#[derive(Debug, Default, PartialEq, Eq)]
struct Forbidden<'a> {
    panic: Vec<&'a str>,
    heap: Vec<&'a str>,
}

/// Fails with what must not be there.
pub(super) fn judge(symbols: &[String]) -> Result<()> {
    let found = forbidden(symbols);
    if !found.panic.is_empty() {
        bail!("panic machinery is linked: {}", found.panic.join(", "));
    }
    if !found.heap.is_empty() {
        bail!("a heap is linked: {}", found.heap.join(", "));
    }
    Ok(())
}

fn forbidden(symbols: &[String]) -> Forbidden<'_> {
    let matching = |parts: &[&str]| {
        let mut names: Vec<&str> = symbols
            .iter()
            .map(String::as_str)
            .filter(|name| parts.iter().any(|part| begins_a_word(name, part)))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    Forbidden { panic: matching(&PANIC), heap: matching(&HEAP) }
}

/// Returns true if `part` stands in `name` where a word begins: `alloc::` is in
/// `<alloc::vec::Vec>`, not in `dealloc::x`.
fn begins_a_word(name: &str, part: &str) -> bool {
    name.match_indices(part).any(|(at, _)| {
        let before = name.get(..at).and_then(|head| head.chars().next_back());
        !before.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_named() {
        let symbols = [
            "reset",
            "core::panicking::panic_fmt",
            "core::option::unwrap_failed",
            "core::slice::index::slice_index_fail",
            "<alloc::vec::Vec<u8>>::push",
            "aldis_kernel::pool::Pool::allocate",
            "__rust_alloc",
            "memcpy",
        ]
        .map(String::from);
        let found = forbidden(&symbols);
        assert_eq!(
            found.panic,
            [
                "core::option::unwrap_failed",
                "core::panicking::panic_fmt",
                "core::slice::index::slice_index_fail"
            ]
        );
        assert_eq!(found.heap, ["<alloc::vec::Vec<u8>>::push", "__rust_alloc"]);
    }
}
