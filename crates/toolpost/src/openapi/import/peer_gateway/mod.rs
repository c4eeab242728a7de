//! Imports operations of another gateway from `x-toolpost-operation` in its document.
//!
//! Servers and security are taken from the document as for any other operation, so the same host
//! and credential rules apply.

mod schema;

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Map, Value};

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{OperationPlan, ServiceProtocol};
use super::super::schema::DocumentPath;
use super::super::settings::Namespaces;
use super::path_item::PathOperation;
use super::{ImportedOperation, Importer};
use crate::access::AccessControl;
use crate::schema::Schema;
use crate::spec::{ErrorDefinition, HUB_META_KEY, OperationId, OperationSpec};

pub(super) use schema::PeerSchemas;

/// Extension of an operation object that describes the operation of a gateway.
const EXTENSION: &str = "x-toolpost-operation";
/// Namespaces of built-in operations. They are not imported, because each gateway has its own.
const GATEWAY_NAMESPACES: [&str; 2] = ["gateway", "hub"];

/// The gateway operation that a path and method describe.
pub(super) enum PeerOperation {
    /// No valid extension. The operation is imported as a plain HTTP operation.
    None,
    /// The spec of the gateway operation.
    Operation(Box<OperationSpec>),
    /// The operation is not imported, for this reason.
    Skipped(String),
}

impl<'l> Importer<'l> {
    /// Parses the extension of each operation. An invalid extension is a warning, and the operation
    /// is imported as a plain HTTP operation.
    pub(super) fn peer_operations(
        &mut self,
        operations: &[PathOperation<'l>],
    ) -> Vec<PeerOperation> {
        let mut peer_operations: Vec<PeerOperation> = Vec::with_capacity(operations.len());
        let mut forms: Vec<(usize, OperationId)> = Vec::new();
        let mut taken: HashSet<OperationId> = HashSet::new();
        for (at, operations) in operations.iter().enumerate() {
            let parsed = self
                .extension(operations)
                .map(|extension| self.parse_extension(operations, extension));
            peer_operations.push(match parsed {
                None => PeerOperation::None,
                Some(Ok(PeerExtension::AlternateForm(id))) => {
                    forms.push((at, id));
                    PeerOperation::None
                }
                Some(Ok(PeerExtension::Operation(spec, id))) => {
                    self.accept_operation(spec, &id, &mut taken)
                }
                Some(Err(reason)) => self.reject_extension(operations, &reason),
            });
        }
        for (at, id) in forms {
            peer_operations[at] = match taken.contains(&id) {
                true => PeerOperation::Skipped(format!(
                    "it is another form of {id}, which is called by POST"
                )),
                false => self.reject_extension(
                    &operations[at],
                    &format!("{id}, of which it is a form, is not there"),
                ),
            };
        }
        peer_operations
    }

    fn extension(&self, path_operation: &PathOperation<'l>) -> Option<NodeRef> {
        let node_ref = self.documents.resolve_chain(path_operation.operation).ok()?;
        self.documents.get(node_ref, EXTENSION)
    }

    fn reject_extension(
        &mut self,
        path_operation: &PathOperation<'l>,
        reason: &str,
    ) -> PeerOperation {
        let paths = DocumentPath::Root.member("paths");
        let path = paths.member(path_operation.path);
        let message = format!("{reason}; it is imported as a plain HTTP operation");
        self.warn(&path.member(path_operation.method_key).member(EXTENSION), message);
        PeerOperation::None
    }

    /// Decides whether a valid operation is imported or skipped.
    fn accept_operation(
        &self,
        mut spec: Box<OperationSpec>,
        id: &OperationId,
        taken: &mut HashSet<OperationId>,
    ) -> PeerOperation {
        let is_foreign = spec.meta.as_ref().is_some_and(|meta| meta.contains_key(HUB_META_KEY));
        if !taken.insert(id.clone()) {
            return PeerOperation::Skipped(format!("{id} is in the document twice"));
        }
        if is_foreign {
            return PeerOperation::Skipped(format!(
                "{id} was imported by that gateway from another one; import it from there"
            ));
        }
        if GATEWAY_NAMESPACES.contains(&id.namespace()) {
            return PeerOperation::Skipped(format!("{id} is a built-in operation of that gateway"));
        }
        if self.namespaces == Namespaces::Below {
            (spec.namespace, spec.name) = (self.namespace.to_owned(), id.to_string());
        }
        match spec.id() {
            Ok(_) => PeerOperation::Operation(self.with_local_access(spec)),
            Err(error) => PeerOperation::Skipped(error.to_string()),
        }
    }

    /// Resets access control, which each gateway configures itself, and approval, which the gateway
    /// that runs the operation enforces.
    fn with_local_access(&self, mut spec: Box<OperationSpec>) -> Box<OperationSpec> {
        spec.access_control = AccessControl::default();
        spec.approval = false;
        let meta = spec.meta.get_or_insert_default();
        meta.insert(HUB_META_KEY.to_owned(), self.namespace.into());
        spec
    }

    fn parse_extension(
        &mut self,
        path_operation: &PathOperation<'l>,
        extension: NodeRef,
    ) -> Result<PeerExtension, String> {
        let node = self.documents.node(extension);
        if !node.is_object() {
            return Err(format!("it must be an object, found {}", node.type_name()));
        }
        if node.get("form").is_some() {
            let text = |name| node.get(name).and_then(TreeNode::as_str).unwrap_or_default();
            let id = OperationId::new(text("namespace"), text("name"));
            return id.map(PeerExtension::AlternateForm).map_err(|error| error.to_string());
        }
        if path_operation.method != Method::POST.as_str() {
            return Err(format!(
                "an operation is called by POST, and this is {}",
                path_operation.method
            ));
        }
        if path_operation.path.contains(['{', '}', '?', '#']) {
            return Err("its path has parameters".to_owned());
        }
        let spec = self.parse_spec(extension)?;
        let id = spec.id().map_err(|error| error.to_string())?;
        Ok(PeerExtension::Operation(Box::new(spec), id))
    }

    fn parse_spec(&mut self, extension: NodeRef) -> Result<OperationSpec, String> {
        let node = self.documents.node(extension);
        let mut members = Map::new();
        for (name, value) in node.members() {
            if !["inputSchema", "outputSchema", "errorSchemas", "accessControl"].contains(&name) {
                members.insert(name.to_owned(), value.to_value());
            }
        }
        let read = serde_json::from_value::<OperationSpec>(Value::Object(members));
        let mut spec = read.map_err(|error| error.to_string())?;
        spec.input_schema = self.peer_schema(extension, "inputSchema")?;
        spec.output_schema = self.peer_schema(extension, "outputSchema")?;
        spec.error_schemas = self.parse_errors(extension)?;
        Ok(spec)
    }

    fn parse_errors(&mut self, extension: NodeRef) -> Result<Vec<ErrorDefinition>, String> {
        let documents = self.documents;
        let listed = documents.node(extension).get("errorSchemas");
        let mut errors = Vec::new();
        for node in listed.into_iter().flat_map(TreeNode::items) {
            let node_ref = documents.node_ref(extension, node);
            let members = node.members().filter(|(name, _)| *name != "schema");
            let members = members.map(|(name, value)| (name.to_owned(), value.to_value()));
            let read = serde_json::from_value::<ErrorDefinition>(Value::Object(members.collect()));
            let error = read.map_err(|error| format!("errorSchemas: {error}"))?;
            errors.push(error.with_schema(self.peer_schema(node_ref, "schema")?));
        }
        match listed {
            Some(listed) if !listed.is_array() => {
                Err(format!("`errorSchemas` must be a list, found {}", listed.type_name()))
            }
            _ => Ok(errors),
        }
    }

    /// Returns a schema of the other gateway without changes.
    fn peer_schema(&mut self, owner: NodeRef, name: &str) -> Result<Schema, String> {
        let Some(node_ref) = self.documents.get(owner, name) else { return Ok(Schema::unknown()) };
        let taken = self.peer_schemas.get_or_build(&self.context.documents, node_ref);
        taken.map_err(|error| format!("{name}: {error}"))
    }

    /// Imports an operation of another gateway with its plan.
    pub(super) fn import_peer_operation(
        &mut self,
        path_operation: &PathOperation<'l>,
        spec: OperationSpec,
    ) -> ImportedOperation {
        let paths = DocumentPath::Root.member("paths");
        let item = paths.member(path_operation.path);
        let doc_path = item.member(path_operation.method_key);
        let node_ref = self
            .documents
            .resolve_chain(path_operation.operation)
            .unwrap_or(path_operation.operation);
        let servers = self
            .servers(node_ref, &doc_path)
            .or_else(|| self.servers(path_operation.path_item, &item));
        let security = self.security(node_ref, &doc_path);
        let is_absolute = path_operation.path.starts_with('/');
        let plan = OperationPlan {
            method: Method::POST,
            protocol: ServiceProtocol::Toolpost,
            path: if is_absolute {
                path_operation.path.to_owned()
            } else {
                format!("/{}", path_operation.path)
            },
            servers: servers.unwrap_or_else(|| self.default_servers.clone()),
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            security: security.unwrap_or_else(|| self.default_security.clone()),
        };
        ImportedOperation { spec, plan }
    }
}

/// The content of a valid extension.
enum PeerExtension {
    Operation(Box<OperationSpec>, OperationId),
    /// An alternative form of the operation with this id.
    AlternateForm(OperationId),
}
