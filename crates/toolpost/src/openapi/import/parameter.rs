//! Parameters: which an operation has, where they stand and how they are written.

use super::super::document::{Node, Place};
use super::super::plan::{Notation, Parameter, Position, Style};
use super::super::schema::Spot;
use super::Importer;
use super::path::Found;
use super::server::template_names;
use super::version::Version;

/// A parameter as the document has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'l> {
    pub(super) name: &'l str,
    pub(super) position: RawPosition,
    pub(super) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawPosition {
    Request(Position),
    /// The body of Swagger 2.0.
    Body,
    /// A field of a form of Swagger 2.0.
    FormData,
}

/// A parameter of a plan, and where its schema is; `None` for one that is not declared.
pub(super) struct Settled {
    pub(super) parameter: Parameter,
    pub(super) place: Option<Place>,
}

impl<'l> Importer<'l> {
    /// The parameters of an operation and of its path; the operation's come instead of those that
    /// have the same name and position.
    ///
    /// # Errors
    ///
    /// One that is required cannot be understood, so a call would be wrong without it.
    pub(super) fn raw_parameters(
        &mut self,
        found: &Found<'l>,
        operation: Place,
        spots: [&Spot<'_>; 2],
    ) -> Result<Vec<Raw<'l>>, String> {
        let mut all: Vec<Raw<'l>> = Vec::new();
        for (owner, spot) in [found.item, operation].into_iter().zip(spots) {
            for raw in self.listed(owner, spot)? {
                match all.iter_mut().find(|known| is_same(known, &raw)) {
                    Some(known) => *known = raw,
                    None => all.push(raw),
                }
            }
        }
        Ok(all)
    }

    fn listed(&mut self, owner: Place, spot: &Spot<'_>) -> Result<Vec<Raw<'l>>, String> {
        let library = self.library;
        let Some(listed) = library.node(owner).get("parameters") else { return Ok(Vec::new()) };
        let spot = spot.member("parameters");
        if !listed.is_array() {
            self.warn(&spot, format!("`parameters` must be a list, found {}", listed.type_name()));
        }
        let mut raws = Vec::new();
        for (index, node) in listed.items().enumerate() {
            let spot = spot.item(index);
            let place = library.beside(owner, node);
            if let Some(place) = self.follow(place, &spot, "the parameter is left out") {
                raws.extend(self.raw(place, &spot)?);
            }
        }
        Ok(raws)
    }

    fn raw(&mut self, place: Place, spot: &Spot<'_>) -> Result<Option<Raw<'l>>, String> {
        let node = self.library.node(place);
        let text = |name| node.get(name).and_then(Node::as_str);
        let position = match (text("in"), self.version) {
            (Some("path"), _) => RawPosition::Request(Position::Path),
            (Some("query"), _) => RawPosition::Request(Position::Query),
            (Some("header"), _) => RawPosition::Request(Position::Header),
            (Some("cookie"), _) => RawPosition::Request(Position::Cookie),
            (Some("querystring"), Version::V32) => RawPosition::Request(Position::QueryString),
            (Some("body"), Version::V2) => RawPosition::Body,
            (Some("formData"), Version::V2) => RawPosition::FormData,
            (other, _) => {
                let name = text("name").unwrap_or("without a name");
                let place = other.map_or("stands nowhere".to_owned(), |other| {
                    format!("stands in `{other}`, which is not known")
                });
                return self.refuse(node, spot, &format!("the parameter `{name}` {place}"));
            }
        };
        match text("name").filter(|name| !name.is_empty()) {
            Some(name) => Ok(Some(Raw { name, position, place })),
            None if position == RawPosition::Body => {
                Ok(Some(Raw { name: "body", position, place }))
            }
            None => self.refuse(node, spot, "a parameter has no name"),
        }
    }

    /// A parameter that is not understood is left out; the operation too, if it is required.
    fn refuse<T>(
        &mut self,
        node: Node<'_>,
        spot: &Spot<'_>,
        reason: &str,
    ) -> Result<Option<T>, String> {
        if node.get("required").and_then(Node::as_bool) == Some(true) {
            return Err(format!("{reason}, and it is required"));
        }
        self.warn(spot, format!("{reason}; it is left out"));
        Ok(None)
    }

    /// The parameters that are part of a request, with the path as it is to be filled in.
    pub(super) fn parameters(
        &mut self,
        raws: &[Raw<'l>],
        path: &str,
        has_body: bool,
        spot: &Spot<'_>,
    ) -> (Vec<Settled>, String) {
        let mut path = path.to_owned();
        let mut settled = Vec::new();
        for raw in raws {
            let RawPosition::Request(position) = raw.position else { continue };
            if position == Position::Header && self.is_settled_elsewhere(raw.name) {
                self.settled_elsewhere.insert(raw.name.to_ascii_lowercase());
                continue;
            }
            let mut notation = self.notation(raw, position, spot);
            if position == Position::Path && !self.take_place(&mut path, raw, &mut notation, spot) {
                continue;
            }
            settled.push(self.settled(raw, position, notation));
        }
        for name in template_names(&path) {
            if !settled.iter().any(|known| known.is_in_path(name)) {
                self.warn(
                    spot,
                    format!("no parameter describes `{{{name}}}` of the path; it takes any text"),
                );
                settled.push(undeclared(name));
            }
        }
        qualify(&mut settled, has_body);
        (settled, path)
    }

    fn settled(&self, raw: &Raw<'l>, position: Position, notation: Notation) -> Settled {
        let node = self.library.node(raw.place);
        let required = node.get("required").and_then(Node::as_bool) == Some(true);
        let parameter = Parameter {
            name: raw.name.to_owned(),
            input: raw.name.to_owned(),
            position,
            required: required || position == Position::Path,
            notation,
        };
        Settled { parameter, place: Some(raw.place) }
    }

    /// What a body, credentials and whoever sends the request say better; Swagger 2.0 knows no rule
    /// about `Authorization`.
    fn is_settled_elsewhere(&self, header: &str) -> bool {
        const FRAMING: [&str; 9] = [
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
        FRAMING.iter().any(|name| header.eq_ignore_ascii_case(name))
            || (header.eq_ignore_ascii_case("authorization") && self.version != Version::V2)
    }

    /// Whether the path has room for a parameter. Some frameworks write more into the braces than
    /// the name: `{+name}`, `{name*}`, `{name=**}`, `{name:.+}`.
    fn take_place(
        &mut self,
        path: &mut String,
        raw: &Raw<'_>,
        notation: &mut Notation,
        spot: &Spot<'_>,
    ) -> bool {
        let names = template_names(path);
        if names.contains(&raw.name) {
            return true;
        }
        let bare = |inside: &str| {
            let name = inside.trim_start_matches(['+', '*']);
            let name = name.split(['=', ':', '*']).next().unwrap_or(name);
            name.trim() == raw.name.trim_start_matches('*')
        };
        let Some(inside) = names.into_iter().find(|inside| bare(inside)).map(str::to_owned) else {
            let name = raw.name;
            self.warn(spot, format!("the path has no `{{{name}}}`; the parameter is left out"));
            return false;
        };
        *path = path.replace(&format!("{{{inside}}}"), &format!("{{{}}}", raw.name));
        if let Notation::Style { allow_reserved, .. } = notation {
            *allow_reserved = inside.contains(['+', '*']);
        }
        true
    }

    fn notation(&mut self, raw: &Raw<'_>, position: Position, spot: &Spot<'_>) -> Notation {
        let node = self.library.node(raw.place);
        if self.version == Version::V2 {
            return collected(node, position);
        }
        let content = node.get("content").and_then(|content| content.members().next());
        match content {
            Some((media_type, _)) => Notation::Content(media_type.to_owned()),
            None if position == Position::QueryString => {
                Notation::Content("application/x-www-form-urlencoded".to_owned())
            }
            None => self.styled(raw, node, position, spot),
        }
    }

    fn styled(
        &mut self,
        raw: &Raw<'_>,
        node: Node<'_>,
        position: Position,
        spot: &Spot<'_>,
    ) -> Notation {
        let usual = match position {
            Position::Query | Position::Cookie | Position::QueryString => Style::Form,
            Position::Path | Position::Header => Style::Simple,
        };
        let style = match node.get("style").and_then(Node::as_str) {
            None => usual,
            Some(name) => match style(name).filter(|style| stands(*style, position)) {
                Some(style) => style,
                None => {
                    let message =
                        format!("the parameter `{}` cannot have the style `{name}`", raw.name);
                    self.warn(spot, format!("{message}; it has the usual one"));
                    usual
                }
            },
        };
        let explode = node.get("explode").and_then(Node::as_bool);
        Notation::Style {
            style,
            explode: explode
                .unwrap_or(matches!(style, Style::Form | Style::Cookie | Style::DeepObject)),
            allow_reserved: node.get("allowReserved").and_then(Node::as_bool) == Some(true),
        }
    }
}

impl Settled {
    fn is_in_path(&self, name: &str) -> bool {
        self.parameter.position == Position::Path && self.parameter.name == name
    }
}

fn is_same(left: &Raw<'_>, right: &Raw<'_>) -> bool {
    let same_name = match left.position {
        RawPosition::Request(Position::Header) => left.name.eq_ignore_ascii_case(right.name),
        RawPosition::Body => true,
        _ => left.name == right.name,
    };
    left.position == right.position && same_name
}

fn undeclared(name: &str) -> Settled {
    let notation = Notation::Style { style: Style::Simple, explode: false, allow_reserved: false };
    let parameter = Parameter {
        name: name.to_owned(),
        input: name.to_owned(),
        position: Position::Path,
        required: true,
        notation,
    };
    Settled { parameter, place: None }
}

pub(super) fn style(name: &str) -> Option<Style> {
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

fn stands(style: Style, position: Position) -> bool {
    match position {
        Position::Path => matches!(style, Style::Matrix | Style::Label | Style::Simple),
        Position::Header => style == Style::Simple,
        Position::Cookie => matches!(style, Style::Form | Style::Cookie),
        Position::Query | Position::QueryString => matches!(
            style,
            Style::Form | Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject
        ),
    }
}

/// `collectionFormat` of Swagger 2.0.
fn collected(node: Node<'_>, position: Position) -> Notation {
    let (style, explode) = collection(node, position);
    Notation::Style { style, explode, allow_reserved: false }
}

pub(super) fn collection(node: Node<'_>, position: Position) -> (Style, bool) {
    let comma = match position {
        Position::Path | Position::Header => Style::Simple,
        _ => Style::Form,
    };
    match node.get("collectionFormat").and_then(Node::as_str) {
        Some("ssv") => (Style::SpaceDelimited, false),
        Some("tsv") => (Style::TabDelimited, false),
        Some("pipes") => (Style::PipeDelimited, false),
        Some("multi") if comma == Style::Form => (comma, true),
        _ => (comma, false),
    }
}

/// Names the properties of the input: a name that only one parameter has, and that is not the
/// body's, is itself; the others stand behind their position. That is repeated until no name is
/// taken twice, so it depends on no order.
fn qualify(settled: &mut [Settled], has_body: bool) {
    let mut qualified = vec![false; settled.len()];
    loop {
        let clashes: Vec<usize> = (0..settled.len())
            .filter(|at| !qualified[*at])
            .filter(|at| {
                let name = &settled[*at].parameter.input;
                let taken = |(other, known): (usize, &Settled)| {
                    other != *at && known.parameter.input == *name
                };
                (has_body && name == "body") || settled.iter().enumerate().any(taken)
            })
            .collect();
        if clashes.is_empty() {
            return;
        }
        for at in clashes {
            let parameter = &mut settled[at].parameter;
            parameter.input = format!("{}_{}", prefix(parameter.position), parameter.name);
            qualified[at] = true;
        }
    }
}

fn prefix(position: Position) -> &'static str {
    match position {
        Position::Path => "path",
        Position::Query => "query",
        Position::QueryString => "querystring",
        Position::Header => "header",
        Position::Cookie => "cookie",
    }
}
