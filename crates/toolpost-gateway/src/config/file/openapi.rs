//! `openapi = …` and `auth = { … }` as they are typed.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::DurationText;
use super::mcp::BytesText;

/// The document of an HTTP service: its file or address, or a table that says more.
#[derive(Debug)]
pub(in super::super) struct OpenApiText(pub(in super::super) OpenApiTable);

const DOCUMENT_EXPECTED: &str =
    "a file, an address, or a table such as { document = \"api.yaml\" }";

/// The document of an HTTP service, and how the service is dealt with.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OpenApi")]
pub(in super::super) struct OpenApiTable {
    /// The file, from the folder of this one, or the address `https://…`; JSON or YAML.
    pub(in super::super) document: String,
    /// Where the service is, instead of the servers that the document names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) server: Option<String>,
    /// The variables in the address of the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) server_variables: BTreeMap<String, String>,
    /// Hosts that requests, redirects and references may lead to beside those that the document
    /// names: `"api.example"` or `"127.0.0.1:8080"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) hosts: Vec<String>,
    /// The proxy, `http://…`; that of the environment, if absent, and none for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) proxy: Option<String>,
    /// How long a connection may take to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "10s"))]
    pub(in super::super) connect_timeout: Option<DurationText>,
    /// The largest answer that is taken, in bytes, after it was unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BytesText", extend("default" = 67_108_864))]
    pub(in super::super) response_bytes: Option<BytesText>,
    /// How often a call that is safe to repeat is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", extend("default" = 2, "maximum" = 10))]
    pub(in super::super) retries: Option<u32>,
    /// Whether a stream that breaks off is taken up again behind its last event.
    #[serde(default)]
    pub(in super::super) reconnect: bool,
    /// Whether the document itself is given only to those who show `auth.bearer`, `auth.basic` or
    /// `auth.headers`; they are then sent to where the document is.
    #[serde(default)]
    pub(in super::super) private: bool,
    /// Where the operations of another gateway stand: below the name of this source, or in the
    /// namespaces that they have there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NamespacesText", extend("default" = "below"))]
    pub(in super::super) namespaces: Option<NamespacesText>,
    /// How often the document is looked at again; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub(in super::super) refresh: Option<DurationText>,
}

/// Where the operations of another gateway stand.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Namespaces")]
pub(in super::super) enum NamespacesText {
    Below,
    Keep,
}

/// Without values, since any of them may be a secret.
impl fmt::Debug for OpenApiTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiTable").finish_non_exhaustive()
    }
}

impl OpenApiTable {
    /// A document, and nothing else said.
    pub(in super::super) fn for_document(document: impl Into<String>) -> Self {
        Self {
            document: document.into(),
            server: None,
            server_variables: BTreeMap::new(),
            hosts: Vec::new(),
            proxy: None,
            connect_timeout: None,
            response_bytes: None,
            retries: None,
            reconnect: false,
            private: false,
            namespaces: None,
            refresh: None,
        }
    }
}

impl<'de> Deserialize<'de> for OpenApiText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OpenApiVisitor;
        impl<'de> Visitor<'de> for OpenApiVisitor {
            type Value = OpenApiText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DOCUMENT_EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OpenApiText, E> {
                Ok(OpenApiText(OpenApiTable::for_document(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OpenApiText, A::Error> {
                OpenApiTable::deserialize(MapAccessDeserializer::new(map)).map(OpenApiText)
            }
        }
        deserializer.deserialize_any(OpenApiVisitor)
    }
}

impl JsonSchema for OpenApiText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpenApiDocument".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<OpenApiTable>();
        json_schema!({"anyOf": [{"type": "string"}, table]})
    }
}

/// What is shown to an HTTP service: for whatever it asks for, or for each of the security schemes of
/// its document.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { bearer = \"${TOKEN}\" }")]
#[schemars(rename = "Auth")]
pub(in super::super) struct AuthText {
    /// A token, for `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretText")]
    pub(in super::super) bearer: Option<SecretText>,
    /// A name and a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BasicText")]
    pub(in super::super) basic: Option<BasicText>,
    /// A key, which goes where the document says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretText")]
    pub(in super::super) api_key: Option<SecretText>,
    /// A client that gets its tokens from an authorization server by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClientText")]
    pub(in super::super) oauth2: Option<ClientText>,
    /// The same by the names of the document's security schemes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) schemes: BTreeMap<String, SchemeText>,
    /// Headers that go with every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) headers: BTreeMap<String, SecretText>,
    /// A certificate with its key in PEM, for services that ask for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretText")]
    pub(in super::super) client_certificate: Option<SecretText>,
    /// Whether operations that ask for what is not here are called without it.
    pub(in super::super) anonymous: bool,
}

/// Without values.
impl fmt::Debug for AuthText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthText").finish_non_exhaustive()
    }
}

/// What is shown for one security scheme: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { api_key = \"${KEY}\" }")]
#[schemars(rename = "Scheme")]
pub(in super::super) struct SchemeText {
    /// A token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretText")]
    pub(in super::super) bearer: Option<SecretText>,
    /// A name and a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BasicText")]
    pub(in super::super) basic: Option<BasicText>,
    /// A key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretText")]
    pub(in super::super) api_key: Option<SecretText>,
    /// A client that gets its tokens by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClientText")]
    pub(in super::super) oauth2: Option<ClientText>,
}

impl SchemeText {
    /// How many of them are there.
    pub(in super::super) fn count(&self) -> usize {
        let Self { bearer, basic, api_key, oauth2 } = self;
        let is_there = [bearer.is_some(), basic.is_some(), api_key.is_some(), oauth2.is_some()];
        is_there.into_iter().filter(|is_there| *is_there).count()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { username = \"…\", password = \"…\" }")]
#[schemars(rename = "Basic")]
pub(in super::super) struct BasicText {
    /// The name.
    pub(in super::super) username: String,
    /// The password.
    pub(in super::super) password: SecretText,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { client_id = \"…\", client_secret = \"…\" }"
)]
#[schemars(rename = "OAuth2Client")]
pub(in super::super) struct ClientText {
    /// What the client is called there.
    pub(in super::super) client_id: String,
    /// Its secret.
    pub(in super::super) client_secret: SecretText,
    /// What is asked for; what the document asks for, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) scopes: Vec<String>,
    /// Where tokens are given, instead of where the document says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) token_url: Option<String>,
    /// More to tell the authorization server, such as `audience`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) parameters: BTreeMap<String, String>,
}

/// A secret: the text itself, best as `"${VAR}"`, or `{ file = "…" }`.
pub(in super::super) enum SecretText {
    Text(String),
    File(String),
}

const SECRET_EXPECTED: &str = "a text such as \"${VAR}\", or { file = \"…\" }";

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct FileText {
            file: String,
        }
        struct SecretVisitor;
        impl<'de> Visitor<'de> for SecretVisitor {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SECRET_EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
                Ok(SecretText::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SecretText, A::Error> {
                let read = FileText::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SecretText::File(read.file))
            }
        }
        deserializer.deserialize_any(SecretVisitor)
    }
}

impl JsonSchema for SecretText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"file": {
                    "type": "string",
                    "description": "The file that holds it, from the folder of this one.",
                }},
                "required": ["file"],
                "additionalProperties": false,
            },
        ]})
    }
}
