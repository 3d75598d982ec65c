//! Writing JSON: objects, arrays, and strings that are escaped.
//!
//! ```
//! use sinew_core::json::{Object, string};
//!
//! let mut text = String::new();
//! Object::write(&mut text, |object| {
//!     object.number("id", 17);
//!     object.string("name", "a \"writer\"");
//!     object.array("tags", &["a", "b"], |text, tag| string(text, tag));
//! });
//! assert_eq!(text, r#"{"id":17,"name":"a \"writer\"","tags":["a","b"]}"#);
//! ```

use alloc::string::String;
use core::fmt::{self, Display, Write};

/// An object that is being written.
#[derive(Debug)]
pub struct Object<'a> {
    text: &'a mut String,
    is_empty: bool,
}

impl Object<'_> {
    /// Writes an object at the end of `text`.
    pub fn write(text: &mut String, members: impl FnOnce(&mut Object<'_>)) {
        text.push('{');
        members(&mut Object { text, is_empty: true });
        text.push('}');
    }

    fn key(&mut self, key: &str) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
        string(self.text, key);
        self.text.push(':');
    }

    /// A number, or a boolean: what Rust writes as JSON does.
    pub fn number(&mut self, key: &str, value: impl Display) {
        self.key(key);
        write!(self.text, "{value}").unwrap_or_else(no_error);
    }

    /// A number, or null.
    pub fn optional(&mut self, key: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.null(key),
        }
    }

    /// Nothing.
    pub fn null(&mut self, key: &str) {
        self.number(key, "null");
    }

    /// An object.
    pub fn object(&mut self, key: &str, members: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        Object::write(self.text, members);
    }

    /// A text.
    pub fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        string(self.text, value);
    }

    /// A text, or null.
    pub fn optional_string(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        match value {
            Some(value) => self.string(key, value.as_ref()),
            None => self.null(key),
        }
    }

    /// An array, of which `each` writes an item.
    pub fn array<T>(&mut self, key: &str, items: &[T], mut each: impl FnMut(&mut String, &T)) {
        self.key(key);
        self.text.push('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            each(self.text, item);
        }
        self.text.push(']');
    }
}

/// Writes a text in quotes.
pub fn string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => {
                write!(text, "\\u{:04x}", u32::from(control)).unwrap_or_else(no_error);
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn no_error(_: fmt::Error) {
    unreachable!("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_and_nothing_else_is() {
        let mut text = String::new();
        string(&mut text, "a \"name\"\\ with\n\r\t\u{1}\u{1f}\u{7f} and ü 🦀");
        assert_eq!(text, "\"a \\\"name\\\"\\\\ with\\n\\r\\t\\u0001\\u001f\u{7f} and ü 🦀\"");
    }

    #[test]
    fn members_and_items_are_separated() {
        let mut text = String::new();
        Object::write(&mut text, |object| {
            object.number("a", 1);
            object.optional("b", None::<u8>);
            object.array("c", &[true, false], |text, item| write!(text, "{item}").unwrap());
            object.array("d", &[] as &[u8], |_, _| ());
            object.optional_string("e", Some("f"));
        });
        assert_eq!(text, r#"{"a":1,"b":null,"c":[true,false],"d":[],"e":"f"}"#);
    }
}
