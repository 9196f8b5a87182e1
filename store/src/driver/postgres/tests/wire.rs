//! A server in memory that says what a test wants: what a real one does too seldom, or only after a long time.

use std::{collections::BTreeMap, sync::Arc};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_postgres::{Config, NoTls, types::Type};

use super::{
    super::{
        line::{Line, Session},
        sql::{self, Statements},
    },
    said::{message, refusal, welcome},
};

/// Which store it says to be, unless it says otherwise.
pub(crate) const IDENTITY: i64 = 17;

/// What it says to a statement.
pub(crate) enum Said {
    /// That it is done, without a row.
    Done,
    /// One row of numbers.
    Row(Vec<Option<i64>>),
    /// The version of a look at one watch, and whether its key has changed.
    Looked(i64, bool),
    /// An error with this SQLSTATE.
    Refused(&'static str),
    /// Nothing, nor to anything behind it.
    Nothing,
    /// Nothing, and the connection is gone.
    Gone,
}

/// A connection to a server that is asked for each statement what it says to it, the statement's SQL given.
pub(crate) async fn line(mut says: impl FnMut(&str) -> Said + Send + 'static) -> (Line, Arc<Session>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let mut config = Config::new();
    config.user("somebody");
    let (connected, mut stream) = tokio::join!(config.connect_raw(here, NoTls), welcome(there));
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    tokio::spawn(async move { serve(&mut stream, &mut says).await });
    let statements = Statements::prepare(&client).await.unwrap();
    Line::over(client, statements, IDENTITY)
}

async fn serve(stream: &mut DuplexStream, says: &mut (impl FnMut(&str) -> Said + Send)) -> Option<()> {
    let (mut prepared, mut bound, mut is_silent) = (BTreeMap::new(), String::new(), false);
    loop {
        let kind = stream.read_u8().await.ok()?;
        let mut body = vec![0; stream.read_u32().await.ok()? as usize - 4];
        stream.read_exact(&mut body).await.ok()?;
        let mut words = body.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        let mut word = || words.next().unwrap();
        let answer = match kind {
            b'P' => {
                prepared.insert(word(), word());
                message(b'1', &[])
            }
            // "S" and the name.
            b'D' => description(&prepared[&word()[1..]]),
            b'B' => {
                word(); // the portal, which has no name
                bound.clone_from(&prepared[&word()]);
                continue;
            }
            b'E' | b'Q' => {
                let statement = if kind == b'Q' { &word() } else { &bound };
                let answer = match says(statement) {
                    Said::Gone => return None,
                    Said::Nothing => {
                        is_silent = true;
                        continue;
                    }
                    Said::Refused(code) => refusal(code),
                    Said::Done => done(&[]),
                    Said::Row(numbers) => {
                        let fields: Vec<_> = numbers.iter().map(|of| of.map(i64::to_be_bytes)).collect();
                        done(&row(fields.iter().map(|field| field.as_ref().map(<[u8; 8]>::as_slice))))
                    }
                    Said::Looked(version, has_changed) => {
                        let version = version.to_be_bytes();
                        let fields = [version.as_slice(), &[u8::from(has_changed)]];
                        done(&row(fields.into_iter().map(Some)))
                    }
                };
                // A query says itself that it is over, a refusal does as well.
                let ready = message(b'Z', b"I");
                let over = if answer[0] == b'E' { answer.len() - ready.len() } else { answer.len() };
                let begins = if kind == b'E' && answer[0] != b'E' { message(b'2', &[]) } else { Vec::new() };
                let ends = if kind == b'Q' { ready } else { Vec::new() };
                [begins, answer[..over].to_vec(), ends].concat()
            }
            b'S' => message(b'Z', b"I"),
            b'C' => message(b'3', &[]),
            _ => return None,
        };
        if !is_silent {
            stream.write_all(&answer).await.ok()?;
        }
    }
}

/// That a statement is done, after these rows.
fn done(rows: &[u8]) -> Vec<u8> {
    [rows, &message(b'C', b"SELECT 1\0")].concat()
}

/// A row of these fields. `None` is null.
fn row<'a>(fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut body = count(fields.len()).to_vec();
    for field in fields {
        let length = field.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
        body.extend(length.to_be_bytes());
        body.extend(field.unwrap_or_default());
    }
    message(b'D', &body)
}

/// Of what types the parameters and the columns of a statement are.
fn description(statement: &str) -> Vec<u8> {
    let (parameters, columns): (&[Type], &[Type]) = match statement {
        sql::BUMP => {
            (&[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8, Type::INT8, Type::INT8], &[Type::INT8])
        }
        sql::CHECK => (&[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8], &[Type::INT8]),
        sql::PUT => (&[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8], &[]),
        sql::CLEAR | sql::APPEND => (&[Type::BYTEA, Type::BYTEA, Type::INT4, Type::INT8], &[]),
        sql::FORGET => (&[Type::INT8, Type::INT8], &[]),
        sql::NOTIFY => (&[Type::TEXT, Type::TEXT, Type::INT8], &[Type::VOID]),
        sql::VERSION => (&[], &[Type::INT8, Type::INT8]),
        sql::KEY => (&[Type::BYTEA], &[Type::BYTEA, Type::BYTEA]),
        sql::RANGE => (&[Type::BYTEA, Type::BYTEA, Type::INT8], &[Type::BYTEA, Type::BYTEA]),
        sql::LOOK_AT_WATCHES => {
            (&[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::INT8, Type::INT8], &[Type::INT8, Type::BOOL])
        }
        other => panic!("nobody prepares {other}"),
    };
    let parameters = [&count(parameters.len())[..], &parameters.iter().flat_map(oid).collect::<Vec<_>>()];
    let parameters = message(b't', &parameters.concat());
    if columns.is_empty() {
        return [parameters, message(b'n', &[])].concat();
    }
    // A name that is empty, no table, the type, and three things that the client does not look at.
    let column = |of: &Type| [&[0; 7][..], &oid(of), &[0; 8]].concat();
    let columns = [&count(columns.len())[..], &columns.iter().flat_map(column).collect::<Vec<_>>()];
    [parameters, message(b'T', &columns.concat())].concat()
}

fn count(of: usize) -> [u8; 2] {
    u16::try_from(of).unwrap().to_be_bytes()
}

fn oid(of: &Type) -> [u8; 4] {
    of.oid().to_be_bytes()
}
