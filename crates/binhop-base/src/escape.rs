//! `escape` escapes text from traces, file names and descriptions, so that a terminal can show the text
//! safely.
//!
//! A terminal obeys control characters, and a bidirectional override makes a name look like another name. Both
//! kinds of characters are shown as their escapes. A backslash is not escaped, so escaping a text twice gives the
//! same text as escaping it once.

use alloc::string::String;
use core::fmt::Write;

/// The first and the last character of each range of *steering characters*. A steering character steers a
/// terminal, ends a line, or reorders it.
pub const STEERING: &[(char, char)] = &[
    ('\0', '\x1f'),           // C0: escape sequences begin here
    ('\x7f', '\u{9f}'),       // DEL, and C1: escape sequences of one character
    ('\u{61c}', '\u{61c}'),   // mark of direction
    ('\u{200e}', '\u{200f}'), // marks of direction
    ('\u{2028}', '\u{2029}'), // ends of a line and of a paragraph
    ('\u{202a}', '\u{202e}'), // embeddings and overrides of direction
    ('\u{2066}', '\u{2069}'), // isolates
];

/// Returns whether a character is in [`STEERING`].
#[must_use]
pub fn steers(character: char) -> bool {
    STEERING.iter().any(|&(first, last)| (first..=last).contains(&character))
}

/// Returns the text with an escape in place of each steering character: `\n`, `\x1b`, `\u202e`.
#[must_use]
pub fn escaped(text: &str) -> String {
    with_escapes(text, |out, character| match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ if character <= '\u{ff}' => push(out, format_args!("\\x{:02x}", u32::from(character))),
        _ => push(out, format_args!("\\u{:04x}", u32::from(character))),
    })
}

/// Returns the text with a `\u` escape in place of each steering character. JSON and TOML read such an escape back
/// within double quotes.
#[must_use]
pub fn escaped_within_quotes(text: &str) -> String {
    with_escapes(text, |out, character| push(out, format_args!("\\u{:04x}", u32::from(character))))
}

/// Returns the text in double quotes, in a form that JSON and TOML read back.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 2);
    safe.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            safe.push('\\');
        }
        safe.push(character);
    }
    safe.push('"');
    escaped_within_quotes(&safe)
}

fn with_escapes(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            escape(&mut out, character);
        } else {
            out.push(character);
        }
    }
    out
}

fn push(out: &mut String, text: core::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_escaped_and_nothing_else() {
        assert_eq!(
            escaped("a\x1b]0;b\x07\u{9b}31m\u{7f}\n\u{202e}"),
            "a\\x1b]0;b\\x07\\x9b31m\\x7f\\n\\u202e"
        );
        assert_eq!(escaped("[red] C:\\x1b ä→𝄞"), "[red] C:\\x1b ä→𝄞");
        assert_eq!(escaped(&escaped("\r\u{2066}\\")), "\\r\\u2066\\");
        assert_eq!(quoted("a\"\\\x1b\u{85}\u{2029}"), r#""a\"\\\u001b\u0085\u2029""#);
    }
}
