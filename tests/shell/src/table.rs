//! Plain-text tables: words to the left, columns of numbers to the right.

use std::fmt;

/// Rows of cells under a head; the widths fit the widest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a head alone.
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Self::from_head(head)
    }

    /// Creates a table with a head of any width.
    pub fn from_head<'a>(head: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![head.into_iter().map(String::from).collect()] }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.push(cells);
    }

    /// Adds a row of any width.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns it as a table of Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut lines = self.rows.iter().map(|row| line(row));
        let mut text = lines.next().unwrap_or_default();
        text += &format!("|{}\n", "---|".repeat(columns));
        text.extend(lines);
        text
    }

    /// Each row as pairs of its column's name and its cell.
    pub fn records(&self) -> impl Iterator<Item = Vec<(&str, &str)>> {
        let head = self.rows.first().map_or(&[][..], Vec::as_slice);
        self.rows
            .iter()
            .skip(1)
            .map(move |row| head.iter().zip(row).map(|(name, cell)| (name.as_str(), cell.as_str())).collect())
    }

    /// Returns it as a table of HTML.
    pub fn html(&self) -> String {
        let escape = |cell: &String| cell.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let line = |row: &Vec<String>, tag: &str| {
            let cells: String = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let lines =
            self.rows.iter().enumerate().map(|(at, row)| line(row, if at == 0 { "th" } else { "td" }));
        format!("<table>\n{}</table>\n", lines.collect::<String>())
    }

    /// Returns true if every cell below the head is a number, or a dash where there is none.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
        cells.all(|cell| cell == "-" || cell.parse::<f64>().is_ok())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numbers: Vec<bool> = (0..columns).map(|column| self.is_numeric(column)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, width), numeric) in row.iter().zip(&widths).zip(&numbers) {
                line.push_str(&if *numeric {
                    format!("  {cell:>width$}")
                } else {
                    format!("  {cell:<width$}")
                });
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let rule: usize = widths.iter().map(|width| width + 2).sum();
                writeln!(f, "  {}", "-".repeat(rule.saturating_sub(2)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_in_every_form() {
        let mut table = Table::new(["step", "ns"]);
        table.row(["a<b".into(), "7".into()]);
        assert_eq!(table.records().collect::<Vec<_>>(), [vec![("step", "a<b"), ("ns", "7")]]);
        assert_eq!(table.markdown(), "| step | ns |\n|---|---|\n| a<b | 7 |\n");
        assert_eq!(
            table.html(),
            "<table>\n<tr><th>step</th><th>ns</th></tr>\n<tr><td>a&lt;b</td><td>7</td></tr>\n</table>\n"
        );
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["step", "ns", "x"]);
        table.row(["raw".into(), "7".into(), "a".into()]);
        table.row(["longer".into(), "123".into(), "bc".into()]);
        assert_eq!(
            table.to_string(),
            "  step     ns  x\n  ---------------\n  raw       7  a\n  longer  123  bc\n"
        );
    }
}
