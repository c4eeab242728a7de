//! Imports the operations of a document: their specs, their plans and a report.
//!
//! Each operation is either imported or skipped with a reason. Problems that do not prevent calls
//! become warnings. Schemas are written later, on first use.
//!
//! | file | contents |
//! |---|---|
//! | `version` | the specification version of the document |
//! | `path_item`, `naming` | the operations of the document and their names |
//! | `operation` | one operation: its spec and its plan |
//! | `peer_gateway` | operations of another gateway |
//! | `parameter`, `body`, `form`, `response` | requests and responses |
//! | `server`, `security` | server URLs and security requirements |
//! | `report` | the import report for users and the command line |

mod body;
mod form;
mod naming;
mod operation;
mod parameter;
mod path_item;
mod peer_gateway;
mod report;
mod response;
mod security;
mod server;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::document::{DocumentSet, Node};
use super::plan::{OperationPlan, SecurityRequirement, SecurityScheme, ServerTemplate};
use super::schema::{
    self, DocumentWarning, SchemaChecker, SchemaContext, SchemaShape, SchemaUsage,
};
use super::settings::Namespaces;
use crate::json::ValuePath;
use crate::schema::Schema;
use crate::spec::{MAX_NAME_LENGTH, OperationId, OperationSpec};
use path_item::PathOperation;
use peer_gateway::PeerOperation;
pub use report::{ImportReport, OperationCounts, SkippedOperation};
pub use version::ImportError;
use version::SpecVersion;

/// Key in the `_meta` of an operation for document data that has no field in the operation.
pub const OPENAPI_META: &str = "toolpost/openapi";

/// Result of importing a document.
#[derive(Debug)]
pub(crate) struct ImportResult {
    pub(crate) operations: Vec<ImportedOperation>,
    pub(crate) skipped: Vec<SkippedOperation>,
    pub(crate) warnings: Vec<DocumentWarning>,
    /// Servers of operations that declare none.
    pub(crate) default_servers: Arc<[ServerTemplate]>,
}

/// The spec of an operation and the plan for calling it.
#[derive(Debug)]
pub(crate) struct ImportedOperation {
    pub(crate) spec: OperationSpec,
    pub(crate) plan: OperationPlan,
}

/// Imports the operations of a document.
pub(crate) fn import(
    documents: &Arc<DocumentSet>,
    namespace: &str,
    namespaces: Namespaces,
) -> Result<ImportResult, ImportError> {
    let version = SpecVersion::from_document(documents.root())?;
    OperationId::new(namespace, "any")?;
    let mut importer = Importer::new(documents, namespace, namespaces, version);
    importer.set_defaults();
    let found = importer.path_operations();
    let peer_operations = importer.peer_operations(&found);
    let names = importer.operation_names(&found, &peer_operations);
    let mut operations = Vec::with_capacity(found.len());
    let mut skipped = Vec::new();
    for ((found, peer_operation), name) in found.iter().zip(peer_operations).zip(names) {
        let imported = match peer_operation {
            PeerOperation::None => importer.import_operation(found, &name),
            PeerOperation::Operation(spec) => Ok(importer.import_peer_operation(found, *spec)),
            PeerOperation::Skipped(reason) => Err(reason),
        };
        match imported {
            Ok(imported) => operations.push(imported),
            Err(reason) => skipped.push(SkippedOperation::new(&found.method, found.path, reason)),
        }
    }
    importer.warn_implicit_headers();
    let (warnings, default_servers) = (importer.checker.warnings, importer.default_servers);
    Ok(ImportResult { operations, skipped, warnings, default_servers })
}

/// State of an import.
struct Importer<'l> {
    documents: &'l DocumentSet,
    context: Arc<SchemaContext>,
    namespace: &'l str,
    namespaces: Namespaces,
    version: SpecVersion,
    checker: SchemaChecker,
    /// Schemas by shape, so that a shared schema is compiled once.
    schema_cache: HashMap<SchemaShape, Schema>,
    peer_schemas: peer_gateway::PeerSchemas,
    /// Header parameters that are not part of the input, because the request or the credentials set
    /// them.
    implicit_headers: BTreeSet<String>,
    security_schemes: HashMap<String, Arc<SecurityScheme>>,
    default_servers: Arc<[ServerTemplate]>,
    default_security: Arc<[SecurityRequirement]>,
}

impl<'l> Importer<'l> {
    fn new(
        documents: &'l Arc<DocumentSet>,
        namespace: &'l str,
        namespaces: Namespaces,
        version: SpecVersion,
    ) -> Self {
        let dialect = documents.root().text("jsonSchemaDialect");
        let hides = version <= SpecVersion::V30
            || dialect.is_some_and(schema::dialect_ignores_ref_siblings);
        Self {
            documents,
            context: Arc::new(SchemaContext::new(Arc::clone(documents), hides)),
            namespace,
            namespaces,
            version,
            checker: SchemaChecker::default(),
            schema_cache: HashMap::new(),
            peer_schemas: peer_gateway::PeerSchemas::default(),
            implicit_headers: BTreeSet::new(),
            security_schemes: HashMap::new(),
            default_servers: Arc::new([]),
            default_security: Arc::new([]),
        }
    }

    /// Sets the servers and security of operations that declare none.
    fn set_defaults(&mut self) {
        let root = self.documents.root();
        let servers = self.servers(root, &ValuePath::ROOT);
        self.default_servers = servers.unwrap_or_else(|| self.document_server());
        self.default_security = self.security(root, &ValuePath::ROOT).unwrap_or_default();
        let webhooks = root.get("webhooks").map_or(0, |all| all.members().len());
        if webhooks > 0 {
            let message = format!("{webhooks} webhooks are not imported: the service sends them");
            self.warn(&ValuePath::ROOT.member("webhooks"), message);
        }
    }

    /// Adds one warning about the header parameters that are not part of the input.
    fn warn_implicit_headers(&mut self) {
        let names = self.implicit_headers.iter().map(|name| format!("`{name}`"));
        let names = names.collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            let message = format!(
                "header parameters set by the request or by `auth` are not inputs: {names}"
            );
            self.warn(&ValuePath::ROOT.member("paths"), message);
        }
    }

    /// Assigns the operation names. Names of peer gateway operations are fixed and not used for
    /// other operations.
    fn operation_names(
        &mut self,
        operations: &[PathOperation<'l>],
        peer_operations: &[PeerOperation],
    ) -> Vec<String> {
        let mut requests = Vec::with_capacity(operations.len());
        for (operations, peer_operation) in operations.iter().zip(peer_operations) {
            let node = operations.operation.target().unwrap_or(operations.operation);
            let id = node.text("operationId");
            let is_plain_operation = matches!(peer_operation, PeerOperation::None);
            let id = id.map(str::trim).filter(|id| is_plain_operation && !id.is_empty());
            if id.is_some_and(|id| id.chars().count() > MAX_NAME_LENGTH) {
                let paths = ValuePath::ROOT.member("paths");
                let message = format!("`operationId` has more than {MAX_NAME_LENGTH} characters");
                self.warn(&paths.member(operations.path).member(operations.method_key), message);
            }
            let id = id.filter(|id| id.chars().count() <= MAX_NAME_LENGTH);
            let peer_name = match peer_operation {
                PeerOperation::Operation(spec) if spec.namespace == self.namespace => {
                    Some(&*spec.name)
                }
                _ => None,
            };
            let (operation_id, fixed_name) = (id, peer_name);
            requests.push(naming::NameRequest { operation: operations, operation_id, fixed_name });
        }
        naming::assign_names(&requests)
    }

    fn warn(&mut self, path: &ValuePath<'_>, message: impl Into<String>) {
        self.checker.warn(path, message);
    }

    /// Resolves references to an object. A failure becomes a warning that states the consequence.
    fn resolve_object(
        &mut self,
        node: Node<'l>,
        path: &ValuePath<'_>,
        consequence: &str,
    ) -> Option<Node<'l>> {
        let problem = match node.target() {
            Ok(target) if target.is_object() => return Some(target),
            Ok(target) => format!("expected an object, found {}", target.type_name()),
            Err(error) => error.to_string(),
        };
        self.warn(path, format!("{problem}; {consequence}"));
        None
    }

    /// Returns the shape of a document schema, and adds warnings about its problems.
    fn schema_shape(
        &mut self,
        node: Node<'l>,
        usage: SchemaUsage,
        path: &ValuePath<'_>,
    ) -> SchemaShape {
        if node.as_bool() == Some(true) || (node.is_object() && node.members().len() == 0) {
            return SchemaShape::Unknown;
        }
        if !node.is_object() && node.as_bool().is_none() {
            let found = node.type_name();
            self.warn(
                path,
                format!("a schema must be an object, found {found}; any value is accepted"),
            );
            return SchemaShape::Unknown;
        }
        self.checker.check_schema(&self.context, node, path);
        SchemaShape::Schema(node.node_ref(), usage)
    }

    /// Returns the cached schema of a shape, which other operations may use as well.
    fn shared_schema(&mut self, shape: SchemaShape) -> Schema {
        let key = shape.canonical(&self.context);
        if let Some(built) = self.schema_cache.get(&key) {
            return built.clone();
        }
        let alone = matches!(key, SchemaShape::Schema(..));
        let built = schema::schema_of_shape(&self.context, if alone { key.clone() } else { shape });
        self.schema_cache.insert(key, built.clone());
        built
    }

    /// Returns the media types of a Swagger 2.0 operation: its own, or those of the document, or
    /// JSON.
    fn media_types(&self, operation: Node<'l>, keyword: &str) -> Vec<&'l str> {
        let owners = [operation, self.documents.root()].into_iter();
        let mut listed = owners.map(|owner| owner.texts_of(keyword).collect::<Vec<_>>());
        listed.find(|listed| !listed.is_empty()).unwrap_or_else(|| vec!["application/json"])
    }
}
