//! Connections are made, and arrive: over sockets, or over pipes inside the process.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use super::{
    memory::{MemoryListener, MemoryNetwork},
    stream::Connection,
};
use crate::{
    core::agreed::{Carrier, Security},
    error::Refused,
};

/// What carries the links.
#[derive(Clone, Debug)]
pub enum Network {
    /// Sockets.
    Tcp,
    /// Pipes inside the process: several endpoints in one test, under a paused clock, with faults.
    Memory(MemoryNetwork),
    /// The sessions of the application's own `NodeServer` (feature `node-server`).
    #[cfg(feature = "node-server")]
    NodeServer(crate::driver::node_server::NodeServerNetwork),
}

/// Where connections arrive.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Memory(MemoryListener),
}

impl Listener {
    /// The next connection. An error is worth another try, some time later.
    pub(crate) async fn accept(&mut self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                Ok(Connection::tcp(stream, remote))
            }
            Self::Memory(listener) => listener.accept().await,
        }
    }
}

/// What connections are made of.
enum Base<'a> {
    Tcp,
    Memory(&'a MemoryNetwork),
}

impl Network {
    fn base(&self) -> Base<'_> {
        match self {
            Self::Tcp => Base::Tcp,
            Self::Memory(network) => Base::Memory(network),
            #[cfg(feature = "node-server")]
            Self::NodeServer(network) => network.memory().map_or(Base::Tcp, Base::Memory),
        }
    }

    /// What carries links' frames over it.
    pub(crate) fn carrier(&self) -> Carrier {
        match self {
            #[cfg(feature = "node-server")]
            Self::NodeServer(_) => Carrier::NodeServer,
            _ => Carrier::Connection,
        }
    }

    /// Listens; returns the address with its real port too.
    pub(crate) async fn listen(&self, address: SocketAddr) -> io::Result<(Listener, SocketAddr)> {
        match self.base() {
            Base::Tcp => {
                let listener = TcpListener::bind(address).await?;
                let local = listener.local_addr()?;
                Ok((Listener::Tcp(listener), local))
            }
            Base::Memory(network) => {
                let (listener, local) = network.listen(address)?;
                Ok((Listener::Memory(listener), local))
            }
        }
    }

    /// Connects to `host:port`, to the first of its addresses that answers. The caller gives up after `within`.
    pub(crate) async fn connect(
        &self,
        from: SocketAddr,
        to: &str,
        security: Security,
        within: Duration,
    ) -> Result<Connection, Refused> {
        let until = Instant::now() + within;
        let unreachable = |error: io::Error| Refused::Unreachable(error.to_string());
        let addresses: Vec<SocketAddr> = match self.base() {
            Base::Tcp => tokio::net::lookup_host(to).await.map_err(unreachable)?.collect(),
            Base::Memory(_) => {
                vec![to.parse().map_err(|_| Refused::Unreachable("not an address".into()))?]
            }
        };
        let connect = move |address: SocketAddr| async move {
            may_talk(security, address)?;
            let connected = match self.base() {
                Base::Tcp => TcpStream::connect(address).await.map(|stream| Connection::tcp(stream, address)),
                Base::Memory(network) => network.connect(from, address).await,
            };
            connected.map_err(unreachable)
        };
        first_that_answers(addresses, until, connect).await
    }
}

/// Connects to the first address that answers. Each one has an equal share of the time that is left, so that none that is silent
/// takes the time of the others. The last one has no deadline here: its end is the caller's.
async fn first_that_answers<T, C>(
    addresses: Vec<SocketAddr>,
    until: Instant,
    connect: impl Fn(SocketAddr) -> C,
) -> Result<T, Refused>
where
    C: Future<Output = Result<T, Refused>>,
{
    let mut last = Refused::Unreachable("the name has no address".into());
    let mut others = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        others = others.saturating_sub(1);
        let connected = if others == 0 {
            connect(address).await
        } else {
            let share = until.saturating_duration_since(Instant::now()) / (others + 1);
            // Refusals are told apart by their texts, so this one is always the same.
            let silent = |_| Err(Refused::Unreachable(format!("{address} did not answer in its time")));
            timeout(share, connect(address)).await.unwrap_or_else(silent)
        };
        match connected {
            Ok(connection) => return Ok(connection),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Whether to talk to that address at all: in the clear on loopback only.
pub(crate) fn may_talk(security: Security, remote: SocketAddr) -> Result<(), Refused> {
    if security != Security::Plain || remote.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(Refused::SecretNeeded)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, net::Ipv4Addr};

    use tokio::time::{sleep, timeout_at};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(3);

    /// What an address does.
    #[derive(Clone, Copy)]
    enum Does {
        Refuses,
        /// It never says anything.
        Nothing,
        AnswersAfter(Duration),
    }

    /// Which of the addresses that do this is connected to, by its place. `None`: it is none until the deadline.
    async fn connected(all: &[Does]) -> Option<Result<usize, Refused>> {
        let address = |place: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, place));
        let addresses: Vec<_> = (0..).take(all.len()).map(address).collect();
        let connect = |address: SocketAddr| async move {
            let place = usize::from(address.port());
            match all[place] {
                Does::Refuses => Err(Refused::Unreachable(format!("{place} refuses"))),
                Does::Nothing => pending::<Result<usize, Refused>>().await,
                Does::AnswersAfter(time) => {
                    sleep(time).await;
                    Ok(place)
                }
            }
        };
        let until = Instant::now() + WITHIN;
        timeout_at(until, first_that_answers(addresses, until, connect)).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_leaves_time_for_those_after_it() {
        use Does::{AnswersAfter, Nothing, Refuses};
        let after = |millis| AnswersAfter(Duration::from_millis(millis));
        assert_eq!(connected(&[Nothing, after(1400)]).await, Some(Ok(1)));
        assert_eq!(connected(&[Nothing, Nothing, after(900)]).await, Some(Ok(2)));
        assert_eq!(
            connected(&[Refuses, Nothing, after(1400)]).await,
            Some(Ok(2)),
            "what is refused takes none"
        );
        assert_eq!(connected(&[after(1400), after(0)]).await, Some(Ok(0)), "the first that answers");
        assert_eq!(connected(&[after(2900)]).await, Some(Ok(0)), "all of it, if there is no other");
        assert_eq!(connected(&[Refuses, after(2900)]).await, Some(Ok(1)));
        assert_eq!(connected(&[Nothing, Nothing]).await, None, "the caller's deadline");
        let why = |text: &str| Some(Err(Refused::Unreachable(text.into())));
        assert_eq!(connected(&[Nothing, Refuses]).await, why("1 refuses"));
        assert_eq!(connected(&[]).await, why("the name has no address"));
    }
}
