//! A connection, as two streams of bytes.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A connection, whatever carries it.
pub(crate) struct Connection {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) remote: SocketAddr,
}

impl Connection {
    pub(super) fn tcp(stream: TcpStream, remote: SocketAddr) -> Self {
        let _ = stream.set_nodelay(true); // only slower without
        let (read, write) = stream.into_split();
        Self { read: Box::new(read), write: Box::new(write), remote }
    }
}
