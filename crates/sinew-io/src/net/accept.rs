//! Accepting connections, also when there is a lack of something.
//!
//! A connection that is gone before it was accepted is nobody's business: the next one is taken. If there is no
//! descriptor for it, or no memory, the connection stays in the queue of the system, and another try would fail as
//! well: so the next one comes after a pause, which doubles from [`SHORTEST`] to [`LONGEST`] until there is enough
//! again. That is reported, and not again until nothing has been lacking for a while ([`CALM`]): one who is at the limit
//! has a descriptor now and then.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use sinew_fiber::raw::report;
use sinew_sched::raw::Interest;
use sinew_sched::{now, sleep_async};
use sinew_sync::atomic::{AtomicU64, Ordering};
use socket2::{SockAddr, SockRef};

use super::pause::Pause;
use super::socket::Socket;

const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// After so long without a lack, another one is news.
const CALM: Duration = Duration::from_secs(10);

/// No time at all.
const NEVER: u64 = u64::MAX;

/// Who accepts connections for a listener.
pub(super) struct Acceptor {
    /// When something was lacking the last time.
    lacked: AtomicU64,
}

impl Acceptor {
    pub(super) fn new() -> Acceptor {
        Acceptor { lacked: AtomicU64::new(NEVER) }
    }

    /// The next connection, in non-blocking mode, and who it is from.
    pub(super) fn accept(&self, listener: &Socket<impl AsRawFd>) -> io::Result<(OwnedFd, SockAddr)> {
        let mut pause = Pause::between(SHORTEST, LONGEST);
        loop {
            match self.settle(listener, listener.source.run(Interest::READ, None, accept4)) {
                Accepted::Done(result) => return result,
                Accepted::Again => (),
                Accepted::Later => pause.wait()?,
            }
        }
    }

    /// The same in a future.
    pub(super) async fn accept_async(
        &self,
        listener: &Socket<impl AsRawFd>,
    ) -> io::Result<(OwnedFd, SockAddr)> {
        let mut pause = Pause::between(SHORTEST, LONGEST);
        loop {
            let accepted = listener.read_async(accept4).await;
            match self.settle(listener, accepted) {
                Accepted::Done(result) => return result,
                Accepted::Again => (),
                Accepted::Later => sleep_async(pause.next()).await,
            }
        }
    }

    fn settle(&self, listener: &Socket<impl AsRawFd>, accepted: io::Result<(OwnedFd, SockAddr)>) -> Accepted {
        match accepted {
            Err(error) if is_of_connection(&error) => Accepted::Again,
            Err(error) if is_lack(&error) => {
                let now = now().as_nanos();
                let last = self.lacked.swap(now, Ordering::Relaxed);
                if last == NEVER || Duration::from_nanos(now.saturating_sub(last)) >= CALM {
                    report_no_descriptors(&Address(listener.get()), &error);
                }
                Accepted::Later
            }
            result => Accepted::Done(result),
        }
    }
}

/// What to do after a try.
enum Accepted {
    Done(io::Result<(OwnedFd, SockAddr)>),
    Again,
    Later,
}

/// One connection, if there is one.
fn accept4(listener: &impl AsRawFd) -> io::Result<(OwnedFd, SockAddr)> {
    let listener = listener.as_raw_fd();
    // SAFETY: the system writes an address, no longer than the place that it is told of, and how long it is.
    unsafe {
        SockAddr::try_init(|address, length| {
            match libc::accept4(listener, address.cast(), length, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(OwnedFd::from_raw_fd(fd)),
            }
        })
    }
}

/// True if the connection has failed, and not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    const ERRORS: [libc::c_int; 8] = [
        libc::ECONNABORTED,
        libc::EPROTO,
        libc::ENETDOWN,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
    ];
    error.raw_os_error().is_some_and(|error| ERRORS.contains(&error))
}

/// True if there will be room for the connection at another time.
fn is_lack(error: &io::Error) -> bool {
    const ERRORS: [libc::c_int; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|error| ERRORS.contains(&error))
}

/// Says that connections wait, why, and what to do.
#[cold]
fn report_no_descriptors(address: &dyn fmt::Display, error: &io::Error) {
    let way_out = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = descriptor_limit();
            format!(
                "the process may have {limit} descriptors open: raise that (`ulimit -n`, `LimitNOFILE=`), or close some"
            )
        }
        Some(libc::ENFILE) => "raise `sysctl fs.file-max`, or have other programs close some".to_owned(),
        _ => "free some memory, or give the machine more".to_owned(),
    };
    report(format_args!("{address} accepts no connections until this is over: {error}; {way_out}"));
}

fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the system writes one limit, which is ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Where a listener listens, for people.
struct Address<'a, T: AsRawFd>(&'a T);

impl<T: AsRawFd> fmt::Display for Address<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the descriptor is open for as long as the listener is borrowed.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.0.as_raw_fd()) };
        let Ok(address) = SockRef::from(&fd).local_addr() else { return f.write_str("a listener") };
        match (address.as_socket(), address.as_pathname()) {
            (Some(address), _) => address.fmt(f),
            (_, Some(path)) => path.display().fmt(f),
            _ => write!(f, "{address:?}"),
        }
    }
}
