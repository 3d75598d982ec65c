//! The error numbers of `wasi_snapshot_preview1`, which are its own.

use sinew_core::Errno;

use super::Outcome;

/// Returns what a call returns to the guest: zero, or the number of its error.
pub(super) fn result(outcome: Outcome) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(errno) => i32::from(number(errno)),
    }
}

/// Returns the number of an error in this interface.
pub(super) fn number(errno: Errno) -> u16 {
    match errno {
        Errno::E2BIG => 1,
        Errno::EACCES => 2,
        Errno::EADDRINUSE => 3,
        Errno::EADDRNOTAVAIL => 4,
        Errno::EAFNOSUPPORT => 5,
        Errno::EAGAIN => 6,
        Errno::EALREADY => 7,
        Errno::EBADF => 8,
        Errno::EBUSY => 10,
        Errno::ECANCELED => 11,
        Errno::ECHILD => 12,
        Errno::ECONNABORTED => 13,
        Errno::ECONNREFUSED => 14,
        Errno::ECONNRESET => 15,
        Errno::EDEADLK => 16,
        Errno::EDQUOT => 19,
        Errno::EEXIST => 20,
        Errno::EFAULT => 21,
        Errno::EFBIG => 22,
        Errno::EHOSTUNREACH => 23,
        Errno::EILSEQ => 25,
        Errno::EINPROGRESS => 26,
        Errno::EINTR => 27,
        Errno::EINVAL => 28,
        Errno::EISCONN => 30,
        Errno::EISDIR => 31,
        Errno::ELOOP => 32,
        Errno::EMFILE => 33,
        Errno::EMLINK => 34,
        Errno::EMSGSIZE => 35,
        Errno::ENAMETOOLONG => 37,
        Errno::ENETDOWN => 38,
        Errno::ENETUNREACH => 40,
        Errno::ENFILE => 41,
        Errno::ENOBUFS => 42,
        Errno::ENODEV => 43,
        Errno::ENOENT => 44,
        Errno::ENOMEM => 48,
        Errno::ENOSPC => 51,
        Errno::ENOSYS => 52,
        Errno::ENOTCONN => 53,
        Errno::ENOTDIR => 54,
        Errno::ENOTEMPTY => 55,
        Errno::ENOTSOCK => 57,
        Errno::EOPNOTSUPP => 58,
        Errno::ENXIO => 60,
        Errno::EOVERFLOW => 61,
        Errno::EPERM => 63,
        Errno::EPIPE => 64,
        Errno::EPROTO => 65,
        Errno::EPROTONOSUPPORT => 66,
        Errno::ERANGE => 68,
        Errno::EROFS => 69,
        Errno::ESPIPE => 70,
        Errno::ESTALE => 72,
        Errno::ETIMEDOUT => 73,
        Errno::ETXTBSY => 74,
        Errno::EXDEV => 75,
        // EIO, and what has no number here.
        _ => 29,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the numbers from 0 on, as in the published `wasi_snapshot_preview1.witx`.
    const NAMES: [&str; 77] = [
        "success", "2big", "acces", "addrinuse", "addrnotavail", "afnosupport", "again", "already", "badf",
        "badmsg", "busy", "canceled", "child", "connaborted", "connrefused", "connreset", "deadlk",
        "destaddrreq", "dom", "dquot", "exist", "fault", "fbig", "hostunreach", "idrm", "ilseq", "inprogress",
        "intr", "inval", "io", "isconn", "isdir", "loop", "mfile", "mlink", "msgsize", "multihop",
        "nametoolong", "netdown", "netreset", "netunreach", "nfile", "nobufs", "nodev", "noent", "noexec",
        "nolck", "nolink", "nomem", "nomsg", "noprotoopt", "nospc", "nosys", "notconn", "notdir", "notempty",
        "notrecoverable", "notsock", "notsup", "notty", "nxio", "overflow", "ownerdead", "perm", "pipe",
        "proto", "protonosupport", "prototype", "range", "rofs", "spipe", "srch", "stale", "timedout",
        "txtbsy", "xdev", "notcapable",
    ];

    #[test]
    fn every_error_has_the_number_of_its_name() {
        for errno in Errno::ALL {
            let name = match *errno {
                Errno::EOPNOTSUPP => "notsup".to_owned(),
                _ => errno.name().unwrap()[1..].to_lowercase(),
            };
            assert_eq!(NAMES[usize::from(number(*errno))], name);
        }
    }

    #[test]
    fn the_numbers_that_guests_meet_most_are_those_of_the_interface() {
        let known = [
            (Errno::ENOSPC, 51),
            (Errno::EBADF, 8),
            (Errno::EINVAL, 28),
            (Errno::EFAULT, 21),
            (Errno::EMFILE, 33),
            (Errno::EDEADLK, 16),
            (Errno::ENOSYS, 52),
        ];
        for (errno, expected) in known {
            assert_eq!(result(Err(errno)), expected, "{errno}");
        }
        assert_eq!(result(Ok(())), 0);
    }
}
