//! Bodies and queries of requests. What is wrong with one is answered as a [`HttpRefusal`].

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::HttpRefusal;

/// A JSON body; what is wrong with it is answered in JSON, too.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = HttpRefusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, HttpRefusal> {
        Ok(Self(Json::from_request(request, state).await?.0))
    }
}

/// No body, or one without any field.
#[derive(Debug)]
pub struct Nothing;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = HttpRefusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, HttpRefusal> {
        let body = Bytes::from_request(request, state).await;
        // [`access`](super::access) has read it already.
        let body = body.map_err(|error| HttpRefusal::usage("bad_body", error.body_text()))?;
        if !body.trim_ascii().is_empty() {
            let read = serde_json::from_slice::<NoFields>(&body);
            read.map_err(|error| HttpRefusal::usage("bad_body", format!("nothing is expected: {error}")))?;
        }
        Ok(Self)
    }
}

/// A query; what is wrong with it is answered in JSON.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = HttpRefusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpRefusal> {
        Ok(Self(axum::extract::Query::from_request_parts(parts, state).await?.0))
    }
}

impl From<axum::extract::rejection::JsonRejection> for HttpRefusal {
    fn from(error: axum::extract::rejection::JsonRejection) -> Self {
        Self::usage("bad_body", error.body_text())
    }
}

impl From<axum::extract::rejection::QueryRejection> for HttpRefusal {
    fn from(error: axum::extract::rejection::QueryRejection) -> Self {
        Self::usage("bad_query", error.body_text())
    }
}
