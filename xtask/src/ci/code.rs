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

/// `tokens` without the items, fields and statements under a `#[cfg(..)]` that holds in tests only.
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

/// The length of a `#[cfg(..)]` at the start that holds in tests only.
fn test_attribute(tokens: &[Token<'_>]) -> Option<usize> {
    let start: Vec<&str> = tokens.iter().take(4).map(|token| token.text).collect();
    if start != ["#", "[", "cfg", "("] {
        return None;
    }
    let end = tokens.iter().position(|token| token.text == "]")?;
    only_in_tests(&tokens[4..end - 1]).then_some(end + 1)
}

/// True if a condition of `cfg` implies `test`.
fn only_in_tests(condition: &[Token<'_>]) -> bool {
    match condition {
        [word] => word.text == "test",
        [word, _open, arguments @ .., _close] => match word.text {
            "all" => split_at_commas(arguments).into_iter().any(only_in_tests),
            "any" => split_at_commas(arguments).into_iter().all(only_in_tests),
            _ => false,
        },
        _ => false,
    }
}

/// The parts of `tokens` between the commas outside of brackets.
fn split_at_commas<'t, 's>(tokens: &'t [Token<'s>]) -> Vec<&'t [Token<'s>]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// The length of the item, statement or field at the start: up to its closing brace or its semicolon,
/// for a field up to its comma; never past the end of the block that it is in.
pub(super) fn item(tokens: &[Token<'_>]) -> usize {
    let is_field = is_field(tokens);
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return at,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 && token.text == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && is_field => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// True for `name: ..` and `name, ..`, with or without a visibility.
fn is_field(tokens: &[Token<'_>]) -> bool {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let name = match (text(0), text(1)) {
        ("pub", "(") => tokens.iter().position(|token| token.text == ")").map_or(0, |at| at + 1),
        ("pub", _) => 1,
        _ => 0,
    };
    text(name).chars().all(is_word) && [":", ","].contains(&text(name + 1))
}

/// Every path that begins with one of `roots`, spelled out (`use std::{a, b::c}` is `std::a` and
/// `std::b::c`), and the line that it is on.
pub(super) fn paths(tokens: &[Token<'_>], roots: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        // `a::std` is a path of its own; `::std` is the same as `std`.
        let is_inner = at >= 2 && tokens[at - 1].text == "::" && is_name(tokens[at - 2].text);
        let is_path = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        if roots.contains(&token.text) && is_path && !is_inner {
            at = path(tokens, at, "", &mut found);
        } else {
            at += 1;
        }
    }
    found.into_iter().map(|spelled| (spelled.path, spelled.line)).collect()
}

/// The paths that the `use` items outside of all blocks import, each with the name that it gets.
pub(super) fn imports(tokens: &[Token<'_>]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "use" if depth == 0 => at = path(tokens, at, "", &mut found),
            _ => {}
        }
    }
    let named = |spelled: Spelled<'_>| {
        let last = spelled.path.trim_end_matches("::self").rsplit("::").next().unwrap_or_default();
        let name = spelled.alias.unwrap_or(last).to_owned();
        (spelled.path, name)
    };
    found.into_iter().map(named).collect()
}

/// True for a word that a path can contain; false for marks and for keywords before a path.
fn is_name(text: &str) -> bool {
    text.chars().all(is_word) && !["use", "as", "in", "return", "mut"].contains(&text)
}

/// A path spelled out, and the name after its `as`.
struct Spelled<'a> {
    path: String,
    line: usize,
    alias: Option<&'a str>,
}

/// Spells out the path (or `use` tree) at `at`; the position behind it.
fn path<'a>(tokens: &[Token<'a>], mut at: usize, prefix: &str, found: &mut Vec<Spelled<'a>>) -> usize {
    let mut path_so_far = prefix.to_owned();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|token| token.text != "}") {
                if tokens[at].text == "," {
                    at += 1;
                } else {
                    at = path(tokens, at, &path_so_far, found);
                }
            }
            return at + 1;
        }
        path_so_far += token.text;
        let line = token.line;
        at += 1;
        if tokens.get(at).is_some_and(|next| next.text == "::") {
            path_so_far += "::";
            at += 1;
            // A turbofish or a comparison ends the path of names.
            if tokens.get(at).is_some_and(|next| next.text == "<") {
                let path = path_so_far.trim_end_matches("::").to_owned();
                found.push(Spelled { path, line, alias: None });
                return at + 1;
            }
        } else {
            let alias = alias(&tokens[at..]);
            at += if alias.is_some() { 2 } else { 0 };
            found.push(Spelled { path: path_so_far, line, alias });
            return at;
        }
    }
    at
}

/// The name in an `as name` at the start; `as a::path`, of a cast, is none.
fn alias<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    match tokens {
        [keyword, _, next, ..] if keyword.text == "as" && next.text == "::" => None,
        [keyword, name, ..] if keyword.text == "as" => Some(name.text),
        _ => None,
    }
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
    fn a_cast_to_a_type_with_a_path_hides_no_path() {
        assert_eq!(spelled("<std::a::B as std::c::D>::e()"), ["std::a::B", "std::c::D"]);
    }

    #[test]
    fn imports_have_the_names_that_they_get() {
        let source = "pub use a::{B, c::{self, D as E}}; mod f { use g::H; } use a as i;";
        let found = imports(&tokens(source));
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
        assert_eq!(pairs, [("a::B", "B"), ("a::c::self", "c"), ("a::c::D", "E"), ("a", "i")]);
    }

    fn kept(source: &str) -> String {
        let kept: Vec<&str> = without_tests(&tokens(source)).into_iter().map(|token| token.text).collect();
        kept.join(" ")
    }

    #[test]
    fn test_modules_are_left_out_and_what_follows_is_kept() {
        let source = "a #[cfg(test)] mod tests { fn f() { {} } } b #[cfg(all(test, not_loom))] mod more; c";
        assert_eq!(kept(source), "a b c");
    }

    #[test]
    fn a_condition_is_of_tests_if_it_implies_them() {
        assert_eq!(kept("#[cfg(all(not(any(loom, shuttle)), test))] mod a; b"), "b");
        assert_eq!(kept("#[cfg(any(test, all(test, loom)))] mod a; b"), "b");
        for condition in ["not(test)", "any(test, loom)", "all(not(test), unix)", "feature = \"test\""] {
            assert!(kept(&format!("#[cfg({condition})] mod a; b")).ends_with("mod a ; b"), "{condition}");
        }
    }

    #[test]
    fn fields_and_statements_of_tests_end_where_they_end() {
        assert_eq!(
            kept("struct S { a: A, #[cfg(test)] pub(super) b: B, c: C } d"),
            "struct S { a : A , c : C } d"
        );
        assert_eq!(kept("S { #[cfg(test)] a, b } c"), "S { b } c");
        assert_eq!(kept("enum E { A, #[cfg(test)] B } c"), "enum E { A , } c");
        assert_eq!(kept("{ #[cfg(test)] f(S { a })?; b }"), "{ b }");
        assert_eq!(kept("{ #[cfg(test)] impl<A, B> S<A, B> {} c }"), "{ c }");
    }
}
