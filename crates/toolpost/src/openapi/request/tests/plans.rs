//! Plans without a document.

use std::sync::Arc;

use reqwest::Method;
use serde_json::Value;
use url::Url;

use crate::openapi::plan::{
    Body, Content, ContentKind, Encoding, Language, Notation, Parameter, Plan, Position, Style,
};
use crate::openapi::request::{Prepared, Template};

pub(in crate::openapi) fn plan(path: &str, parameters: Vec<Parameter>) -> Plan {
    Plan {
        method: Method::POST,
        language: Language::Http,
        path: path.to_owned(),
        servers: Arc::from([]),
        parameters,
        body: None,
        responses: Vec::new(),
        security: Arc::from([]),
    }
}

pub(in crate::openapi) fn styled(
    name: &str,
    position: Position,
    style: Style,
    explode: bool,
) -> Parameter {
    Parameter {
        name: name.to_owned(),
        input: name.to_owned(),
        position,
        required: true,
        notation: Notation::Style { style, explode, allow_reserved: false },
    }
}

pub(in crate::openapi) fn content_parameter(
    name: &str,
    position: Position,
    media_type: &str,
) -> Parameter {
    let notation = Notation::Content(media_type.to_owned());
    Parameter { notation, ..styled(name, position, Style::Form, true) }
}

pub(in crate::openapi) fn reserved(mut parameter: Parameter) -> Parameter {
    if let Notation::Style { allow_reserved, .. } = &mut parameter.notation {
        *allow_reserved = true;
    }
    parameter
}

pub(in crate::openapi) fn content(
    media_type: &str,
    kind: ContentKind,
    encodings: Vec<Encoding>,
) -> Content {
    Content { media_type: media_type.to_owned(), kind, encodings }
}

pub(in crate::openapi) fn with_body(required: bool, contents: Vec<Content>) -> Plan {
    let body = Body { input: "body".to_owned(), required, contents };
    Plan { body: Some(body), ..plan("/b", Vec::new()) }
}

pub(in crate::openapi) fn encoding(property: &str) -> Encoding {
    Encoding {
        property: property.to_owned(),
        content_type: None,
        headers: Vec::new(),
        style: None,
        is_binary: false,
    }
}

/// The request of a plan at a server, or the place and the words of the refusal.
pub(in crate::openapi) fn filled(
    plan: Plan,
    server: &Url,
    input: &Value,
) -> Result<Prepared, (String, String)> {
    let template = Template::new(Arc::new(plan), server).unwrap();
    template.fill(input).map_err(|error| {
        assert_eq!(error.code().as_str(), "VALIDATION_ERROR");
        let issue = &error.details().unwrap()[0];
        let text = |name: &str| issue[name].as_str().unwrap().to_owned();
        (text("path"), text("message"))
    })
}
