//! What actors are called: names and paths.
//!
//! A *name* is flat: `counter`. A *path* starts with a slash and has components: `/node/alpha/counter`. The first
//! byte tells them apart, so one text can stand for either. Both are checked once, where they come in; whoever
//! holds a [`Name`] or a [`Path`] holds a good one.
//!
//! [`table`] has who is called what, and [`paths`] the same for paths, with mounts. [`identity`] is what a node is
//! called.

pub(crate) mod identity;
pub(crate) mod paths;
pub(crate) mod table;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::str::FromStr;

/// A flat name: 1 to 63 bytes, no NUL, no slash at the start. Cheap to clone.
///
/// ```
/// use sinew_core::{Name, NameError};
///
/// assert_eq!(Name::new("counter")?.as_str(), "counter");
/// assert!(Name::new("").is_err());
/// assert!(Name::new("/counter").is_err());
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The most bytes that a name can have.
    pub const MAX: usize = 63;

    /// The name that is spelled so.
    pub fn new(text: &str) -> Result<Name, NameError> {
        check_text(text, Name::MAX)?;
        match text.starts_with('/') {
            true => Err(NameError::IsAPath(text.into())),
            false => Ok(Name(text.into())),
        }
    }
}

/// A path: a slash before each component, up to 127 bytes. Components are not empty, so there is no slash at
/// the end, and have no NUL. Cheap to clone.
///
/// ```
/// use sinew_core::{NameError, Path};
///
/// assert_eq!(Path::new("/sys/log")?.as_str(), "/sys/log");
/// for bad in ["sys/log", "/", "/sys/", "/sys//log"] {
///     assert!(Path::new(bad).is_err());
/// }
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

impl Path {
    /// The most bytes that a path can have.
    pub const MAX: usize = 127;

    /// The path that is spelled so.
    pub fn new(text: &str) -> Result<Path, NameError> {
        Path::check(text)?;
        Ok(Path(text.into()))
    }

    /// Whether this is a path, without making one.
    pub(crate) fn check(text: &str) -> Result<(), NameError> {
        check_text(text, Path::MAX)?;
        let components = text.strip_prefix('/').ok_or_else(|| NameError::NotAPath(text.into()))?;
        match components.split('/').any(str::is_empty) {
            true => Err(NameError::EmptyComponent(text.into())),
            false => Ok(()),
        }
    }
}

/// What names and paths have in common.
fn check_text(text: &str, most: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > most {
        return Err(NameError::TooLong { start: start(text).into(), length: text.len(), most });
    }
    match text.contains('\0') {
        true => Err(NameError::Nul(text.into())),
        false => Ok(()),
    }
}

/// Enough of a text to recognize it by.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(32)]
}

/// Why a text is no name or no path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// There is no text.
    #[error("a name is empty: give it at least one character")]
    Empty,
    /// Too many bytes.
    #[error("the name {start:?}… has {length} bytes: shorten it to {most}")]
    TooLong {
        /// How the text starts.
        start: Box<str>,
        /// How many bytes it has.
        length: usize,
        /// How many it may have.
        most: usize,
    },
    /// A NUL would end the name where it is stored.
    #[error("the name {0:?} has a NUL in it: leave it out")]
    Nul(Box<str>),
    /// A path, where a flat name is expected.
    #[error("{0:?} starts with a slash, so it is a path: leave the slash out to make it a name")]
    IsAPath(Box<str>),
    /// A flat name, where a path is expected.
    #[error("{0:?} is not a path: paths start with a slash")]
    NotAPath(Box<str>),
    /// A slash, where one component of a path is expected.
    #[error("{0:?} has a slash in it, and is to be one component of a path: leave the slash out")]
    Slash(Box<str>),
    /// Two slashes in a row, or one at the end.
    #[error("the path {0:?} has an empty component: leave out double slashes and one at the end")]
    EmptyComponent(Box<str>),
}

/// What both types of texts can do.
macro_rules! text {
    ($type:ident) => {
        impl $type {
            /// The text.
            #[inline]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$type, NameError> {
                $type::new(text)
            }
        }

        /// So that tables are searched by any text.
        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text!(Name);
text!(Path);

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;
    use crate::tests::for_all;

    #[test]
    fn a_name_has_1_to_63_bytes() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new("é").unwrap().as_str(), "é");
        assert!(Name::new(&"n".repeat(63)).is_ok());
        let error = Name::new(&"é".repeat(32)).unwrap_err();
        assert_eq!(error, NameError::TooLong { start: "é".repeat(16).into(), length: 64, most: 63 });
        assert!(error.to_string().contains("63"), "{error}");
    }

    #[test]
    fn a_path_has_up_to_127_bytes() {
        assert_eq!(Path::new(""), Err(NameError::Empty));
        assert!(Path::new("/p").is_ok());
        assert!(Path::new(&"/p".repeat(63)).is_ok());
        assert!(Path::new(&["/", &"p".repeat(126)].concat()).is_ok());
        assert!(matches!(
            Path::new(&"/p".repeat(64)),
            Err(NameError::TooLong { length: 128, most: 127, .. })
        ));
    }

    #[test]
    fn the_first_slash_tells_names_from_paths() {
        assert_eq!(Name::new("/a"), Err(NameError::IsAPath("/a".into())));
        assert_eq!(Path::new("a/b"), Err(NameError::NotAPath("a/b".into())));
        assert!(Name::new("a/b/").is_ok());
    }

    #[test]
    fn nothing_stored_with_a_nul_at_its_end_has_one_inside() {
        assert_eq!(Name::new("a\0b"), Err(NameError::Nul("a\0b".into())));
        assert_eq!(Path::new("/a\0"), Err(NameError::Nul("/a\0".into())));
    }

    #[test]
    fn components_are_not_empty() {
        for bad in ["/", "//", "/a/", "//a", "/a//b"] {
            assert_eq!(Path::new(bad), Err(NameError::EmptyComponent(bad.into())));
        }
    }

    #[test]
    fn every_text_is_a_name_or_a_path_or_neither_and_stays_as_it_is() {
        for_all("[/a\0é]{0,130}", |text: String| {
            let (name, path) = (Name::new(&text), text.parse::<Path>());
            assert!(name.is_err() || path.is_err());
            if let Ok(name) = name {
                assert!((1..=63).contains(&text.len()) && !text.starts_with('/') && !text.contains('\0'));
                assert_eq!(name.to_string(), text);
            }
            if let Ok(path) = path {
                assert!(text.len() <= 127 && text.starts_with('/') && !text.ends_with('/'));
                assert!(!text.contains("//") && !text.contains('\0'));
                assert_eq!(path.to_string(), text);
            }
        });
    }
}
