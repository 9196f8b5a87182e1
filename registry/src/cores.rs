//! The cores, for the simulator and for whoever checks recordings. No promise is made of anything in here.

pub use crate::{
    core::caller::{Caller, CallerEffect, CallerInput},
    core::leaving::{Leaving, LeavingCaller, LeavingEffect, LeavingInput, LeavingTimes},
    core::node::{NodeCore, NodeEffect, NodeInput},
    core::registry::{QUEUES, Queue, RegistryCore, RegistryEffect, Told},
    input::{Answer, Call, CallId, Drained, Effect, Granted, Input, Now, OnLapse, OpId, Tell},
    log::{Batch, CorruptBatch, Op},
    member::{Member, MemberConfig},
    message::{BadMessage, Chunk, ChunkRow, Message, Request, Verdict, Wish},
    replica::Replica,
    table::{RequestNumber, Row, Table},
    tuning::Tuning,
};
