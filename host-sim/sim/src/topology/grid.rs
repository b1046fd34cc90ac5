//! Grids whose edges meet: a torus, and a ring as one of a single row. Where the last row is short,
//! switches without nodes fill it.

use core::num::NonZeroU32;

/// A torus of two dimensions; node n stands in row n / columns.
pub(super) struct TorusGrid {
    rows: u32,
    columns: u32,
}

impl TorusGrid {
    pub(super) fn ring(size: u32) -> Self {
        Self { rows: 1, columns: size.max(1) }
    }

    pub(super) fn torus(size: u32, columns: Option<NonZeroU32>) -> Self {
        let square = size.isqrt() + u32::from(size.isqrt().pow(2) < size);
        let columns = columns.map_or(square, NonZeroU32::get).clamp(1, size.max(1));
        Self { rows: size.div_ceil(columns), columns }
    }

    const fn place(&self, node: u32) -> (u32, u32) {
        (node / self.columns, node % self.columns)
    }

    /// Four from each place: back and ahead along the row, then along the column.
    pub(super) const fn links(&self) -> u64 {
        4 * self.rows as u64 * self.columns as u64
    }

    pub(super) const fn diameter(&self) -> u32 {
        self.rows / 2 + self.columns / 2
    }

    pub(super) const fn steps(&self, from: u32, to: u32) -> u32 {
        let ((row, column), (to_row, to_column)) = (self.place(from), self.place(to));
        around(column, to_column, self.columns).0 + around(row, to_row, self.rows).0
    }

    pub(super) fn route(&self, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        let ((row, column), (to_row, to_column)) = (self.place(from), self.place(to));
        let mut link = |row: u32, column: u32, direction: usize| {
            visit((row as usize * self.columns as usize + column as usize) * 4 + direction);
        };
        walk(column, to_column, self.columns, |at, ahead| link(row, at, usize::from(ahead)));
        walk(row, to_row, self.rows, |at, ahead| link(at, to_column, 2 + usize::from(ahead)));
    }
}

/// The shorter way round from `from` to `to`, and whether it goes ahead.
const fn around(from: u32, to: u32, size: u32) -> (u32, bool) {
    let ahead = if to >= from { to - from } else { size - (from - to) };
    if ahead <= size - ahead { (ahead, true) } else { (size - ahead, false) }
}

/// Every place from which a link is taken on the shorter way round, and whether it is the link
/// ahead.
fn walk(from: u32, to: u32, size: u32, mut visit: impl FnMut(u32, bool)) {
    let (steps, ahead) = around(from, to, size);
    let mut at = from;
    for _ in 0..steps {
        visit(at, ahead);
        at = match (ahead, at) {
            (true, last) if last + 1 == size => 0,
            (true, _) => at + 1,
            (false, 0) => size - 1,
            (false, _) => at - 1,
        };
    }
}
