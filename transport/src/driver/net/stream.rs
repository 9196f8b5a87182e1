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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_small_is_not_held_back_until_there_is_more() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (same, remote) = (stream.try_clone().unwrap(), stream.peer_addr().unwrap());
        let _connection = Connection::tcp(TcpStream::from_std(stream).unwrap(), remote);
        assert!(same.nodelay().unwrap());
    }
}
