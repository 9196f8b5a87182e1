//! What changes, as server-sent events.
//!
//! `id` is the position up to which everything was given with the event; whoever comes back says it as `Last-Event-ID`, or as `from`.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use callsign_store::in_full;
use futures::{Stream, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    HttpRefusal, Query,
    names::filter,
    shared::AdminShared,
    shown::{holder, with_name},
};
use crate::{Position, Watch, WatchEvent};

/// How often something is sent if nothing is to be said: whoever asks, and whatever is between, sees that the connection lives.
const ALIVE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchQuery {
    #[serde(default)]
    prefix: String,
    node: Option<String>,
    meta: Option<String>,
    from: Option<Position>,
    registry: Option<String>,
}

pub(super) async fn watch(
    State(admin): State<AdminShared>,
    headers: HeaderMap,
    Query(query): Query<WatchQuery>,
) -> Result<Response, HttpRefusal> {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let select = filter(&query.prefix, query.node.as_deref(), query.meta.as_deref())?;
    let from = last_id(&headers)?.or(query.from);
    let watch = match from {
        None => registry.watch(select),
        Some(position) => registry.watch_from(select, position),
    };
    let watch = watch.map_err(|error| HttpRefusal::unavailable("left", in_full(&error).to_string()))?;
    Ok(Sse::new(events(watch, from)).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

/// Where whoever comes back has been: what it was sent last.
fn last_id(headers: &HeaderMap) -> Result<Option<Position>, HttpRefusal> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let position = id.to_str().ok().and_then(|id| id.parse().ok()).map(Position);
    let bad = || HttpRefusal::usage("bad_position", "Last-Event-ID is not a position");
    position.ok_or_else(bad).map(Some)
}

/// `from`: what whoever asks has passed, as it says.
fn events(watch: Watch, from: Option<Position>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((watch, from), async |(mut watch, told)| {
        let event = watch.next().await?;
        let passed = watch.position();
        let (name, data) = described(&event);
        let mut sent = Event::default().event(name).data(data.to_string());
        if passed != told {
            // Empty: whoever comes back has nothing.
            sent = sent.id(passed.map_or_else(String::new, |position| position.0.to_string()));
        }
        Some((Ok(sent), (watch, passed)))
    })
}

/// An event's name, and what it says.
fn described(event: &WatchEvent) -> (&'static str, Value) {
    match event {
        WatchEvent::Present { name, entry } => ("present", with_name(name, entry)),
        WatchEvent::Current { position } => ("current", json!({"position": position})),
        WatchEvent::Change(change) => {
            let why = change.why.as_str();
            let (was, now) = (change.was.as_ref().map(holder), change.now.as_ref().map(holder));
            let body = json!({
                "name": change.name, "position": change.position, "was": was, "now": now, "why": why,
            });
            ("change", body)
        }
        WatchEvent::Bookmark { position } => ("bookmark", json!({"position": position})),
        WatchEvent::Lagged => ("lagged", json!({})),
        WatchEvent::Reset => ("reset", json!({})),
        WatchEvent::Lapsed => ("lapsed", json!({})),
        WatchEvent::Resumed => ("resumed", json!({})),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures::StreamExt;

    use super::*;
    use crate::{Clock, Config, MemoryNetwork, MemoryStore, Network, Registry, Select, driver::seat::seat};

    const DEADLINE: Duration = Duration::from_secs(60);

    /// What is sent until this is in it.
    async fn sent(watch: Watch, last: &str) -> String {
        let mut body = Sse::new(events(watch, None)).into_response().into_body().into_data_stream();
        let mut text = String::new();
        while !text.contains(last) {
            let read = tokio::time::timeout(DEADLINE, body.next()).await.expect("it comes");
            text.push_str(std::str::from_utf8(&read.unwrap().unwrap()).unwrap());
        }
        text
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_says_up_to_where_everything_was_given() {
        let config = Config::new("a", Arc::new(MemoryStore::new()) as crate::SharedStore);
        let config = config.network(Network::Memory(MemoryNetwork::new())).clock(Clock::runtime());
        let registry = Registry::join(config.listen(([127, 0, 0, 1], 7001).into())).await.unwrap();
        registry.ready(DEADLINE).await.unwrap();
        let watch = registry.watch(Select::all()).unwrap();
        let actor = seat().await.unwrap();
        let held = registry.register("x", &actor).await.unwrap();
        let text = sent(watch, "\"registered\"").await;
        let token = held.token().0;
        assert!(text.starts_with("event: current\ndata: {\"position\":"), "{text}");
        assert!(text.contains("event: change\n"), "{text}");
        assert!(text.ends_with(&format!("id: {token}\n\n")), "{text}");
        // From there on there is nothing, until something changes.
        let watch = registry.watch_from(Select::all(), held.token()).unwrap();
        let freed = registry.unregister("x").await.unwrap();
        let text = sent(watch, "\"unregistered\"").await;
        assert!(
            text.starts_with("event: change\n") && text.ends_with(&format!("id: {}\n\n", freed.0)),
            "{text}"
        );
    }

    #[test]
    fn whoever_comes_back_says_where_it_was() {
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", id.parse().unwrap());
            last_id(&headers)
        };
        assert_eq!(last_id(&HeaderMap::new()).unwrap(), None);
        assert_eq!(of("17").unwrap(), Some(Position(17)));
        for bad in ["", "x", "-1"] {
            assert_eq!(of(bad).unwrap_err().code, "bad_position");
        }
    }
}
