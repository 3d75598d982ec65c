//! Addresses, and names that have to be looked up for them.
//!
//! std's trait cannot tell an address from a name before it looks that up, which blocks. So there is one of our own, for
//! the same types: addresses are taken as they are, and names are looked up where blocking harms nobody.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use sinew_fiber::{Cancelled, Refused};

use crate::blocking::{blocking, blocking_async};

/// What can be bound or connected to: an address, several, or a name and a port. The types are those for which std's
/// trait of the same name is implemented.
pub trait ToSocketAddrs: Sealed {}

impl<T: Sealed + ?Sized> ToSocketAddrs for T {}

/// Keeps others from implementing it.
pub trait Sealed {
    #[doc(hidden)]
    fn target(&self) -> io::Result<Target>;

    /// The address, if it is one.
    #[doc(hidden)]
    fn only(&self) -> Option<SocketAddr> {
        None
    }
}

/// Where to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// There.
    Addresses(Vec<SocketAddr>),
    /// Where the name leads, at this port.
    Name(String, u16),
}

impl Target {
    fn of_name(name: &str, port: u16) -> Target {
        match name.parse::<IpAddr>() {
            Ok(address) => Target::Addresses(vec![SocketAddr::new(address, port)]),
            Err(_) => Target::Name(name.to_owned(), port),
        }
    }
}

macro_rules! addresses {
    ($($type:ty: $value:ident => $address:expr;)*) => {$(
        impl Sealed for $type {
            fn target(&self) -> io::Result<Target> {
                let $value = *self;
                Ok(Target::Addresses(vec![$address]))
            }

            fn only(&self) -> Option<SocketAddr> {
                let $value = *self;
                Some($address)
            }
        }
    )*};
}

addresses! {
    SocketAddr: address => address;
    SocketAddrV4: address => address.into();
    SocketAddrV6: address => address.into();
    (IpAddr, u16): address => address.into();
    (Ipv4Addr, u16): address => address.into();
    (Ipv6Addr, u16): address => address.into();
}

impl Sealed for [SocketAddr] {
    fn target(&self) -> io::Result<Target> {
        Ok(Target::Addresses(self.to_vec()))
    }
}

impl Sealed for str {
    fn target(&self) -> io::Result<Target> {
        if let Ok(address) = self.parse() {
            return Ok(Target::Addresses(vec![address]));
        }
        let parts = self.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let (name, port) = parts.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            let why = format!("{self:?} is no address: give one as \"host:port\", with a port below 65536");
            io::Error::new(ErrorKind::InvalidInput, why)
        })?;
        Ok(Target::of_name(name, port))
    }
}

impl Sealed for String {
    fn target(&self) -> io::Result<Target> {
        self.as_str().target()
    }
}

impl Sealed for (&str, u16) {
    fn target(&self) -> io::Result<Target> {
        Ok(Target::of_name(self.0, self.1))
    }
}

impl Sealed for (String, u16) {
    fn target(&self) -> io::Result<Target> {
        Ok(Target::of_name(&self.0, self.1))
    }
}

impl<T: Sealed + ?Sized> Sealed for &T {
    fn target(&self) -> io::Result<Target> {
        (**self).target()
    }

    fn only(&self) -> Option<SocketAddr> {
        (**self).only()
    }
}

/// The addresses that are meant. A name is looked up, and only the task waits for that.
pub(super) fn resolve(to: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    match to.target()? {
        Target::Addresses(addresses) => Ok(addresses),
        Target::Name(name, port) => blocking(move || look_up(&name, port))?,
    }
}

/// The first of the addresses that are meant.
pub(super) fn first(to: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    if let Some(address) = to.only() {
        return Ok(address); // as for most datagrams: without a list
    }
    resolve(to)?.first().copied().ok_or_else(no_address)
}

/// [`resolve`] in a future.
pub(super) async fn resolve_async(to: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    match to.target()? {
        Target::Addresses(addresses) => Ok(addresses),
        Target::Name(name, port) => blocking_async(move || look_up(&name, port)).await?,
    }
}

/// Calls `call` for one address after the other, until it succeeds or its task has to end.
pub(super) fn each<R>(
    to: impl ToSocketAddrs,
    mut call: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut last = None;
    for address in resolve(to)? {
        match call(address) {
            Err(error) if !is_refusal(&error) => last = Some(error),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(no_address))
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidInput,
        "there is no address to use: the name has none, or the list is empty",
    )
}

/// True if the task cannot wait any more, for whatever.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Cancelled>() || error.is::<Refused>())
}

fn look_up(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    std::net::ToSocketAddrs::to_socket_addrs(&(name, port)).map(Iterator::collect)
}
