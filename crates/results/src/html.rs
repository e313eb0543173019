//! Text on pages: the templates escape all of it by themselves, drawings with [`escape`].

use std::fmt::{self, Write};

use askama::filters::Escaper;

/// Writes what has a meaning in HTML as the entities that a reader of the source knows.
#[derive(Clone, Copy)]
pub(crate) struct Html;

impl Escaper for Html {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => out.write_str("&amp;"),
                '<' => out.write_str("&lt;"),
                '>' => out.write_str("&gt;"),
                '"' => out.write_str("&quot;"),
                '\'' => out.write_str("&#39;"),
                other => out.write_char(other),
            }?;
        }
        Ok(())
    }
}

/// Text that a drawing shows as it is.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    Html.write_escaped_str(&mut safe, text).expect("a string takes every text");
    safe
}
