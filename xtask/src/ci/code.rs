//! Rust source as tokens, without comments and literals: enough to see which names a file uses.
//!
//! This is no parser. It knows what hides text (comments, strings, characters) and how paths and `use`
//! trees spell a name, so that the checks are not fooled by a comment or by `use std::{sync::Mutex}`.

/// A word or a punctuation mark, and the line that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// The words and punctuation marks of `source`; `::` is one mark.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = literal(rest) {
            length
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token { text: &rest[..length], line });
            length
        } else if rest.starts_with("::") {
            tokens.push(Token { text: &rest[..2], line });
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..first.len_utf8()], line });
            }
            first.len_utf8()
        };
        line += rest[..skipped].matches('\n').count();
        rest = &rest[skipped..];
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the block comment, nested ones included, at the start of `text`.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the string or character literal at the start of `text`, if there is one.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            rest.starts_with('"') || *prefix == "b" && rest.starts_with('\'') || {
                prefix.ends_with('r')
                    && rest.starts_with('#')
                    && rest.trim_start_matches('#').starts_with('"')
            }
        })
    });
    let prefix = prefix.unwrap_or("");
    let rest = &text[prefix.len()..];
    let length = if prefix.ends_with('r') {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let end = format!("\"{}", &rest[..hashes]);
        let body = hashes + 1;
        rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len())
    } else if rest.starts_with('"') {
        quoted(rest, '"')
    } else if rest.starts_with('\'') {
        let mut inside = rest.chars().skip(1);
        let (first, second) = (inside.next()?, inside.next()?);
        // `'a` without a closing quote is a lifetime or a label.
        if first != '\\' && second != '\'' {
            return None;
        }
        quoted(rest, '\'')
    } else {
        return None;
    };
    Some(prefix.len() + length)
}

/// The length of the literal at the start of `text` that ends with the same `quote`.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// `tokens` without the items under `#[cfg(test)]` (alone or within `all(..)`) that have a body.
pub(super) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match test_attribute(&tokens[at..]) {
            Some(length) => at += length + item(&tokens[at + length..]),
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    kept
}

/// The length of a `#[cfg(..test..)]` at the start.
fn test_attribute(tokens: &[Token<'_>]) -> Option<usize> {
    let text = |at: usize| tokens.get(at).map(|token| token.text);
    if (text(0), text(1), text(2)) != (Some("#"), Some("["), Some("cfg")) {
        return None;
    }
    let length = tokens.iter().position(|token| token.text == "]")? + 1;
    let condition = &tokens[..length];
    let has = |word| condition.iter().any(|token| token.text == word);
    (has("test") && !has("not") && !has("any")).then_some(length)
}

/// The length of the item at the start: up to its closing brace, or its semicolon if it has no body.
fn item(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Every path that begins with one of `roots`, spelled out (`use std::{a, b::c}` is `std::a` and
/// `std::b::c`), and the line that it is on.
pub(super) fn paths(tokens: &[Token<'_>], roots: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        // `a::std` is a path of its own; `::std` is the same as `std`.
        let is_inner = at >= 2 && tokens[at - 1].text == "::" && is_name(tokens[at - 2].text);
        let is_path = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        if roots.contains(&token.text) && is_path && !is_inner {
            path(tokens, at, "", &mut found);
        }
    }
    found
}

/// True for a word that a path can contain; false for marks and for keywords before a path.
fn is_name(text: &str) -> bool {
    text.chars().all(is_word) && !["use", "as", "in", "return", "mut"].contains(&text)
}

/// Spells out the path (or `use` tree) at `at`; the position behind it.
fn path(tokens: &[Token<'_>], mut at: usize, prefix: &str, found: &mut Vec<(String, usize)>) -> usize {
    let mut spelled = prefix.to_owned();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|token| token.text != "}") {
                if tokens[at].text == "," {
                    at += 1;
                } else {
                    at = path(tokens, at, &spelled, found);
                }
            }
            return at + 1;
        }
        spelled += token.text;
        let line = token.line;
        at += 1;
        if tokens.get(at).is_some_and(|next| next.text == "::") {
            spelled += "::";
            at += 1;
            // A turbofish or a comparison ends the path of names.
            if tokens.get(at).is_some_and(|next| next.text == "<") {
                found.push((spelled.trim_end_matches("::").to_owned(), line));
                return at + 1;
            }
        } else {
            found.push((spelled, line));
            // `name as other` within a tree.
            if tokens.get(at).is_some_and(|next| next.text == "as") {
                at += 2;
            }
            return at;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    fn spelled(source: &str) -> Vec<String> {
        paths(&tokens(source), &["std", "loom"]).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn comments_strings_and_characters_hide_their_text() {
        assert_eq!(words("a // unsafe\nb"), ["a", "b"]);
        assert_eq!(words("a /* x /* unsafe */ y */ b"), ["a", "b"]);
        assert_eq!(words(r#"a "un\"safe" b"#), ["a", "b"]);
        assert_eq!(words("a r#\"un\"safe\"# b"), ["a", "b"]);
        assert_eq!(words("a b\"unsafe\" br\"x\" b'x' b"), ["a", "b"]);
        assert_eq!(words("a '\"' b '\\'' c"), ["a", "b", "c"]);
        assert_eq!(words("fn f<'a>(x: &'a str)").len(), 14);
        assert_eq!(words("'é' a"), ["a"]);
    }

    #[test]
    fn a_token_knows_its_line() {
        let found = tokens("a\n/* two\nlines */ \"x\ny\" b");
        assert_eq!(found[1], Token { text: "b", line: 4 });
    }

    #[test]
    fn paths_and_use_trees_are_spelled_out() {
        assert_eq!(spelled("let x = std::thread::spawn(f);"), ["std::thread::spawn"]);
        assert_eq!(
            spelled("use std::{sync::{Mutex as M, atomic::*}, thread};"),
            ["std::sync::Mutex", "std::sync::atomic::*", "std::thread"]
        );
        assert_eq!(spelled("use ::std::sync::Arc;"), ["std::sync::Arc"]);
        assert_eq!(spelled("std::mem::take::<u8>(x)"), ["std::mem::take"]);
        assert_eq!(spelled("crate::loom::x(); let std = 1;"), Vec::<String>::new());
    }

    #[test]
    fn test_modules_are_left_out_and_what_follows_is_kept() {
        let source = "a #[cfg(test)] mod tests { fn f() { {} } } b #[cfg(all(test, not_loom))] mod more; c";
        let all = tokens(source);
        let kept: Vec<&str> = without_tests(&all).into_iter().map(|token| token.text).collect();
        assert_eq!(kept, ["a", "b", "c"]);
        assert_eq!(
            without_tests(&tokens("#[cfg(not(test))] mod a;")).len(),
            tokens("#[cfg(not(test))] mod a;").len()
        );
    }
}
