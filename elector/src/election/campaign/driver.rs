//! Drives a campaign's core.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from
#![allow(clippy::todo, clippy::unused_self, clippy::unused_async)] // the bodies come next

use super::{
    End, Leadership, Settings, StartError, Status, StopError,
    leadership::Seat,
    subscribers::{Subscribers, Transitions},
};
use crate::{
    election::{oracle::Oracle, role::Role},
    ids::Epoch,
};

pub(super) struct Handle<F, I> {
    _leadership: Leadership<F>,
    _subscribers: Subscribers<F>,
    _infos: tokio::sync::mpsc::UnboundedSender<I>,
}

pub(super) async fn start<O: Oracle, R: Role<O::Fence>>(
    _oracle: O,
    settings: Settings,
    make: impl FnOnce(Leadership<O::Fence>) -> R,
) -> Result<Option<Handle<O::Fence, O::Info>>, StartError> {
    settings.timing.validate()?;
    let (_seat, leadership) = Seat::new(settings.clock.clone());
    let _role = make(leadership);
    todo!()
}

impl<F: Clone, I> Handle<F, I> {
    pub(super) fn leadership(&self) -> Leadership<F> {
        todo!()
    }
    pub(super) fn subscribe(&self) -> Transitions<F> {
        todo!()
    }
    pub(super) fn status(&self) -> Status<F> {
        todo!()
    }
    pub(super) fn request_resign(&self, _epoch: Option<Epoch>) {
        todo!()
    }
    pub(super) fn info(&self, _info: I) -> bool {
        todo!()
    }
    pub(super) fn wake(&self) {
        todo!()
    }
    pub(super) async fn stop(&self) -> Result<(), StopError> {
        todo!()
    }
    pub(super) async fn ended(&self) -> Result<End, StopError> {
        todo!()
    }
}
