//! Connections: sockets, or pipes inside the process.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

use crate::{
    config::{Carrier, Network, Security},
    error::Refused,
};

pub(crate) mod connection;
pub(crate) mod handshake;
mod memory;
mod tls;
pub(crate) mod wire;

pub use memory::MemoryNetwork;

/// A connection, whatever carries it.
pub(crate) struct Connection {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) remote: SocketAddr,
}

impl Connection {
    fn tcp(stream: TcpStream, remote: SocketAddr) -> Self {
        let _ = stream.set_nodelay(true); // only slower without
        let (read, write) = stream.into_split();
        Self { read: Box::new(read), write: Box::new(write), remote }
    }
}

/// Where connections arrive.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Memory(memory::MemoryListener),
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
