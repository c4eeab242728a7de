//! An operation: what it says about itself, what runs, and how its results are treated.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::AccessControl;
use crate::handler::{Handler, IntoOnceHandler, IntoStreamHandler};
use crate::schema::{Extras, Schema};
use crate::spec::{ErrorDefinition, IdError, OperationId, OperationKind, OperationSpec};

/// An operation, ready to be registered.
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
    /// Whether whoever runs it is away; it is listed, and its calls fail at once.
    offline: bool,
    /// The name of the spoke or hub that it is forwarded to, which then speaks for its results.
    via: Option<Arc<str>>,
}

/// How long an output may take, and how far the result pipeline goes to make it fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ResultPolicy {
    /// What is done about an output that does not fit.
    pub output: OutputPolicy,
    /// What is done about properties that no schema names.
    pub extras: Extras,
    /// How long the handler may take to answer; the shorter of it and the caller's deadline wins. It
    /// does not bound subscriptions.
    pub timeout: Option<Duration>,
}

/// What is done about an output that does not fit its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutputPolicy {
    /// Repaired without making anything up; what still does not fit is a warning.
    #[default]
    Normalize,
    /// Repaired as TypeBox does, which also makes values up.
    Cast,
    /// As `Normalize`, but what still does not fit fails the call.
    Enforce,
    /// Not looked at.
    Raw,
}

/// Why an operation cannot be made or registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The id is not one.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A handler that answers once cannot stream, nor the other way round.
    #[error("{id} is a {kind}, but its handler {handler}", kind = .kind.as_str())]
    HandlerMismatch {
        /// Which operation.
        id: OperationId,
        /// What it says it is.
        kind: OperationKind,
        /// What its handler does instead.
        handler: &'static str,
    },
    /// The id is taken.
    #[error("{0} is already registered; use `replace` or choose another id")]
    Duplicate(OperationId),
}

impl Operation {
    /// A query from an `async fn`; the schemas come from its types.
    pub fn query<M>(id: &str, handler: impl IntoOnceHandler<M>) -> OperationBuilder {
        Self::once(id, OperationKind::Query, handler)
    }

    /// A mutation from an `async fn`; the schemas come from its types.
    pub fn mutation<M>(id: &str, handler: impl IntoOnceHandler<M>) -> OperationBuilder {
        Self::once(id, OperationKind::Mutation, handler)
    }

    /// A subscription from a function that gives a stream; the schemas come from its types.
    pub fn subscription<M>(id: &str, handler: impl IntoStreamHandler<M>) -> OperationBuilder {
        let (handler, input, output) = handler.into_handler();
        let builder = OperationBuilder::new(id, OperationKind::Subscription).schemas(input, output);
        builder.handler(Handler::Stream(handler))
    }

    /// An operation whose spec is known as data; without a handler it can be listed, not called.
    pub fn from_spec(spec: OperationSpec) -> OperationBuilder {
        OperationBuilder { id: spec.id(), spec, handler: None, policy: ResultPolicy::default() }
    }

    fn once<M>(
        id: &str,
        kind: OperationKind,
        handler: impl IntoOnceHandler<M>,
    ) -> OperationBuilder {
        let (handler, input, output) = handler.into_handler();
        OperationBuilder::new(id, kind).schemas(input, output).handler(Handler::Once(handler))
    }

    /// `namespace.name`.
    pub fn id(&self) -> &OperationId {
        &self.id
    }

    /// What it says about itself.
    pub fn spec(&self) -> &OperationSpec {
        &self.spec
    }

    /// What runs, unless only the spec is known here.
    pub fn handler(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }

    /// How its results are treated.
    pub fn policy(&self) -> ResultPolicy {
        self.policy
    }

    /// Whether whoever runs it is away, so that a call would fail.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether a part of what it takes or gives is secret, so that words about a call may be, too.
    pub fn has_secrets(&self) -> bool {
        let OperationSpec { input_schema, output_schema, .. } = &*self.spec;
        [input_schema, output_schema].iter().any(|schema| !schema.secrets().is_empty())
    }

    /// The spoke or hub that calls are forwarded to, if it does not run here.
    pub fn via(&self) -> Option<&str> {
        self.via.as_deref()
    }

    /// The same operation, forwarded to somebody of this name.
    #[must_use]
    pub(crate) fn with_via(mut self, name: &str) -> Self {
        self.via = Some(name.into());
        self
    }

    /// The same operation, for other callers.
    #[must_use]
    pub fn with_access(mut self, access: AccessControl, approval: bool) -> Self {
        let spec = Arc::make_mut(&mut self.spec);
        (spec.access_control, spec.approval) = (access, approval);
        self
    }

    /// The same operation, listed as offline or as back.
    #[must_use]
    pub fn with_offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }
}

/// Collects what an operation says about itself; [`OperationBuilder::build`] checks it.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct OperationBuilder {
    id: Result<OperationId, IdError>,
    spec: OperationSpec,
    handler: Option<Handler>,
    policy: ResultPolicy,
}

impl OperationBuilder {
    fn new(id: &str, kind: OperationKind) -> Self {
        let id = id.parse::<OperationId>();
        // A wrong id is kept until `build`, so that the builder reads as one sentence.
        let placeholder = || OperationId::new("unnamed", "unnamed").expect("both halves are plain");
        let spec = OperationSpec::new(&id.clone().unwrap_or_else(|_| placeholder()), kind);
        Self { id, spec, handler: None, policy: ResultPolicy::default() }
    }

    /// The handler of an operation whose spec is data.
    pub fn handler(mut self, handler: Handler) -> Self {
        self.handler = Some(handler);
        self
    }

    /// What it takes and gives, where the types do not say it.
    pub fn schemas(mut self, input: Schema, output: Schema) -> Self {
        self.spec.input_schema = input;
        self.spec.output_schema = output;
        self
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// What it does, for people and models.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = description.into();
        self
    }

    /// Semantic version; not part of the id.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.spec.version = version.into();
        self
    }

    /// A word to find it by.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.spec.tags.push(tag.into());
        self
    }

    /// Whatever its source says beyond all this.
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.spec.meta = Some(meta);
        self
    }

    /// Declares an error that it raises on purpose.
    pub fn raises(mut self, error: ErrorDefinition) -> Self {
        self.spec.error_schemas.push(error);
        self
    }

    /// What a caller from outside must hold.
    pub fn access(mut self, access: AccessControl) -> Self {
        self.spec.access_control = access;
        self
    }

    /// Has somebody agree to each call before it runs.
    pub fn needs_approval(mut self) -> Self {
        self.spec.approval = true;
        self
    }

    /// Its calls run one after another.
    pub fn exclusive(mut self) -> Self {
        self.spec.exclusive = true;
        self
    }

    /// Calling it twice is the same as calling it once.
    pub fn idempotent(mut self) -> Self {
        self.spec.idempotent = true;
        self
    }

    /// How its results are treated.
    pub fn policy(mut self, policy: ResultPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Checks that the id is one and that the handler can serve this kind of operation.
    ///
    /// # Errors
    ///
    /// [`OperationError::Id`] or [`OperationError::HandlerMismatch`].
    pub fn build(self) -> Result<Operation, OperationError> {
        let id = self.id?;
        if let Some(handler) = self.handler.as_ref().filter(|h| !h.supports(self.spec.kind)) {
            let handler = match handler {
                Handler::Once(_) => "returns a single value",
                Handler::Stream(_) => "streams",
            };
            return Err(OperationError::HandlerMismatch { id, kind: self.spec.kind, handler });
        }
        let (spec, handler) = (Arc::new(self.spec), self.handler);
        Ok(Operation { id, spec, handler, policy: self.policy, offline: false, via: None })
    }
}

impl ResultPolicy {
    /// A policy for outputs, with extras stripped.
    pub fn new(output: OutputPolicy) -> Self {
        Self { output, extras: Extras::Strip, timeout: None }
    }

    /// Leaves properties that no schema names.
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
