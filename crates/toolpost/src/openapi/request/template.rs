//! An operation with everything in place but its input.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
};
use serde_json::{Map, Value};
use url::Url;

use super::super::plan::{Parameter, Plan, Position};
use super::accept::accept;
use super::body;
use super::cookie::Cookies;
use super::header;
use super::path::Path;
use super::place::Place;
use super::prepared::Prepared;
use super::query;
use super::value::is_undefined;
use crate::error::CallError;
use crate::schema::Issue;

/// An operation with everything in place but its input.
#[derive(Debug)]
pub(crate) struct Template {
    plan: Arc<Plan>,
    /// The server's address up to its path, without a slash at the end.
    start: String,
    /// The query that the server's address has.
    query: String,
    path: Path,
    /// The address that no input changes, unless it says something in the query.
    fixed: Option<Url>,
    /// What every request has.
    headers: HeaderMap,
    /// Whether the method means a body, so that an absent one has to be said: many services wait for
    /// its length.
    is_bodied: bool,
    /// The names of header parameters, beside their index in the plan.
    names: Vec<(usize, HeaderName)>,
}

/// Why an operation cannot be called, whatever its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the path `{path}` has `{{{name}}}` in it, and there is no parameter of that name")]
    Hole { path: String, name: String },
    #[error("the required parameter `{name}` cannot be the name of a header")]
    HeaderName { name: String },
}

impl Template {
    /// An operation at an address.
    pub(crate) fn new(plan: Arc<Plan>, server: &Url) -> Result<Self, TemplateError> {
        let path = Path::new(&plan.path, &plan.parameters)?;
        let names = header_names(&plan.parameters)?;
        let mut bare = server.clone();
        bare.set_query(None);
        let start = bare.as_str().trim_end_matches('/').to_owned();
        let query = server.query().unwrap_or_default().to_owned();
        let headers = HeaderMap::from_iter([(ACCEPT, accept(&plan.responses))]);
        let is_bodied = [Method::POST, Method::PUT, Method::PATCH].contains(&plan.method);
        let fixed = None;
        let mut template = Self { plan, start, query, path, fixed, headers, is_bodied, names };
        if template.path.is_whole() {
            template.fixed = template.url(&Map::new()).ok();
        }
        Ok(template)
    }

    /// The request for an input, which fits the operation's schema.
    ///
    /// # Errors
    ///
    /// `VALIDATION_ERROR` for what fits the schema and cannot be sent all the same.
    pub(crate) fn fill(&self, input: &Value) -> Result<Prepared, CallError> {
        let nothing = Map::new();
        let input = input.as_object().unwrap_or(&nothing);
        self.prepare(input).map_err(|issue| self.refusal(issue))
    }

    fn prepare(&self, input: &Map<String, Value>) -> Result<Prepared, Issue> {
        let url = self.url(input)?;
        let mut headers = self.headers.clone();
        self.fill_headers(&mut headers, input)?;
        let body = match &self.plan.body {
            Some(body) => body::write(body, input)?,
            None => None,
        };
        let body = body.map(|written| {
            headers.insert(CONTENT_TYPE, written.content_type);
            written.bytes
        });
        if self.is_bodied && body.as_ref().is_none_or(Bytes::is_empty) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(Prepared {
            method: self.plan.method.clone(),
            url,
            headers,
            body,
            secret_headers: Vec::new(),
            secret_parameters: Vec::new(),
        })
    }

    fn url(&self, input: &Map<String, Value>) -> Result<Url, Issue> {
        let is_query = |(index, parameter, _): &(usize, &Parameter, &Value)| {
            matches!(parameter.position, Position::Query | Position::QueryString)
                && !self.path.holds(*index)
        };
        let mut given = self.given(input).filter(is_query).peekable();
        if let (Some(fixed), None) = (&self.fixed, given.peek()) {
            return Ok(fixed.clone());
        }
        let mut address = String::with_capacity(self.start.len() + self.plan.path.len() + 64);
        address.push_str(&self.start);
        if !self.plan.path.starts_with('/') {
            address.push('/');
        }
        self.path.append(&mut address, &self.plan.parameters, input)?;
        let mut query = self.query.clone();
        for (_, parameter, value) in given {
            query::append(&mut query, parameter, value);
        }
        if !query.is_empty() {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(&query);
        }
        Url::parse(&address).map_err(|_| Issue::new("", "the address that it makes is none"))
    }

    fn fill_headers(
        &self,
        headers: &mut HeaderMap,
        input: &Map<String, Value>,
    ) -> Result<(), Issue> {
        let mut cookies = Cookies::default();
        for (index, parameter, value) in self.given(input) {
            match parameter.position {
                Position::Cookie => cookies.add(parameter, value)?,
                Position::Header => {
                    let name = self.header_name(index, parameter)?;
                    let value = header::header(parameter, value)?;
                    if *name == COOKIE {
                        cookies.add_whole(&value);
                    } else {
                        headers.insert(name.clone(), value);
                    }
                }
                _ => {}
            }
        }
        headers.extend(cookies.into_header().map(|cookies| (COOKIE, cookies)));
        Ok(())
    }

    /// The name of a header, if it is one that may be given.
    fn header_name(&self, index: usize, parameter: &Parameter) -> Result<&HeaderName, Issue> {
        let known = self.names.iter().find(|(at, _)| *at == index);
        let reason = match known {
            Some((_, name)) if !header::is_own(name.as_str()) => return Ok(name),
            Some((_, name)) => {
                format!("the header `{name}` is set by whoever sends the request")
            }
            None => format!("`{}` cannot be the name of a header", parameter.name),
        };
        Err(Place::of(&parameter.input).issue(reason))
    }

    /// The parameters that are in the input. What is undefined counts only where something has to be
    /// written.
    fn given<'a>(
        &'a self,
        input: &'a Map<String, Value>,
    ) -> impl Iterator<Item = (usize, &'a Parameter, &'a Value)> {
        let parameters = self.plan.parameters.iter().enumerate();
        parameters.filter_map(|(index, parameter)| {
            let value = input.get(&parameter.input)?;
            (parameter.required || !is_undefined(value)).then_some((index, parameter, value))
        })
    }

    fn refusal(&self, issue: Issue) -> CallError {
        let (method, path) = (&self.plan.method, &self.plan.path);
        let message = format!("the input of {method} {path} cannot be sent: {issue}");
        CallError::validation(message, &[issue]).before_sending()
    }
}

/// The names of all headers; one that is none is in the way only where it has to be there.
fn header_names(parameters: &[Parameter]) -> Result<Vec<(usize, HeaderName)>, TemplateError> {
    let headers = parameters.iter().enumerate().filter(|(_, one)| one.position == Position::Header);
    let named = headers.filter_map(|(index, parameter)| match parameter.name.parse() {
        Ok(name) => Some(Ok((index, name))),
        Err(_) if !parameter.required => None,
        Err(_) => Some(Err(TemplateError::HeaderName { name: parameter.name.clone() })),
    });
    named.collect()
}
