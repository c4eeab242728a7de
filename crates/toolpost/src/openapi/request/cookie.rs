//! Cookies: all of them are one header.

use reqwest::header::HeaderValue;
use serde_json::Value;

use super::super::plan::{Notation, Parameter, Style};
use super::escape::Escape;
use super::header::sendable;
use super::place::Place;
use super::query::content;
use super::style::Manner;
use crate::schema::Issue;

/// The cookies of one request.
#[derive(Debug, Default)]
pub(super) struct Cookies(String);

impl Cookies {
    pub(super) fn add(&mut self, parameter: &Parameter, value: &Value) -> Result<(), Issue> {
        let place = Place::of(&parameter.input);
        let (escape, style, explode) = match &parameter.notation {
            Notation::Content(media_type) => {
                let text = content(media_type, value, Escape::All);
                return self.push(&name(&parameter.name), &text).map_err(|it| place.issue(it));
            }
            Notation::Style { style: Style::Cookie, explode, .. } => {
                (Escape::Nothing, Style::Cookie, *explode)
            }
            Notation::Style { style, explode, .. } => (Escape::All, *style, *explode),
        };
        let mut outcome = Ok(());
        Manner { style, explode, escape }.pairs(&parameter.name, value, |name, value| {
            let added = self.push(name, value);
            outcome = std::mem::replace(&mut outcome, Ok(())).and(added);
        });
        outcome.map_err(|reason| place.issue(reason))
    }

    /// What a header parameter named `Cookie` holds, which is any number of them.
    pub(super) fn add_whole(&mut self, cookies: &HeaderValue) {
        let cookies = cookies.to_str().unwrap_or_default();
        self.0.push_str(if self.0.is_empty() || cookies.is_empty() { "" } else { "; " });
        self.0.push_str(cookies);
    }

    pub(super) fn into_header(self) -> Option<HeaderValue> {
        let header = HeaderValue::from_str(&self.0).expect("each of them was looked at");
        (!self.0.is_empty()).then_some(header)
    }

    fn push(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        if [name, value].iter().any(|text| text.contains(';')) || name.contains('=') {
            return Err("a cookie holds no `;`, and its name no `=`; give it escaped");
        }
        sendable(name).and(sendable(value)).map_err(|_| {
            "a cookie carries only ASCII without control characters, and no white space around it; \
             give it escaped"
        })?;
        self.0.push_str(if self.0.is_empty() { "" } else { "; " });
        self.0.extend([name, "=", value]);
        Ok(())
    }
}

fn name(name: &str) -> String {
    let mut out = String::new();
    Escape::All.push(&mut out, name);
    out
}
