//! Parameters of an operation: their locations and serialization.

use std::collections::HashMap;

use super::super::document::Node;
use super::super::plan::{Parameter, ParameterLocation, ParameterSerialization, Style};
use super::Importer;
use super::path_item::PathOperation;
use super::server::template_names;
use super::version::SpecVersion;
use crate::json::ValuePath;

/// A parameter as declared in the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawParameter<'l> {
    pub(super) name: &'l str,
    pub(super) location: RawParameterLocation,
    pub(super) node: Node<'l>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawParameterLocation {
    Request(ParameterLocation),
    /// The Swagger 2.0 body parameter.
    Body,
    /// A Swagger 2.0 form field.
    FormData,
}

/// A parameter of a plan and the node that declares it, if any.
pub(super) struct PlannedParameter<'l> {
    pub(super) parameter: Parameter,
    pub(super) node: Option<Node<'l>>,
}

impl<'l> Importer<'l> {
    /// Returns the parameters of an operation, which replace those of its path item.
    pub(super) fn raw_parameters(
        &mut self,
        path_operation: &PathOperation<'l>,
        operation: Node<'l>,
        paths: [&ValuePath<'_>; 2],
    ) -> Result<Vec<RawParameter<'l>>, String> {
        let mut all: Vec<RawParameter<'l>> = Vec::new();
        for (owner, path) in [path_operation.path_item, operation].into_iter().zip(paths) {
            for raw in self.declared_parameters(owner, path)? {
                match all.iter_mut().find(|known| is_same(known, &raw)) {
                    Some(known) => *known = raw,
                    None => all.push(raw),
                }
            }
        }
        Ok(all)
    }

    fn declared_parameters(
        &mut self,
        owner: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Result<Vec<RawParameter<'l>>, String> {
        let Some(listed) = owner.get("parameters") else { return Ok(Vec::new()) };
        let path = path.member("parameters");
        if !listed.is_array() {
            let found = listed.type_name();
            self.warn(&path, format!("`parameters` must be a list, found {found}"));
        }
        let mut raws = Vec::new();
        for (index, node) in listed.items().enumerate() {
            let path = path.item(index);
            if let Some(node) = self.resolve_object(node, &path, "the parameter is ignored") {
                raws.extend(self.parse_parameter(node, &path)?);
            }
        }
        Ok(raws)
    }

    fn parse_parameter(
        &mut self,
        node: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Result<Option<RawParameter<'l>>, String> {
        let written = node.text("in");
        let request_location = written.and_then(ParameterLocation::from_name).filter(|location| {
            *location != ParameterLocation::QueryString || self.version == SpecVersion::V32
        });
        let location = match (request_location, written) {
            (Some(location), _) => RawParameterLocation::Request(location),
            (_, Some("body")) if self.version == SpecVersion::V2 => RawParameterLocation::Body,
            (_, Some("formData")) if self.version == SpecVersion::V2 => {
                RawParameterLocation::FormData
            }
            (_, other) => {
                let name = node.text("name").unwrap_or("without a name");
                let problem = other.map_or("stands nowhere".to_owned(), |other| {
                    format!("has the unknown location `{other}`")
                });
                let reason = format!("the parameter `{name}` {problem}");
                return self.reject_parameter(node, path, &reason);
            }
        };
        match node.text("name").filter(|name| !name.is_empty()) {
            Some(name) => Ok(Some(RawParameter { name, location, node })),
            None if location == RawParameterLocation::Body => {
                Ok(Some(RawParameter { name: "body", location, node }))
            }
            None => self.reject_parameter(node, path, "a parameter has no name"),
        }
    }

    /// Omits an invalid parameter with a warning. If it is required, skips the operation.
    fn reject_parameter<T>(
        &mut self,
        node: Node<'_>,
        doc_path: &ValuePath<'_>,
        reason: &str,
    ) -> Result<Option<T>, String> {
        if node.flag("required") {
            return Err(format!("{reason}, and it is required"));
        }
        self.warn(doc_path, format!("{reason}; it is ignored"));
        Ok(None)
    }

    /// Plans the parameters of the request, and returns them with the normalized path template.
    pub(super) fn plan_parameters(
        &mut self,
        raws: &[RawParameter<'l>],
        path: &str,
        has_body: bool,
        doc_path: &ValuePath<'_>,
    ) -> (Vec<PlannedParameter<'l>>, String) {
        let mut path = path.to_owned();
        let mut planned: Vec<PlannedParameter<'l>> = Vec::new();
        for raw in raws {
            let RawParameterLocation::Request(location) = raw.location else { continue };
            if location == ParameterLocation::Header && self.is_implicit_header(raw.name) {
                self.implicit_headers.insert(raw.name.to_ascii_lowercase());
                continue;
            }
            let mut serialization = self.serialization(raw, location, doc_path);
            if location == ParameterLocation::Path
                && !self.bind_to_path(&mut path, raw, &mut serialization, doc_path)
            {
                continue;
            }
            let required = raw.node.flag("required") || location == ParameterLocation::Path;
            let (name, input) = (raw.name.to_owned(), raw.name.to_owned());
            let parameter = Parameter { name, input, location, required, serialization };
            planned.push(PlannedParameter { parameter, node: Some(raw.node) });
        }
        for name in template_names(&path) {
            let is_it = |known: &PlannedParameter<'_>| {
                known.parameter.location == ParameterLocation::Path && known.parameter.name == name
            };
            if !planned.iter().any(is_it) {
                let message =
                    format!("no parameter describes `{{{name}}}` of the path; it accepts any text");
                self.warn(doc_path, message);
                let parameter = Parameter {
                    name: name.to_owned(),
                    input: name.to_owned(),
                    location: ParameterLocation::Path,
                    required: true,
                    serialization: serialization(Style::Simple, false, false),
                };
                planned.push(PlannedParameter { parameter, node: None });
            }
        }
        qualify_input_names(&mut planned, has_body);
        (planned, path)
    }

    /// Whether the body, the credentials (not in Swagger 2.0) or the client set a header.
    fn is_implicit_header(&self, header: &str) -> bool {
        const IMPLICIT_HEADERS: [&str; 9] = [
            "accept",
            "content-type",
            "content-length",
            "host",
            "connection",
            "transfer-encoding",
            "te",
            "trailer",
            "upgrade",
        ];
        IMPLICIT_HEADERS.iter().any(|name| header.eq_ignore_ascii_case(name))
            || (header.eq_ignore_ascii_case("authorization") && self.version != SpecVersion::V2)
    }

    /// Whether the path contains a placeholder for the parameter. Placeholders with framework
    /// syntax are replaced by `{name}`: `{+name}`, `{name*}`, `{name=**}`, `{name:.+}`.
    fn bind_to_path(
        &mut self,
        path: &mut String,
        raw: &RawParameter<'_>,
        serialization: &mut ParameterSerialization,
        doc_path: &ValuePath<'_>,
    ) -> bool {
        let names = template_names(path);
        if names.contains(&raw.name) {
            return true;
        }
        let is_same_name = |inside: &str| {
            let name = inside.trim_start_matches(['+', '*']);
            let name = name.split(['=', ':', '*']).next().unwrap_or(name);
            name.trim() == raw.name.trim_start_matches('*')
        };
        let Some(inside) = names.into_iter().find(|inside| is_same_name(inside)).map(str::to_owned)
        else {
            let name = raw.name;
            self.warn(doc_path, format!("the path has no `{{{name}}}`; the parameter is ignored"));
            return false;
        };
        *path = path.replace(&format!("{{{inside}}}"), &format!("{{{}}}", raw.name));
        if let ParameterSerialization::Style { allow_reserved, .. } = serialization {
            *allow_reserved = inside.contains(['+', '*']);
        }
        true
    }

    fn serialization(
        &mut self,
        raw: &RawParameter<'_>,
        location: ParameterLocation,
        doc_path: &ValuePath<'_>,
    ) -> ParameterSerialization {
        let node = raw.node;
        if self.version == SpecVersion::V2 {
            let (style, explode) = collection_style(node, location);
            return serialization(style, explode, false);
        }
        if let Some((media_type, _)) = node.members_of("content").next() {
            return ParameterSerialization::Content(media_type.to_owned());
        }
        if location == ParameterLocation::QueryString {
            let media_type = "application/x-www-form-urlencoded".to_owned();
            return ParameterSerialization::Content(media_type);
        }
        let name = node.text("style");
        let allowed = name.and_then(parse_style).filter(|it| is_style_allowed(*it, location));
        if let (Some(name), None) = (name, allowed) {
            let message = format!("the parameter `{}` cannot have the style `{name}`", raw.name);
            self.warn(doc_path, format!("{message}; the default style is used"));
        }
        let style = allowed.unwrap_or(usual_style(location));
        let explode = node.get("explode").and_then(|explode| explode.as_bool());
        let explode =
            explode.unwrap_or(matches!(style, Style::Form | Style::Cookie | Style::DeepObject));
        serialization(style, explode, node.flag("allowReserved"))
    }
}

fn serialization(style: Style, explode: bool, allow_reserved: bool) -> ParameterSerialization {
    ParameterSerialization::Style { style, explode, allow_reserved }
}

fn is_same(left: &RawParameter<'_>, right: &RawParameter<'_>) -> bool {
    let same_name = match left.location {
        RawParameterLocation::Request(ParameterLocation::Header) => {
            left.name.eq_ignore_ascii_case(right.name)
        }
        RawParameterLocation::Body => true,
        _ => left.name == right.name,
    };
    left.location == right.location && same_name
}

pub(super) fn parse_style(name: &str) -> Option<Style> {
    Some(match name {
        "matrix" => Style::Matrix,
        "label" => Style::Label,
        "simple" => Style::Simple,
        "form" => Style::Form,
        "spaceDelimited" => Style::SpaceDelimited,
        "pipeDelimited" => Style::PipeDelimited,
        "deepObject" => Style::DeepObject,
        "cookie" => Style::Cookie,
        _ => return None,
    })
}

fn is_style_allowed(style: Style, location: ParameterLocation) -> bool {
    match location {
        ParameterLocation::Path => matches!(style, Style::Matrix | Style::Label | Style::Simple),
        ParameterLocation::Header => style == Style::Simple,
        ParameterLocation::Cookie => matches!(style, Style::Form | Style::Cookie),
        ParameterLocation::Query | ParameterLocation::QueryString => matches!(
            style,
            Style::Form | Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject
        ),
    }
}

fn usual_style(location: ParameterLocation) -> Style {
    match location {
        ParameterLocation::Path | ParameterLocation::Header => Style::Simple,
        _ => Style::Form,
    }
}

/// Returns the style and `explode` for `collectionFormat` of Swagger 2.0.
pub(super) fn collection_style(node: Node<'_>, location: ParameterLocation) -> (Style, bool) {
    let comma = usual_style(location);
    match node.text("collectionFormat") {
        Some("ssv") => (Style::SpaceDelimited, false),
        Some("tsv") => (Style::TabDelimited, false),
        Some("pipes") => (Style::PipeDelimited, false),
        Some("multi") if comma == Style::Form => (comma, true),
        _ => (comma, false),
    }
}

/// Assigns the input property names. A unique name that does not conflict with the body is kept.
/// Other names are prefixed with their location. This is repeated until all names are unique, so
/// the result does not depend on the order.
fn qualify_input_names(planned: &mut [PlannedParameter<'_>], has_body: bool) {
    loop {
        let mut counts: HashMap<String, usize> = HashMap::new();
        counts.insert("body".to_owned(), usize::from(has_body));
        for known in planned.iter() {
            *counts.entry(known.parameter.input.clone()).or_default() += 1;
        }
        let mut is_changed = false;
        for PlannedParameter { parameter, .. } in planned.iter_mut() {
            let qualified = format!("{}_{}", parameter.location.name(), parameter.name);
            if counts[&parameter.input] > 1 && parameter.input != qualified {
                parameter.input = qualified;
                is_changed = true;
            }
        }
        if !is_changed {
            return;
        }
    }
}
