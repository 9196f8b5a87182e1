//! Errors as the client has them: it makes none but from what a server says, so a server says them.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_postgres::{Client, Config, Error, NoTls};

/// The error that a server's answer with this SQLSTATE becomes.
pub(crate) async fn said(code: &str) -> Error {
    asked(Some(code)).await
}

/// The error of a connection that ends before there is an answer.
pub(crate) async fn unsaid() -> Error {
    asked(None).await
}

async fn asked(code: Option<&str>) -> Error {
    let (here, there) = tokio::io::duplex(4096);
    let mut config = Config::new();
    config.user("somebody");
    let (connected, server) = tokio::join!(config.connect_raw(here, NoTls), welcome(there));
    let (client, connection): (Client, _) = connected.unwrap();
    tokio::spawn(connection);
    let (answer, ()) = tokio::join!(client.batch_execute("COMMIT"), answers(server, code));
    answer.unwrap_err()
}

/// Takes the first message, which has no type, and lets everybody in.
pub(super) async fn welcome(mut stream: DuplexStream) -> DuplexStream {
    let length = stream.read_u32().await.unwrap() as usize;
    stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
    stream.write_all(&message(b'R', &[0; 4])).await.unwrap();
    stream.write_all(&message(b'Z', b"I")).await.unwrap();
    stream
}

async fn answers(mut stream: DuplexStream, code: Option<&str>) {
    assert_eq!(stream.read_u8().await.unwrap(), b'Q');
    let length = stream.read_u32().await.unwrap() as usize;
    stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
    let Some(code) = code else { return };
    stream.write_all(&refusal(code)).await.unwrap();
}

/// A server's answer: an error with this SQLSTATE, and that it is ready again.
pub(crate) fn refusal(code: &str) -> Vec<u8> {
    let fields = format!("SERROR\0VERROR\0C{code}\0Msaid by the test\0\0");
    [message(b'E', fields.as_bytes()), message(b'Z', b"I")].concat()
}

pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}
