//! Parameters of an operation: their locations and serialization.

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{Parameter, ParameterLocation, ParameterSerialization, Style};
use super::super::schema::DocumentPath;
use super::Importer;
use super::path_item::PathOperation;
use super::server::template_names;
use super::version::SpecVersion;

/// A parameter as declared in the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawParameter<'l> {
    pub(super) name: &'l str,
    pub(super) location: RawParameterLocation,
    pub(super) node_ref: NodeRef,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawParameterLocation {
    Request(ParameterLocation),
    /// The Swagger 2.0 body parameter.
    Body,
    /// A Swagger 2.0 form field.
    FormData,
}

/// A parameter of a plan and the node that declares it. The node is `None` for an undeclared path
/// parameter.
pub(super) struct PlannedParameter {
    pub(super) parameter: Parameter,
    pub(super) node_ref: Option<NodeRef>,
}

impl<'l> Importer<'l> {
    /// Returns the parameters of an operation and of its path item. A parameter of the operation
    /// replaces one with the same name and location.
    ///
    /// # Errors
    ///
    /// A required parameter is invalid, so the operation cannot be called correctly.
    pub(super) fn raw_parameters(
        &mut self,
        path_operation: &PathOperation<'l>,
        operation: NodeRef,
        spots: [&DocumentPath<'_>; 2],
    ) -> Result<Vec<RawParameter<'l>>, String> {
        let mut all: Vec<RawParameter<'l>> = Vec::new();
        for (owner, doc_path) in [path_operation.path_item, operation].into_iter().zip(spots) {
            for raw in self.declared_parameters(owner, doc_path)? {
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
        owner: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Result<Vec<RawParameter<'l>>, String> {
        let documents = self.documents;
        let Some(listed) = documents.node(owner).get("parameters") else { return Ok(Vec::new()) };
        let doc_path = doc_path.member("parameters");
        if !listed.is_array() {
            self.warn(
                &doc_path,
                format!("`parameters` must be a list, found {}", listed.type_name()),
            );
        }
        let mut raws = Vec::new();
        for (index, node) in listed.items().enumerate() {
            let doc_path = doc_path.item(index);
            let node_ref = documents.node_ref(owner, node);
            if let Some(node_ref) =
                self.resolve_object(node_ref, &doc_path, "the parameter is left out")
            {
                raws.extend(self.parse_parameter(node_ref, &doc_path)?);
            }
        }
        Ok(raws)
    }

    fn parse_parameter(
        &mut self,
        node_ref: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Result<Option<RawParameter<'l>>, String> {
        let node = self.documents.node(node_ref);
        let text = |name| node.get(name).and_then(TreeNode::as_str);
        let location = match (text("in"), self.version) {
            (Some("path"), _) => RawParameterLocation::Request(ParameterLocation::Path),
            (Some("query"), _) => RawParameterLocation::Request(ParameterLocation::Query),
            (Some("header"), _) => RawParameterLocation::Request(ParameterLocation::Header),
            (Some("cookie"), _) => RawParameterLocation::Request(ParameterLocation::Cookie),
            (Some("querystring"), SpecVersion::V32) => {
                RawParameterLocation::Request(ParameterLocation::QueryString)
            }
            (Some("body"), SpecVersion::V2) => RawParameterLocation::Body,
            (Some("formData"), SpecVersion::V2) => RawParameterLocation::FormData,
            (other, _) => {
                let name = text("name").unwrap_or("without a name");
                let node_ref = other.map_or("stands nowhere".to_owned(), |other| {
                    format!("stands in `{other}`, which is not known")
                });
                return self.reject_parameter(
                    node,
                    doc_path,
                    &format!("the parameter `{name}` {node_ref}"),
                );
            }
        };
        match text("name").filter(|name| !name.is_empty()) {
            Some(name) => Ok(Some(RawParameter { name, location, node_ref })),
            None if location == RawParameterLocation::Body => {
                Ok(Some(RawParameter { name: "body", location, node_ref }))
            }
            None => self.reject_parameter(node, doc_path, "a parameter has no name"),
        }
    }

    /// Omits an invalid parameter with a warning. A required one is an error that skips the
    /// operation.
    fn reject_parameter<T>(
        &mut self,
        node: TreeNode<'_>,
        doc_path: &DocumentPath<'_>,
        reason: &str,
    ) -> Result<Option<T>, String> {
        if node.get("required").and_then(TreeNode::as_bool) == Some(true) {
            return Err(format!("{reason}, and it is required"));
        }
        self.warn(doc_path, format!("{reason}; it is left out"));
        Ok(None)
    }

    /// Plans the parameters of the request, and returns them with the normalized path template.
    pub(super) fn plan_parameters(
        &mut self,
        raws: &[RawParameter<'l>],
        path: &str,
        has_body: bool,
        doc_path: &DocumentPath<'_>,
    ) -> (Vec<PlannedParameter>, String) {
        let mut path = path.to_owned();
        let mut planned = Vec::new();
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
            planned.push(self.planned_parameter(raw, location, serialization));
        }
        for name in template_names(&path) {
            if !planned.iter().any(|known| known.is_in_path(name)) {
                self.warn(
                    doc_path,
                    format!("no parameter describes `{{{name}}}` of the path; it takes any text"),
                );
                planned.push(undeclared_path_parameter(name));
            }
        }
        qualify_input_names(&mut planned, has_body);
        (planned, path)
    }

    fn planned_parameter(
        &self,
        raw: &RawParameter<'l>,
        location: ParameterLocation,
        serialization: ParameterSerialization,
    ) -> PlannedParameter {
        let node = self.documents.node(raw.node_ref);
        let required = node.get("required").and_then(TreeNode::as_bool) == Some(true);
        let parameter = Parameter {
            name: raw.name.to_owned(),
            input: raw.name.to_owned(),
            location,
            required: required || location == ParameterLocation::Path,
            serialization,
        };
        PlannedParameter { parameter, node_ref: Some(raw.node_ref) }
    }

    /// Whether the body, the credentials or the HTTP client set a header. Swagger 2.0 does not
    /// reserve `Authorization`.
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
        doc_path: &DocumentPath<'_>,
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
            self.warn(doc_path, format!("the path has no `{{{name}}}`; the parameter is left out"));
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
        doc_path: &DocumentPath<'_>,
    ) -> ParameterSerialization {
        let node = self.documents.node(raw.node_ref);
        if self.version == SpecVersion::V2 {
            return collection_serialization(node, location);
        }
        let content = node.get("content").and_then(|content| content.members().next());
        match content {
            Some((media_type, _)) => ParameterSerialization::Content(media_type.to_owned()),
            None if location == ParameterLocation::QueryString => {
                ParameterSerialization::Content("application/x-www-form-urlencoded".to_owned())
            }
            None => self.style_serialization(raw, node, location, doc_path),
        }
    }

    fn style_serialization(
        &mut self,
        raw: &RawParameter<'_>,
        node: TreeNode<'_>,
        location: ParameterLocation,
        doc_path: &DocumentPath<'_>,
    ) -> ParameterSerialization {
        let default_style = match location {
            ParameterLocation::Query
            | ParameterLocation::Cookie
            | ParameterLocation::QueryString => Style::Form,
            ParameterLocation::Path | ParameterLocation::Header => Style::Simple,
        };
        let style = match node.get("style").and_then(TreeNode::as_str) {
            None => default_style,
            Some(name) => {
                match parse_style(name).filter(|style| is_style_allowed(*style, location)) {
                    Some(style) => style,
                    None => {
                        let message =
                            format!("the parameter `{}` cannot have the style `{name}`", raw.name);
                        self.warn(doc_path, format!("{message}; it has the usual one"));
                        default_style
                    }
                }
            }
        };
        let explode = node.get("explode").and_then(TreeNode::as_bool);
        ParameterSerialization::Style {
            style,
            explode: explode
                .unwrap_or(matches!(style, Style::Form | Style::Cookie | Style::DeepObject)),
            allow_reserved: node.get("allowReserved").and_then(TreeNode::as_bool) == Some(true),
        }
    }
}

impl PlannedParameter {
    fn is_in_path(&self, name: &str) -> bool {
        self.parameter.location == ParameterLocation::Path && self.parameter.name == name
    }
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

fn undeclared_path_parameter(name: &str) -> PlannedParameter {
    let serialization = ParameterSerialization::Style {
        style: Style::Simple,
        explode: false,
        allow_reserved: false,
    };
    let parameter = Parameter {
        name: name.to_owned(),
        input: name.to_owned(),
        location: ParameterLocation::Path,
        required: true,
        serialization,
    };
    PlannedParameter { parameter, node_ref: None }
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

/// Returns the serialization for `collectionFormat` of Swagger 2.0.
fn collection_serialization(
    node: TreeNode<'_>,
    location: ParameterLocation,
) -> ParameterSerialization {
    let (style, explode) = collection_style(node, location);
    ParameterSerialization::Style { style, explode, allow_reserved: false }
}

pub(super) fn collection_style(node: TreeNode<'_>, location: ParameterLocation) -> (Style, bool) {
    let comma = match location {
        ParameterLocation::Path | ParameterLocation::Header => Style::Simple,
        _ => Style::Form,
    };
    match node.get("collectionFormat").and_then(TreeNode::as_str) {
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
fn qualify_input_names(planned: &mut [PlannedParameter], has_body: bool) {
    let mut qualified = vec![false; planned.len()];
    loop {
        let clashes: Vec<usize> = (0..planned.len())
            .filter(|at| !qualified[*at])
            .filter(|at| {
                let name = &planned[*at].parameter.input;
                let taken = |(other, known): (usize, &PlannedParameter)| {
                    other != *at && known.parameter.input == *name
                };
                (has_body && name == "body") || planned.iter().enumerate().any(taken)
            })
            .collect();
        if clashes.is_empty() {
            return;
        }
        for at in clashes {
            let parameter = &mut planned[at].parameter;
            parameter.input = format!("{}_{}", location_prefix(parameter.location), parameter.name);
            qualified[at] = true;
        }
    }
}

fn location_prefix(location: ParameterLocation) -> &'static str {
    match location {
        ParameterLocation::Path => "path",
        ParameterLocation::Query => "query",
        ParameterLocation::QueryString => "querystring",
        ParameterLocation::Header => "header",
        ParameterLocation::Cookie => "cookie",
    }
}
