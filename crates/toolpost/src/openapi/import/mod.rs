//! From a document to operations with plans, and to the report of what became of the rest.
//!
//! Every path with every method is either imported or skipped with a reason. What is odd about an
//! operation that can be called all the same is a warning. No schema is written here.
//!
//! | file | holds |
//! |---|---|
//! | `version` | which specification the document is written by |
//! | `path`, `name` | which operations there are, and what they are called |
//! | `operation` | one operation: its spec and its plan |
//! | `native` | the same for one of another gateway |
//! | `parameter`, `body`, `form`, `response`, `media` | what goes out and what comes back |
//! | `server`, `security` | where, and on whose credentials |
//! | `report` | what became of everything, for people and for the command line |

mod body;
mod form;
mod media;
mod name;
mod native;
mod operation;
mod parameter;
mod path;
mod report;
mod response;
mod security;
mod server;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::document::{Library, Node, Place};
use super::plan::{Plan, Requirement, Scheme, Server};
use super::schema::{self, Check, Context, Shape, Spot, View, Warning};
use super::settings::Namespaces;
use crate::schema::Schema;
use crate::spec::{MAX_NAME_LENGTH, OperationId, OperationSpec};
use native::Native;
use path::Found;
pub use report::{Counts, Report, Skipped};
pub use version::ImportError;
use version::Version;

/// The member of an operation's `_meta` that holds what its document says about it beyond what an
/// operation has a place for.
pub const OPENAPI_META: &str = "toolpost/openapi";

/// What a document became.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) operations: Vec<Imported>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) warnings: Vec<Warning>,
}

/// An operation, and how it is called.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) spec: OperationSpec,
    pub(crate) plan: Plan,
}

/// Reads the operations of a document.
///
/// # Errors
///
/// It is no API document. Everything else is told operation by operation.
pub(crate) fn import(
    library: &Arc<Library>,
    namespace: &str,
    namespaces: Namespaces,
) -> Result<Import, ImportError> {
    let version = Version::of(library.node(library.root()))?;
    OperationId::new(namespace, "any")?;
    let mut importer = Importer::new(library, namespace, namespaces, version);
    importer.settle_defaults();
    let found = importer.found();
    let natives = importer.natives(&found);
    let names = importer.names(&found, &natives);
    let mut operations = Vec::with_capacity(found.len());
    let mut skipped = Vec::new();
    for ((found, native), name) in found.iter().zip(natives).zip(names) {
        let imported = match native {
            Native::No => importer.operation(found, &name),
            Native::Operation(spec) => Ok(importer.native(found, *spec)),
            Native::Skipped(reason) => Err(reason),
        };
        match imported {
            Ok(imported) => operations.push(imported),
            Err(reason) => skipped.push(Skipped::new(&found.method, found.path, reason)),
        }
    }
    importer.tell_settled_elsewhere();
    Ok(Import { operations, skipped, warnings: importer.check.warnings })
}

/// What is known while a document is read.
struct Importer<'l> {
    library: &'l Library,
    context: Arc<Context>,
    namespace: &'l str,
    namespaces: Namespaces,
    version: Version,
    check: Check,
    /// The schemas that were made, so that one that is used often is compiled once.
    made: HashMap<Shape, Schema>,
    native_schemas: native::Schemas,
    /// The header parameters that nobody can give, because they are said in another way.
    settled_elsewhere: BTreeSet<String>,
    schemes: HashMap<String, Arc<Scheme>>,
    default_servers: Arc<[Server]>,
    default_security: Arc<[Requirement]>,
}

impl<'l> Importer<'l> {
    fn new(
        library: &'l Arc<Library>,
        namespace: &'l str,
        namespaces: Namespaces,
        version: Version,
    ) -> Self {
        let dialect = library.node(library.root()).get("jsonSchemaDialect").and_then(Node::as_str);
        let hides = version <= Version::V30 || dialect.is_some_and(schema::hides_siblings);
        Self {
            library,
            context: Arc::new(Context::new(Arc::clone(library), hides)),
            namespace,
            namespaces,
            version,
            check: Check::default(),
            made: HashMap::new(),
            native_schemas: native::Schemas::default(),
            settled_elsewhere: BTreeSet::new(),
            schemes: HashMap::new(),
            default_servers: Arc::new([]),
            default_security: Arc::new([]),
        }
    }

    /// What holds for every operation that says nothing else.
    fn settle_defaults(&mut self) {
        let root = self.library.root();
        let servers = self.servers(root, &Spot::Document);
        self.default_servers = servers.unwrap_or_else(|| self.own_server());
        self.default_security = self.security(root, &Spot::Document).unwrap_or_default();
        let webhooks = self.library.node(root).get("webhooks").map_or(0, |all| all.members().len());
        if webhooks > 0 {
            let message = format!(
                "{webhooks} webhooks are requests that the service makes; they are no operations"
            );
            self.warn(&Spot::Document.member("webhooks"), message);
        }
    }

    /// Says once which header parameters are no members of an input.
    fn tell_settled_elsewhere(&mut self) {
        let names: Vec<String> = std::mem::take(&mut self.settled_elsewhere)
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        if !names.is_empty() {
            let names = names.join(", ");
            let message = format!(
                "header parameters that follow from the request or from `auth` cannot be given: {names}"
            );
            self.warn(&Spot::Document.member("paths"), message);
        }
    }

    /// The names of operations of other gateways are settled, and nobody else has them.
    fn names(&mut self, found: &[Found<'l>], natives: &[Native]) -> Vec<String> {
        let mut wishes = Vec::with_capacity(found.len());
        for (found, native) in found.iter().zip(natives) {
            let place = self.library.follow(found.place).unwrap_or(found.place);
            let id = self.library.node(place).get("operationId").and_then(Node::as_str);
            let is_asked = matches!(native, Native::No);
            let id = id.map(str::trim).filter(|id| is_asked && !id.is_empty());
            if id.is_some_and(|id| id.chars().count() > MAX_NAME_LENGTH) {
                let paths = Spot::Document.member("paths");
                let message = format!("`operationId` has more than {MAX_NAME_LENGTH} characters");
                self.warn(&paths.member(found.path).member(found.key), message);
            }
            let id = id.filter(|id| id.chars().count() <= MAX_NAME_LENGTH);
            let settled = match native {
                Native::Operation(spec) if spec.namespace == self.namespace => Some(&*spec.name),
                _ => None,
            };
            wishes.push(name::Wish { found, id, settled });
        }
        name::settle(&wishes)
    }

    fn warn(&mut self, spot: &Spot<'_>, message: impl Into<String>) {
        self.check.warn(spot, message);
    }

    /// What a place stands for; what leads nowhere is a warning that says what follows from it.
    fn follow(&mut self, place: Place, spot: &Spot<'_>, consequence: &str) -> Option<Place> {
        match self.library.follow(place) {
            Ok(target) if self.library.node(target).is_object() => Some(target),
            Ok(target) => {
                let found = self.library.node(target).type_name();
                self.warn(spot, format!("expected an object, found {found}; {consequence}"));
                None
            }
            Err(error) => {
                self.warn(spot, format!("{error}; {consequence}"));
                None
            }
        }
    }

    /// A schema of the document, which is looked at for what is wrong with it.
    fn seen(&mut self, place: Place, view: View, spot: &Spot<'_>) -> Shape {
        let node = self.library.node(place);
        if node.as_bool() == Some(true) || (node.is_object() && node.members().len() == 0) {
            return Shape::Unknown;
        }
        if !node.is_object() && node.as_bool().is_none() {
            let found = node.type_name();
            self.warn(spot, format!("a schema must be an object, found {found}; anything fits"));
            return Shape::Unknown;
        }
        self.check.schema(&self.context, place, spot);
        Shape::Schema(place, view)
    }

    /// The schema of a shape that others may have too.
    fn schema(&mut self, shape: Shape) -> Schema {
        let key = shape.canonical(&self.context);
        if let Some(made) = self.made.get(&key) {
            return made.clone();
        }
        let alone = matches!(key, Shape::Schema(..));
        let made = schema::schema(&self.context, if alone { key.clone() } else { shape });
        self.made.insert(key, made.clone());
        made
    }

    /// The schema of a shape that nobody else has.
    fn own_schema(&self, shape: Shape) -> Schema {
        schema::schema(&self.context, shape)
    }

    /// The media types of Swagger 2.0: the operation's, else the document's, else JSON.
    fn media_types(&self, operation: Place, keyword: &str) -> Vec<&'l str> {
        let listed = |place: Place| {
            let listed = self.library.node(place).get(keyword);
            let listed: Vec<&'l str> =
                listed.into_iter().flat_map(Node::items).filter_map(Node::as_str).collect();
            (!listed.is_empty()).then_some(listed)
        };
        let both = listed(operation).or_else(|| listed(self.library.root()));
        both.unwrap_or_else(|| vec!["application/json"])
    }
}
