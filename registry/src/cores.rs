//! The cores, for the simulator and for whoever checks recordings. No promise is made of anything in here.

pub use crate::core::{
    caller::{Caller, CallerEffect, CallerInput},
    explained::Explained,
    group::{GroupId, MembershipName},
    host::OnTake,
    input::{
        Answer, Call, CallId, Drained, Effect, Event, Granted, Input, Now, OnLapse, OpId, StartedAs, TakenAs,
        Tell, Yielded,
    },
    leaving::{Leaving, LeavingEffect, LeavingInput, LeavingTimes},
    log::{Batch, Op},
    member::{Member, MemberConfig},
    message::{Chunk, Message, Request, Verdict, Wish},
    node::{NodeCore, NodeEffect, NodeInput},
    registry::{QUEUES, Queue, RegistryCore, RegistryEffect, Told},
    replica::Replica,
    rows::Held,
    table::{More, RequestNumber, Row, Slot, Standing, Table},
    taking::{Decline, Offered, TakeRefusal, Taker, Taking},
    tuning::Tuning,
    watch::{Given, WatchId},
    why::GivenUp,
};
