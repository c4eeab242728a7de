//! Request plans. A plan contains what is needed to build the request of an operation and to decode
//! its response. The importer creates it once, so calls do not read the document.
//!
//! Plans are the only interface between the importer and the handler.

use std::sync::Arc;

use reqwest::Method;
use url::Url;

use super::media_type::MediaKind;
use crate::schema::Schema;

/// Describes how to call an operation over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct OperationPlan {
    pub(crate) method: Method,
    pub(crate) protocol: ServiceProtocol,
    /// Path of the document with its `{names}`, relative to the server URL.
    pub(crate) path: String,
    /// Servers, best first: those of the operation, or of the path, or of the document.
    pub(crate) servers: Arc<[ServerTemplate]>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<RequestBody>,
    pub(crate) responses: Vec<DeclaredResponse>,
    /// Alternative security requirements. An empty list is the same as an empty requirement.
    pub(crate) security: Arc<[SecurityRequirement]>,
}

/// Protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceProtocol {
    /// Requests and responses as declared in the document.
    Http,
    /// Another gateway: inputs, envelopes and errors are passed unchanged.
    Toolpost,
}

/// A server URL with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerTemplate {
    /// URL as declared in the document. A relative URL is resolved against `base`.
    pub(crate) url: String,
    /// URL of the document, if it is HTTP or HTTPS.
    pub(crate) base: Option<Url>,
    /// Variables with their names, defaults and allowed values. An empty list allows any value.
    pub(crate) variables: Vec<ServerVariable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerVariable {
    pub(crate) name: String,
    pub(crate) default: String,
    pub(crate) allowed: Vec<String>,
}

/// An input property that is sent as a parameter of the request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// Name in the request.
    pub(crate) name: String,
    /// Name of the input property. It differs from `name` if names would conflict.
    pub(crate) input: String,
    pub(crate) location: ParameterLocation,
    pub(crate) required: bool,
    pub(crate) serialization: ParameterSerialization,
}

/// Location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    /// The whole query string as one value (OpenAPI 3.2), serialized as a media type.
    QueryString,
    Header,
    Cookie,
}

impl ParameterLocation {
    const ALL: [Self; 5] = [Self::Path, Self::Query, Self::QueryString, Self::Header, Self::Cookie];

    /// Returns the name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::QueryString => "querystring",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|location| location.name() == name)
    }
}

/// How a parameter value is serialized.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParameterSerialization {
    Style {
        style: Style,
        explode: bool,
        /// Whether reserved URL characters are sent without escaping.
        allow_reserved: bool,
    },
    /// Serialized as this media type.
    Content(String),
}

/// Serialization styles of OpenAPI 3, and those that only Swagger 2.0 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Matrix,
    Label,
    Simple,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    /// OpenAPI 3.2: like `form`, with the separator and escaping of cookies.
    Cookie,
    /// `tsv` in Swagger 2.0.
    TabDelimited,
}

/// The request body of an operation.
#[derive(Debug, Clone)]
pub(crate) struct RequestBody {
    /// Name of the input property: `body`, unless that would conflict with a parameter.
    pub(crate) input: String,
    pub(crate) required: bool,
    /// Accepted media types, best first. Never empty.
    pub(crate) contents: Vec<BodyContent>,
}

/// A body of one media type.
#[derive(Debug, Clone)]
pub(crate) struct BodyContent {
    /// Media type as declared. It may be a range such as `image/*`.
    pub(crate) media_type: String,
    pub(crate) kind: MediaKind,
    /// Encodings of form and multipart properties. Others use the default of their kind.
    pub(crate) encodings: Vec<PropertyEncoding>,
}

/// Encoding of one property of a form or multipart body.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PropertyEncoding {
    pub(crate) property: String,
    /// Declared media types. The first is sent, unless a `$binary` value states another.
    pub(crate) content_type: Option<String>,
    /// Headers of the part with fixed values: `const`, a single `enum` value or `default`.
    pub(crate) headers: Vec<(String, String)>,
    /// Style, `explode` and `allowReserved`, if declared. `content_type` is then ignored.
    pub(crate) style: Option<(Style, bool, bool)>,
    /// Whether the schema declares binary data (`format: binary`, `contentEncoding`).
    pub(crate) is_binary: bool,
}

/// A response that the document declares.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredResponse {
    pub(crate) status: StatusRange,
    /// Declared media types with their schemas.
    pub(crate) contents: Vec<ResponseContent>,
    /// Error code of the response. Set only for error responses.
    pub(crate) code: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
pub(crate) struct ResponseContent {
    pub(crate) media_type: String,
    pub(crate) schema: Schema,
}

/// Status of a declared response: `200`, `2XX` or `default`. The narrowest match is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusRange {
    Exactly(u16),
    /// First digit of the status.
    Class(u16),
    Default,
}

impl StatusRange {
    /// Whether the range contains only success statuses.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exactly(200..=299) | Self::Class(2))
    }
}

/// Security schemes that must all be satisfied.
pub(crate) type SecurityRequirement = Vec<SchemeRequirement>;

/// One scheme of a security requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemeRequirement {
    /// Name of the scheme in the document, which is also its configuration key.
    pub(crate) name: String,
    pub(crate) scheme: Arc<SecurityScheme>,
    pub(crate) scopes: Vec<String>,
}

/// How a credential is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecurityScheme {
    Basic,
    Bearer,
    /// Another `Authorization` scheme by name, such as `digest`.
    OtherHttp(String),
    ApiKey {
        location: ParameterLocation,
        name: String,
    },
    OAuth2 {
        token_url: Option<Url>,
    },
    OpenIdConnect,
    MutualTls,
    /// A scheme type that is not supported.
    Unknown(String),
}
