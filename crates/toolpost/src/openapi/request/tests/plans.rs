//! Plans that are built without a document.

use std::sync::Arc;

use reqwest::Method;
use serde_json::Value;
use url::Url;

use crate::openapi::media_type::MediaKind;
use crate::openapi::plan::{
    BodyContent, OperationPlan, Parameter, ParameterLocation, ParameterSerialization,
    PropertyEncoding, RequestBody, ServiceProtocol, Style,
};
use crate::openapi::request::{PreparedRequest, RequestTemplate};

pub(in crate::openapi) fn plan(path: &str, parameters: Vec<Parameter>) -> OperationPlan {
    OperationPlan {
        method: Method::POST,
        protocol: ServiceProtocol::Http,
        path: path.to_owned(),
        servers: Arc::from([]),
        parameters,
        body: None,
        responses: Vec::new(),
        security: Arc::from([]),
    }
}

pub(in crate::openapi) fn styled_parameter(
    name: &str,
    location: ParameterLocation,
    style: Style,
    explode: bool,
) -> Parameter {
    Parameter {
        name: name.to_owned(),
        input: name.to_owned(),
        location,
        required: true,
        serialization: ParameterSerialization::Style { style, explode, allow_reserved: false },
    }
}

pub(in crate::openapi) fn content_parameter(
    name: &str,
    location: ParameterLocation,
    media_type: &str,
) -> Parameter {
    let serialization = ParameterSerialization::Content(media_type.to_owned());
    Parameter { serialization, ..styled_parameter(name, location, Style::Form, true) }
}

pub(in crate::openapi) fn with_reserved_allowed(mut parameter: Parameter) -> Parameter {
    if let ParameterSerialization::Style { allow_reserved, .. } = &mut parameter.serialization {
        *allow_reserved = true;
    }
    parameter
}

pub(in crate::openapi) fn body_content(
    media_type: &str,
    kind: MediaKind,
    encodings: Vec<PropertyEncoding>,
) -> BodyContent {
    BodyContent { media_type: media_type.to_owned(), kind, encodings }
}

pub(in crate::openapi) fn with_body(required: bool, contents: Vec<BodyContent>) -> OperationPlan {
    let body = RequestBody { input: "body".to_owned(), required, contents };
    OperationPlan { body: Some(body), ..plan("/b", Vec::new()) }
}

pub(in crate::openapi) fn default_encoding(property: &str) -> PropertyEncoding {
    PropertyEncoding {
        property: property.to_owned(),
        content_type: None,
        headers: Vec::new(),
        style: None,
        is_binary: false,
    }
}

/// Fills the request of a plan. The error is the path and message of the issue.
pub(in crate::openapi) fn fill_request(
    plan: OperationPlan,
    server: &Url,
    input: &Value,
) -> Result<PreparedRequest, (String, String)> {
    let template = RequestTemplate::new(Arc::new(plan), server).unwrap();
    template.fill(input).map_err(|error| {
        assert_eq!(error.code().as_str(), "VALIDATION_ERROR");
        let issue = &error.details().unwrap()[0];
        let text = |name: &str| issue[name].as_str().unwrap().to_owned();
        (text("path"), text("message"))
    })
}
