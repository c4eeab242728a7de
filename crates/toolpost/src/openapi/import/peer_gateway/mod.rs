//! Imports operations of another gateway from `x-toolpost-operation` in its document.
//!
//! Servers and security are taken from the document as for any other operation.

mod schema;

use std::collections::HashSet;

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::document::Node;
use super::super::settings::Namespaces;
use super::Importer;
use super::path_item::PathOperation;
use crate::access::AccessControl;
use crate::json::{ValuePath, error_message};
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
    /// Parses the extension of each operation. An operation with an invalid extension is imported
    /// as a plain HTTP operation.
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
                    "it is a variant of {id}, which is called with POST"
                )),
                false => self.reject_extension(
                    &operations[at],
                    &format!("{id}, of which it is a variant, is missing"),
                ),
            };
        }
        peer_operations
    }

    fn extension(&self, path_operation: &PathOperation<'l>) -> Option<Node<'l>> {
        path_operation.operation.target().ok()?.get(EXTENSION)
    }

    fn reject_extension(
        &mut self,
        path_operation: &PathOperation<'l>,
        reason: &str,
    ) -> PeerOperation {
        let paths = ValuePath::ROOT.member("paths");
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
        let is_foreign =
            spec.meta.as_ref().is_some_and(|meta| meta.other.contains_key(HUB_META_KEY));
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

    /// Resets access control, which each gateway configures itself, and approval, which the other
    /// gateway enforces.
    fn with_local_access(&self, mut spec: Box<OperationSpec>) -> Box<OperationSpec> {
        spec.access_control = AccessControl::default();
        spec.approval = false;
        let meta = spec.meta.get_or_insert_default();
        meta.other.insert(HUB_META_KEY.to_owned(), self.namespace.into());
        spec
    }

    fn parse_extension(
        &mut self,
        path_operation: &PathOperation<'l>,
        extension: Node<'l>,
    ) -> Result<PeerExtension, String> {
        if !extension.is_object() {
            return Err(format!("it must be an object, found {}", extension.type_name()));
        }
        if extension.get("form").is_some() {
            let text = |name| extension.text(name).unwrap_or_default();
            let id = OperationId::new(text("namespace"), text("name"));
            return id.map(PeerExtension::AlternateForm).map_err(|error| error.to_string());
        }
        if path_operation.method != Method::POST.as_str() {
            return Err(format!(
                "an operation is called with POST, but this is {}",
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

    fn parse_spec(&mut self, extension: Node<'l>) -> Result<OperationSpec, String> {
        const OMITTED: [&str; 4] = ["inputSchema", "outputSchema", "errorSchemas", "accessControl"];
        let mut spec: OperationSpec =
            parse_without(extension, &OMITTED).map_err(|error| error_message(&error))?;
        spec.input_schema = self.peer_schema(extension, "inputSchema")?;
        spec.output_schema = self.peer_schema(extension, "outputSchema")?;
        spec.error_schemas = self.parse_errors(extension)?;
        Ok(spec)
    }

    fn parse_errors(&mut self, extension: Node<'l>) -> Result<Vec<ErrorDefinition>, String> {
        let mut errors = Vec::new();
        for node in extension.items_of("errorSchemas") {
            let error: ErrorDefinition = parse_without(node, &["schema"])
                .map_err(|error| format!("errorSchemas: {}", error_message(&error)))?;
            errors.push(error.with_schema(self.peer_schema(node, "schema")?));
        }
        match extension.get("errorSchemas") {
            Some(listed) if !listed.is_array() => {
                Err(format!("`errorSchemas` must be a list, found {}", listed.type_name()))
            }
            _ => Ok(errors),
        }
    }

    /// Returns a schema of the other gateway without changes.
    fn peer_schema(&mut self, owner: Node<'l>, name: &str) -> Result<Schema, String> {
        let Some(node) = owner.get(name) else { return Ok(Schema::unknown()) };
        let taken = self.peer_schemas.get_or_build(&self.context.documents, node);
        taken.map_err(|error| format!("{name}: {error}"))
    }
}

/// Deserializes an object without some of its members.
fn parse_without<T: DeserializeOwned>(node: Node<'_>, omitted: &[&str]) -> serde_json::Result<T> {
    let members = node.members().filter(|(name, _)| !omitted.contains(name));
    let members = members.map(|(name, value)| (name.to_owned(), value.to_value()));
    serde_json::from_value(Value::Object(members.collect()))
}

/// The content of a valid extension.
enum PeerExtension {
    Operation(Box<OperationSpec>, OperationId),
    /// An alternative form of the operation with this id.
    AlternateForm(OperationId),
}
