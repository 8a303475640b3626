//! `counted` writes a number with the words that it counts: 1 page, 2 pages.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns a number with the words for one thing or for several things. The words may include the verb.
///
/// ```
/// # use binhop_base::counted;
/// assert_eq!(counted(1, ["page", "pages"]), "1 page");
/// assert_eq!(counted(2, ["page lies", "pages lie"]), "2 pages lie");
/// assert_eq!(counted(0, ["reference", "references"]), "0 references");
/// ```
#[must_use]
pub fn counted(number: u64, [one, several]: [&str; 2]) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Returns a note for each count that is not 0: the count with its words, and the rest of the sentence.
///
/// ```
/// # use binhop_base::counted_notes;
/// let line = ["line has", "lines have"];
/// let notes = counted_notes([(1, line, "label 3"), (0, line, "label 4"), (2, line, "label 5")]);
/// assert_eq!(notes, ["1 line has label 3", "2 lines have label 5"]);
/// ```
#[must_use]
pub fn counted_notes(
    counts: impl IntoIterator<Item = (u64, [&'static str; 2], &'static str)>,
) -> Vec<String> {
    let present = counts.into_iter().filter(|&(number, ..)| number > 0);
    present.map(|(number, words, rest)| counted(number, words) + " " + rest).collect()
}
