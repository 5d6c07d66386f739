//! "Did you mean": the nearest of a few known words.

/// The known word nearest to `word`: at most a third of its letters (and at least one) changed, added, left out or
/// exchanged with their neighbour. Nothing where none is near.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64; // longer words are no keys, and the effort is quadratic
    const MOST: usize = 2000; // a file may hold more names than it is worth looking through for each misspelt one
    let letters: Vec<char> = word.chars().take(LONGEST + 1).collect();
    if letters.len() > LONGEST {
        return None;
    }
    let allowed = (letters.len() / 3).max(1);
    known
        .into_iter()
        .take(MOST)
        .filter(|k| k.len() <= LONGEST && k.len().abs_diff(word.len()) <= allowed * 4 && *k != word)
        .map(|k| (distance(&letters, &k.chars().collect::<Vec<_>>()), k))
        .filter(|(d, k)| *d <= allowed && *d < k.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Edits between two words, an exchange of neighbours counted once (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let known = ["numbering", "notation", "limits", "every", "type"];
        assert_eq!(closest("numbring", known), Some("numbering"));
        assert_eq!(closest("tpye", known), Some("type"));
        assert_eq!(closest("Limits", known), Some("limits"));
        assert_eq!(closest("colour", known), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest(&"x".repeat(100_000), known), None);
    }
}
