//! The cores, for the simulator and for whoever checks recordings. No promise is made of anything in here.

pub use crate::{
    input::{Answer, Call, CallId, Effect, Granted, Input, Now, OnLapse, OpId, Tell},
    log::{Batch, CorruptBatch, Op},
    member::{Drained, Member, MemberConfig, Tuning},
    message::{BadMessage, Chunk, ChunkRow, Message, Request, Verdict, Wish},
    replica::Replica,
    table::{RequestNumber, Row, Table},
};
