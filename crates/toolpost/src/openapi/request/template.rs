//! Request template of an operation, without its input.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
};
use serde_json::{Map, Value};
use url::Url;

use super::super::plan::{OperationPlan, Parameter, ParameterLocation};
use super::accept::accept_header;
use super::body;
use super::cookie::CookieHeader;
use super::header;
use super::path_template::PathTemplate;
use super::prepared::PreparedRequest;
use super::query;
use super::value::is_undefined;
use crate::error::CallError;
use crate::json::{JsonObject, ValuePath};
use crate::schema::Issue;

/// Request template of an operation, without its input.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    plan: Arc<OperationPlan>,
    /// Server URL with its path, without a trailing slash.
    server_prefix: String,
    /// Query of the server URL.
    query: String,
    path: PathTemplate,
    /// Precomputed URL of a path without parameters, for inputs without query parameters.
    static_url: Option<Url>,
    /// Headers of every request.
    headers: HeaderMap,
    /// Whether the method implies a body, so that `Content-Length: 0` is sent without one.
    expects_body: bool,
    /// Names of the header parameters, with their index in the plan.
    header_names: Vec<(usize, HeaderName)>,
}

/// Why an operation cannot be called with any input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the path `{path}` contains `{{{name}}}`, but no parameter has that name")]
    UnknownParameter { path: String, name: String },
    #[error("the required parameter `{name}` is not a valid header name")]
    HeaderName { name: String },
}

impl RequestTemplate {
    /// Creates the template of an operation at a server URL.
    pub(crate) fn new(plan: Arc<OperationPlan>, server: &Url) -> Result<Self, TemplateError> {
        let path = PathTemplate::new(&plan.path, &plan.parameters)?;
        let header_names = header_names(&plan.parameters)?;
        let mut base = server.clone();
        base.set_query(None);
        let server_prefix = base.as_str().trim_end_matches('/').to_owned();
        let query = server.query().unwrap_or_default().to_owned();
        let headers = HeaderMap::from_iter([(ACCEPT, accept_header(&plan.responses))]);
        let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(&plan.method);
        let mut template = Self {
            plan,
            server_prefix,
            query,
            path,
            static_url: None,
            headers,
            expects_body,
            header_names,
        };
        if template.path.is_literal() {
            template.static_url = template.url(&Map::new()).ok();
        }
        Ok(template)
    }

    /// Builds the request for an input that is valid against the schema of the operation.
    pub(crate) fn fill(&self, input: &Value) -> Result<PreparedRequest, CallError> {
        let nothing = Map::new();
        let input = input.as_object().unwrap_or(&nothing);
        self.prepare(input).map_err(|issue| self.input_error(issue))
    }

    fn prepare(&self, input: &JsonObject) -> Result<PreparedRequest, Issue> {
        let url = self.url(input)?;
        let mut headers = self.headers.clone();
        self.fill_headers(&mut headers, input)?;
        let body = match &self.plan.body {
            Some(body) => body::encode_body(body, input)?,
            None => None,
        };
        let body = body.map(|written| {
            headers.insert(CONTENT_TYPE, written.content_type);
            written.bytes
        });
        if self.expects_body && body.as_ref().is_none_or(Bytes::is_empty) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let method = self.plan.method.clone();
        Ok(PreparedRequest { method, headers, body, ..PreparedRequest::get(url) })
    }

    fn url(&self, input: &JsonObject) -> Result<Url, Issue> {
        let is_query = |(index, parameter, _): &(usize, &Parameter, &Value)| {
            matches!(parameter.location, ParameterLocation::Query | ParameterLocation::QueryString)
                && !self.path.contains(*index)
        };
        let mut given = self.present_parameters(input).filter(is_query).peekable();
        if let (Some(fixed), None) = (&self.static_url, given.peek()) {
            return Ok(fixed.clone());
        }
        let mut url_text =
            String::with_capacity(self.server_prefix.len() + self.plan.path.len() + 64);
        url_text.push_str(&self.server_prefix);
        if !self.plan.path.starts_with('/') {
            url_text.push('/');
        }
        self.path.append(&mut url_text, &self.plan.parameters, input)?;
        let mut query = self.query.clone();
        for (_, parameter, value) in given {
            query::append_parameter(&mut query, parameter, value)?;
        }
        if !query.is_empty() {
            url_text.push(if url_text.contains('?') { '&' } else { '?' });
            url_text.push_str(&query);
        }
        Url::parse(&url_text).map_err(|_| Issue::new("", "the resulting URL is invalid"))
    }

    fn fill_headers(&self, headers: &mut HeaderMap, input: &JsonObject) -> Result<(), Issue> {
        let mut cookies = CookieHeader::default();
        for (index, parameter, value) in self.present_parameters(input) {
            match parameter.location {
                ParameterLocation::Cookie => cookies.add(parameter, value)?,
                ParameterLocation::Header => {
                    let name = self.header_name(index, parameter)?;
                    let value = header::encode_header(parameter, value)?;
                    if *name == COOKIE {
                        cookies.add_header(&value);
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

    /// Returns the name of a header parameter. Fails if the name is invalid or reserved.
    fn header_name(&self, index: usize, parameter: &Parameter) -> Result<&HeaderName, Issue> {
        let known = self.header_names.iter().find(|(at, _)| *at == index);
        let reason = match known {
            Some((_, name)) if !header::is_reserved(name.as_str()) => return Ok(name),
            Some((_, name)) => {
                format!("the header `{name}` is set by the HTTP client")
            }
            None => format!("`{}` is not a valid header name", parameter.name),
        };
        Err(ValuePath::ROOT.member(&parameter.input).issue(reason))
    }

    /// Returns the parameters that the input sets, and undefined required ones.
    fn present_parameters<'a>(
        &'a self,
        input: &'a JsonObject,
    ) -> impl Iterator<Item = (usize, &'a Parameter, &'a Value)> {
        let parameters = self.plan.parameters.iter().enumerate();
        parameters.filter_map(|(index, parameter)| {
            let value = input.get(&parameter.input)?;
            (parameter.required || !is_undefined(value)).then_some((index, parameter, value))
        })
    }

    fn input_error(&self, issue: Issue) -> CallError {
        let (method, path) = (&self.plan.method, &self.plan.path);
        let message = format!("the input of {method} {path} cannot be sent: {issue}");
        CallError::validation(message, &[issue]).not_sent()
    }
}

/// Parses the header names. Only an invalid name of a required parameter is an error.
fn header_names(parameters: &[Parameter]) -> Result<Vec<(usize, HeaderName)>, TemplateError> {
    let headers =
        parameters.iter().enumerate().filter(|(_, one)| one.location == ParameterLocation::Header);
    let indexed_names = headers.filter_map(|(index, parameter)| match parameter.name.parse() {
        Ok(name) => Some(Ok((index, name))),
        Err(_) if !parameter.required => None,
        Err(_) => Some(Err(TemplateError::HeaderName { name: parameter.name.clone() })),
    });
    indexed_names.collect()
}
