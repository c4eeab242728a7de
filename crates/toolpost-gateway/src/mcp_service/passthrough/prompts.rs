//! Prompts and completions, routed to a source by name.

use serde_json::{Map, Value, json};

use toolpost::json_rpc::RpcError;

use super::qualified_name::NameForm;
use super::result_hints::{self, ResultHints};
use super::source_methods::{route, source_methods};
use super::{COMPLETE, PROMPT, Passthrough, string_param};

/// The result for a source that does not support completion.
const EMPTY_COMPLETION: &str = r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;

impl Passthrough<'_> {
    pub(super) async fn get_prompt(
        &self,
        mut params: Map<String, Value>,
    ) -> Result<Vec<u8>, RpcError> {
        let name = string_param(&params, "name")?.to_owned();
        let sources = source_methods(self.client);
        let with_prompts = sources.iter().filter(|source| source.supports(PROMPT));
        let found = route(with_prompts, NameForm::Name, &name)
            .and_then(|(source, source_name)| Some((source.operation(PROMPT)?, source_name)));
        let Some((operation, source_name)) = found else {
            let name = &name[..name.floor_char_boundary(500)];
            let data = Some(json!({"name": name}));
            let error = RpcError::invalid_params(format!("unknown prompt `{name}`"));
            return Err(RpcError { data, ..error });
        };
        params.insert("name".to_owned(), source_name.into());
        Ok(self.forward(operation, params, None, ResultHints::Complete).await?)
    }

    pub(super) async fn complete(
        &self,
        mut params: Map<String, Value>,
    ) -> Result<Vec<u8>, RpcError> {
        let Some(Value::Object(reference)) = params.get_mut("ref") else {
            return Err(RpcError::invalid_params("`ref` must be an object"));
        };
        let (form, key) = match reference.get("type").and_then(Value::as_str) {
            Some("ref/prompt") => (NameForm::Name, "name"),
            Some("ref/resource") => (NameForm::Uri, "uri"),
            _ => {
                return Err(RpcError::invalid_params(
                    "`ref.type` must be ref/prompt or ref/resource",
                ));
            }
        };
        let Some(Value::String(name)) = reference.get_mut(key) else {
            return Err(RpcError::invalid_params(format!("`ref.{key}` must be a string")));
        };
        let sources = source_methods(self.client);
        let Some((source, source_name)) = route(sources.iter(), form, name) else {
            return Err(RpcError::invalid_params(format!("no source has `{name}`")));
        };
        let Some(operation) = source.operation(COMPLETE) else {
            return Ok(result_hints::adapt_result(
                EMPTY_COMPLETION.into(),
                self.client.generation,
                ResultHints::Complete,
            )?);
        };
        *name = source_name.to_owned();
        Ok(self.forward(operation, params, None, ResultHints::Complete).await?)
    }
}
