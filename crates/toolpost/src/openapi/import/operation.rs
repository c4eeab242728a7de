//! Import of one operation.

use reqwest::Method;
use serde_json::{Map, Value};

use super::super::document::TreeNode;
use super::super::plan::{OperationPlan, ServiceProtocol};
use super::super::schema::{DocumentPath, InputProperty, PropertySource, SchemaShape};
use super::body::PlannedBody;
use super::parameter::PlannedParameter;
use super::path_item::PathOperation;
use super::{ImportedOperation, Importer, OPENAPI_META};
use crate::spec::{OperationId, OperationKind, OperationSpec};

impl<'l> Importer<'l> {
    /// Imports one operation.
    ///
    /// # Errors
    ///
    /// Returns a message with the reason if the operation cannot be called.
    pub(super) fn import_operation(
        &mut self,
        path_operation: &PathOperation<'l>,
        name: &str,
    ) -> Result<ImportedOperation, String> {
        let paths = DocumentPath::Root.member("paths");
        let item = paths.member(path_operation.path);
        let doc_path = item.member(path_operation.method_key);
        let method = Method::from_bytes(path_operation.method.as_bytes())
            .map_err(|_| format!("`{}` is no method of HTTP", path_operation.method))?;
        let node_ref = self
            .documents
            .resolve_chain(path_operation.operation)
            .map_err(|error| error.to_string())?;
        let node = self.documents.node(node_ref);
        if !node.is_object() {
            return Err(format!("an operation must be an object, found {}", node.type_name()));
        }
        let id = OperationId::new(self.namespace, name).map_err(|error| error.to_string())?;
        let raws = self.raw_parameters(path_operation, node_ref, [&item, &doc_path])?;
        let body = self.body(node_ref, &raws, &doc_path)?;
        let (planned, path) =
            self.plan_parameters(&raws, path_operation.path, body.is_some(), &doc_path);
        let responses = self.plan_responses(node_ref, method == Method::HEAD, &doc_path);

        let mut spec = OperationSpec::new(&id, operation_kind(&method, responses.is_stream));
        spec.idempotent = matches!(method, Method::PUT | Method::DELETE);
        set_description(&mut spec, node, self.documents.node(path_operation.path_item));
        spec.meta = Some(operation_meta(path_operation, node));
        spec.input_schema = self.input_shape(&planned, body.as_ref(), &doc_path);
        spec.output_schema = self.shared_schema(responses.output);
        spec.error_schemas = responses.errors;
        let servers = self
            .servers(node_ref, &doc_path)
            .or_else(|| self.servers(path_operation.path_item, &item));
        let security = self.security(node_ref, &doc_path);
        let plan = OperationPlan {
            method,
            protocol: ServiceProtocol::Http,
            path: if path.starts_with('/') { path } else { format!("/{path}") },
            servers: servers.unwrap_or_else(|| self.default_servers.clone()),
            parameters: planned.into_iter().map(|planned| planned.parameter).collect(),
            body: body.map(|body| body.body),
            responses: responses.responses,
            security: security.unwrap_or_else(|| self.default_security.clone()),
        };
        Ok(ImportedOperation { spec, plan })
    }

    fn input_shape(
        &mut self,
        planned: &[PlannedParameter],
        body: Option<&PlannedBody>,
        doc_path: &DocumentPath<'_>,
    ) -> crate::schema::Schema {
        let mut members = Vec::with_capacity(planned.len() + 1);
        for PlannedParameter { parameter, node_ref: parameter_ref } in planned {
            if let Some(parameter_ref) = parameter_ref {
                self.checker.check_parameter(
                    &self.context,
                    *parameter_ref,
                    &doc_path.member("parameters").member(&parameter.name),
                );
            }
            members.push(InputProperty {
                name: parameter.input.as_str().into(),
                required: parameter.required,
                source: parameter_ref.map_or(PropertySource::Undeclared, PropertySource::Parameter),
            });
        }
        members.extend(body.map(|planned| InputProperty {
            name: planned.body.input.as_str().into(),
            required: planned.body.required,
            source: PropertySource::Body(planned.shape.clone(), planned.described_at),
        }));
        self.unshared_schema(SchemaShape::Input(members.into()))
    }
}

/// Returns the kind of an operation: streams are subscriptions, other GET, HEAD and QUERY requests
/// are queries, and the rest are mutations.
fn operation_kind(method: &Method, is_stream: bool) -> OperationKind {
    match method.as_str() {
        _ if is_stream => OperationKind::Subscription,
        "GET" | "HEAD" | "QUERY" => OperationKind::Query,
        _ => OperationKind::Mutation,
    }
}

/// Sets title, description and tags. Title and description fall back to those of the path item.
fn set_description(spec: &mut OperationSpec, node: TreeNode<'_>, item: TreeNode<'_>) {
    let text = |name| {
        let member_text = |node: TreeNode<'_>| {
            let text = node.get(name).and_then(TreeNode::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        member_text(node).or_else(|| member_text(item))
    };
    spec.title = text("summary");
    spec.description = text("description").or_else(|| spec.title.clone()).unwrap_or_default();
    let tags = node.get("tags").into_iter().flat_map(TreeNode::items);
    spec.tags = tags.filter_map(TreeNode::as_str).map(str::to_owned).collect();
}

/// Returns the document data that has no field in the spec, as `_meta`.
fn operation_meta(path_operation: &PathOperation<'_>, node: TreeNode<'_>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("method".to_owned(), path_operation.method.as_str().into());
    meta.insert("path".to_owned(), path_operation.path.into());
    if let Some(id) = node.get("operationId").and_then(TreeNode::as_str) {
        meta.insert("operationId".to_owned(), id.into());
    }
    if node.get("deprecated").and_then(TreeNode::as_bool) == Some(true) {
        meta.insert("deprecated".to_owned(), true.into());
    }
    let docs = node.get("externalDocs").and_then(|docs| docs.get("url")).and_then(TreeNode::as_str);
    if let Some(docs) = docs {
        meta.insert("externalDocs".to_owned(), docs.into());
    }
    Map::from_iter([(OPENAPI_META.to_owned(), meta.into())])
}
