//! Connections are made, and arrive: over sockets, or over pipes inside the process.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpStream};

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

    /// Connects to `host:port`, to the first of its addresses that answers.
    pub(crate) async fn connect(
        &self,
        from: SocketAddr,
        to: &str,
        security: Security,
    ) -> Result<Connection, Refused> {
        let unreachable = |error: io::Error| Refused::Unreachable(error.to_string());
        let addresses: Vec<SocketAddr> = match self.base() {
            Base::Tcp => tokio::net::lookup_host(to).await.map_err(unreachable)?.collect(),
            Base::Memory(_) => {
                vec![to.parse().map_err(|_| Refused::Unreachable("not an address".into()))?]
            }
        };
        let mut last = Refused::Unreachable("the name has no address".into());
        for address in addresses {
            if let Err(why) = may_talk(security, address) {
                last = why;
                continue;
            }
            let connected = match self.base() {
                Base::Tcp => TcpStream::connect(address).await.map(|stream| Connection::tcp(stream, address)),
                Base::Memory(network) => network.connect(from, address).await,
            };
            match connected {
                Ok(connection) => return Ok(connection),
                Err(error) => last = unreachable(error),
            }
        }
        Err(last)
    }
}

/// Whether to talk to that address at all: in the clear on loopback only.
pub(crate) fn may_talk(security: Security, remote: SocketAddr) -> Result<(), Refused> {
    if security != Security::Plain || remote.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(Refused::SecretNeeded)
    }
}
