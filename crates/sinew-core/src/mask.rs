//! Masks: which signals of a fiber its resumer catches, and the letters that spell them.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use core::str::FromStr;

use crate::Signal;

/// The set of a fiber's signals that whoever resumes it catches. Any other signal stops the resumer too
/// and travels on up.
///
/// `ok` needs no bit: a return is always delivered. The groups [`Mask::ALL`] and [`Mask::USER`] leave out
/// await and interrupt, because code that catches those by accident cuts a task off from its scheduler;
/// ask for them by name.
///
/// ```
/// use sinew_core::{Mask, Signal};
///
/// let mask = Mask::YIELD | Mask::ERROR;
/// assert!(mask.contains(Signal::Yield));
/// assert!(!mask.contains(Signal::Debug));
/// assert!(!Mask::ALL.contains(Signal::Await));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mask(u16);

impl Mask {
    /// Catches nothing but the return.
    pub const NONE: Mask = Mask(0);
    /// `e`: errors.
    pub const ERROR: Mask = Mask::of(Signal::Error);
    /// `d`: breakpoints.
    pub const DEBUG: Mask = Mask::of(Signal::Debug);
    /// `y`: yields. The default.
    pub const YIELD: Mask = Mask::of(Signal::Yield);
    /// `r`: interrupts.
    pub const INTERRUPT: Mask = Mask::of(Signal::Interrupt);
    /// `w`: await.
    pub const AWAIT: Mask = Mask::of(Signal::Await);
    /// `t`: what ends a fiber: error and user0 to user4.
    pub const TERMINATION: Mask = Mask(0b0_0001_1111_0010);
    /// `u`: user0 to user7.
    pub const USER: Mask = Mask(0b0_1111_1111_0000);
    /// `a`: every signal but await and interrupt.
    pub const ALL: Mask = Mask(0b0_1111_1111_1110);

    /// The mask with just `signal` in it; empty for `ok`, which is always delivered.
    #[inline]
    pub const fn of(signal: Signal) -> Mask {
        Mask((1 << signal.number()) & !1)
    }

    /// True if `signal` is caught.
    #[inline]
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 >> signal.number() & 1 != 0
    }

    /// Everything that either mask catches.
    #[inline]
    pub const fn union(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }

    /// The bits: bit `n` is set if signal number `n` is caught.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl Default for Mask {
    fn default() -> Mask {
        Mask::YIELD
    }
}

impl BitOr for Mask {
    type Output = Mask;

    fn bitor(self, other: Mask) -> Mask {
        self.union(other)
    }
}

impl BitOrAssign for Mask {
    fn bitor_assign(&mut self, other: Mask) {
        *self = self.union(other);
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(Signal::ALL.into_iter().filter(|s| self.contains(*s)).map(Signal::name))
            .finish()
    }
}

/// Where a fiber's dynamic bindings come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bindings {
    /// None of its own: reads find nothing, the first write makes a private table.
    #[default]
    None,
    /// `i`: the very table of the creator; writes are visible both ways.
    Shared,
    /// `p`: a new table over the creator's; reads fall through, live, writes stay local.
    Layered,
}

/// A mask and a choice of bindings, as letters spell them: `"yi"`, `"te"`, `"a"`…
///
/// | letter | catches |
/// |---|---|
/// | `a` | every signal but await and interrupt |
/// | `e` `d` `y` | error, debug, yield |
/// | `t` | error and user0 to user4 |
/// | `u` | user0 to user7 |
/// | `r` `w` | interrupt, await |
/// | `0` to `9` | that user signal; 8 is interrupt, 9 is await |
/// | `i` `p` | no signal: shared or layered bindings; the last one counts |
///
/// ```
/// use sinew_core::{Bindings, Flags, Mask};
///
/// let flags: Flags = "yi".parse()?;
/// assert_eq!(flags, Flags { mask: Mask::YIELD, bindings: Bindings::Shared });
/// assert!("yz".parse::<Flags>().unwrap_err().to_string().contains("'z'"));
/// # Ok::<(), sinew_core::MaskError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags {
    /// The signals that the resumer catches.
    pub mask: Mask,
    /// Where the bindings come from.
    pub bindings: Bindings,
}

/// A letter that names neither a signal nor a kind of bindings.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid flag {letter:?} in a fiber mask: expected a, e, d, y, t, u, r, w, 0 to 9, i or p")]
pub struct MaskError {
    /// The letter that was not understood.
    pub letter: char,
}

/// The message, as `Display` has it: it is what `unwrap` and `main` print.
impl fmt::Debug for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Flags {
    type Err = MaskError;

    fn from_str(letters: &str) -> Result<Flags, MaskError> {
        let mut flags = Flags { mask: Mask::NONE, bindings: Bindings::None };
        for letter in letters.chars() {
            flags.mask |= match letter {
                'a' => Mask::ALL,
                'e' => Mask::ERROR,
                'd' => Mask::DEBUG,
                'y' => Mask::YIELD,
                't' => Mask::TERMINATION,
                'u' => Mask::USER,
                'r' => Mask::INTERRUPT,
                'w' => Mask::AWAIT,
                '0'..='9' => Mask::of(Signal::ALL[letter as usize - '0' as usize + 4]),
                'i' => {
                    flags.bindings = Bindings::Shared;
                    Mask::NONE
                }
                'p' => {
                    flags.bindings = Bindings::Layered;
                    Mask::NONE
                }
                letter => return Err(MaskError { letter }),
            };
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    fn caught(letters: &str) -> Vec<u8> {
        let mask = letters.parse::<Flags>().unwrap().mask;
        Signal::ALL.into_iter().filter(|s| mask.contains(*s)).map(Signal::number).collect()
    }

    #[test]
    fn each_letter_catches_its_signals() {
        assert_eq!(caught("a"), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(caught("e"), [1]);
        assert_eq!(caught("d"), [2]);
        assert_eq!(caught("y"), [3]);
        assert_eq!(caught("t"), [1, 4, 5, 6, 7, 8]);
        assert_eq!(caught("u"), [4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(caught("r"), [12]);
        assert_eq!(caught("w"), [13]);
        assert_eq!(caught("ip"), []);
        assert_eq!(caught(""), []);
        for digit in 0..=9 {
            assert_eq!(caught(&digit.to_string()), [digit + 4]);
        }
        assert_eq!(caught("yeyw"), [1, 3, 13]);
    }

    #[test]
    fn ok_is_never_in_a_mask() {
        assert_eq!(Mask::of(Signal::Ok), Mask::NONE);
        assert!(!Mask::ALL.contains(Signal::Ok));
    }

    #[test]
    fn all_and_user_leave_out_await_and_interrupt() {
        for mask in [Mask::ALL, Mask::USER] {
            assert!(!mask.contains(Signal::Await));
            assert!(!mask.contains(Signal::Interrupt));
        }
    }

    #[test]
    fn the_last_of_i_and_p_counts() {
        assert_eq!("yip".parse::<Flags>().unwrap().bindings, Bindings::Layered);
        assert_eq!("ypi".parse::<Flags>().unwrap().bindings, Bindings::Shared);
        assert_eq!("y".parse::<Flags>().unwrap().bindings, Bindings::None);
    }

    #[test]
    fn an_unknown_letter_is_an_error_that_names_it() {
        for bad in ["z", "ey z", "Y", "é"] {
            let error = bad.parse::<Flags>().unwrap_err();
            assert!(error.to_string().contains(error.letter), "{error}");
        }
        assert_eq!("yz".parse::<Flags>(), Err(MaskError { letter: 'z' }));
    }

    #[test]
    fn the_default_mask_is_yield() {
        assert_eq!(Flags::default(), Flags { mask: Mask::YIELD, bindings: Bindings::None });
    }
}
