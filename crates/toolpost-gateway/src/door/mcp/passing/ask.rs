//! Prompts and completions: the name says which source is asked.

use serde_json::{Map, Value};

use super::Fault;
use super::name::Form;
use super::object::{self, Hints};
use super::offer;
use super::{COMPLETE, PROMPT, Passing, text_in};

/// What a source that completes nothing would say.
const NO_COMPLETION: &str = r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;

impl Passing<'_> {
    pub(super) async fn prompt(&self, mut params: Map<String, Value>) -> Result<Vec<u8>, Fault> {
        let name = text_in(&params, "name")?.to_owned();
        let offers = self.offers();
        let offering = offers.iter().filter(|offer| offer.has(PROMPT));
        let found = offer::route(offering, Form::Name, &name)
            .and_then(|(offer, own)| Some((offer.operation(PROMPT)?, own)));
        let Some((operation, own)) = found else { return Err(Fault::unknown_prompt(&name)) };
        params.insert("name".to_owned(), own.into());
        Ok(self.pass(operation, params, None, Hints::Complete).await?)
    }

    pub(super) async fn complete(&self, mut params: Map<String, Value>) -> Result<Vec<u8>, Fault> {
        let Some(Value::Object(reference)) = params.get_mut("ref") else {
            return Err(Fault::invalid_params("`ref` must be an object"));
        };
        let (form, key) = match reference.get("type").and_then(Value::as_str) {
            Some("ref/prompt") => (Form::Name, "name"),
            Some("ref/resource") => (Form::Address, "uri"),
            _ => {
                return Err(Fault::invalid_params("`ref.type` must be ref/prompt or ref/resource"));
            }
        };
        let Some(Value::String(name)) = reference.get_mut(key) else {
            return Err(Fault::invalid_params(format!("`ref.{key}` must be a text")));
        };
        let offers = self.offers();
        let Some((offer, own)) = offer::route(offers.iter(), form, name) else {
            return Err(Fault::invalid_params(format!("no source here has `{name}`")));
        };
        let Some(operation) = offer.operation(COMPLETE) else {
            return Ok(object::result(NO_COMPLETION.into(), self.era, Hints::Complete)?);
        };
        *name = own.to_owned();
        Ok(self.pass(operation, params, None, Hints::Complete).await?)
    }
}
