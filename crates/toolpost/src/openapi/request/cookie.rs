//! The `Cookie` header, which contains all cookies of a request.

use reqwest::header::HeaderValue;
use serde_json::Value;

use super::super::plan::{Parameter, ParameterSerialization, Style};
use super::binary::parameter_bytes;
use super::escape::PercentEscape;
use super::header::to_header_value;
use super::query::encode_content;
use super::style::ValueSerializer;
use crate::json::ValuePath;
use crate::schema::Issue;

/// Value of the `Cookie` header of one request.
#[derive(Debug, Default)]
pub(super) struct CookieHeader(String);

impl CookieHeader {
    pub(super) fn add(&mut self, parameter: &Parameter, value: &Value) -> Result<(), Issue> {
        let input_path = ValuePath::ROOT.member(&parameter.input);
        if let Some(bytes) = parameter_bytes(parameter, value)? {
            let mut escaped = String::new();
            PercentEscape::All.push_bytes(&mut escaped, &bytes);
            return self
                .push(&PercentEscape::All.escaped(&parameter.name), &escaped)
                .map_err(|reason| input_path.issue(reason));
        }
        let (escape, style, explode) = match &parameter.serialization {
            ParameterSerialization::Content(media_type) => {
                let text = encode_content(media_type, value, PercentEscape::All);
                return self
                    .push(&PercentEscape::All.escaped(&parameter.name), &text)
                    .map_err(|it| input_path.issue(it));
            }
            ParameterSerialization::Style { style: Style::Cookie, explode, .. } => {
                (PercentEscape::None, Style::Cookie, *explode)
            }
            ParameterSerialization::Style { style, explode, .. } => {
                (PercentEscape::All, *style, *explode)
            }
        };
        let mut outcome = Ok(());
        ValueSerializer { style, explode, escape }.for_each_pair(
            &parameter.name,
            value,
            |name, value| {
                let added = self.push(name, value);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(added);
            },
        );
        outcome.map_err(|reason| input_path.issue(reason))
    }

    /// Adds the value of a header parameter named `Cookie`, which may contain several cookies.
    pub(super) fn add_header(&mut self, cookies: &HeaderValue) {
        let cookies = cookies.to_str().unwrap_or_default();
        self.0.push_str(if self.0.is_empty() || cookies.is_empty() { "" } else { "; " });
        self.0.push_str(cookies);
    }

    pub(super) fn into_header(self) -> Option<HeaderValue> {
        let header = HeaderValue::from_str(&self.0).expect("cookies were validated");
        (!self.0.is_empty()).then_some(header)
    }

    fn push(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        if [name, value].iter().any(|text| text.contains(';')) || name.contains('=') {
            return Err(
                "a cookie cannot contain `;`, and its name cannot contain `=`; escape them",
            );
        }
        to_header_value(name).and(to_header_value(value)).map_err(|_| {
            "a cookie must be ASCII without control characters and surrounding white space; escape \
             it"
        })?;
        self.0.push_str(if self.0.is_empty() { "" } else { "; " });
        self.0.extend([name, "=", value]);
        Ok(())
    }
}
