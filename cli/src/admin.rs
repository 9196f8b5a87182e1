//! What a running node answers over HTTP, to programs on the same machine.
//!
//! What only reads is the library's: [`callsign::admin`] lists those routes, says what all of them have in common, and has the check of who may ask.
//! Here is what a node of the command has beyond that. It changes something, or is about the actors that the command hosts.
//!
//! | route | asked with | answers |
//! |---|---|---|
//! | `POST /register` | `{name, registry?, shared?, when_lapsed?: "stop"\|"tell", moves?, meta?, wait_ms?}` | `{name, node, token, revision, already}` |
//! | `POST /register-many` | `{prefix, from, to, concurrency?, registry?, shared?, when_lapsed?, wait_ms?}` | `{registered, failed: {CODE: n}, first_failure, elapsed_ms}` |
//! | `POST /transfer` | `{name, to, registry?, wait_ms?}` | `{name, node, token}`: the name has gone from this node to `to`, where an actor of its own holds it |
//! | `POST /update` | `{name, meta?, expected?, registry?}` | `{name, revision}`: what the name says of itself is `meta` now |
//! | `POST /unregister` | `{name, registry?}` | `{name, position}` |
//! | `POST /end-actor` | `{name, registry?}` | `{name}` once the actor has ended; its name is freed thereafter |
//! | `POST /call` | `{name, text, wait_ms?, consistent?}` | `{answer}` |
//! | `GET /contains-all` | `?prefix=&from=&to=` | `{present, missing, first_missing}` |
//! | `GET /held` | | `{held: [{registry, name, token, trusted, notices}]}`: names whose actors run here |
//! | `POST /configure` | `{lock_timeout_ms?, silence_ms?, policy?: "sticky"\|"ranked", registry?, wait_ms?}` | `{settings}`, once they are set for all members |
//! | `POST /drain` | | `{drained: "led"\|"alone"\|"timed_out"\|"left", by?, moved, stay}` when the seat is another's, or will not be: how many names went to other nodes meanwhile, and how many stay until this one leaves |
//! | `POST /leave` | | `{left: true}` after all that `drain` does, and the process ends |
//!
//! How long a connection may take is in [`serve()`]. A body has at most 64 KiB.
//!
//! Names of a range are `{prefix}{number}`, from `from` up to, not including, `to`: at most a million. Asking again to register a
//! name that this node holds, or may hold, is for the same actor and answers the same token. If this node knows that it held the name
//! before, `already` is true: metadata and options are as they were, and not as they were asked for.
//!
//! A name that was registered with `moves` goes to other nodes of this command when its node drains, and so does one that came by
//! `transfer`. Any other name that has an actor of its own goes there by `transfer` only.
//!
//! A node that drains answers whoever wants a new name with 503 `draining` and `ask: [{node, address, admin}]`, whom to ask in its
//! place, the leader first: at `admin`, which is null if that node has not said it; at `address` it takes links only. Nothing was
//! asked for then; the same request elsewhere is as good as the first.
//!
//! A node whose certificate does not let it hold a name answers 403 `not_permitted` and `allowed: [..]`, how the names begin that it
//! may hold.

mod serve;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use callsign::{
    Drained, Meta, NodeName, Position, Preset, Settings,
    admin::{
        Admin, AdminToken,
        command::{Body, Nothing, Query, millis, settings},
    },
    in_full,
};
use futures::{StreamExt, stream};
use ractor::rpc::CallResult;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

pub(crate) use self::serve::{Limits, serve};
use crate::{
    echo::Echo,
    hosted::{Hosted, How},
    metrics::Counted,
    reply::Refusal,
};

/// The most names of a range.
const MAX_RANGE: u64 = 1_000_000;

/// What every route here needs.
#[derive(Clone)]
struct AdminState {
    hosted: Arc<Hosted>,
    /// Set when the node was told to leave, and has.
    left: watch::Sender<bool>,
}

/// The routes of a node, behind the check of who may ask: without a token, programs of this machine. `left` becomes true when it was told to leave,
/// and has.
pub(crate) fn routes(
    hosted: Arc<Hosted>,
    left: watch::Sender<bool>,
    token: Option<AdminToken>,
    metrics: Counted,
) -> Router {
    let admin = Admin::new(hosted.registries.clone()).metrics(move || metrics.render());
    let admin = if let Some(token) = token { admin.token(token) } else { admin };
    let own = Router::new()
        .route("/register", post(register))
        .route("/register-many", post(register_many))
        .route("/transfer", post(transfer))
        .route("/update", post(update))
        .route("/unregister", post(unregister))
        .route("/end-actor", post(end_actor))
        .route("/call", post(call))
        .route("/contains-all", get(contains_all))
        .route("/held", get(held))
        .route("/configure", post(configure))
        .route("/drain", post(drain))
        .route("/leave", post(leave))
        .with_state(AdminState { hosted, left });
    admin.routes(own).router()
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

type AdminAnswer = Result<Json<Value>, Refusal>;

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

async fn register(State(node): State<AdminState>, Body(body): Body<RegisterBody>) -> AdminAnswer {
    let meta = body.meta.as_ref().map(Meta::new).transpose()?;
    let how = How { meta, moves: body.moves, ..how(body.shared, body.when_lapsed, body.wait_ms) };
    let before = node.hosted.registration(body.registry.as_deref(), &body.name).ok();
    let before = before.map(|registration| registration.token());
    let registration = node.hosted.register(body.registry.as_deref(), &body.name, how).await?;
    let (token, revision) = (registration.token(), registration.revision());
    let already = before == Some(token);
    let granted = json!({
        "name": body.name, "node": node.hosted.node, "token": token, "revision": revision, "already": already,
    });
    Ok(Json(granted))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferBody {
    name: String,
    to: NodeName,
    registry: Option<String>,
    wait_ms: Option<u64>,
}

async fn transfer(State(node): State<AdminState>, Body(body): Body<TransferBody>) -> AdminAnswer {
    let wait = millis(body.wait_ms);
    let token = node.hosted.transfer(body.registry.as_deref(), &body.name, &body.to, wait).await?;
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

async fn update(State(node): State<AdminState>, Body(body): Body<UpdateBody>) -> AdminAnswer {
    let meta = body.meta.as_ref().map(Meta::new).transpose()?;
    let registration = node.hosted.registration(body.registry.as_deref(), &body.name)?;
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

async fn register_many(State(node): State<AdminState>, Body(body): Body<RegisterManyBody>) -> AdminAnswer {
    let started = Instant::now();
    let how = how(body.shared, body.when_lapsed, body.wait_ms);
    let mut registered = 0_u64;
    let mut failed = BTreeMap::<&str, u64>::new();
    let mut first_failure = Value::Null;
    let numbers = numbers(body.from, body.to)?;
    let (hosted, body, how) = (&node.hosted, &body, &how);
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

async fn unregister(State(node): State<AdminState>, Body(body): Body<NameBody>) -> AdminAnswer {
    let position = node.hosted.unregister(body.registry.as_deref(), &body.name).await?;
    Ok(Json(json!({"name": body.name, "position": position})))
}

async fn end_actor(State(node): State<AdminState>, Body(body): Body<NameBody>) -> AdminAnswer {
    node.hosted.end_actor(body.registry.as_deref(), &body.name).await?;
    Ok(Json(json!({"name": body.name})))
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

async fn call(State(node): State<AdminState>, Body(body): Body<CallBody>) -> AdminAnswer {
    let registry = node.hosted.registry(body.registry.as_deref())?;
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
        Err(error) => Err(Refusal::unavailable("unreachable", in_full(&error).to_string())),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeQuery {
    prefix: String,
    from: u64,
    to: u64,
    registry: Option<String>,
}

async fn contains_all(State(node): State<AdminState>, Query(query): Query<RangeQuery>) -> AdminAnswer {
    let registry = node.hosted.registry(query.registry.as_deref())?;
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

async fn held(State(node): State<AdminState>) -> AdminAnswer {
    Ok(Json(json!({"held": node.hosted.held()})))
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

async fn configure(State(node): State<AdminState>, Body(body): Body<ConfigureBody>) -> AdminAnswer {
    let registry = node.hosted.registry(body.registry.as_deref())?;
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

async fn drain(State(node): State<AdminState>, _: Nothing) -> AdminAnswer {
    let before = node.hosted.held();
    let mut said = match node.hosted.registries.first().drain().await {
        Drained::Led { by } => json!({"drained": "led", "by": by}),
        Drained::Alone => json!({"drained": "alone"}),
        Drained::Left => json!({"drained": "left"}),
        _ => json!({"drained": "timed_out"}),
    };
    said["moved"] = before.iter().filter(|held| node.hosted.is_elsewhere(held)).count().into();
    said["stay"] =
        node.hosted.registries.iter().map(|(_, joined)| joined.status().claims).sum::<usize>().into();
    Ok(Json(said))
}

async fn leave(State(node): State<AdminState>, _: Nothing) -> Response {
    let registry = node.hosted.registries.first().clone();
    // Of its own: whoever asked may go away meanwhile, and the process has to end all the same.
    let leaving = tokio::spawn(async move {
        let left = registry.leave().await;
        node.left.send_replace(true);
        left
    });
    match leaving.await {
        Ok(Ok(())) => Json(json!({"left": true})).into_response(),
        Ok(Err(error)) => {
            Refusal::unavailable("store_unavailable", in_full(&error).to_string()).into_response()
        }
        Err(error) => Refusal::unavailable("failed", error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests;
