//! Error numbers of host calls, numbered as on Linux x86_64.

use core::fmt;

/// The numbers with their names and descriptions.
macro_rules! errnos {
    ($($name:ident = $number:literal, $about:literal;)*) => {
        impl Errno {
            $(#[doc = concat!($about, " (", $number, ").")] pub const $name: Errno = Errno($number);)*

            /// Every number of the table, in ascending order.
            pub const ALL: &'static [Errno] = &[$(Errno::$name),*];

            /// Returns the name, such as `EBADF`. None for a number that is not in the table.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            const fn about(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($about),)*
                    _ => None,
                }
            }
        }
    };
}

/// An error number of a host call. The call returns it negated.
///
/// ```
/// use sinew_core::Errno;
///
/// assert_eq!(Errno::EBADF.number(), 9);
/// assert_eq!(Errno::EBADF.negated(), -9);
/// assert_eq!(Errno::EBADF.to_string(), "EBADF (bad file descriptor)");
/// assert_eq!(Errno::from_number(9), Some(Errno::EBADF));
/// assert_eq!(Errno::from_number(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Errno(u16);

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file, name or watch";
    EINTR = 4, "interrupted call";
    EIO = 5, "input or output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument too long";
    EBADF = 9, "bad file descriptor";
    ECHILD = 10, "no such child";
    EAGAIN = 11, "not ready; try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "busy";
    EEXIST = 17, "exists already";
    EXDEV = 18, "on different file systems or outside of the granted directory";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in the system";
    EMFILE = 24, "too many open file descriptors";
    ETXTBSY = 26, "program file in use";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left, or buffer too small";
    ESPIPE = 29, "not seekable";
    EROFS = 30, "read-only";
    EMLINK = 31, "too many links";
    EPIPE = 32, "nobody reads the other end";
    ERANGE = 34, "result out of range";
    EDEADLK = 35, "would block where nothing may block";
    ENAMETOOLONG = 36, "name too long";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links, or one that is not allowed";
    EPROTO = 71, "protocol error";
    EOVERFLOW = 75, "value too large";
    EILSEQ = 84, "not valid UTF-8";
    ENOTSOCK = 88, "not a socket";
    EMSGSIZE = 90, "message too long";
    EPROTONOSUPPORT = 93, "protocol not supported";
    EOPNOTSUPP = 95, "operation not supported";
    EAFNOSUPPORT = 97, "address family not supported";
    EADDRINUSE = 98, "address in use";
    EADDRNOTAVAIL = 99, "address not available";
    ENETDOWN = 100, "network is down";
    ENETUNREACH = 101, "network unreachable";
    ECONNABORTED = 103, "connection aborted";
    ECONNRESET = 104, "connection reset";
    ENOBUFS = 105, "no buffer space";
    EISCONN = 106, "connected already";
    ENOTCONN = 107, "not connected";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "connection refused";
    EHOSTUNREACH = 113, "host unreachable";
    EALREADY = 114, "under way already";
    EINPROGRESS = 115, "in progress";
    ESTALE = 116, "stale handle";
    EDQUOT = 122, "quota exceeded";
    ECANCELED = 125, "cancelled";
}

impl Errno {
    /// Returns the error with this positive number. None for a number that is not in the table.
    pub const fn from_number(number: i32) -> Option<Errno> {
        if number <= 0 || number > u16::MAX as i32 {
            return None;
        }
        let errno = Errno(number as u16);
        if errno.name().is_some() { Some(errno) } else { None }
    }

    /// Returns the positive number.
    pub const fn number(self) -> i32 {
        self.0 as i32
    }

    /// Returns the negated number: what a host call returns.
    pub const fn negated(self) -> i32 {
        -self.number()
    }
}

/// The name with a description: `EBADF (bad file descriptor)`.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.about()) {
            (Some(name), Some(about)) => write!(f, "{name} ({about})"),
            _ => write!(f, "error {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_number_is_found_by_itself_and_has_a_description() {
        for errno in Errno::ALL {
            assert_eq!(Errno::from_number(errno.number()), Some(*errno));
            assert!(errno.to_string().starts_with(errno.name().unwrap()), "{errno}");
        }
        assert!(Errno::ALL.is_sorted());
    }

    #[test]
    fn numbers_outside_of_the_table_are_refused() {
        for number in [0, -9, 3, 41, 65_545, i32::MIN, i32::MAX] {
            assert_eq!(Errno::from_number(number), None, "{number}");
        }
    }
}
