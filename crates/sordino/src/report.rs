//! Tables, bars and numbers for the terminal.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use console::measure_text_width;
pub(crate) use network::text::{counted, grouped};
use serde::Serializer;

/// A text table: the first column to the left, numbers to the right, an optional bar at the end.
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    left: Vec<bool>,
}

impl Table {
    /// A table whose columns marked `<` are set to the left, all others to the right.
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self {
            header: columns.iter().map(|column| column.trim_start_matches('<').to_owned()).collect(),
            rows: Vec::new(),
            left: columns.iter().map(|column| column.starts_with('<')).collect(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// A rule between rows.
    pub(crate) fn rule(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| measure_text_width(cell)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        self.line(out, &self.header, &widths)?;
        for row in &self.rows {
            if row.is_empty() {
                let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                writeln!(out, "{}", "─".repeat(total))?;
            } else {
                self.line(out, row, &widths)?;
            }
        }
        Ok(())
    }

    fn line(&self, out: &mut dyn Write, cells: &[String], widths: &[usize]) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, width), is_left) in cells.iter().zip(widths).zip(&self.left) {
            let space = " ".repeat(width - measure_text_width(cell));
            if *is_left {
                line.push_str(&format!("{cell}{space}  "));
            } else {
                line.push_str(&format!("{space}{cell}  "));
            }
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// A bar of up to `width` characters, in eighths.
pub(crate) fn bar(value: u64, largest: u64, width: u64) -> String {
    if largest == 0 {
        return String::new();
    }
    let eighths = (u128::from(value) * u128::from(width) * 8).div_ceil(u128::from(largest)) as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
    }
    if wants_color() { format!("\u{1b}[36m{bar}\u{1b}[0m") } else { bar }
}

fn wants_color() -> bool {
    // An empty one counts as none: https://no-color.org.
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `555.4M`, `49.2K`.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}K", number as f64 / 1e3),
        1_000_000..10_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

/// `11.8%`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

/// How sure a network is of each class: the softmax of its logits, which count in units.
pub(crate) fn softmax(logits: &[i64], unit: f64) -> Vec<f64> {
    let best = logits.iter().copied().max().unwrap_or(0);
    let powers: Vec<f64> = logits.iter().map(|logit| ((logit - best) as f64 * unit).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// A text that may quote a file or its name: its control characters must not command the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if matches!(letter, '\n' | '\t') { letter } else { shown(letter) }).collect()
}

/// A path for people, on one line.
pub(crate) fn path_text(path: &Path) -> String {
    path.display().to_string().chars().map(shown).collect()
}

fn shown(letter: char) -> char {
    if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }
}

/// A path as JSON has it. A file's name may be no text at all: what is none becomes U+FFFD, and the document is whole.
pub(crate) fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(short(999), "999");
        assert_eq!(short(555_422_720), "555.4M");
        assert_eq!(percent(1, 8), "12.5%");
        assert_eq!(percent(0, 0), "-");
    }

    #[test]
    fn probabilities_are_a_softmax() {
        let expected = 1.0 / (1.0 + (-1.0_f64).exp());
        for (logits, unit, first) in [(&[0, 0, 0, 0][..], 0.5, 0.25), (&[4, 2], 0.5, expected)] {
            let probabilities = softmax(logits, unit);
            assert!((probabilities[0] - first).abs() < 1e-12);
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert!(softmax(&[i64::from(i32::MAX), 0], 1.0)[0] > 0.999);
        assert!(softmax(&[], 1.0).is_empty());
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\n\tb\u{1b}[2J\r"), "a\n\tb\u{fffd}[2J\u{fffd}");
        assert_eq!(path_text(Path::new("a\nb\u{1b}[2J\u{9b}c")), "a\u{fffd}b\u{fffd}[2J\u{fffd}c");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["<name", "count"]);
        table.row(vec!["a".into(), "10".into()]);
        table.rule();
        table.row(vec!["total".into(), "1,000".into()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "name   count\na         10\n────────────\ntotal  1,000\n");
    }

    #[test]
    fn columns_line_up_where_letters_are_wide_or_colored() {
        let mut table = Table::new(&["<name", "count"]);
        table.row(vec!["猫".into(), "1".into()]);
        table.row(vec!["\u{1b}[36mcat\u{1b}[0m".into(), "22".into()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "name  count\n猫        1\n\u{1b}[36mcat\u{1b}[0m      22\n");
    }

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(measure_text_width(&bar(8, 8, 4)), 4);
        assert_eq!(measure_text_width(&bar(1, 8, 4)), 1);
        assert_eq!(bar(0, 8, 4).replace("\u{1b}[36m", "").replace("\u{1b}[0m", ""), "");
        assert_eq!(bar(3, 0, 4), "");
    }
}
