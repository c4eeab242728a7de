//! An operation: its spec, its handler and its result policy.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::AccessControl;
use crate::handler::{Handler, IntoOnceHandler, IntoStreamHandler};
use crate::schema::{Extras, Schema};
use crate::spec::{ErrorDefinition, IdError, OperationId, OperationKind, OperationSpec};

/// An operation: its spec, its handler and its result policy.
///
/// ```
/// use toolpost::{HandlerError, Operation};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Sum { sum: i64 }
///
/// async fn add(input: Add) -> Result<Sum, HandlerError> {
///     Ok(Sum { sum: input.a + input.b })
/// }
///
/// let operation = Operation::query("demo.add", add).description("Adds two numbers").build()?;
/// assert_eq!(operation.spec().input_schema.json()["required"][0], "a");
/// # Ok::<_, toolpost::OperationError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Operation {
    id: OperationId,
    spec: Arc<OperationSpec>,
    handler: Option<Handler>,
    policy: ResultPolicy,
    /// Whether the output schema is derived from the Rust type that the handler returns.
    has_typed_output: bool,
    /// Whether the source of the operation is disconnected. The operation stays listed, but calls
    /// to it fail immediately.
    offline: bool,
    source: Option<Arc<OperationSource>>,
}

/// The source of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationSource {
    /// Kind of the source.
    pub kind: SourceKind,
    /// Name of the source.
    pub name: Arc<str>,
}

/// Kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// An MCP server.
    Mcp,
    /// An HTTP service with an OpenAPI document.
    OpenApi,
    /// A process that is connected to the hub.
    Spoke,
    /// Another hub.
    Hub,
}

/// Handler timeout, and how outputs that do not match their schema are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ResultPolicy {
    /// How an output that does not match its schema is handled.
    pub output: OutputPolicy,
    /// How properties that no schema declares are handled.
    pub extras: Extras,
    /// Maximum duration of the handler; the caller's deadline applies if it is earlier. Does not
    /// apply to subscriptions.
    pub timeout: Option<Duration>,
}

/// How an output that does not match its schema is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum OutputPolicy {
    /// Repairs the output without inventing values. Remaining mismatches are warnings.
    #[default]
    Normalize,
    /// Repairs the output like TypeBox, which also invents values.
    #[cfg(feature = "typebox-cast")]
    Cast,
    /// Like `Normalize`, but a remaining mismatch fails the call.
    Enforce,
    /// Neither validates nor changes the output.
    Raw,
}

/// Error returned when an operation cannot be built or registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The operation id is invalid.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The handler does not match the kind: queries and mutations return one value, subscriptions a
    /// stream.
    #[error("{id} is a {kind}, but its handler {handler}", kind = .kind.as_str())]
    HandlerMismatch {
        /// Id of the operation.
        id: OperationId,
        /// Declared kind of the operation.
        kind: OperationKind,
        /// What the handler does, for the error message.
        handler: &'static str,
    },
    /// An operation with this id is already registered.
    #[error("{0} is already registered; use `replace` or choose another id")]
    Duplicate(OperationId),
}

impl Operation {
    /// Builds a query from an `async fn`; the schemas are derived from its types.
    pub fn query<M>(id: &str, handler: impl IntoOnceHandler<M>) -> OperationBuilder {
        Self::once(id, OperationKind::Query, handler)
    }

    /// Builds a mutation from an `async fn`; the schemas are derived from its types.
    pub fn mutation<M>(id: &str, handler: impl IntoOnceHandler<M>) -> OperationBuilder {
        Self::once(id, OperationKind::Mutation, handler)
    }

    /// Builds a subscription from a function that returns a stream; the schemas are derived from
    /// its types.
    pub fn subscription<M>(id: &str, handler: impl IntoStreamHandler<M>) -> OperationBuilder {
        let (handler, input, output) = handler.into_handler();
        let builder = OperationBuilder::new(id, OperationKind::Subscription);
        builder.typed(input, output).handler(Handler::Stream(handler))
    }

    /// Builds an operation from an existing spec. Without a handler it can be listed but not
    /// called.
    pub fn from_spec(spec: OperationSpec) -> OperationBuilder {
        let (policy, has_typed_output) = Default::default();
        OperationBuilder { id: spec.id(), spec, handler: None, policy, has_typed_output }
    }

    fn once<M>(
        id: &str,
        kind: OperationKind,
        handler: impl IntoOnceHandler<M>,
    ) -> OperationBuilder {
        let (handler, input, output) = handler.into_handler();
        OperationBuilder::new(id, kind).typed(input, output).handler(Handler::Once(handler))
    }

    /// Returns the id, `namespace.name`.
    pub fn id(&self) -> &OperationId {
        &self.id
    }

    /// Returns the spec: id, kind, schemas and access control.
    pub fn spec(&self) -> &OperationSpec {
        &self.spec
    }

    /// Returns the handler; `None` if only the spec is known.
    pub fn handler(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }

    /// Returns the result policy.
    pub fn policy(&self) -> ResultPolicy {
        self.policy
    }

    /// Whether the operation is local and its output schema is derived from the Rust type of its
    /// output. Data that does not match such a schema is a defect of this program.
    pub(crate) fn is_local_typed(&self) -> bool {
        self.has_typed_output && self.source.is_none()
    }

    /// Whether the source of the operation is disconnected, so that calls fail.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether the input or output schema marks secrets. Error messages of such an operation may
    /// contain secrets too.
    pub fn has_secrets(&self) -> bool {
        let OperationSpec { input_schema, output_schema, .. } = &*self.spec;
        [input_schema, output_schema].iter().any(|schema| !schema.secrets().is_empty())
    }

    /// Returns the source; `None` for a local operation.
    pub fn source(&self) -> Option<&OperationSource> {
        self.source.as_deref()
    }

    /// Returns the name of the spoke or hub that calls are forwarded to, if any. That peer creates
    /// the envelopes.
    pub fn via(&self) -> Option<&str> {
        let source = self.source()?;
        matches!(source.kind, SourceKind::Spoke | SourceKind::Hub).then_some(&*source.name)
    }

    /// Sets the source.
    #[must_use]
    pub(crate) fn with_source(mut self, source: &Arc<OperationSource>) -> Self {
        self.source = Some(Arc::clone(source));
        self
    }

    /// Replaces the access control and the approval requirement.
    #[must_use]
    pub fn with_access(mut self, access: AccessControl, approval: bool) -> Self {
        let spec = Arc::make_mut(&mut self.spec);
        (spec.access_control, spec.approval) = (access, approval);
        self
    }

    /// Marks the operation as offline or online.
    #[must_use]
    pub fn with_offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }
}

/// Builder for an [`Operation`]. [`OperationBuilder::build`] validates it.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct OperationBuilder {
    id: Result<OperationId, IdError>,
    spec: OperationSpec,
    handler: Option<Handler>,
    policy: ResultPolicy,
    has_typed_output: bool,
}

impl OperationBuilder {
    fn new(id: &str, kind: OperationKind) -> Self {
        let id = id.parse::<OperationId>();
        // An invalid id is reported by `build`, so that the builder methods can be chained.
        let placeholder = || OperationId::new("unnamed", "unnamed").expect("a valid literal id");
        let spec = OperationSpec::new(&id.clone().unwrap_or_else(|_| placeholder()), kind);
        let (policy, has_typed_output) = Default::default();
        Self { id, spec, handler: None, policy, has_typed_output }
    }

    /// Sets the schemas of the Rust types of a handler.
    fn typed(mut self, input: Schema, output: Schema) -> Self {
        self = self.schemas(input, output);
        self.has_typed_output = true;
        self
    }

    /// Sets the handler.
    pub fn handler(mut self, handler: Handler) -> Self {
        self.handler = Some(handler);
        self
    }

    /// Sets the input and output schemas. Replaces schemas derived from Rust types.
    pub fn schemas(mut self, input: Schema, output: Schema) -> Self {
        self.spec.input_schema = input;
        self.spec.output_schema = output;
        self.has_typed_output = false;
        self
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// Sets the description that users and models see.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = description.into();
        self
    }

    /// Sets the semantic version, which is not part of the id.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.spec.version = version.into();
        self
    }

    /// Adds a tag, which is included in search.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.spec.tags.push(tag.into());
        self
    }

    /// Sets additional metadata from the source.
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.spec.meta = Some(meta.into());
        self
    }

    /// Declares an error that the operation can return.
    pub fn raises(mut self, error: ErrorDefinition) -> Self {
        self.spec.error_schemas.push(error);
        self
    }

    /// Sets the access control for calls from endpoints.
    pub fn access(mut self, access: AccessControl) -> Self {
        self.spec.access_control = access;
        self
    }

    /// Requires approval before each call runs.
    pub fn needs_approval(mut self) -> Self {
        self.spec.approval = true;
        self
    }

    /// Makes the operation exclusive: its calls run one at a time.
    pub fn exclusive(mut self) -> Self {
        self.spec.exclusive = true;
        self
    }

    /// Declares that repeating a call has no further effect.
    pub fn idempotent(mut self) -> Self {
        self.spec.idempotent = true;
        self
    }

    /// Declares that the result is short text if `full` is false in the input. See
    /// [`OperationSpec::summarizes`].
    pub fn summarizes(mut self) -> Self {
        self.spec.summarizes = true;
        self
    }

    /// Sets the result policy.
    pub fn policy(mut self, policy: ResultPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Checks that the id is valid and that the handler supports the operation's kind, and builds
    /// the operation.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Id`] or [`OperationError::HandlerMismatch`].
    pub fn build(self) -> Result<Operation, OperationError> {
        let id = self.id?;
        if let Some(handler) = self.handler.as_ref().filter(|h| !h.supports(self.spec.kind)) {
            let handler = match handler {
                Handler::Once(_) => "returns a single value",
                Handler::Stream(_) => "streams",
            };
            return Err(OperationError::HandlerMismatch { id, kind: self.spec.kind, handler });
        }
        let Self { handler, policy, has_typed_output, .. } = self;
        let spec = Arc::new(self.spec);
        let (offline, source) = (false, None);
        Ok(Operation { id, spec, handler, policy, has_typed_output, offline, source })
    }
}

impl ResultPolicy {
    /// Creates a result policy with this output policy. Undeclared properties are removed.
    pub fn new(output: OutputPolicy) -> Self {
        Self { output, extras: Extras::Strip, timeout: None }
    }

    /// Keeps properties that the schema does not declare.
    #[must_use]
    pub fn keep_extras(mut self) -> Self {
        self.extras = Extras::Keep;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handler::HandlerOutput;

    fn once() -> Handler {
        Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)))
    }

    fn stream() -> Handler {
        Handler::stream_fn(|_, input| {
            futures::stream::iter([Ok::<_, crate::HandlerError>(HandlerOutput::Dynamic(input))])
        })
    }

    #[test]
    fn build_rejects_handler_of_wrong_kind() {
        let rows = [
            (OperationKind::Query, once(), true),
            (OperationKind::Mutation, once(), true),
            (OperationKind::Subscription, once(), false),
            (OperationKind::Query, stream(), false),
            (OperationKind::Mutation, stream(), false),
            (OperationKind::Subscription, stream(), true),
        ];
        for (kind, handler, fits) in rows {
            let row = format!("{kind:?} {handler:?}");
            let spec = OperationSpec::new(&"demo.x".parse().unwrap(), kind);
            assert_eq!(Operation::from_spec(spec).handler(handler).build().is_ok(), fits, "{row}");
        }
    }

    #[test]
    fn builder_derives_schemas_from_types() {
        let operation = Operation::query("demo.len", async |text: String| {
            Ok::<_, crate::HandlerError>(text.len())
        });
        let spec = operation.build().unwrap();
        assert_eq!(spec.spec().input_schema.json()["type"], json!("string"));
        assert_eq!(spec.spec().output_schema.json()["type"], json!("integer"));
    }

    #[test]
    fn build_rejects_invalid_id() {
        let result = Operation::query("demo", async |(): ()| Ok::<_, crate::HandlerError>(()));
        assert_eq!(
            result.build().unwrap_err(),
            OperationError::Id(IdError::MissingDot("demo".into()))
        );
    }
}
