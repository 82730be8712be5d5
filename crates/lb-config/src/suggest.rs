//! Did you mean: the known word nearest to an unknown one.

/// The known word that `word` was most likely meant to be.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = letters(word);
    // Long words are no misspellings, and the distance is quadratic.
    if word.is_empty() || 40 < word.len() {
        return None;
    }
    let allowed = |known: &str| (known.len() / 3).clamp(1, 2);
    known
        .iter()
        .map(|known| (distance(&word, &letters(known)), *known))
        .filter(|(distance, known)| *distance <= allowed(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Lower-case letters and digits: `timeoutMs`, `timeout-ms` and `timeout_ms` are one word.
fn letters(word: &str) -> Vec<char> {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Edits between two words: insert, delete, replace, or swap two neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j + 1] + 1).min(row[j] + 1).min(above[j] + usize::from(x != y));
            if 0 < i && 0 < j && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none() {
        let known = ["command", "args", "env", "cwd", "timeout_ms", "url"];
        for (word, want) in [
            ("comand", Some("command")),
            ("commadn", Some("command")),
            ("Command", Some("command")),
            ("timeoutMs", Some("timeout_ms")),
            ("arg", Some("args")),
            ("uri", Some("url")),
            ("ulr", Some("url")),
            ("description", None),
            ("", None),
            ("_", None),
        ] {
            assert_eq!(nearest(word, &known), want, "input {word:?}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), &known), None);
    }
}
