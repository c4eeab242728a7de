//! What becomes of one operation of a document: everything that making its request and reading its
//! answer need, settled once, so that a call looks nothing up in the document.
//!
//! The importer writes plans, the caller follows them, and neither knows the other.

use std::sync::Arc;

use reqwest::Method;
use url::Url;

use crate::schema::Schema;

/// How an operation is called over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct OperationPlan {
    pub(crate) method: Method,
    pub(crate) protocol: ServiceProtocol,
    /// The path as the document has it, with its `{names}`; it goes behind a server's address.
    pub(crate) path: String,
    /// Where it may be called, best first; the operation's own, else the path's, else the document's.
    pub(crate) servers: Arc<[ServerTemplate]>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<RequestBody>,
    pub(crate) responses: Vec<DeclaredResponse>,
    /// What the caller has to show: any one of these, each of them whole. None is as good as one
    /// that asks for nothing.
    pub(crate) security: Arc<[SecurityRequirement]>,
}

/// What is spoken on the way to a service and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceProtocol {
    /// Requests and answers as the document describes them.
    Http,
    /// Another gateway: the body is the input, and the answer is the envelope or the error, as they are.
    Toolpost,
}

/// An address with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerTemplate {
    /// The address as the document has it; relative ones are relative to `base`.
    pub(crate) url: String,
    /// Where the document was found, if that is an address that can be called.
    pub(crate) base: Option<Url>,
    /// The name of each variable, its default and what it may be (anything, if that is empty).
    pub(crate) variables: Vec<ServerVariable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerVariable {
    pub(crate) name: String,
    pub(crate) default: String,
    pub(crate) allowed: Vec<String>,
}

/// One value of the input that has a place in the request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// Its name in the request.
    pub(crate) name: String,
    /// Its name in the input, which differs where two would clash.
    pub(crate) input: String,
    pub(crate) location: ParameterLocation,
    pub(crate) required: bool,
    pub(crate) serialization: ParameterSerialization,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    /// The whole query as one value (OpenAPI 3.2); its notation is a media type.
    QueryString,
    Header,
    Cookie,
}

/// How a value becomes text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParameterSerialization {
    Style {
        style: Style,
        explode: bool,
        /// Whether characters that mean something in addresses stay as they are.
        allow_reserved: bool,
    },
    /// Written as a document of this media type.
    Content(String),
}

/// The styles of OpenAPI 3; those of Swagger 2.0 that 3 has not are named after what they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Matrix,
    Label,
    Simple,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    /// OpenAPI 3.2: as `form`, joined and written as cookies are.
    Cookie,
    /// Swagger 2.0 `tsv`.
    TabDelimited,
}

/// What is sent behind the head.
#[derive(Debug, Clone)]
pub(crate) struct RequestBody {
    /// Its name in the input: `body`, unless that would clash.
    pub(crate) input: String,
    pub(crate) required: bool,
    /// What it may be sent as, the best first; never empty.
    pub(crate) contents: Vec<BodyContent>,
}

/// A body of one media type.
#[derive(Debug, Clone)]
pub(crate) struct BodyContent {
    /// As the document has it: it may be a range such as `image/*`.
    pub(crate) media_type: String,
    pub(crate) kind: ContentKind,
    /// For forms and parts, how each property is written; those that are not named follow the rules
    /// of their kind.
    pub(crate) encodings: Vec<PropertyEncoding>,
}

/// How the value of a body becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// `application/json` and `+json`.
    Json,
    /// JSON values in a row (`application/jsonl`, `application/x-ndjson`, `application/json-seq`).
    JsonLines,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/*`.
    Multipart,
    /// `text/*` and others that are text, such as XML.
    Text,
    /// Anything else; the value is a `$binary`, or a text in base64.
    Binary,
}

/// How one property of a form or of a multipart body is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PropertyEncoding {
    pub(crate) property: String,
    /// The media types that it may have; the first one is sent, unless a `$binary` names another.
    pub(crate) content_type: Option<String>,
    /// Headers of the part; the values are what the document fixes (`const`, `default`, a lone
    /// `enum`, an `example` never).
    pub(crate) headers: Vec<(String, String)>,
    /// Only where the document names a style; `contentType` does not count then.
    pub(crate) style: Option<(Style, bool, bool)>,
    /// Whether the property is bytes by its schema (`format: binary`, `contentEncoding`, no type).
    pub(crate) is_binary: bool,
}

/// What the service may answer with.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredResponse {
    pub(crate) status: StatusRange,
    /// The media types that are declared, with the schemas of what they carry.
    pub(crate) contents: Vec<ResponseContent>,
    /// The code of the error that is raised with it; only for answers that are no success.
    pub(crate) code: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
pub(crate) struct ResponseContent {
    pub(crate) media_type: String,
    pub(crate) schema: Schema,
}

/// `200`, `2XX` or `default`; the narrowest that matches counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusRange {
    Exactly(u16),
    /// The first digit.
    Class(u16),
    Default,
}

/// Schemes that have to be satisfied together.
pub(crate) type SecurityRequirement = Vec<SchemeRequirement>;

/// One scheme of a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemeRequirement {
    /// The name of the scheme in the document, by which configuration finds it.
    pub(crate) name: String,
    pub(crate) scheme: Arc<SecurityScheme>,
    pub(crate) scopes: Vec<String>,
}

/// How a secret is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecurityScheme {
    Basic,
    Bearer,
    /// Another scheme of the `Authorization` header, such as `digest`, by its name.
    OtherHttp(String),
    ApiKey {
        location: ParameterLocation,
        name: String,
    },
    /// OAuth 2.0; only the flow `clientCredentials` needs no person.
    OAuth2 {
        token_url: Option<Url>,
        refresh_url: Option<Url>,
        has_client_credentials: bool,
    },
    OpenIdConnect {
        url: Option<Url>,
    },
    MutualTls,
    /// What this version does not know.
    Unknown(String),
}
