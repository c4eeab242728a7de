//! Operations of another gateway, as its document describes them in `x-toolpost-operation`: the same
//! operations here.
//!
//! Where an operation is called, and what is shown there, is said by the document as of any other, so
//! that nothing is allowed here that would not be allowed there.

mod schema;

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Map, Value};

use super::super::document::{Node, Place};
use super::super::plan::{Language, Plan};
use super::super::schema::Spot;
use super::super::settings::Namespaces;
use super::path::Found;
use super::{Imported, Importer};
use crate::access::AccessControl;
use crate::schema::Schema;
use crate::spec::{ErrorDefinition, FROM_HUB, OperationId, OperationSpec};

pub(super) use schema::Schemas;

/// The member of an operation that holds what another gateway says about it.
const EXTENSION: &str = "x-toolpost-operation";
/// What gateways say of themselves, and how they are run; each has its own.
const OWN: [&str; 2] = ["gateway", "hub"];

/// What another gateway says about a path with a method.
pub(super) enum Native {
    /// Nothing, or nothing that can be used: it is an operation as any other.
    No,
    /// This operation.
    Operation(Box<OperationSpec>),
    /// It is not imported, for this reason.
    Skipped(String),
}

impl<'l> Importer<'l> {
    /// What another gateway says about each of these. What it says wrongly is a warning, and the
    /// operation is imported as any other.
    pub(super) fn natives(&mut self, found: &[Found<'l>]) -> Vec<Native> {
        let mut natives: Vec<Native> = Vec::with_capacity(found.len());
        let mut forms: Vec<(usize, OperationId)> = Vec::new();
        let mut taken: HashSet<OperationId> = HashSet::new();
        for (at, found) in found.iter().enumerate() {
            let said = self.extension(found).map(|extension| self.read(found, extension));
            natives.push(match said {
                None => Native::No,
                Some(Ok(Said::Form(id))) => {
                    forms.push((at, id));
                    Native::No
                }
                Some(Ok(Said::Operation(spec, id))) => self.accepted(spec, &id, &mut taken),
                Some(Err(reason)) => self.refused(found, &reason),
            });
        }
        for (at, id) in forms {
            natives[at] = match taken.contains(&id) {
                true => {
                    Native::Skipped(format!("it is another form of {id}, which is called by POST"))
                }
                false => {
                    self.refused(&found[at], &format!("{id}, of which it is a form, is not there"))
                }
            };
        }
        natives
    }

    fn extension(&self, found: &Found<'l>) -> Option<Place> {
        let place = self.library.follow(found.place).ok()?;
        self.library.get(place, EXTENSION)
    }

    fn refused(&mut self, found: &Found<'l>, reason: &str) -> Native {
        let paths = Spot::Document.member("paths");
        let path = paths.member(found.path);
        let message = format!("{reason}; it is imported as an operation of any service");
        self.warn(&path.member(found.key).member(EXTENSION), message);
        Native::No
    }

    /// Whether an operation that was understood is wanted.
    fn accepted(
        &self,
        mut spec: Box<OperationSpec>,
        id: &OperationId,
        taken: &mut HashSet<OperationId>,
    ) -> Native {
        let is_foreign = spec.meta.as_ref().is_some_and(|meta| meta.contains_key(FROM_HUB));
        if !taken.insert(id.clone()) {
            return Native::Skipped(format!("{id} is in the document twice"));
        }
        if is_foreign {
            return Native::Skipped(format!(
                "{id} came to that gateway from another one; import it from there"
            ));
        }
        if OWN.contains(&id.namespace()) {
            return Native::Skipped(format!("{id} is about that gateway itself"));
        }
        if self.namespaces == Namespaces::Below {
            (spec.namespace, spec.name) = (self.namespace.to_owned(), id.to_string());
        }
        match spec.id() {
            Ok(_) => Native::Operation(self.marked(spec)),
            Err(error) => Native::Skipped(error.to_string()),
        }
    }

    /// Who may call it there was decided there; who may call it here is decided here. Whether somebody
    /// has to agree is asked where it runs.
    fn marked(&self, mut spec: Box<OperationSpec>) -> Box<OperationSpec> {
        spec.access_control = AccessControl::default();
        spec.approval = false;
        let meta = spec.meta.get_or_insert_default();
        meta.insert(FROM_HUB.to_owned(), self.namespace.into());
        spec
    }

    fn read(&mut self, found: &Found<'l>, extension: Place) -> Result<Said, String> {
        let node = self.library.node(extension);
        if !node.is_object() {
            return Err(format!("it must be an object, found {}", node.type_name()));
        }
        if node.get("form").is_some() {
            let text = |name| node.get(name).and_then(Node::as_str).unwrap_or_default();
            let id = OperationId::new(text("namespace"), text("name"));
            return id.map(Said::Form).map_err(|error| error.to_string());
        }
        if found.method != Method::POST.as_str() {
            return Err(format!("an operation is called by POST, and this is {}", found.method));
        }
        if found.path.contains(['{', '}', '?', '#']) {
            return Err("its path has something to be filled in".to_owned());
        }
        let spec = self.spec(extension)?;
        let id = spec.id().map_err(|error| error.to_string())?;
        Ok(Said::Operation(Box::new(spec), id))
    }

    fn spec(&mut self, extension: Place) -> Result<OperationSpec, String> {
        let node = self.library.node(extension);
        let mut members = Map::new();
        for (name, value) in node.members() {
            if !["inputSchema", "outputSchema", "errorSchemas", "accessControl"].contains(&name) {
                members.insert(name.to_owned(), value.to_value());
            }
        }
        let read = serde_json::from_value::<OperationSpec>(Value::Object(members));
        let mut spec = read.map_err(|error| error.to_string())?;
        spec.input_schema = self.own(extension, "inputSchema")?;
        spec.output_schema = self.own(extension, "outputSchema")?;
        spec.error_schemas = self.errors(extension)?;
        Ok(spec)
    }

    fn errors(&mut self, extension: Place) -> Result<Vec<ErrorDefinition>, String> {
        let library = self.library;
        let listed = library.node(extension).get("errorSchemas");
        let mut errors = Vec::new();
        for node in listed.into_iter().flat_map(Node::items) {
            let place = library.beside(extension, node);
            let members = node.members().filter(|(name, _)| *name != "schema");
            let members = members.map(|(name, value)| (name.to_owned(), value.to_value()));
            let read = serde_json::from_value::<ErrorDefinition>(Value::Object(members.collect()));
            let error = read.map_err(|error| format!("errorSchemas: {error}"))?;
            errors.push(error.with_schema(self.own(place, "schema")?));
        }
        match listed {
            Some(listed) if !listed.is_array() => {
                Err(format!("`errorSchemas` must be a list, found {}", listed.type_name()))
            }
            _ => Ok(errors),
        }
    }

    /// A schema of the other gateway to the letter.
    fn own(&mut self, owner: Place, name: &str) -> Result<Schema, String> {
        let Some(place) = self.library.get(owner, name) else { return Ok(Schema::unknown()) };
        let taken = self.native_schemas.take(&self.context.library, place);
        taken.map_err(|error| format!("{name}: {error}"))
    }

    /// An operation of another gateway, and the way to it.
    pub(super) fn native(&mut self, found: &Found<'l>, spec: OperationSpec) -> Imported {
        let paths = Spot::Document.member("paths");
        let item = paths.member(found.path);
        let spot = item.member(found.key);
        let place = self.library.follow(found.place).unwrap_or(found.place);
        let servers = self.servers(place, &spot).or_else(|| self.servers(found.item, &item));
        let security = self.security(place, &spot);
        let is_absolute = found.path.starts_with('/');
        let plan = Plan {
            method: Method::POST,
            language: Language::Toolpost,
            path: if is_absolute { found.path.to_owned() } else { format!("/{}", found.path) },
            servers: servers.unwrap_or_else(|| self.default_servers.clone()),
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            security: security.unwrap_or_else(|| self.default_security.clone()),
        };
        Imported { spec, plan }
    }
}

/// What an extension that is one says.
enum Said {
    Operation(Box<OperationSpec>, OperationId),
    /// Another form of that operation.
    Form(OperationId),
}
