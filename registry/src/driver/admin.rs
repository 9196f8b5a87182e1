//! The admin endpoint of a node: a page for people and answers for programs, as a [`Router`] of axum (feature `admin`).
//!
//! ```no_run
//! # use callsign::{Registry, admin::{Admin, AdminToken}};
//! # fn of(registry: &Registry) -> Result<axum::Router, Box<dyn std::error::Error>> {
//! let token = AdminToken::new(&std::env::var("ADMIN_TOKEN")?)?;
//! let site = axum::Router::new().nest("/callsign", Admin::new(registry).token(token).router());
//! # Ok(site) }
//! ```
//!
//! **It only reads.** No route of it changes anything: your program has the [`Registry`], and decides itself who may do more.
//! [`Admin::routes`] puts routes of your own behind the same check. The command `callsign node` has this endpoint, and adds its own in that way.
//!
//! **Who may ask.** Without a token programs of the same machine are let in, and nobody else. The server has to say who asks
//! ([`into_make_service_with_connect_info`](axum::Router::into_make_service_with_connect_info)), or all are refused.
//! With a [token](Admin::token) whoever shows it is let in, from anywhere. [`Admin::let_everyone_in`] is for programs that look themselves who
//! asks. Pages of other sites are refused in any case.
//!
//! Answers are JSON. `registry` may be left out everywhere: it is the first one then. A field that a route does not know is refused, and
//! named. Numbers that a parser of JSON may round (incarnations and kinds) are strings of 16 hexadecimal digits. Anything but 200 is a
//! [`HttpRefusal`].
//!
//! | route | asked with | answers |
//! |---|---|---|
//! | `GET /` | | a page for people that shows all of this |
//! | `GET /whereis` | `?name=&consistent=&wait_ms=` | an entry: `{name, node, incarnation, session, actor, kind, token, revision, meta}`; no `actor` while one is started |
//! | `GET /explain` | `?name=` | why a name is as it is, as this node knows: see below |
//! | `GET /names` | `?prefix=&node=&meta=&after=&limit=` | `{names: [..], next}`: a page of names, see below |
//! | `GET /entries` | the same | `{entries: [..], next}`: a page of entries |
//! | `GET /watch` | `?prefix=&node=&meta=&from=` | what changes, as server-sent events. `id` is the position up to which everything was given; whoever comes back says it as `Last-Event-ID`, or as `from` |
//! | `GET /count` | `?node=` | `{count}`: of all names, or of those held on `node` |
//! | `GET /groups` | `?prefix=&after=&limit=` | `{groups: [{name, limit, members}], next}`: groups, and semaphores and locks, which have a `limit`. A page has at most 1000 |
//! | `GET /singletons` | `?after=&limit=` | `{singletons: [{name, leader, epoch, ballot, lease_ms, child}], next}`: all elections by leases in the store of this cluster. `child` is who holds the name. A page has at most 100 |
//! | `GET /wait-for` | `?position=&wait_ms=` | `{position}` |
//! | `GET /members` | | `{members: [{node, address, admin, synced, session_open, leads, draining, why_draining?, may_lead, linked, links_to, behind}], settings}` |
//! | `GET /live` | | `{live: true}`, or 503 `not_live` with `why`: start the process anew. A node that has lost its store is live |
//! | `GET /ready` | `?wait_ms=` | `{ready: true}`, or 503 `not_ready` with `why`; also when it drains |
//! | `GET /status` | `?ask_links=` | the registry's [`Status`](crate::Status), with `incarnation`, `pid`, `listen`, `registry`, `registries`, `names`, `ready`, `admission`: who waits to authenticate, how many were refused and why, how long the certificate is good |
//! | `GET /history` | `?after=` | `{changes: [{number, at_ms, said, leader}], next}`: who led, and which members came and went, as this node saw it since the router was made |
//! | `GET /metrics` | | what was counted, in Prometheus' text format, if you [hand it in](Admin::metrics) |
//!
//! A page of names has at most 10 000, sorted. `next` is null on the last page; else give it as `after` for the next one. `meta` is
//! `field=value`, several of them with commas between: names whose metadata has these fields, with these texts. `meta` in an entry is
//! the metadata as JSON; it is null if there is none, if JSON has no such value, or if it is nested more than 64 deep.
//!
//! `linked` says whether this node has a link to the member, and `links_to` has the members that the member itself says it has links to; null: this node
//! does not know. `behind` is how many positions of the log its replica lacked when it said so, of those that this node knew; of this node, how many it lacks. With
//! `ask_links=true` the others are asked for both, once a second at the most, and what they say is in the answers of the next 5 s.
//!
//! `settings` is what holds for the elections of the registry, as this node last read:
//! `{lock_timeout_ms, silence_ms, policy, set: [..]}`. What is in `set` is set for all members; the rest is this node's own
//! configuration.
//!
//! `GET /explain` answers, whoever holds the name, and also if nobody does:
//!
//! | field | what it says |
//! |---|---|
//! | `said` | how the name is, and why, as a sentence |
//! | `state` | `held`, `starting`, `free`, or `unknown`: the replica of this node is not complete |
//! | `holder` | an entry, or null |
//! | `ago_ms`, `changed_ago_ms` | how long ago this node applied its registration and its last change; null: it does not know |
//! | `why_free` | null, or `{why, position, ago_ms, reason, was}`, where `why` is the reason of a change; or `reset`: the registry began with no names at `position`, and nobody has held it since; or `not_remembered`: this node remembers changes behind `position` only |
//! | `session` | null, or that of the holder: `{node, number, open, trusted, last_beat_ms, lease_ms, said}`; what this node does not know is null |
//! | `changes` | the last ones that this node remembers, oldest first: `[{position, why, reason, was, now, ago_ms}]` |
//! | `remembers_from` | the position behind which this node remembers; null: nothing |
//! | `node`, `position`, `trusted`, `synced` | who says so, up to where it has applied the log, and whether it may count on that |
//! | `leader`, `epoch`, `members` | as in `GET /status` |

mod access;
mod events;
mod explain;
mod extract;
mod groups;
mod history;
mod names;
mod node;
mod page;
mod refusal;
mod registries;
mod routes;
mod shared;
mod shown;
#[cfg(feature = "election")]
mod singletons;
#[cfg(test)]
mod tests;
mod token;

use std::{fmt, sync::Arc};

use axum::{Json, Router, middleware};
use serde_json::Value;

use self::{
    access::Access,
    extract::Query,
    history::Histories,
    shared::{AdminShared, Render},
};
pub use self::{
    refusal::{HttpRefusal, HttpVerdict},
    registries::Registries,
    token::{AdminToken, BadAdminToken},
};
use crate::Registry;

/// What the routes of the command are made of. Nothing of it is promised to stay.
#[doc(hidden)]
pub mod command {
    pub use super::{
        extract::{Body, Nothing, Query},
        shared::millis,
        shown::{exact, settings},
    };
}

/// What a route answers.
type HttpAnswer = Result<Json<Value>, HttpRefusal>;

/// The page and the routes of the [module](self) for this registry, for programs of the same machine: [`Admin`] with its defaults.
///
/// Merge it, or nest it below a path: `Router::new().nest("/callsign", admin::router(&registry))`.
pub fn router(registry: &Registry) -> Router {
    Admin::new(registry).router()
}

/// An admin endpoint: whom it lets in, and what it shows.
#[must_use = "it is nothing before `router` is called"]
pub struct Admin {
    registries: Registries,
    access: Access,
    metrics: Option<Render>,
    more: Router,
}

impl Admin {
    /// For a registry (`&registry`), or for several of a node: [`Registries`].
    pub fn new(registries: impl Into<Registries>) -> Self {
        let (access, more) = (Access::Machine, Router::new());
        Self { registries: registries.into(), access, metrics: None, more }
    }

    /// Lets in whoever shows this token, from anywhere, and nobody else. The page asks for it, and the browser forgets it with the tab. Over
    /// plain HTTP it travels in the clear.
    pub fn token(self, token: AdminToken) -> Self {
        Self { access: Access::Token(token), ..self }
    }

    /// Lets everyone in who reaches the router: for programs that look themselves who asks, by a layer around it. Pages of other sites are refused
    /// nevertheless.
    pub fn let_everyone_in(self) -> Self {
        Self { access: Access::Everyone, ..self }
    }

    /// Answers `GET /metrics` with what this returns, in Prometheus' text format; from there the page has its curves. [`metrics`](crate::metrics)
    /// counts through a recorder, which is your program's. Default: there is no such route.
    pub fn metrics(self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { metrics: Some(Arc::new(render)), ..self }
    }

    /// Adds routes of your own behind the same check of who may ask: for what changes something. A page in a browser cannot ask them, but by
    /// `GET`. A body has at most 64 KiB.
    pub fn routes(self, routes: Router) -> Self {
        Self { more: self.more.merge(routes), ..self }
    }

    /// The router. From now on the node remembers for it who led, and who came and went, until its last clone is dropped.
    pub fn router(self) -> Router {
        let Self { registries, access, metrics, more } = self;
        let histories = Arc::new(Histories::keep(&registries));
        routes::routes(AdminShared { registries, histories, metrics }, more)
            .layer(middleware::from_fn_with_state(access, access::guard))
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("access", &self.access).finish_non_exhaustive()
    }
}
