//! Bodies and queries of requests. What is wrong with one is answered as a [`Refusal`].

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::reply::Refusal;

/// A JSON body; what is wrong with it is answered in JSON, too.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Ok(Self(Json::from_request(request, state).await?.0))
    }
}

/// No body, or one without any field.
pub(super) struct Nothing;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let body = Bytes::from_request(request, state).await;
        // [`access`](super::access) has read it already.
        let body = body.map_err(|error| Refusal::usage("bad_body", error.body_text()))?;
        if !body.trim_ascii().is_empty() {
            let read = serde_json::from_slice::<NoFields>(&body);
            read.map_err(|error| Refusal::usage("bad_body", format!("nothing is expected: {error}")))?;
        }
        Ok(Self)
    }
}

/// A query; what is wrong with it is answered in JSON.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Ok(Self(axum::extract::Query::from_request_parts(parts, state).await?.0))
    }
}

impl From<axum::extract::rejection::JsonRejection> for Refusal {
    fn from(error: axum::extract::rejection::JsonRejection) -> Self {
        Self::usage("bad_body", error.body_text())
    }
}

impl From<axum::extract::rejection::QueryRejection> for Refusal {
    fn from(error: axum::extract::rejection::QueryRejection) -> Self {
        Self::usage("bad_query", error.body_text())
    }
}
