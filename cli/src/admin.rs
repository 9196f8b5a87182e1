//! What a running node answers over HTTP, to programs on the same machine.
//!
//! Bodies and answers are JSON. `registry` may be left out everywhere: it is the node's first then. A field that a route does
//! not know is refused, in a body as in a query, and named. Numbers that a parser of JSON may round (incarnations and kinds) are
//! strings of 16 hexadecimal digits. Anything but 200 is a [`Refusal`]: `{"error": CODE, "verdict": "no" | "unknown" | "usage", "message": TEXT, ...facts}`.
//!
//! | route | asked with | answers |
//! |---|---|---|
//! | `POST /register` | `{name, registry?, shared?, when_lapsed?: "stop"\|"tell", moves?, meta?, wait_ms?}` | `{name, node, token, revision}` |
//! | `POST /register-many` | `{prefix, from, to, concurrency?, registry?, shared?, when_lapsed?, wait_ms?}` | `{registered, failed: {CODE: n}, first_failure, elapsed_ms}` |
//! | `POST /transfer` | `{name, to, registry?, wait_ms?}` | `{name, node, token}`: the name has gone from this node to `to`, where an actor of its own holds it |
//! | `POST /update` | `{name, meta?, expected?, registry?}` | `{name, revision}`: what the name says of itself is `meta` now |
//! | `POST /unregister` | `{name, registry?}` | `{name, position}` |
//! | `POST /end-actor` | `{name, registry?}` | `{name}` once the actor has ended; its name is freed thereafter |
//! | `GET /whereis` | `?name=&consistent=&wait_ms=` | an entry: `{name, node, incarnation, session, actor, kind, token, revision, meta}`; no `actor` while one is started |
//! | `GET /explain` | `?name=` | why a name is as it is, as this node knows: `{name, said, state, holder, ago_ms, why_free, session, changes, ...}`, see [`explain`] |
//! | `POST /call` | `{name, text, wait_ms?, consistent?}` | `{answer}` |
//! | `GET /names` | `?prefix=&node=&meta=&after=&limit=` | `{names: [..], next}`: a page of names, see below |
//! | `GET /entries` | the same | `{entries: [..], next}`: a page of entries |
//! | `GET /watch` | `?prefix=&node=&meta=&from=` | what changes, as server-sent events: see [`events`] |
//! | `GET /count` | `?node=` | `{count}`: of all names, or of those held on `node` |
//! | `GET /contains-all` | `?prefix=&from=&to=` | `{present, missing, first_missing}` |
//! | `GET /wait-for` | `?position=&wait_ms=` | `{position}` |
//! | `GET /held` | | `{held: [{registry, name, token, trusted, notices}]}`: names whose actors run here |
//! | `GET /members` | | `{members: [{node, address, admin, synced, session_open, leads, draining, may_lead, linked}], settings}` |
//! | `GET /ready` | `?wait_ms=` | `{ready: true}`, or 503 `not_ready` with `why`; also when it drains |
//! | `GET /status` | | the registry's `Status`, with `incarnation`, `pid`, `listen`, `registry`, `registries`, `names`, `ready`, `admission`: who waits to authenticate, how many were refused and why, how long the certificate is good |
//! | `GET /history` | `?after=` | `{changes: [{number, at_ms, said, leader}], next}`: who led, and which members came and went, as this node saw it: see [`history`] |
//! | `GET /` | | a page for people that shows all of this, see [`page`] |
//! | `GET /metrics` | | what the node has counted, in Prometheus' text format; see `docs/metrics.md` |
//! | `POST /configure` | `{lock_timeout_ms?, silence_ms?, policy?: "sticky"\|"ranked", registry?, wait_ms?}` | `{settings}`, once they are set for all members; see below |
//! | `POST /drain` | | `{drained: "led"\|"alone"\|"timed_out"\|"left", by?}` when the seat is another's, or will not be |
//! | `POST /leave` | | `{left: true}` after all that `drain` does, and the process ends |
//!
//! Who may ask is in [`access`]; how long they may take for it in [`serve()`]. A body has at most 64 KiB.
//!
//! Names of a range are `{prefix}{number}`, from `from` up to, not including, `to`: at most a million. Asking again to register a
//! name that this node holds, or may hold, is for the same actor and answers the same token.
//!
//! A name that was registered with `moves` goes to other nodes of this command when its node drains, and so does one that came by
//! `transfer`. Any other name that has an actor of its own goes there by `transfer` only.
//!
//! A page has at most 10 000 names, sorted. `next` is null on the last page; else give it as `after` for the next one. `meta` is
//! `field=value`, several of them with commas between: names whose metadata has these fields, with these texts. `meta` in an entry is
//! the metadata as JSON; it is null if there is none, or if JSON has no such value.
//!
//! `settings` is what holds for the elections of the registry, as this node last read:
//! `{lock_timeout_ms, silence_ms, policy, set: [..]}`. What is in `set` is set for all members; the rest is this node's own
//! configuration.
//!
//! A node that drains answers whoever wants a new name with 503 `draining` and `ask: [{node, address}]`, whom to ask in its
//! place, the leader first. Nothing was asked for then; the same request elsewhere is as good as the first.
//!
//! A node whose certificate does not let it hold a name answers 403 `not_permitted` and `allowed: [..]`, how the names begin that it
//! may hold.

mod access;
mod events;
mod explain;
mod extract;
pub(crate) mod history;
mod page;
mod serve;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::header,
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use callsign::{Drained, Entry, Meta, NodeName, Page, Position, Preset, Select, Settings};
use callsign_store::lock::lock;
use futures::{StreamExt, stream};
use ractor::rpc::CallResult;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::{
    echo::Echo,
    hosted::{Hosted, How},
    metrics::Counted,
    reply::{Refusal, exact, holder, settings},
};

pub(crate) use self::{
    access::Access,
    serve::{Limits, serve},
};
use self::{
    extract::{Body, Nothing, Query},
    history::Histories,
};

const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// The most names of a range.
const MAX_RANGE: u64 = 1_000_000;

/// What every route needs.
#[derive(Clone)]
pub(crate) struct Admin {
    hosted: Arc<Hosted>,
    /// Set when the node was told to leave, and has.
    left: watch::Sender<bool>,
    metrics: Counted,
    histories: Histories,
}

/// The routes of a node, behind the check of who may ask. `left` becomes true when it was told to leave, and has.
pub(crate) fn routes(
    hosted: Arc<Hosted>,
    left: watch::Sender<bool>,
    access: Access,
    metrics: Counted,
    histories: Histories,
) -> Router {
    page::routes()
        .route("/register", post(register))
        .route("/register-many", post(register_many))
        .route("/transfer", post(transfer))
        .route("/update", post(update))
        .route("/unregister", post(unregister))
        .route("/end-actor", post(end_actor))
        .route("/whereis", get(whereis))
        .route("/explain", get(explain::explain))
        .route("/call", post(call))
        .route("/names", get(names))
        .route("/entries", get(entries))
        .route("/watch", get(events::watch))
        .route("/count", get(count))
        .route("/contains-all", get(contains_all))
        .route("/wait-for", get(wait_for))
        .route("/held", get(held))
        .route("/members", get(members))
        .route("/status", get(status))
        .route("/ready", get(ready))
        .route("/history", get(history_after))
        .route("/metrics", get(metrics_text))
        .route("/configure", post(configure))
        .route("/drain", post(drain))
        .route("/leave", post(leave))
        .fallback(async || Refusal::usage("no_such_route", "there is no such route"))
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        .layer(middleware::from_fn_with_state(access, access::guard))
        .with_state(Admin { hosted, left, metrics, histories })
}

/// The numbers of a range of names. A longer one would keep the node busy for nobody.
fn numbers(from: u64, to: u64) -> Result<std::ops::Range<u64>, Refusal> {
    let count = to.saturating_sub(from);
    if count > MAX_RANGE {
        let most = format!("{count} names at once, {MAX_RANGE} is the most");
        return Err(Refusal::usage("too_many", most).with("most", MAX_RANGE));
    }
    Ok(from..to)
}

type Answer = Result<Json<Value>, Refusal>;

fn millis(wait: Option<u64>) -> Duration {
    // An hour is for ever, and cannot overflow a clock.
    wait.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait.min(3_600_000)))
}

async fn metrics_text(State(admin): State<Admin>) -> Response {
    // The version of the text format.
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], admin.metrics.render())
        .into_response()
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnLapse {
    #[default]
    Stop,
    Tell,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterBody {
    name: String,
    registry: Option<String>,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    when_lapsed: OnLapse,
    /// Whether the name goes to another node when this one drains.
    #[serde(default)]
    moves: bool,
    meta: Option<Value>,
    wait_ms: Option<u64>,
}

fn how(shared: bool, when_lapsed: OnLapse, wait: Option<u64>) -> How {
    let wait = wait.map(|wait| millis(Some(wait)));
    How { shared, tell: matches!(when_lapsed, OnLapse::Tell), moves: false, wait, meta: None }
}

async fn register(State(admin): State<Admin>, Body(body): Body<RegisterBody>) -> Answer {
    let meta = body.meta.as_ref().map(Meta::new).transpose()?;
    let how = How { meta, moves: body.moves, ..how(body.shared, body.when_lapsed, body.wait_ms) };
    let registration = admin.hosted.register(body.registry.as_deref(), &body.name, how).await?;
    let (token, revision) = (registration.token(), registration.revision());
    Ok(Json(json!({"name": body.name, "node": admin.hosted.node, "token": token, "revision": revision})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferBody {
    name: String,
    to: NodeName,
    registry: Option<String>,
    wait_ms: Option<u64>,
}

async fn transfer(State(admin): State<Admin>, Body(body): Body<TransferBody>) -> Answer {
    let wait = millis(body.wait_ms);
    let token = admin.hosted.transfer(body.registry.as_deref(), &body.name, &body.to, wait).await?;
    Ok(Json(json!({"name": body.name, "node": body.to, "token": token})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateBody {
    name: String,
    meta: Option<Value>,
    expected: Option<Position>,
    registry: Option<String>,
}

async fn update(State(admin): State<Admin>, Body(body): Body<UpdateBody>) -> Answer {
    let meta = body.meta.as_ref().map(Meta::new).transpose()?;
    let registration = admin.hosted.registration(body.registry.as_deref(), &body.name)?;
    let revision = registration.update(body.expected, meta).await?;
    Ok(Json(json!({"name": body.name, "revision": revision})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterManyBody {
    prefix: String,
    from: u64,
    to: u64,
    concurrency: Option<usize>,
    registry: Option<String>,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    when_lapsed: OnLapse,
    wait_ms: Option<u64>,
}

async fn register_many(State(admin): State<Admin>, Body(body): Body<RegisterManyBody>) -> Answer {
    let started = Instant::now();
    let how = how(body.shared, body.when_lapsed, body.wait_ms);
    let mut registered = 0_u64;
    let mut failed = BTreeMap::<&str, u64>::new();
    let mut first_failure = Value::Null;
    let numbers = numbers(body.from, body.to)?;
    let (hosted, body, how) = (&admin.hosted, &body, &how);
    let mut answers = stream::iter(numbers)
        .map(async |number| {
            let name = format!("{}{number}", body.prefix);
            let how = how.clone();
            hosted.register(body.registry.as_deref(), &name, how).await.map_err(|refusal| (name, refusal))
        })
        .buffer_unordered(body.concurrency.unwrap_or(100).clamp(1, 10_000));
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(_) => registered += 1,
            Err((name, refusal)) => {
                if first_failure.is_null() {
                    first_failure = json!({"name": name, "error": refusal.code});
                }
                *failed.entry(refusal.code).or_default() += 1;
            }
        }
    }
    let elapsed = started.elapsed().as_millis();
    Ok(Json(
        json!({"registered": registered, "failed": failed, "first_failure": first_failure, "elapsed_ms": elapsed}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameBody {
    name: String,
    registry: Option<String>,
}

async fn unregister(State(admin): State<Admin>, Body(body): Body<NameBody>) -> Answer {
    let position = admin.hosted.unregister(body.registry.as_deref(), &body.name).await?;
    Ok(Json(json!({"name": body.name, "position": position})))
}

async fn end_actor(State(admin): State<Admin>, Body(body): Body<NameBody>) -> Answer {
    admin.hosted.end_actor(body.registry.as_deref(), &body.name).await?;
    Ok(Json(json!({"name": body.name})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhereisQuery {
    name: String,
    #[serde(default)]
    consistent: bool,
    wait_ms: Option<u64>,
    registry: Option<String>,
}

fn with_name(name: &str, entry: &Entry) -> Value {
    let mut value = holder(entry);
    value["name"] = name.into();
    value
}

async fn whereis(State(admin): State<Admin>, Query(query): Query<WhereisQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let found = if query.consistent {
        registry.lookup_consistent(&query.name, millis(query.wait_ms)).await?
    } else {
        registry.lookup(&query.name)?
    };
    let entry = found.ok_or_else(|| Refusal::not_found(&query.name))?;
    Ok(Json(with_name(&query.name, &entry)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    name: String,
    text: String,
    wait_ms: Option<u64>,
    #[serde(default)]
    consistent: bool,
    registry: Option<String>,
}

async fn call(State(admin): State<Admin>, Body(body): Body<CallBody>) -> Answer {
    let registry = admin.hosted.registry(body.registry.as_deref())?;
    let wait = millis(body.wait_ms);
    let actor = if body.consistent {
        registry.whereis_consistent::<Echo>(&body.name, wait).await?
    } else {
        registry.whereis::<Echo>(&body.name)?
    };
    let called = ractor::rpc::call(&actor, |reply| Echo::Say(body.text, reply), Some(wait)).await;
    match called {
        Ok(CallResult::Success(answer)) => Ok(Json(json!({"answer": answer}))),
        Ok(CallResult::Timeout) => Err(Refusal::timed_out("no_answer", "the actor did not answer in time")),
        Ok(CallResult::SenderError) => Err(Refusal::unavailable("call_failed", "the actor did not answer")),
        Err(error) => Err(Refusal::unavailable("unreachable", error.to_string())),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SelectQuery {
    #[serde(default)]
    prefix: String,
    node: Option<String>,
    /// `field=value`, several of them with commas between; the values are texts.
    meta: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
    registry: Option<String>,
}

/// How many names one answer has at most.
const PAGE: usize = 10_000;

impl SelectQuery {
    /// The page that is asked for, and where the next one begins.
    fn page(&self, admin: &Admin) -> Result<Page, Refusal> {
        let mut select = filter(&self.prefix, self.node.as_deref(), self.meta.as_deref())?;
        select = select.limit(self.limit.unwrap_or(PAGE).min(PAGE));
        if let Some(after) = &self.after {
            select = select.after(&**after);
        }
        Ok(admin.hosted.registry(self.registry.as_deref())?.select(&select)?)
    }
}

/// Names that begin so, of this node, with these fields.
fn filter(prefix: &str, node: Option<&str>, meta: Option<&str>) -> Result<Select, Refusal> {
    let mut select = Select::prefix(prefix);
    if let Some(node) = node {
        select = select.node(node);
    }
    for pair in meta.into_iter().flat_map(|pairs| pairs.split(',')) {
        let (field, value) = pair
            .split_once('=')
            .ok_or_else(|| Refusal::usage("bad_meta", format!("{pair:?} is not of the form field=value")))?;
        let equal = select.meta_eq(field, value);
        select = equal.map_err(|error| Refusal::usage("bad_meta", error.to_string()))?;
    }
    Ok(select)
}

async fn names(State(admin): State<Admin>, Query(query): Query<SelectQuery>) -> Answer {
    let Page { names, next, .. } = query.page(&admin)?;
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    Ok(Json(json!({"names": names, "next": next})))
}

async fn entries(State(admin): State<Admin>, Query(query): Query<SelectQuery>) -> Answer {
    let Page { names, next, .. } = query.page(&admin)?;
    let entries: Vec<_> = names.iter().map(|(name, entry)| with_name(name, entry)).collect();
    Ok(Json(json!({"entries": entries, "next": next})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountQuery {
    node: Option<String>,
    registry: Option<String>,
}

async fn count(State(admin): State<Admin>, Query(query): Query<CountQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let Some(node) = query.node else { return Ok(Json(json!({"count": registry.count()?}))) };
    let mut count = 0;
    for name in registry.names()? {
        count += u64::from(registry.lookup(&name)?.is_some_and(|entry| entry.node().as_str() == node));
    }
    Ok(Json(json!({"count": count})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeQuery {
    prefix: String,
    from: u64,
    to: u64,
    registry: Option<String>,
}

async fn contains_all(State(admin): State<Admin>, Query(query): Query<RangeQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let (mut present, mut missing, mut first_missing) = (0_u64, 0_u64, None);
    for number in numbers(query.from, query.to)? {
        let name = format!("{}{number}", query.prefix);
        if registry.lookup(&name)?.is_some() {
            present += 1;
        } else {
            missing += 1;
            first_missing.get_or_insert(name);
        }
    }
    Ok(Json(json!({"present": present, "missing": missing, "first_missing": first_missing})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PositionQuery {
    position: Position,
    wait_ms: Option<u64>,
    registry: Option<String>,
}

async fn wait_for(State(admin): State<Admin>, Query(query): Query<PositionQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    registry.wait_for(query.position, millis(query.wait_ms)).await?;
    Ok(Json(json!({"position": query.position})))
}

async fn held(State(admin): State<Admin>) -> Answer {
    Ok(Json(json!({"held": admin.hosted.held()})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryQuery {
    registry: Option<String>,
}

async fn members(State(admin): State<Admin>, Query(query): Query<RegistryQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let status = registry.status();
    Ok(Json(json!({"members": status.members, "settings": settings(&status.settings)})))
}

async fn status(State(admin): State<Admin>, Query(query): Query<RegistryQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let mut status = json!(registry.status());
    status["settings"] = settings(&registry.status().settings);
    status["incarnation"] = exact(registry.incarnation()).into();
    status["pid"] = std::process::id().into();
    status["listen"] = registry.local_addr().to_string().into();
    status["registries"] = admin.hosted.registries.keys().map(String::as_str).collect();
    status["registry"] = query.registry.as_deref().unwrap_or(&admin.hosted.default).into();
    // Null: it does not know, because it is not synced or its session has lapsed.
    status["names"] = json!(registry.count().ok());
    let remote = registry.remote();
    status["admission"] = json!({
        "unauthenticated": remote.unauthenticated(),
        "refused": remote.refusal_counts(),
        "certificate_expires_in_s": remote.certificate_expires_in().map(|left| left.as_secs()),
    });
    status["ready"] = registry.ready(Duration::ZERO).await.is_ok().into();
    Ok(Json(status))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    wait_ms: Option<u64>,
    registry: Option<String>,
}

async fn ready(State(admin): State<Admin>, Query(query): Query<WaitQuery>) -> Answer {
    let registry = admin.hosted.registry(query.registry.as_deref())?;
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
    registry.ready(wait.min(Duration::from_secs(3_600))).await?;
    Ok(Json(json!({"ready": true})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    #[serde(default)]
    after: u64,
    registry: Option<String>,
}

async fn history_after(State(admin): State<Admin>, Query(query): Query<HistoryQuery>) -> Answer {
    admin.hosted.registry(query.registry.as_deref())?;
    let name = query.registry.as_ref().unwrap_or(&admin.hosted.default);
    let (changes, next) = lock(&admin.histories[name]).after(query.after);
    Ok(Json(json!({"changes": changes, "next": next})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigureBody {
    lock_timeout_ms: Option<u64>,
    silence_ms: Option<u64>,
    policy: Option<Preset>,
    registry: Option<String>,
    wait_ms: Option<u64>,
}

async fn configure(State(admin): State<Admin>, Body(body): Body<ConfigureBody>) -> Answer {
    let registry = admin.hosted.registry(body.registry.as_deref())?;
    let mut change = Settings::default();
    change.lock_timeout = body.lock_timeout_ms.map(Duration::from_millis);
    change.silence = body.silence_ms.map(Duration::from_millis);
    change.policy = body.policy;
    if change == Settings::default() {
        return Err(Refusal::usage("nothing_to_set", "none of lock_timeout_ms, silence_ms, policy is given"));
    }
    let in_force = registry.configure(change, millis(body.wait_ms)).await?;
    Ok(Json(json!({"settings": settings(&in_force)})))
}

async fn drain(State(admin): State<Admin>, _: Nothing) -> Answer {
    let registry = &admin.hosted.registries[&admin.hosted.default];
    Ok(Json(match registry.drain().await {
        Drained::Led { by } => json!({"drained": "led", "by": by}),
        Drained::Alone => json!({"drained": "alone"}),
        Drained::Left => json!({"drained": "left"}),
        _ => json!({"drained": "timed_out"}),
    }))
}

async fn leave(State(admin): State<Admin>, _: Nothing) -> Response {
    let registry = &admin.hosted.registries[&admin.hosted.default];
    let left = registry.leave().await;
    admin.left.send_replace(true);
    match left {
        Ok(()) => Json(json!({"left": true})).into_response(),
        Err(error) => Refusal::unavailable("store_unavailable", error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests;
