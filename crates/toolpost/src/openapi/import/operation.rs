//! One operation of a document, as an operation.

use reqwest::Method;
use serde_json::{Map, Value};

use super::super::document::Node;
use super::super::plan::{Language, Plan};
use super::super::schema::{Member, Shape, Source, Spot};
use super::body::SettledBody;
use super::parameter::Settled;
use super::path::Found;
use super::{Imported, Importer, OPENAPI_META};
use crate::spec::{Kind, OperationId, OperationSpec};

impl<'l> Importer<'l> {
    /// Reads one operation.
    ///
    /// # Errors
    ///
    /// Why it cannot be called, for a person.
    pub(super) fn operation(&mut self, found: &Found<'l>, name: &str) -> Result<Imported, String> {
        let paths = Spot::Document.member("paths");
        let item = paths.member(found.path);
        let spot = item.member(found.key);
        let method = Method::from_bytes(found.method.as_bytes())
            .map_err(|_| format!("`{}` is no method of HTTP", found.method))?;
        let place = self.library.follow(found.place).map_err(|error| error.to_string())?;
        let node = self.library.node(place);
        if !node.is_object() {
            return Err(format!("an operation must be an object, found {}", node.type_name()));
        }
        let id = OperationId::new(self.namespace, name).map_err(|error| error.to_string())?;
        let raws = self.raw_parameters(found, place, [&item, &spot])?;
        let body = self.body(place, &raws, &spot)?;
        let (settled, path) = self.parameters(&raws, found.path, body.is_some(), &spot);
        let responses = self.responses(place, method == Method::HEAD, &spot);

        let mut spec = OperationSpec::new(&id, kind(&method, responses.is_stream));
        spec.idempotent = matches!(method, Method::PUT | Method::DELETE);
        describe(&mut spec, node, self.library.node(found.item));
        spec.meta = Some(meta(found, node));
        spec.input_schema = self.input(&settled, body.as_ref(), &spot);
        spec.output_schema = self.schema(responses.output);
        spec.error_schemas = responses.errors;
        let servers = self.servers(place, &spot).or_else(|| self.servers(found.item, &item));
        let security = self.security(place, &spot);
        let plan = Plan {
            method,
            language: Language::Http,
            path: if path.starts_with('/') { path } else { format!("/{path}") },
            servers: servers.unwrap_or_else(|| self.default_servers.clone()),
            parameters: settled.into_iter().map(|settled| settled.parameter).collect(),
            body: body.map(|body| body.body),
            responses: responses.responses,
            security: security.unwrap_or_else(|| self.default_security.clone()),
        };
        Ok(Imported { spec, plan })
    }

    fn input(
        &mut self,
        settled: &[Settled],
        body: Option<&SettledBody>,
        spot: &Spot<'_>,
    ) -> crate::schema::Schema {
        let mut members = Vec::with_capacity(settled.len() + 1);
        for Settled { parameter, place } in settled {
            if let Some(place) = place {
                self.check.parameter(
                    &self.context,
                    *place,
                    &spot.member("parameters").member(&parameter.name),
                );
            }
            members.push(Member {
                name: parameter.input.as_str().into(),
                required: parameter.required,
                source: place.map_or(Source::Undeclared, Source::Parameter),
            });
        }
        members.extend(body.map(|settled| Member {
            name: settled.body.input.as_str().into(),
            required: settled.body.required,
            source: Source::Body(settled.shape.clone(), settled.described),
        }));
        self.own_schema(Shape::Input(members.into()))
    }
}

/// Whoever asks for something is a query, unless it is answered many times.
fn kind(method: &Method, is_stream: bool) -> Kind {
    match method.as_str() {
        _ if is_stream => Kind::Subscription,
        "GET" | "HEAD" | "QUERY" => Kind::Query,
        _ => Kind::Mutation,
    }
}

/// Title, description and tags; what an operation does not say, its path may.
fn describe(spec: &mut OperationSpec, node: Node<'_>, item: Node<'_>) {
    let text = |name| {
        let said = |node: Node<'_>| {
            let text = node.get(name).and_then(Node::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        said(node).or_else(|| said(item))
    };
    spec.title = text("summary");
    spec.description = text("description").or_else(|| spec.title.clone()).unwrap_or_default();
    let tags = node.get("tags").into_iter().flat_map(Node::items);
    spec.tags = tags.filter_map(Node::as_str).map(str::to_owned).collect();
}

/// What has no place of its own in an operation.
fn meta(found: &Found<'_>, node: Node<'_>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("method".to_owned(), found.method.as_str().into());
    meta.insert("path".to_owned(), found.path.into());
    if let Some(id) = node.get("operationId").and_then(Node::as_str) {
        meta.insert("operationId".to_owned(), id.into());
    }
    if node.get("deprecated").and_then(Node::as_bool) == Some(true) {
        meta.insert("deprecated".to_owned(), true.into());
    }
    let docs = node.get("externalDocs").and_then(|docs| docs.get("url")).and_then(Node::as_str);
    if let Some(docs) = docs {
        meta.insert("externalDocs".to_owned(), docs.into());
    }
    Map::from_iter([(OPENAPI_META.to_owned(), meta.into())])
}
