//! Import of one operation.

use reqwest::Method;
use serde_json::{Map, Value};

use super::super::document::Node;
use super::super::plan::{OperationPlan, ServiceProtocol};
use super::super::schema::{InputProperty, PropertySource, SchemaShape, schema_of_shape};
use super::body::PlannedBody;
use super::parameter::PlannedParameter;
use super::path_item::PathOperation;
use super::{ImportedOperation, Importer, OPENAPI_META};
use crate::json::{JsonObject, ValuePath};
use crate::schema::Schema;
use crate::spec::{OperationId, OperationKind, OperationSpec};

impl<'l> Importer<'l> {
    /// Imports one operation.
    pub(super) fn import_operation(
        &mut self,
        path_operation: &PathOperation<'l>,
        name: &str,
    ) -> Result<ImportedOperation, String> {
        let paths = ValuePath::ROOT.member("paths");
        let item = paths.member(path_operation.path);
        let doc_path = item.member(path_operation.method_key);
        let method = Method::from_bytes(path_operation.method.as_bytes())
            .map_err(|_| format!("`{}` is not an HTTP method", path_operation.method))?;
        let node = path_operation.operation.target().map_err(|error| error.to_string())?;
        if !node.is_object() {
            return Err(format!("an operation must be an object, found {}", node.type_name()));
        }
        let id = OperationId::new(self.namespace, name).map_err(|error| error.to_string())?;
        let raws = self.raw_parameters(path_operation, node, [&item, &doc_path])?;
        let body = self.body(node, &raws, &doc_path)?;
        let (planned, path) =
            self.plan_parameters(&raws, path_operation.path, body.is_some(), &doc_path);
        let responses = self.plan_responses(node, method == Method::HEAD, &doc_path);

        let mut spec = OperationSpec::new(&id, operation_kind(&method, responses.is_stream));
        spec.idempotent = matches!(method, Method::PUT | Method::DELETE);
        set_description(&mut spec, node, path_operation.path_item);
        spec.meta = Some(operation_meta(path_operation, node).into());
        spec.input_schema = self.input_schema(&planned, body.as_ref(), &doc_path);
        spec.output_schema = self.shared_schema(responses.output);
        spec.error_schemas = responses.errors;
        let plan = OperationPlan {
            parameters: planned.into_iter().map(|planned| planned.parameter).collect(),
            body: body.map(|body| body.body),
            responses: responses.responses,
            ..self.plan(path_operation, node, method, &path)
        };
        Ok(ImportedOperation { spec, plan })
    }

    /// Imports an operation of another gateway with its plan.
    pub(super) fn import_peer_operation(
        &mut self,
        path_operation: &PathOperation<'l>,
        spec: OperationSpec,
    ) -> ImportedOperation {
        let node = path_operation.operation.target().unwrap_or(path_operation.operation);
        let plan = self.plan(path_operation, node, Method::POST, path_operation.path);
        ImportedOperation {
            spec,
            plan: OperationPlan { protocol: ServiceProtocol::Toolpost, ..plan },
        }
    }

    /// Returns a plan without parameters, body and responses.
    fn plan(
        &mut self,
        path_operation: &PathOperation<'l>,
        node: Node<'l>,
        method: Method,
        path: &str,
    ) -> OperationPlan {
        let paths = ValuePath::ROOT.member("paths");
        let item = paths.member(path_operation.path);
        let doc_path = item.member(path_operation.method_key);
        let servers =
            self.servers(node, &doc_path).or_else(|| self.servers(path_operation.path_item, &item));
        let security = self.security(node, &doc_path);
        let slash = if path.starts_with('/') { "" } else { "/" };
        OperationPlan {
            method,
            protocol: ServiceProtocol::Http,
            path: format!("{slash}{path}"),
            servers: servers.unwrap_or_else(|| self.default_servers.clone()),
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            security: security.unwrap_or_else(|| self.default_security.clone()),
        }
    }

    fn input_schema(
        &mut self,
        planned: &[PlannedParameter<'_>],
        body: Option<&PlannedBody<'_>>,
        doc_path: &ValuePath<'_>,
    ) -> Schema {
        let path = doc_path.member("parameters");
        let mut members = Vec::with_capacity(planned.len() + 1);
        for PlannedParameter { parameter, node } in planned {
            let source = match *node {
                Some(node) => {
                    let path = path.member(&parameter.name);
                    self.checker.check_parameter(&self.context, node, &path);
                    PropertySource::Parameter(node.node_ref())
                }
                None => PropertySource::Undeclared,
            };
            let (name, required) = (parameter.input.as_str().into(), parameter.required);
            members.push(InputProperty { name, required, source });
        }
        members.extend(body.map(|PlannedBody { body, shape, described_at }| {
            let described_at = described_at.map(Node::node_ref);
            InputProperty {
                name: body.input.as_str().into(),
                required: body.required,
                source: PropertySource::Body(shape.clone(), described_at),
            }
        }));
        schema_of_shape(&self.context, SchemaShape::Input(members.into()))
    }
}

/// Returns the kind: streams are subscriptions; other GET, HEAD and QUERY are queries.
fn operation_kind(method: &Method, is_stream: bool) -> OperationKind {
    match method.as_str() {
        _ if is_stream => OperationKind::Subscription,
        "GET" | "HEAD" | "QUERY" => OperationKind::Query,
        _ => OperationKind::Mutation,
    }
}

/// Sets title, description and tags. Title and description fall back to those of the path item.
fn set_description(spec: &mut OperationSpec, node: Node<'_>, item: Node<'_>) {
    let text = |name| {
        let texts = [node, item].into_iter().filter_map(|node| node.text(name)).map(str::trim);
        texts.into_iter().find(|text| !text.is_empty()).map(str::to_owned)
    };
    spec.title = text("summary");
    spec.description = text("description").or_else(|| spec.title.clone()).unwrap_or_default();
    spec.tags = node.texts_of("tags").map(str::to_owned).collect();
}

/// Returns the document data that has no field in the spec, as `_meta`.
fn operation_meta(path_operation: &PathOperation<'_>, node: Node<'_>) -> JsonObject {
    let docs = node.get("externalDocs").and_then(|docs| docs.text("url"));
    let members = [
        ("method", Some(path_operation.method.as_str().into())),
        ("path", Some(path_operation.path.into())),
        ("operationId", node.text("operationId").map(Value::from)),
        ("deprecated", node.flag("deprecated").then_some(Value::Bool(true))),
        ("externalDocs", docs.map(Value::from)),
    ];
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Map::from_iter([(OPENAPI_META.to_owned(), Value::Object(members.collect()))])
}
